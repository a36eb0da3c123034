//! History of job types for charts: small rows per minute, hour and day, written by [`super::statistics::add`].

use domain::{
    Counts,
    api::{Activity, SeriesStep},
    query::histogram::Histogram,
};
use sqlx::PgPool;
use time::OffsetDateTime;

/// Activity of one type or of all types by start of the point; omits points without activity. Reads at most one row
/// per type and point.
pub async fn points(
    pool: &PgPool,
    type_name: Option<&str>,
    step: SeriesStep,
    (from, to): (OffsetDateTime, OffsetDateTime),
) -> sqlx::Result<Vec<(OffsetDateTime, Activity)>> {
    let rows = sqlx::query!(
        r#"with found as materialized (
             select * from type_history
             where step = $1 and starts_at >= $2 and starts_at < $3 and ($4::text is null or type_name = $4)),
           buckets as (
             select starts_at, at, sum(n_wait)::bigint as n_wait, sum(n_run)::bigint as n_run
             from found cross join unnest(waits, runs) with ordinality as counts (n_wait, n_run, at)
             group by starts_at, at),
           durations as (
             select starts_at, array_agg(n_wait order by at) as waits, array_agg(n_run order by at) as runs
             from buckets group by starts_at),
           sums as (
             select starts_at, sum(n_added)::bigint as added, sum(n_succeeded)::bigint as succeeded,
               sum(n_failed)::bigint as failed, sum(n_dead)::bigint as dead, sum(n_cancelled)::bigint as cancelled,
               sum(n_expired)::bigint as expired, sum(n_retried)::bigint as retried
             from found group by starts_at)
           select starts_at as "starts_at!", added as "added!", succeeded as "succeeded!", failed as "failed!",
             dead as "dead!", cancelled as "cancelled!", expired as "expired!", retried as "retried!",
             coalesce(waits, '{}') as "waits!", coalesce(runs, '{}') as "runs!"
           from sums left join durations using (starts_at) order by starts_at"#,
        step.code(),
        from,
        to,
        type_name
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
            let (wait, run) = (Histogram::from_stored(&row.waits), Histogram::from_stored(&row.runs));
            (row.starts_at, Activity { added: row.added, failed: row.failed, retried: row.retried, ended, wait, run })
        })
        .collect())
}
