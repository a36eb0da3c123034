//! History of jobs for charts: small rows per minute, hour and day, for jobs that are large enough to have one.

use std::collections::{BTreeMap, BTreeSet};

use domain::{
    Counts,
    api::{Activity, SeriesStep},
};
use sqlx::PgPool;
use time::OffsetDateTime;

/// Activity of one job's own items.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct JobActivity {
    pub added: i64,
    /// Failed attempts.
    pub failed: i64,
    /// Items that reached final states.
    pub ended: Counts,
}

/// Adds activity to the rows of jobs that have at least `least` items. Returns the open jobs that have fewer. Sorted by
/// job, so that servers lock the rows in the same order.
pub async fn add(pool: &PgPool, rows: &BTreeMap<i64, JobActivity>, least: i64) -> sqlx::Result<BTreeSet<i64>> {
    let job_keys: Vec<i64> = rows.keys().copied().collect();
    let column = |of: fn(&JobActivity) -> i64| -> Vec<i64> { rows.values().map(of).collect() };
    let small = sqlx::query_scalar!(
        r#"with new as materialized (
             select n.*, s.next_seq > $8 as is_large, s.completed_at is null as is_open
             from unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::bigint[], $5::bigint[], $6::bigint[], $7::bigint[])
               as n (job_key, added, succeeded, failed, dead, cancelled, expired)
             cross join lateral (
               select next_seq, completed_at from job_state
               where job_key = n.job_key and deleted_at is null offset 0) s),
           written as (
             insert into job_history as h (job_key, step, starts_at, n_added, n_succeeded, n_failed, n_dead, n_cancelled,
               n_expired)
             select job_key, step, date_trunc(unit, statement_timestamp(), 'utc'), added, succeeded, failed, dead,
               cancelled, expired
             from new cross join (values (1::smallint, 'minute'), (2::smallint, 'hour'), (3::smallint, 'day')) as steps (step, unit)
             where is_large
             order by job_key, step
             on conflict (job_key, step, starts_at) do update set n_added = h.n_added + excluded.n_added,
               n_succeeded = h.n_succeeded + excluded.n_succeeded, n_failed = h.n_failed + excluded.n_failed,
               n_dead = h.n_dead + excluded.n_dead, n_cancelled = h.n_cancelled + excluded.n_cancelled,
               n_expired = h.n_expired + excluded.n_expired)
           select job_key as "job_key!" from new where not is_large and is_open"#,
        &job_keys,
        &column(|it| it.added),
        &column(|it| it.ended.succeeded),
        &column(|it| it.failed),
        &column(|it| it.ended.dead),
        &column(|it| it.ended.cancelled),
        &column(|it| it.ended.expired),
        least
    )
    .fetch_all(pool)
    .await?;
    Ok(small.into_iter().collect())
}

/// Activity of jobs together by start of the point; omits points without activity. Reads at most one row per job and
/// point.
pub async fn points(
    pool: &PgPool,
    job_ids: &[uuid::Uuid],
    step: SeriesStep,
    (from, to): (OffsetDateTime, OffsetDateTime),
) -> sqlx::Result<Vec<(OffsetDateTime, Activity)>> {
    let rows = sqlx::query!(
        r#"select h.starts_at, sum(h.n_added)::bigint as "added!", sum(h.n_succeeded)::bigint as "succeeded!",
             sum(h.n_failed)::bigint as "failed!", sum(h.n_dead)::bigint as "dead!",
             sum(h.n_cancelled)::bigint as "cancelled!", sum(h.n_expired)::bigint as "expired!"
           from unnest($1::uuid[]) as wanted
           cross join lateral (select job_key from job where id = wanted offset 0) j
           cross join lateral (
             select * from job_history
             where job_key = j.job_key and step = $2 and starts_at >= $3 and starts_at < $4 offset 0) h
           group by h.starts_at order by h.starts_at"#,
        job_ids,
        step.code(),
        from,
        to
    )
    .fetch_all(pool)
    .await?;
    Ok(rows
        .into_iter()
        .map(|row| {
            let ended = Counts {
                succeeded: row.succeeded,
                dead: row.dead,
                cancelled: row.cancelled,
                expired: row.expired,
                ..Counts::default()
            };
            (row.starts_at, Activity { added: row.added, failed: row.failed, ended, ..Activity::default() })
        })
        .collect())
}

/// Deletes history older than the retention of its step, at most a thousand rows.
pub async fn forget(pool: &PgPool) -> sqlx::Result<u64> {
    let gone = sqlx::query!(
        "delete from job_history where ctid = any(array(
           select old.ctid
           from (values (1::smallint, interval '48 hours'), (2::smallint, interval '30 days'),
             (3::smallint, interval '2 years')) as kept (step, age)
           cross join lateral (
             select ctid from job_history h where h.step = kept.step and h.starts_at < (select clock_timestamp()) - kept.age
             order by h.starts_at limit 400 for update skip locked) as old))"
    )
    .execute(pool)
    .await?;
    Ok(gone.rows_affected())
}
