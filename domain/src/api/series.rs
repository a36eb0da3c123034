//! Activity over time: what `GET /stats/series` answers and charts draw.

use serde::{Deserialize, Serialize};
use time::{Duration, OffsetDateTime};

use crate::{Counts, Time, query::histogram::Histogram};

/// Length of one point.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub enum SeriesStep {
    /// Kept for 48 hours.
    #[default]
    Minute,
    /// Kept for 30 days.
    Hour,
    /// Kept for 2 years; days are those of UTC.
    Day,
}

impl SeriesStep {
    pub const ALL: [Self; 3] = [Self::Minute, Self::Hour, Self::Day];

    /// Name as in the API.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Minute => "minute",
            Self::Hour => "hour",
            Self::Day => "day",
        }
    }

    /// Length in seconds.
    pub const fn seconds(self) -> i64 {
        match self {
            Self::Minute => 60,
            Self::Hour => 3_600,
            Self::Day => 86_400,
        }
    }

    /// Code in the database.
    pub const fn code(self) -> i16 {
        match self {
            Self::Minute => 1,
            Self::Hour => 2,
            Self::Day => 3,
        }
    }

    /// Start of the point that contains a moment.
    pub fn floor(self, at: OffsetDateTime) -> OffsetDateTime {
        let seconds = at.unix_timestamp();
        OffsetDateTime::from_unix_timestamp(seconds - seconds.rem_euclid(self.seconds())).unwrap_or(at)
    }

    /// Start of the point `n` points after the one that starts at `start`.
    pub fn after(self, start: OffsetDateTime, n: i64) -> OffsetDateTime {
        start.checked_add(Duration::seconds(self.seconds().saturating_mul(n))).unwrap_or(start)
    }
}

/// Quantity of a series.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub enum SeriesMetric {
    /// Items added.
    Added,
    /// Items that succeeded.
    Succeeded,
    /// Attempts that failed, ran out of time, or lost their lease.
    Failed,
    /// Items that failed for good.
    Dead,
    /// Items canceled.
    Cancelled,
    /// Items that expired.
    Expired,
    /// Final items that a person or a program put back.
    Retried,
    /// Seconds from the addition of an item to the start of its first attempt.
    Wait,
    /// Seconds from the start of an attempt to its result or failure.
    Run,
}

impl SeriesMetric {
    pub const ALL: [Self; 9] = [
        Self::Added,
        Self::Succeeded,
        Self::Failed,
        Self::Dead,
        Self::Cancelled,
        Self::Expired,
        Self::Retried,
        Self::Wait,
        Self::Run,
    ];

    /// Name as in the API.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Added => "added",
            Self::Succeeded => "succeeded",
            Self::Failed => "failed",
            Self::Dead => "dead",
            Self::Cancelled => "cancelled",
            Self::Expired => "expired",
            Self::Retried => "retried",
            Self::Wait => "wait",
            Self::Run => "run",
        }
    }
}

/// Activity of one job type, or of all together, in one span of time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Activity {
    pub added: i64,
    /// Failed attempts.
    pub failed: i64,
    pub retried: i64,
    /// Items that reached these states; states that are not final are 0.
    pub ended: Counts,
    pub wait: Histogram,
    pub run: Histogram,
}

impl Activity {
    /// Value of a metric: a number of items or attempts, and the durations behind it if it has any.
    pub const fn value(&self, metric: SeriesMetric) -> (Option<i64>, Option<&Histogram>) {
        match metric {
            SeriesMetric::Added => (Some(self.added), None),
            SeriesMetric::Succeeded => (Some(self.ended.succeeded), None),
            SeriesMetric::Failed => (Some(self.failed), None),
            SeriesMetric::Dead => (Some(self.ended.dead), None),
            SeriesMetric::Cancelled => (Some(self.ended.cancelled), None),
            SeriesMetric::Expired => (Some(self.ended.expired), None),
            SeriesMetric::Retried => (Some(self.retried), None),
            SeriesMetric::Wait => (None, Some(&self.wait)),
            SeriesMetric::Run => (None, Some(&self.run)),
        }
    }
}

/// One point of a series.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct SeriesPoint {
    /// Start of the point, a multiple of the step in UTC.
    pub at: Time,
    /// Number of items or attempts; for `wait` and `run`, number of durations.
    pub value: i64,
    /// Median in seconds, estimated within its bucket; only for `wait` and `run`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub p50: Option<f64>,
    /// 95th percentile in seconds, estimated within its bucket; only for `wait` and `run`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub p95: Option<f64>,
    /// Number of durations in each bucket (see `bounds`); only for `wait` and `run`, absent if there are none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub buckets: Vec<i64>,
}

impl SeriesPoint {
    /// SeriesPoint of a metric.
    pub fn of(at: OffsetDateTime, activity: &Activity, metric: SeriesMetric) -> Self {
        let (value, durations) = activity.value(metric);
        let durations = durations.filter(|durations| durations.count() > 0);
        Self {
            at: Time(at),
            value: value.unwrap_or_else(|| durations.map_or(0, Histogram::count)),
            p50: durations.and_then(|durations| durations.quantile(0.5)),
            p95: durations.and_then(|durations| durations.quantile(0.95)),
            buckets: durations.map(|durations| durations.counts().to_vec()).unwrap_or_default(),
        }
    }
}

/// Response of `GET /stats/series`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Series {
    pub metric: SeriesMetric,
    /// Job type; null: all types together.
    #[serde(rename = "type")]
    pub job_type: Option<String>,
    pub step: SeriesStep,
    /// Start of the first point.
    pub from: Time,
    /// End of the last point.
    pub to: Time,
    /// Upper bounds of the buckets in seconds; the last bucket holds everything above. Empty for counts.
    pub bounds: Vec<f64>,
    /// Every point from `from` to `to`, oldest first; a point without activity has the value 0.
    pub data: Vec<SeriesPoint>,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: i64) -> OffsetDateTime {
        OffsetDateTime::from_unix_timestamp(seconds).expect("a time")
    }

    #[test]
    fn points_begin_at_multiples_of_the_step() {
        let day = 20_000 * 86_400;
        let time = at(day + 13 * 3_600 + 14 * 60 + 15);
        assert_eq!(SeriesStep::Minute.floor(time), at(day + 13 * 3_600 + 14 * 60));
        assert_eq!(SeriesStep::Hour.floor(time), at(day + 13 * 3_600));
        assert_eq!(SeriesStep::Day.floor(time), at(day));
        assert_eq!(SeriesStep::Day.after(at(day), 2), at(day + 2 * 86_400));
        assert_eq!(SeriesStep::Minute.floor(at(-1)), at(-60));
    }

    #[test]
    fn a_point_of_durations_has_their_number_and_quantiles() {
        let mut activity = Activity { added: 3, ..Activity::default() };
        assert_eq!(SeriesPoint::of(at(60), &activity, SeriesMetric::Added).value, 3);
        let empty = SeriesPoint::of(at(60), &activity, SeriesMetric::Run);
        assert_eq!((empty.value, empty.p50, empty.buckets.len()), (0, None, 0));
        activity.run.record(0.2);
        let point = SeriesPoint::of(at(60), &activity, SeriesMetric::Run);
        assert_eq!((point.value, point.buckets.iter().sum::<i64>()), (1, 1));
        assert!(point.p50.is_some_and(|p50| p50 <= 0.25), "{point:?}");
    }
}
