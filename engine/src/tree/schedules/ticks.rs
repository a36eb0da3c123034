//! Times of a cron expression in a time zone, with defined daylight-saving behavior (`schedule-ticks`).
//!
//! An expression names times of the wall clock. A time that the clock skips runs at the first moment after the gap, and
//! several such times run once. A time that the clock shows twice runs the first time only. An expression whose hour is
//! `*` counts elapsed time instead: it runs in both passes of the repeated hour.

#[cfg(test)]
mod reference; // ten years of another implementation

use croner::{
    Cron,
    parser::{CronParser, Year},
};
use domain::{
    Problem,
    api::{LONGEST_CRON, LONGEST_TIME_ZONE},
};
use jiff::{
    Timestamp,
    civil::DateTime,
    tz::{AmbiguousOffset, TimeZone},
};
use time::OffsetDateTime;

/// Maximum number of offset changes passed in the search for a tick: centuries.
const MOST_CHANGES: usize = 1_000;
/// Maximum number of wall-clock times tried for one tick. More than the seconds of a repeated hour.
const MOST_TIMES: usize = 20_000;

/// Cron expression in a time zone.
#[derive(Clone, Debug)]
pub(super) struct Ticks {
    cron: Cron,
    zone: TimeZone,
    /// True if the hour field is `*`.
    every_hour: bool,
}

impl Ticks {
    /// Parses an expression and the name of a zone: 422 with the field that is not valid.
    pub(super) fn of(cron: &str, zone: &str) -> Result<Self, Problem> {
        let fault = |field: &str, detail: String| Problem::invalid_body([(format!("/{field}"), detail)]);
        let unknown = || fault("time_zone", "expected an IANA time zone, such as Europe/Berlin".to_owned());
        if zone.len() > LONGEST_TIME_ZONE {
            return Err(unknown());
        }
        let zone = TimeZone::get(zone).map_err(|_| unknown())?;
        if cron.len() > LONGEST_CRON {
            return Err(fault("cron", format!("expected at most {LONGEST_CRON} characters")));
        }
        let fields: Vec<&str> = cron.split_whitespace().collect();
        let (every_hour, shaped) = match fields[..] {
            [name] => (name.eq_ignore_ascii_case("@hourly"), name.starts_with('@')),
            [_, hour, _, _, _] | [_, _, hour, _, _, _] => (hour == "*", true),
            _ => (false, false),
        };
        let expected = "expected five or six fields, such as 0 2 * * *, or a form such as @daily";
        if !shaped {
            return Err(fault("cron", expected.to_owned()));
        }
        let cron = if cron.trim().eq_ignore_ascii_case("@midnight") { "@daily" } else { cron };
        let parser = CronParser::builder().year(Year::Disallowed).build();
        let cron = parser.parse(cron).map_err(|error| {
            let reason = error.to_string();
            fault("cron", format!("{expected}: {}", reason.trim_end_matches('.')))
        })?;
        Ok(Self { cron, zone, every_hour })
    }

    /// First tick after a time; `None` if there is none.
    pub(super) fn after(&self, at: OffsetDateTime) -> Option<OffsetDateTime> {
        let after = Timestamp::from_nanosecond(at.unix_timestamp_nanos()).ok()?;
        let next = if self.every_hour { self.elapsed(after) } else { self.on_the_clock(after) }?;
        OffsetDateTime::from_unix_timestamp_nanos(next.as_nanosecond()).ok()
    }

    /// Returns true if there is a tick at this time.
    pub(super) fn has(&self, at: OffsetDateTime) -> bool {
        self.after(at - time::Duration::microseconds(1)) == Some(at)
    }

    fn find(&self, wall: DateTime, inclusive: bool) -> Option<DateTime> {
        let whole = wall.with().subsec_nanosecond(0).build().ok()?;
        self.cron.find_next_occurrence(&whole, inclusive).ok()
    }

    /// Next tick by the wall clock.
    fn on_the_clock(&self, after: Timestamp) -> Option<Timestamp> {
        let mut wall = self.zone.to_datetime(after);
        for _ in 0..MOST_TIMES {
            wall = self.find(wall, false)?;
            let at = match self.zone.to_ambiguous_timestamp(wall).offset() {
                AmbiguousOffset::Unambiguous { offset } => offset.to_timestamp(wall).ok()?,
                AmbiguousOffset::Fold { before, .. } => before.to_timestamp(wall).ok()?,
                AmbiguousOffset::Gap { after, .. } => {
                    // By the offset after the gap, a time in the gap is before it.
                    let before = after.to_timestamp(wall).ok()?;
                    self.zone.following(before).next()?.timestamp()
                }
            };
            if at > after {
                return Some(at);
            }
        }
        None
    }

    /// Next tick in elapsed time: the offset changes, and no time is skipped or left out.
    fn elapsed(&self, after: Timestamp) -> Option<Timestamp> {
        let mut offset = self.zone.to_offset(after);
        let (mut from, mut inclusive) = (after, false);
        for _ in 0..MOST_CHANGES {
            let at = offset.to_timestamp(self.find(offset.to_datetime(from), inclusive)?).ok()?;
            match self.zone.following(from).next() {
                Some(change) if change.timestamp() <= at => {
                    (from, offset, inclusive) = (change.timestamp(), change.offset(), true);
                }
                _ => return Some(at),
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use domain::Time;

    use super::*;

    fn at(text: &str) -> OffsetDateTime {
        Time::parse(text).expect("a time").0
    }

    fn next(cron: &str, zone: &str, after: &str, n: usize) -> Vec<String> {
        let ticks = Ticks::of(cron, zone).expect("valid");
        let mut place = at(after);
        let mut found = Vec::new();
        for _ in 0..n {
            place = ticks.after(place).expect("a tick");
            found.push(Time(place).to_rfc3339());
        }
        found
    }

    #[test]
    fn a_time_in_the_gap_runs_at_the_first_moment_after_it() {
        let spring = "2026-03-28T12:00:00Z";
        let expected = ["2026-03-29T01:00:00Z", "2026-03-30T00:30:00Z"];
        assert_eq!(next("30 2 * * *", "Europe/Berlin", spring, 2), expected);
        // Two times in one gap run once.
        let expected = ["2026-03-29T01:00:00Z", "2026-03-30T00:15:00Z", "2026-03-30T00:45:00Z"];
        assert_eq!(next("15,45 2 * * *", "Europe/Berlin", spring, 3), expected);
    }

    #[test]
    fn a_time_in_the_fold_runs_once() {
        let autumn = "2026-10-24T12:00:00Z";
        let expected = ["2026-10-25T00:30:00Z", "2026-10-26T01:30:00Z"];
        assert_eq!(next("30 2 * * *", "Europe/Berlin", autumn, 2), expected);
        // Also if it is asked for within the second pass.
        let expected = ["2026-10-26T01:30:00Z"];
        assert_eq!(next("30 2 * * *", "Europe/Berlin", "2026-10-25T01:10:00Z", 1), expected);
        let expected = ["2026-11-01T05:30:00Z", "2026-11-02T06:30:00Z"];
        assert_eq!(next("30 1 * * *", "America/New_York", "2026-10-31T12:00:00Z", 2), expected);
    }

    #[test]
    fn every_hour_counts_elapsed_time() {
        let hours = ["2026-10-25T00:00:00Z", "2026-10-25T01:00:00Z", "2026-10-25T02:00:00Z"];
        assert_eq!(next("0 * * * *", "Europe/Berlin", "2026-10-24T23:30:00Z", 3), hours);
        assert_eq!(next("@hourly", "Europe/Berlin", "2026-10-24T23:30:00Z", 3), hours);
        let hours = ["2026-03-29T00:00:00Z", "2026-03-29T01:00:00Z", "2026-03-29T02:00:00Z"];
        assert_eq!(next("0 * * * *", "Europe/Berlin", "2026-03-28T23:30:00Z", 3), hours);
        // A zone that changes by half an hour.
        let lord_howe = ["2026-04-04T14:45:00Z", "2026-04-04T15:15:00Z", "2026-04-04T16:15:00Z"];
        assert_eq!(next("45 * * * *", "Australia/Lord_Howe", "2026-04-04T14:30:00Z", 3), lord_howe);
    }

    #[test]
    fn expressions_of_five_and_six_fields_and_names() {
        let from = "2026-11-23T10:00:00.25Z";
        assert_eq!(next("* * * * * *", "UTC", from, 2), ["2026-11-23T10:00:01Z", "2026-11-23T10:00:02Z"]);
        assert_eq!(next("@daily", "Asia/Tokyo", from, 1), ["2026-11-23T15:00:00Z"]);
        assert_eq!(next("@midnight", "Asia/Tokyo", from, 1), ["2026-11-23T15:00:00Z"]);
        assert_eq!(next("0 9 * * MON-FRI", "UTC", "2026-11-20T10:00:00Z", 1), ["2026-11-23T09:00:00Z"]);
    }

    #[test]
    fn an_invalid_expression_or_zone_is_named() {
        let pointer = |cron: &str, zone: &str| Ticks::of(cron, zone).expect_err("refused").errors[0].pointer.clone();
        for cron in ["", "nonsense", "61 * * * *", "* * * *", "0 0 0 1 1 * 2027", "@sometimes"] {
            assert_eq!(pointer(cron, "UTC"), "/cron", "{cron}");
        }
        assert_eq!(pointer("@daily", "Mars/Olympus"), "/time_zone");
        assert_eq!(Ticks::of("0 0 30 2 *", "UTC").ok().and_then(|ticks| ticks.after(OffsetDateTime::UNIX_EPOCH)), None);
    }
}
