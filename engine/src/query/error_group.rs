//! One error group over all owners, and failures of groups over time.

use std::collections::HashMap;

use domain::{
    Code, Problem, Time,
    api::{ErrorGroup, ErrorGroupDetail, HISTORY_HOURS, HISTORY_MINUTES, SeriesStep},
};
use time::OffsetDateTime;

use crate::{
    access::caller::{Caller, Scope},
    error::Result,
    store::query::{error_groups, error_history},
};

use super::super::Engine;

/// Maximum number of jobs, owners and changes of a group.
const AFFECTED: i64 = 20;
const CHANGES: i64 = 50;
/// Number of points of a small chart: a day in hours.
const DAY: i64 = 24;

/// Start of the first of `n` points; the last one contains now.
fn first_point(step: SeriesStep, n: i64) -> OffsetDateTime {
    step.after(step.floor(OffsetDateTime::now_utc()), 1 - n)
}

/// Type and fingerprint of a group.
type GroupKey = (String, String);

impl Engine {
    /// An error group of all owners, with its failures over time, its history, and what it affects. Staff only.
    pub async fn error_group(&self, caller: &Caller, job_type: &str, fingerprint: &str) -> Result<ErrorGroupDetail> {
        caller.require(Scope::JobsRead)?;
        require_staff(caller)?;
        let type_id = self.type_of_group(job_type).await?;
        self.write_error_counters().await?;
        let pool = &self.0.core.pools.read;
        let key = [(job_type, fingerprint)];
        let minutes_from = first_point(SeriesStep::Minute, HISTORY_MINUTES);
        let hours_from = first_point(SeriesStep::Hour, HISTORY_HOURS);
        let (group, minutes, hours) = futures::try_join!(
            async { Ok(error_groups::find(pool, type_id, fingerprint).await?) },
            self.failures_over_time(&key, SeriesStep::Minute, minutes_from, HISTORY_MINUTES),
            self.failures_over_time(&key, SeriesStep::Hour, hours_from, HISTORY_HOURS),
        )?;
        let group = group.ok_or_else(no_group)?;
        let (history, jobs, (owners, owner_count)) = futures::try_join!(
            error_groups::history(pool, type_id, fingerprint, CHANGES),
            error_groups::jobs(pool, type_id, fingerprint, AFFECTED),
            error_groups::owners(pool, type_id, fingerprint, AFFECTED),
        )?;
        let points = |mut of: HashMap<GroupKey, Vec<i64>>, n: i64| {
            of.drain().next().map_or_else(|| vec![0; usize::try_from(n).unwrap_or(0)], |(_, points)| points)
        };
        let (minutes, hours) = (points(minutes, HISTORY_MINUTES), points(hours, HISTORY_HOURS));
        let (minutes_from, hours_from) = (Time(minutes_from), Time(hours_from));
        Ok(ErrorGroupDetail { group, minutes_from, minutes, hours_from, hours, history, jobs, owners, owner_count })
    }

    /// Failures of each of these groups in each of the last 24 hours, over all owners, oldest first; omits groups without
    /// failures. Staff only.
    pub async fn error_sparklines(
        &self,
        caller: &Caller,
        groups: &[&ErrorGroup],
    ) -> Result<HashMap<GroupKey, Vec<i64>>> {
        caller.require(Scope::JobsRead)?;
        require_staff(caller)?;
        self.write_error_counters().await?;
        let keys: Vec<(&str, &str)> =
            groups.iter().map(|group| (group.job_type.as_str(), group.fingerprint.as_str())).collect();
        self.failures_over_time(&keys, SeriesStep::Hour, first_point(SeriesStep::Hour, DAY), DAY).await
    }

    /// Id of the type of an error group; 404 if there is none.
    pub(crate) async fn type_of_group(&self, job_type: &str) -> Result<i32> {
        Ok(self.0.core.types.find(job_type).await?.map(|info| info.id).ok_or_else(no_group)?)
    }

    async fn failures_over_time(
        &self,
        groups: &[(&str, &str)],
        step: SeriesStep,
        from: OffsetDateTime,
        n: i64,
    ) -> Result<HashMap<GroupKey, Vec<i64>>> {
        let length = usize::try_from(n).unwrap_or(0);
        let mut series: HashMap<GroupKey, Vec<i64>> = HashMap::new();
        for found in error_history::points(&self.0.core.pools.read, groups, step, from).await? {
            let at = (found.starts_at - from).whole_seconds() / step.seconds();
            let points = series.entry((found.type_name, found.fingerprint)).or_insert_with(|| vec![0; length]);
            if let Some(point) = usize::try_from(at).ok().and_then(|at| points.get_mut(at)) {
                *point += found.n;
            }
        }
        Ok(series)
    }
}

/// 403 for callers that see only their own work.
pub(crate) fn require_staff(caller: &Caller) -> Result<(), Problem> {
    if caller.sees_all() {
        return Ok(());
    }
    Err(Problem::new(Code::Forbidden, "Error groups of all owners are for support and admins."))
}

pub(crate) fn no_group() -> Problem {
    Problem::not_found("error group")
}
