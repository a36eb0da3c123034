//! Activity of job types, jobs and workers over time: small stored rows per minute, hour and day.

use std::collections::HashMap;

use domain::{
    Job, Problem,
    api::{Activity, SeriesStep},
};
use sqlx::PgPool;
use time::OffsetDateTime;
use uuid::Uuid;

use crate::{
    access::caller::Caller,
    error::Result,
    store::{
        dispatch::worker_history,
        query::{history, job_history},
    },
};

use super::super::Engine;

/// Maximum number of points of one series: more than are stored of any step, the most being 48 hours in minutes.
const MOST_POINTS: i64 = 3_000;

/// Number of points if `from` is not given.
const POINTS: i64 = 60;

/// Span of a series: whole points.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    pub step: SeriesStep,
    pub from: OffsetDateTime,
    pub to: OffsetDateTime,
}

impl Span {
    /// Whole points that contain the time from `from` to `to`. By default `to` is now, and `from` lies 60 points before
    /// it. Returns 400 `invalid_parameter` if `to` is not after `from` or the span has more than 3,000 points.
    pub fn new(
        step: SeriesStep,
        from: Option<OffsetDateTime>,
        to: Option<OffsetDateTime>,
        now: OffsetDateTime,
    ) -> Result<Self, Problem> {
        let end = to.unwrap_or(now);
        let last = step.floor(end);
        // The point that contains `to` belongs to it, unless `to` is its start.
        let to = if to.is_some() && last == end { last } else { step.after(last, 1) };
        let from = from.map_or_else(|| step.after(to, -POINTS), |from| step.floor(from));
        let n = (to - from).whole_seconds() / step.seconds();
        if n < 1 {
            return Err(Problem::parameter("to", "expected a time after `from`"));
        }
        if n > MOST_POINTS {
            let expected = format!("expected at most 3,000 points; from there to `to` are {n}: choose a longer step");
            return Err(Problem::parameter("from", &expected));
        }
        Ok(Self { step, from, to })
    }

    /// The last `points` points; the last one contains `now`.
    pub fn last(step: SeriesStep, points: i64, now: OffsetDateTime) -> Self {
        let to = step.after(step.floor(now), 1);
        Self { step, from: step.after(to, -points), to }
    }

    /// Every point, oldest first, with the activity that was found.
    fn fill(self, found: Vec<(OffsetDateTime, Activity)>) -> Vec<(OffsetDateTime, Activity)> {
        let mut found: HashMap<OffsetDateTime, Activity> = found.into_iter().collect();
        self.starts().map(|at| (at, found.remove(&at).unwrap_or_default())).collect()
    }

    /// Starts of the points, oldest first.
    pub fn starts(self) -> impl Iterator<Item = OffsetDateTime> {
        let n = (self.to - self.from).whole_seconds() / self.step.seconds();
        (0..n).map(move |at| self.step.after(self.from, at))
    }
}

impl Engine {
    /// Activity of a job type, or of all types, in every point of the span, oldest first. A type that does not exist
    /// has none. Only for callers that see all owners' work.
    pub async fn activity(
        &self,
        caller: &Caller,
        type_name: Option<&str>,
        span: Span,
    ) -> Result<Vec<(OffsetDateTime, Activity)>> {
        Self::require_statistics(caller)?;
        self.write_activity_counters().await?;
        Ok(span.fill(history::points(self.read_pool(), type_name, span.step, (span.from, span.to)).await?))
    }

    /// Activity of a job with its descendants in every point of the span, oldest first. Jobs of fewer than
    /// [`CHARTED_ITEMS`](crate::activity_counters::CHARTED_ITEMS) items have none.
    pub async fn job_activity(&self, job: &Job, span: Span) -> Result<Vec<(OffsetDateTime, Activity)>> {
        self.write_activity_counters().await?;
        let ids: Vec<Uuid> = job.subtree().iter().map(|job| job.id).collect();
        Ok(span.fill(job_history::points(self.read_pool(), &ids, span.step, (span.from, span.to)).await?))
    }

    /// Ended attempts of a worker in every point of the span, oldest first: succeeded items, failed attempts, and run
    /// times. Only for callers that see all owners' work.
    pub async fn worker_activity(
        &self,
        caller: &Caller,
        credential_id: Uuid,
        worker_id: &str,
        span: Span,
    ) -> Result<Vec<(OffsetDateTime, Activity)>> {
        Self::require_statistics(caller)?;
        self.write_activity_counters().await?;
        let worker = (credential_id, worker_id);
        Ok(span.fill(worker_history::points(self.read_pool(), worker, span.step, (span.from, span.to)).await?))
    }

    fn read_pool(&self) -> &PgPool {
        &self.0.core.pools.read
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: i64) -> OffsetDateTime {
        OffsetDateTime::from_unix_timestamp(seconds).expect("a time")
    }

    fn span(from: Option<i64>, to: Option<i64>, now: i64) -> Result<(i64, i64), String> {
        Span::new(SeriesStep::Minute, from.map(at), to.map(at), at(now))
            .map(|span| (span.from.unix_timestamp(), span.to.unix_timestamp()))
            .map_err(|problem| problem.errors.iter().map(|fault| fault.pointer.clone()).collect())
    }

    #[test]
    fn a_span_is_made_of_whole_points() {
        assert_eq!(span(None, None, 36_030), Ok((36_060 - 3_600, 36_060)));
        assert_eq!(span(Some(61), Some(119), 0), Ok((60, 120)));
        assert_eq!(span(Some(60), Some(120), 0), Ok((60, 120)));
        assert_eq!(span(Some(60), Some(121), 0), Ok((60, 180)));
        let starts = Span { step: SeriesStep::Minute, from: at(60), to: at(180) }.starts();
        assert_eq!(starts.collect::<Vec<_>>(), [at(60), at(120)]);
    }

    #[test]
    fn empty_and_endless_spans_are_refused() {
        assert!(span(Some(120), Some(60), 0).is_err());
        assert!(span(Some(60), Some(60), 0).is_err());
        assert!(span(Some(0), Some(3_000 * 60), 0).is_ok());
        assert!(span(Some(0), Some(3_000 * 60 + 1), 0).is_err());
    }
}
