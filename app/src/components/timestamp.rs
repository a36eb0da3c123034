//! Timestamps for display. The server renders them in the notation of the reader's locale, in the reader's UTC offset if
//! a cookie has it, otherwise in UTC; the page script then keeps them current in the reader's time zone. The exact time stays in `datetime`.

use domain::Time;
use leptos::prelude::*;
#[cfg(feature = "ssr")]
use std::time::Duration;

#[cfg(feature = "ssr")]
use crate::{
    pace::duration,
    speech::{Notation, current},
    t,
};

/// Clock of the reader, as far as the server knows it. Absent in the browser, where the page script rewrites the
/// timestamps.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    pub now: Time,
    /// Minutes east of UTC; `None` if there is no cookie.
    pub offset_minutes: Option<i32>,
}

/// `3 min ago`.
pub fn ago(at: Time) -> impl IntoView {
    timestamp(at, "ago")
}

/// `42 s`: elapsed time.
pub fn since(at: Time) -> impl IntoView {
    timestamp(at, "since")
}

/// `Nov 20, 2:03 PM`, or `20. Nov., 14:03` in German; with the year if it is not this one.
pub fn clock(at: Time) -> impl IntoView {
    timestamp(at, "clock")
}

/// `2:03 PM`, or `14:03` in German: where the day is known.
#[cfg(feature = "ssr")]
pub(crate) fn time_of_day(at: Time) -> impl IntoView {
    timestamp(at, "time")
}

/// True if both times are on the same day of the reader, as far as the server knows their offset.
#[cfg(feature = "ssr")]
pub(crate) fn is_same_day(one: Time, other: Time) -> bool {
    let day = |at| in_zone(use_context::<Clock>(), at).0.0.date();
    day(one) == day(other)
}

/// `Nov 20, 2:03:07 PM`: with seconds, where the order of actions matters.
pub fn second(at: Time) -> impl IntoView {
    timestamp(at, "second")
}

/// `14:00:41.020`: with milliseconds, where attempts are compared.
pub fn exact(at: Time) -> impl IntoView {
    timestamp(at, "exact")
}

fn timestamp(at: Time, format: &'static str) -> impl IntoView {
    view! { <time datetime=at.to_rfc3339() data-format=format>{words(at, format)}</time> }
}

#[cfg(feature = "ssr")]
fn words(at: Time, format: &str) -> String {
    match (format, use_context::<Clock>()) {
        ("ago", Some(clock)) => relative_time(clock, at),
        ("since", Some(clock)) => duration(clock.now.seconds_since(at)),
        ("time", clock) => in_notation(clock, at, |notation, at, _| notation.time_of_day(at)),
        ("second", clock) => in_notation(clock, at, Notation::second),
        ("exact", clock) => time_to_the_millisecond(clock, at),
        (_, clock) => clock_time(clock, at),
    }
}

/// The page script writes it in the same frame.
#[cfg(not(feature = "ssr"))]
fn words(at: Time, _format: &str) -> String {
    at.to_rfc3339()
}

#[cfg(feature = "ssr")]
fn relative_time(clock: Clock, at: Time) -> String {
    let seconds = clock.now.seconds_since(at).max(0.0);
    match seconds as u64 {
        0..45 => t!("time-now").to_owned(),
        45..3_600 => t!("time-minutes-ago", n = (seconds / 60.0).max(1.0) as u64),
        3_600..86_400 => t!("time-hours-ago", n = (seconds / 3_600.0) as u64),
        86_400..604_800 => match (seconds / 86_400.0) as u64 {
            1 => t!("time-one-day-ago").to_owned(),
            n => t!("time-days-ago", n = n),
        },
        _ => clock_time(Some(clock), at),
    }
}

/// Timestamp in the reader's offset, and the suffix that names the zone.
#[cfg(feature = "ssr")]
fn in_zone(clock: Option<Clock>, at: Time) -> (Time, &'static str) {
    let offset = clock.and_then(|clock| clock.offset_minutes);
    let distance = Duration::from_secs(u64::from(offset.unwrap_or(0).unsigned_abs().min(840)) * 60);
    let in_zone = if offset.unwrap_or(0) < 0 { at.0 - distance } else { at.0 + distance };
    (Time(in_zone), if offset.is_some() { "" } else { " UTC" })
}

#[cfg(feature = "ssr")]
fn time_to_the_millisecond(clock: Option<Clock>, at: Time) -> String {
    let (Time(in_zone), zone) = in_zone(clock, at);
    let (hour, minute, second) = (in_zone.hour(), in_zone.minute(), in_zone.second());
    format!("{hour:02}:{minute:02}:{second:02}.{:03}{zone}", in_zone.millisecond())
}

#[cfg(feature = "ssr")]
fn clock_time(clock: Option<Clock>, at: Time) -> String {
    in_notation(clock, at, Notation::minute)
}

#[cfg(feature = "ssr")]
fn in_notation(clock: Option<Clock>, at: Time, written: fn(&Notation, Time, bool) -> String) -> String {
    let (local, zone) = in_zone(clock, at);
    let is_this_year = clock.is_none_or(|it| in_zone(clock, it.now).0.0.year() == local.0.year());
    format!("{}{zone}", written(current().notation, local, is_this_year))
}

#[cfg(all(test, feature = "ssr"))]
mod tests {
    use super::*;

    #[test]
    fn a_reader_sees_their_own_clock() {
        let at = Time::parse("2026-11-20T23:03:07Z").expect("a time");
        let clock = |offset_minutes| Clock { now: at, offset_minutes };
        // A narrow space stands before AM and PM.
        assert_eq!(clock_time(None, at), "Nov 20, 11:03\u{202f}PM UTC");
        assert_eq!(clock_time(Some(clock(Some(345))), at), "Nov 21, 4:48\u{202f}AM");
        assert_eq!(clock_time(Some(clock(Some(-60))), at), "Nov 20, 10:03\u{202f}PM");
        assert_eq!(in_notation(None, at, Notation::second), "Nov 20, 11:03:07\u{202f}PM UTC");
        assert_eq!(in_notation(Some(clock(Some(-60))), at, |n, at, _| n.time_of_day(at)), "10:03\u{202f}PM");
        assert_eq!(time_to_the_millisecond(Some(clock(Some(60))), at), "00:03:07.000");
        assert_eq!(relative_time(clock(None), at), "just now");
    }

    #[test]
    fn the_year_is_shown_when_it_is_not_this_one() {
        let now = Time::parse("2026-12-31T23:30:00Z").expect("a time");
        let at = Time::parse("2026-12-31T09:03:07Z").expect("a time");
        let next = Time::parse("2027-01-01T09:03:07Z").expect("a time");
        let clock = |offset_minutes| Some(Clock { now, offset_minutes });
        assert_eq!(clock_time(clock(Some(0)), at), "Dec 31, 9:03\u{202f}AM");
        assert_eq!(clock_time(clock(Some(0)), next), "Jan 1, 2027, 9:03\u{202f}AM");
        // For this reader, the year has begun.
        assert_eq!(clock_time(clock(Some(60)), at), "Dec 31, 2026, 10:03\u{202f}AM");
        assert_eq!(in_notation(clock(Some(60)), next, Notation::second), "Jan 1, 10:03:07\u{202f}AM");
    }

    #[test]
    fn relative_times_are_rounded_down() {
        let now = Time::parse("2026-11-20T12:00:00Z").expect("a time");
        let clock = Clock { now, offset_minutes: Some(0) };
        for (at, words) in [
            ("2026-11-20T11:00:01Z", "59 min ago"),
            ("2026-11-19T12:00:01Z", "23 h ago"),
            ("2026-11-18T12:00:01Z", "1 day ago"),
            ("2026-11-18T12:00:00Z", "2 days ago"),
        ] {
            assert_eq!(relative_time(clock, Time::parse(at).expect("a time")), words);
        }
    }
}
