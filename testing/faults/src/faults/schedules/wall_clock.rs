//! Times of a cron expression by its definition (`schedule-ticks`), independent of the engine: every second of a time is
//! looked at, and none is computed.

use anyhow::{Context as _, Result, bail};
use jiff::{
    Timestamp,
    civil::DateTime,
    tz::{AmbiguousOffset, TimeZone},
};

/// Values of a field.
type Values = Vec<bool>;

/// Expression of five or six fields, each `*`, `*/n`, `a`, `a-b`, `a-b/n`, or several of these. Days of the month and the
/// week are not both limited.
pub(super) struct WallClock {
    seconds: Values,
    minutes: Values,
    /// `None`: `*`, which counts elapsed time.
    hours: Option<Values>,
    months: Values,
    weekdays: Values,
    zone: TimeZone,
}

impl WallClock {
    pub(super) fn of(cron: &str, zone: &str) -> Result<Self> {
        let cron = if cron == "@hourly" { "0 * * * *" } else { cron };
        let mut fields: Vec<&str> = cron.split(' ').collect();
        if fields.len() == 5 {
            fields.insert(0, "0");
        }
        let [seconds, minutes, hours, "*", months, weekdays] = fields[..] else { bail!("{cron} is not one of ours") };
        Ok(Self {
            seconds: values(seconds, 60)?,
            minutes: values(minutes, 60)?,
            hours: (hours != "*").then(|| values(hours, 24)).transpose()?,
            months: values(months, 13)?,
            weekdays: values(weekdays, 7)?,
            zone: TimeZone::get(zone)?,
        })
    }

    /// True if the schedule has a tick at this Unix time.
    pub(super) fn is_tick(&self, at: i64) -> bool {
        let Ok(now) = Timestamp::from_second(at) else { return false };
        let wall = self.zone.to_datetime(now);
        if self.hours.is_none() {
            return self.names(wall);
        }
        let is_first = match self.zone.to_ambiguous_timestamp(wall).offset() {
            AmbiguousOffset::Fold { before, .. } => before.to_timestamp(wall).is_ok_and(|first| first == now),
            _ => true,
        };
        is_first && self.names(wall) || self.names_a_skipped_time(at, wall)
    }

    /// First tick in a time, both ends included.
    pub(super) fn first(&self, from: i64, until: i64) -> Option<i64> {
        let step = self.step();
        let aligned = from.div_euclid(step) * step;
        (aligned..=until).step_by(step as usize).find(|&at| at >= from && self.is_tick(at))
    }

    /// Last tick in a time, both ends included.
    pub(super) fn last(&self, from: i64, until: i64) -> Option<i64> {
        let step = self.step();
        let mut at = until.div_euclid(step) * step;
        while at >= from {
            if self.is_tick(at) {
                return Some(at);
            }
            at -= step;
        }
        None
    }

    /// Seconds between two times that can be ticks.
    fn step(&self) -> i64 {
        let only_the_first = self.seconds.iter().enumerate().all(|(second, named)| *named == (second == 0));
        if only_the_first { 60 } else { 1 }
    }

    fn names(&self, wall: DateTime) -> bool {
        let has = |values: &Values, value: i8| values[value as usize];
        has(&self.seconds, wall.second())
            && has(&self.minutes, wall.minute())
            && self.hours.as_ref().is_none_or(|hours| has(hours, wall.hour()))
            && has(&self.months, wall.month())
            && has(&self.weekdays, wall.weekday().to_sunday_zero_offset())
    }

    /// True if the clock jumps to this time and the expression names a time in between.
    fn names_a_skipped_time(&self, at: i64, wall: DateTime) -> bool {
        let before = Timestamp::from_second(at - 1).map(|before| self.zone.to_datetime(before));
        let Ok(mut skipped) = before else { return false };
        loop {
            let Ok(next) = skipped.checked_add(jiff::SignedDuration::from_secs(1)) else { return false };
            if next >= wall {
                return false;
            }
            if self.names(next) {
                return true;
            }
            skipped = next;
        }
    }
}

fn values(field: &str, count: usize) -> Result<Values> {
    let mut values = vec![false; count];
    for part in field.split(',') {
        let (range, step) = part.split_once('/').unwrap_or((part, "1"));
        let (from, to) = match range.split_once('-') {
            Some((from, to)) => (from.parse()?, to.parse()?),
            None if range == "*" => (0, count - 1),
            None => (range.parse()?, range.parse()?),
        };
        for value in (from..=to).step_by(step.parse()?) {
            *values.get_mut(value).with_context(|| format!("{value} in {field}"))? = true;
        }
    }
    Ok(values)
}
