//! Rows with sealed secrets, read in batches to seal them again, and replaced if they have not changed in the
//! meantime.

use sqlx::PgPool;
use uuid::Uuid;

/// Rows of one batch.
const BATCH: i64 = 500;

/// A job type's executor as it is stored.
#[derive(Clone, Debug)]
pub struct ExecutorRow {
    pub name: String,
    pub executor: String,
    pub secrets: Option<String>,
}

/// Executors of every job type.
pub async fn executors(pool: &PgPool) -> Result<Vec<ExecutorRow>, sqlx::Error> {
    sqlx::query_as!(ExecutorRow, "select name, executor, executor_secrets as secrets from job_type order by name")
        .fetch_all(pool)
        .await
}

/// Replaces an executor that is still as it was read.
pub async fn replace_executor(
    pool: &PgPool,
    before: &ExecutorRow,
    executor: &str,
    secrets: Option<&str>,
) -> Result<bool, sqlx::Error> {
    let done = sqlx::query!(
        "update job_type set executor = $4, executor_secrets = $5
         where name = $1 and executor = $2 and executor_secrets is not distinct from $3",
        before.name,
        before.executor,
        before.secrets,
        executor,
        secrets
    )
    .execute(pool)
    .await?;
    Ok(done.rows_affected() == 1)
}

/// Receivers of callbacks of jobs after a job key, in order.
pub async fn job_targets(pool: &PgPool, after: i64) -> Result<Vec<(i64, String)>, sqlx::Error> {
    let rows = sqlx::query!(
        r#"select job_key, on_completed as "on_completed!" from job
           where job_key > $1 and on_completed is not null order by job_key limit $2"#,
        after,
        BATCH
    )
    .fetch_all(pool)
    .await?;
    Ok(rows.into_iter().map(|row| (row.job_key, row.on_completed)).collect())
}

/// Replaces a receiver that is still as it was read.
pub async fn replace_job_target(pool: &PgPool, job_key: i64, old: &str, new: &str) -> Result<bool, sqlx::Error> {
    let done =
        sqlx::query!("update job set on_completed = $3 where job_key = $1 and on_completed = $2", job_key, old, new)
            .execute(pool)
            .await?;
    Ok(done.rows_affected() == 1)
}

/// Receivers of deliveries after an id, in order.
pub async fn delivery_targets(pool: &PgPool, after: Uuid) -> Result<Vec<(Uuid, String)>, sqlx::Error> {
    let rows = sqlx::query!(
        r#"select id, target as "target!" from delivery where id > $1 and target is not null order by id limit $2"#,
        after,
        BATCH
    )
    .fetch_all(pool)
    .await?;
    Ok(rows.into_iter().map(|row| (row.id, row.target)).collect())
}

/// Replaces a receiver that is still as it was read.
pub async fn replace_delivery_target(pool: &PgPool, id: Uuid, old: &str, new: &str) -> Result<bool, sqlx::Error> {
    let done = sqlx::query!("update delivery set target = $3 where id = $1 and target = $2", id, old, new)
        .execute(pool)
        .await?;
    Ok(done.rows_affected() == 1)
}

/// Jobs with a webhook of schedules after an id, in order.
pub async fn scheduled_jobs(pool: &PgPool, after: Uuid) -> Result<Vec<(Uuid, String)>, sqlx::Error> {
    let rows = sqlx::query!(
        "select id, job from schedule where id > $1 and (job like 'sealed:%' or job like '%\"on_completed\"%')
         order by id limit $2",
        after,
        BATCH
    )
    .fetch_all(pool)
    .await?;
    Ok(rows.into_iter().map(|row| (row.id, row.job)).collect())
}

/// Replaces the job of a schedule that is still as it was read.
pub async fn replace_scheduled_job(pool: &PgPool, id: Uuid, old: &str, new: &str) -> Result<bool, sqlx::Error> {
    let done =
        sqlx::query!("update schedule set job = $3 where id = $1 and job = $2", id, old, new).execute(pool).await?;
    Ok(done.rows_affected() == 1)
}
