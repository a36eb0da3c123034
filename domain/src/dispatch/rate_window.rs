//! Recent starts under one rate limit (`rate-limit`): how many more may start now, and when the next one may.
//!
//! A sliding window, not a counter that begins anew: in no window of `per_seconds`, wherever it begins, do more items
//! start than the limit allows. `burst` adds a bucket that fills evenly. Times are microseconds of the database's clock.

use std::collections::VecDeque;

use crate::dispatch::type_limits::RateLimit;

/// Limits up to this number keep each start apart.
const EXACT: i64 = 200;

/// Parts of the window into which starts under greater limits are collected. A part counts until its last start has
/// left the window, so the limit still holds; only a hundredth of the window is lost.
const PARTS: i64 = 100;

/// Starts in the window, and the bucket of `burst`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RateWindow {
    /// Time of the last start and number of starts, oldest first.
    starts: VecDeque<(i64, i64)>,
    /// Content of the bucket at a time; `None`: full.
    bucket: Option<(f64, i64)>,
    /// Time at which held items of the key are looked at again; 0: never.
    pub hint_at: i64,
}

impl RateWindow {
    /// Reads the stored form. Unreadable text is an empty window.
    pub fn parse(text: &str) -> Self {
        Self::read(text).unwrap_or_default()
    }

    fn read(text: &str) -> Option<Self> {
        let mut parts = text.split(';');
        let hint_at = parts.next()?.parse().ok()?;
        let bucket = match parts.next()? {
            "" => None,
            bucket => {
                let (tokens, at) = bucket.split_once('@')?;
                Some((tokens.parse().ok()?, at.parse().ok()?))
            }
        };
        let starts = parts.next()?;
        let starts = starts.split(',').filter(|start| !start.is_empty()).map(|start| {
            let (at, n) = start.split_once('x')?;
            Some((at.parse().ok()?, n.parse().ok()?))
        });
        Some(Self { starts: starts.collect::<Option<_>>()?, bucket, hint_at })
    }

    /// The stored form.
    pub fn text(&self) -> String {
        let bucket = self.bucket.map(|(tokens, at)| format!("{tokens}@{at}")).unwrap_or_default();
        let starts: Vec<String> = self.starts.iter().map(|(at, n)| format!("{at}x{n}")).collect();
        format!("{};{bucket};{}", self.hint_at, starts.join(","))
    }

    fn window(limit: &RateLimit) -> i64 {
        limit.per_seconds * 1_000_000
    }

    fn started(&self, limit: &RateLimit, now: i64) -> i64 {
        let window = Self::window(limit);
        self.starts.iter().filter(|(at, _)| at + window > now).map(|(_, n)| n).sum()
    }

    /// Content of the bucket now; `None` without `burst`.
    fn tokens(&self, limit: &RateLimit, now: i64) -> Option<f64> {
        let size = limit.burst? as f64;
        let Some((tokens, at)) = self.bucket else { return Some(size) };
        let filled = (now - at).max(0) as f64 * limit.count as f64 / Self::window(limit) as f64;
        Some((tokens + filled).min(size))
    }

    /// Number of items that may start now.
    pub fn allowed(&self, limit: &RateLimit, now: i64) -> i64 {
        let by_window = limit.most_per_window() - self.started(limit, now);
        let by_bucket = self.tokens(limit, now).map_or(i64::MAX, |tokens| tokens.floor() as i64);
        by_window.min(by_bucket).max(0)
    }

    /// Records `n` starts that are not later than `at`.
    pub fn start(&mut self, limit: &RateLimit, at: i64, n: i64) {
        let window = Self::window(limit);
        while self.starts.front().is_some_and(|(first, _)| first + window <= at) {
            self.starts.pop_front();
        }
        let width = (window / PARTS).max(1);
        match self.starts.back_mut() {
            Some(last) if last.0 == at || (limit.most_per_window() > EXACT && last.0 / width == at / width) => {
                *last = (at, last.1 + n);
            }
            _ => self.starts.push_back((at, n)),
        }
        self.bucket = self.tokens(limit, at).map(|tokens| (tokens - n as f64, at));
    }

    /// Earliest time at which one more may start; `now` if it may now.
    pub fn next_at(&self, limit: &RateLimit, now: i64) -> i64 {
        let window = Self::window(limit);
        let mut over = self.started(limit, now) - limit.most_per_window() + 1;
        let mut next = now;
        for (at, n) in self.starts.iter().filter(|(at, _)| at + window > now) {
            if over <= 0 {
                break;
            }
            over -= n;
            next = at + window;
        }
        let missing = self.tokens(limit, now).map_or(0.0, |tokens| 1.0 - tokens);
        if missing > 0.0 {
            next = next.max(now + (missing * window as f64 / limit.count as f64).ceil() as i64);
        }
        next
    }

    /// Time from which this window says nothing any more.
    pub fn expires_at(&self, limit: &RateLimit) -> i64 {
        let last = self.starts.back().map_or(0, |(at, _)| at + Self::window(limit));
        // An empty bucket of any size is full again after size / count windows.
        let refill = limit.burst.unwrap_or(0) as f64 / limit.count.max(1) as f64;
        let full = self.bucket.map_or(0, |(_, at)| at + ((refill + 1.0) * Self::window(limit) as f64) as i64);
        last.max(full).max(self.hint_at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limit(count: i64, per_seconds: i64, burst: Option<i64>) -> RateLimit {
        RateLimit { count, per_seconds, burst, key: None }
    }

    /// Takes whatever is allowed at every millisecond; returns the times of the starts.
    fn run(limit: &RateLimit, until: i64) -> Vec<i64> {
        let (mut window, mut starts) = (RateWindow::default(), Vec::new());
        let mut now = 1_000_000_000_000;
        let end = now + until;
        while now < end {
            let n = window.allowed(limit, now);
            if n > 0 {
                starts.extend(std::iter::repeat_n(now, n as usize));
                window.start(limit, now, n);
                window = RateWindow::parse(&window.text());
            } else {
                let next = window.next_at(limit, now);
                assert!(next > now);
                assert!(window.allowed(limit, next) > 0, "the next start is possible at {next}");
            }
            now += 1_000;
        }
        starts
    }

    fn most_in_any_window(starts: &[i64], window: i64) -> usize {
        starts
            .iter()
            .map(|&from| starts.iter().filter(|&&at| at >= from && at < from + window).count())
            .max()
            .unwrap_or(0)
    }

    #[test]
    fn no_window_has_more_starts_than_the_limit() {
        for (count, burst) in [(5, None), (5, Some(2)), (5, Some(9)), (300, None), (300, Some(10)), (5, Some(300))] {
            let limit = limit(count, 1, burst);
            let starts = run(&limit, 5_500_000);
            assert!(most_in_any_window(&starts, 1_000_000) as i64 <= limit.most_per_window(), "{limit:?}");
            assert!(starts.len() as i64 >= count * 5, "{limit:?}: {}", starts.len());
        }
    }

    #[test]
    fn a_burst_is_followed_by_even_starts() {
        let starts = run(&limit(10, 1, Some(2)), 1_000_000);
        assert_eq!(starts.iter().filter(|&&at| at == starts[0]).count(), 2);
        assert!(starts[2] - starts[0] >= 100_000 && starts[3] - starts[2] >= 99_000);
    }

    #[test]
    fn a_great_burst_over_a_small_count_stays_small() {
        let limit = limit(100, 86_400, Some(1_000_000));
        let mut window = RateWindow::default();
        for second in 0..80_000 {
            window.start(&limit, 1_000_000 * second, 1);
        }
        assert!(window.text().len() < 4_000, "{} bytes", window.text().len());
        assert_eq!(window.allowed(&limit, 80_000_000_000), 920_000);
    }

    #[test]
    fn the_stored_form_is_read_back() {
        let mut window = RateWindow { hint_at: 7, ..RateWindow::default() };
        window.start(&limit(10, 1, Some(4)), 1_700_000_000_000_000, 3);
        assert_eq!(RateWindow::parse(&window.text()), window);
        assert_eq!(RateWindow::parse("nonsense"), RateWindow::default());
    }
}
