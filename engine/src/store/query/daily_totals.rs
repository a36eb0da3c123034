//! Daily totals of deleted trees: a few rows a day for each owner, counted in the commit that deletes a tree, and
//! never deleted.

use sqlx::PgPool;
use time::Date;
use uuid::Uuid;

use crate::store::Tx;

/// Counts deleted jobs: one row for each owner, day, type and outcome of a job, in order of key. Call it once per
/// job, in the commit that deletes it.
pub async fn count(tx: &mut Tx, job_keys: &[i64]) -> Result<(), sqlx::Error> {
    sqlx::query!(
        "insert into daily_total as d (owner_id, day, job_type, outcome, n_jobs, n_succeeded, n_dead, n_cancelled,
           n_expired)
         select owner_id, day, job_type, outcome, count(*), sum(n_succeeded), sum(n_dead), sum(n_cancelled),
           sum(n_expired)
         from (
           select j.owner_id, (coalesce(g.completed_at, g.updated_at) at time zone 'UTC')::date as day,
             t.name as job_type,
             outcome_of(g.cancelled_at is not null, job_unsuccessful(g), g.n_succeeded) as outcome,
             g.n_succeeded, g.n_dead, g.n_cancelled, g.n_expired
           from job_state g
           join job j on j.job_key = g.job_key
           join job_type t on t.id = j.type_id
           where g.job_key = any($1::bigint[])) as gone
         group by owner_id, day, job_type, outcome
         order by owner_id, day, job_type, outcome
         on conflict (owner_id, day, job_type, outcome) do update
           set n_jobs = d.n_jobs + excluded.n_jobs, n_succeeded = d.n_succeeded + excluded.n_succeeded,
               n_dead = d.n_dead + excluded.n_dead, n_cancelled = d.n_cancelled + excluded.n_cancelled,
               n_expired = d.n_expired + excluded.n_expired",
        job_keys
    )
    .execute(&mut **tx)
    .await?;
    Ok(())
}

/// Deleted jobs of one type and outcome that completed on one day (UTC), with their items.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DailyTotal {
    pub day: Date,
    pub job_type: String,
    /// 1 succeeded, 2 partial, 3 failed, 4 canceled.
    pub outcome: i16,
    pub jobs: i64,
    pub succeeded: i64,
    pub dead: i64,
    pub cancelled: i64,
    pub expired: i64,
}

/// The totals of one owner, or of everybody, from a day on; the newest day first.
pub async fn list(pool: &PgPool, owner_id: Option<Uuid>, since: Date) -> Result<Vec<DailyTotal>, sqlx::Error> {
    sqlx::query_as!(
        DailyTotal,
        r#"select day, job_type, outcome, sum(n_jobs)::bigint as "jobs!", sum(n_succeeded)::bigint as "succeeded!",
             sum(n_dead)::bigint as "dead!", sum(n_cancelled)::bigint as "cancelled!",
             sum(n_expired)::bigint as "expired!"
           from daily_total
           where ($1::uuid is null or owner_id = $1) and day >= $2
           group by day, job_type, outcome order by day desc, job_type, outcome limit 10000"#,
        owner_id,
        since
    )
    .fetch_all(pool)
    .await
}
