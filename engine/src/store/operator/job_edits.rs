//! Edits of jobs whose waiting items still follow (`start-and-expiry`).

use sqlx::PgPool;
use time::OffsetDateTime;

use super::patch::InheritedSettings;
use crate::store::Tx;

/// An edit, and how far it has come.
#[derive(Clone, Copy, Debug)]
pub struct JobEdit {
    pub id: i64,
    pub job_key: i64,
    /// Items up to this sequence number are done.
    pub seq: i64,
    pub from_priority: i16,
    pub from_run_after: Option<OffsetDateTime>,
    pub from_expires_at: Option<OffsetDateTime>,
    pub to_priority: i16,
    pub to_run_after: Option<OffsetDateTime>,
    pub to_expires_at: Option<OffsetDateTime>,
}

/// Records edits: settings before and after.
pub async fn insert(tx: &mut Tx, edits: &[(InheritedSettings, InheritedSettings)]) -> Result<(), sqlx::Error> {
    for (from, to) in edits {
        sqlx::query!(
            "insert into job_edit (job_key, from_priority, from_run_after, from_expires_at, to_priority, to_run_after,
               to_expires_at)
             values ($1, $2, $3, $4, $5, $6, $7)",
            from.job_key,
            from.priority,
            from.run_after,
            from.expires_at,
            to.priority,
            to.run_after,
            to.expires_at
        )
        .execute(&mut **tx)
        .await?;
    }
    Ok(())
}

/// Jobs with an edit that no transaction continues at the moment, at most `limit`.
pub async fn open(pool: &PgPool, limit: i64) -> Result<Vec<i64>, sqlx::Error> {
    sqlx::query_scalar!("select job_key from job_edit order by id limit $1 for update skip locked", limit)
        .fetch_all(pool)
        .await
}

/// The first edit of a job. Locks it, so that a job's items have one edit at a time.
pub async fn lock_first(tx: &mut Tx, job_key: i64) -> Result<Option<JobEdit>, sqlx::Error> {
    sqlx::query_as!(
        JobEdit,
        "select id, job_key, seq, from_priority, from_run_after, from_expires_at, to_priority, to_run_after, to_expires_at
         from job_edit where job_key = $1 order by id limit 1 for update",
        job_key
    )
    .fetch_optional(&mut **tx)
    .await
}

/// Advances a locked edit; `to` is `None` at its end.
pub async fn advance(tx: &mut Tx, id: i64, to: Option<i64>) -> Result<(), sqlx::Error> {
    match to {
        Some(to) => sqlx::query!("update job_edit set seq = $2 where id = $1", id, to).execute(&mut **tx).await?,
        None => sqlx::query!("delete from job_edit where id = $1", id).execute(&mut **tx).await?,
    };
    Ok(())
}

/// Deletes the edits of jobs: none of their items waits anymore.
pub async fn remove(tx: &mut Tx, job_keys: &[i64]) -> Result<(), sqlx::Error> {
    sqlx::query!("delete from job_edit where job_key = any($1::bigint[])", job_keys).execute(&mut **tx).await?;
    Ok(())
}
