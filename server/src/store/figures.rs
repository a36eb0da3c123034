//! Figures for monitoring: how much of each type waits, runs and how old it is. Only work that is not
//! over is looked at, so their cost follows what is open, not what was ever done.

use sqlx::PgPool;

/// Open work of one type.
#[derive(Debug)]
pub struct OpenWork {
    pub job_type: String,
    pub available: i64,
    pub running: i64,
    pub retryable: i64,
    pub scheduled: i64,
    pub blocked: i64,
}

/// Pending items per type and state, over the jobs that are not complete.
pub async fn open_work(pool: &PgPool) -> sqlx::Result<Vec<OpenWork>> {
    sqlx::query_as!(
        OpenWork,
        r#"select t.name as job_type,
             coalesce(sum(g.n_available), 0)::bigint as "available!",
             coalesce(sum(g.n_running), 0)::bigint as "running!",
             coalesce(sum(g.n_retryable), 0)::bigint as "retryable!",
             coalesce(sum(g.n_scheduled), 0)::bigint as "scheduled!",
             coalesce(sum(g.n_blocked), 0)::bigint as "blocked!"
           from job_type t
           left join (job j join gate g on g.gate_id = j.gate_id and g.completed_at is null) on j.type_id = t.id
           group by t.name"#
    )
    .fetch_all(pool)
    .await
}

/// Seconds for which the next item of each type has been waiting, by its age; types with nothing
/// available are left out.
pub async fn oldest_available(pool: &PgPool) -> sqlx::Result<Vec<(String, f64)>> {
    let rows = sqlx::query!(
        r#"select t.name as job_type,
             extract(epoch from clock_timestamp() - i.created_at)::float8 as "seconds!"
           from job_type t
           cross join lateral (
             select item_id from ready where type_id = t.id order by type_id, rank, turn, item_id limit 1) r
           join item i on i.id = r.item_id"#
    )
    .fetch_all(pool)
    .await?;
    Ok(rows.into_iter().map(|row| (row.job_type, row.seconds)).collect())
}

/// Open assignments per type.
pub async fn open_assignments(pool: &PgPool) -> sqlx::Result<Vec<(String, i64)>> {
    let rows = sqlx::query!(
        r#"select t.name as job_type, (select count(*) from lease where type_id = t.id) as "open!" from job_type t"#
    )
    .fetch_all(pool)
    .await?;
    Ok(rows.into_iter().map(|row| (row.job_type, row.open)).collect())
}
