//! Rate of progress as observed by the page, and an estimate of the remaining time.
//!
//! Pure: the caller passes the time. An estimate is a range or nothing; it appears only if the rate was observed for
//! half a minute and is steady, and never on a stale page.

use std::collections::VecDeque;

use crate::t;

/// Window of a rate, in milliseconds.
const WINDOW: f64 = 30_000.0;
/// Shortest observation before a rate is shown, in milliseconds.
const ENOUGH: f64 = 3_000.0;

/// Items done over time, as observed.
#[derive(Clone, Debug, Default)]
pub struct Pace {
    /// (milliseconds, items done)
    seen: VecDeque<(f64, i64)>,
}

impl Pace {
    /// Records that `done` items were done at `now` milliseconds. A lower number (a reopened tree) starts over.
    pub fn note(&mut self, now: f64, done: i64) {
        if self.seen.back().is_some_and(|&(at, before)| done < before || now < at) {
            self.seen.clear();
        }
        self.seen.push_back((now, done));
        // One older observation stays, so that the window is always covered.
        while self.seen.get(1).is_some_and(|&(at, _)| now - at >= WINDOW) {
            self.seen.pop_front();
        }
    }

    /// Items per second over the window; `None` until enough is observed or while nothing moves.
    pub fn rate(&self) -> Option<f64> {
        self.rate_over(WINDOW).filter(|&(span, rate)| span >= ENOUGH && rate > 0.0).map(|(_, rate)| rate)
    }

    /// Seconds that `left` items may take, from and to. `None` unless the rate was steady for the whole window:
    /// the rate of its last third differs from the whole by less than half.
    pub fn remaining(&self, left: i64) -> Option<(f64, f64)> {
        let (span, whole) = self.rate_over(WINDOW)?;
        let (_, recent) = self.rate_over(WINDOW / 3.0)?;
        if span < WINDOW || whole <= 0.0 || recent < whole / 2.0 || recent > whole * 2.0 {
            return None;
        }
        let (slow, fast) = (whole.min(recent) * 0.9, whole.max(recent) * 1.1);
        Some((left as f64 / fast, left as f64 / slow))
    }

    /// Covered time in milliseconds and items per second, over the last `window` milliseconds.
    fn rate_over(&self, window: f64) -> Option<(f64, f64)> {
        let &(now, done) = self.seen.back()?;
        let &(since, before) = self.seen.iter().rev().find(|(at, _)| now - at >= window).or(self.seen.front())?;
        (now > since).then(|| (now - since, (done - before) as f64 * 1000.0 / (now - since)))
    }
}

/// A length of time for people: `42 s`, `3 min 12 s`, `2 h 5 min`, `3 d 4 h`.
pub fn duration(seconds: f64) -> String {
    let seconds = seconds.max(0.0).round() as u64;
    match seconds {
        0..60 => t!("time-seconds", n = seconds),
        60..3_600 => two(t!("time-minutes", n = seconds / 60), seconds % 60, &t!("time-seconds", n = seconds % 60)),
        3_600..86_400 => {
            let minutes = seconds % 3_600 / 60;
            two(t!("time-hours", n = seconds / 3_600), minutes, &t!("time-minutes", n = minutes))
        }
        _ => {
            let hours = seconds % 86_400 / 3_600;
            two(t!("time-days", n = seconds / 86_400), hours, &t!("time-hours", n = hours))
        }
    }
}

/// Duration of something that has ended: `under 1 s`, `20 s`.
pub fn took(seconds: f64) -> String {
    if seconds < 1.0 { t!("live-under-1s").to_owned() } else { duration(seconds) }
}

fn two(big: String, rest: u64, small: &str) -> String {
    if rest == 0 { big } else { format!("{big} {small}") }
}

/// An estimate for people: coarse, and a range. `about 2 to 3 min left`.
pub fn range(from: f64, to: f64) -> String {
    let (unit, word) = match to {
        t if t < 90.0 => (10.0, "s"),
        t if t < 5_400.0 => (60.0, "min"),
        _ => (3_600.0, "h"),
    };
    let scale = if word == "s" { 10.0 } else { 1.0 };
    let low = ((from / unit).floor() * scale) as u64;
    let high = (((to / unit).ceil() * scale) as u64).max(low + scale as u64);
    match (low, word) {
        (0, "s") => t!("live-left-seconds-under", high = high),
        (0, "min") => t!("live-left-minutes-under", high = high),
        (0, _) => t!("live-left-hours-under", high = high),
        (_, "s") => t!("live-left-seconds", low = low, high = high),
        (_, "min") => t!("live-left-minutes", low = low, high = high),
        _ => t!("live-left-hours", low = low, high = high),
    }
}

/// A rate for people: `410/s`, `3.2/s`, `12/min`.
pub fn per_time(rate: f64) -> String {
    if rate >= 10.0 {
        t!("live-rate-second", n = &crate::speech::grouped(rate.round() as i64))
    } else if rate >= 1.0 {
        let tenths = (rate * 10.0).round() as u64;
        t!("live-rate-second", n = &crate::speech::tenths(tenths))
    } else {
        t!("live-rate-minute", n = (rate * 60.0).round().max(1.0) as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn steady(seconds: i64, rate: i64) -> Pace {
        let mut pace = Pace::default();
        for second in 0..=seconds {
            pace.note(second as f64 * 1000.0, second * rate);
        }
        pace
    }

    #[test]
    fn a_rate_needs_three_seconds_and_an_estimate_thirty() {
        assert_eq!(steady(2, 100).rate(), None);
        assert_eq!(steady(3, 100).rate().map(f64::round), Some(100.0));
        assert_eq!(steady(20, 100).remaining(6_000), None);
        let (from, to) = steady(40, 100).remaining(6_000).expect("steady");
        assert!(from < 60.0 && to > 60.0, "{from} {to}");
    }

    #[test]
    fn stalled_rate_gives_no_estimate() {
        let mut pace = steady(40, 100);
        for second in 41..60 {
            pace.note(f64::from(second) * 1000.0, 4_000);
        }
        assert_eq!(pace.remaining(6_000), None);
    }

    #[test]
    fn reopened_tree_resets_the_rate() {
        let mut pace = steady(40, 100);
        pace.note(41_000.0, 10);
        assert_eq!(pace.rate(), None);
    }

    #[test]
    fn lengths_and_rates_read_plainly() {
        assert_eq!(duration(0.4), "0 s");
        assert_eq!(duration(192.0), "3 min 12 s");
        assert_eq!(duration(7_500.0), "2 h 5 min");
        assert_eq!(range(100.0, 170.0), "about 1 to 3 min left");
        assert_eq!(range(5.0, 9.0), "less than 10 s left");
        assert_eq!(per_time(1_204.4), "1,204/s");
        assert_eq!(per_time(0.05), "3/min");
    }
}
