//! Job state rows of a tree with several jobs, read under their locks and written one by one: completion and its
//! consequences, cancellation and reopening. Not on the hot path: a tree passes here once per job.

use time::OffsetDateTime;
use uuid::Uuid;

use crate::store::{Tx, notify::deliveries};

/// A job state row of a tree, under its lock.
#[derive(Clone, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "a row of the table has its columns")]
pub struct TreeJobState {
    pub job_key: i64,
    pub solo: bool,
    pub sealed: bool,
    pub sealed_by_feed: bool,
    pub cancelled: bool,
    pub deleted: bool,
    pub pending: i64,
    /// A job in a tree of several satisfies `completion`.
    pub looks_complete: bool,
    pub running: i64,
    pub waiting: i64,
    pub succeeded: i64,
    pub unsuccessful: i64,
    pub open_feeds: i32,
    pub after_open: i32,
    pub after_failed: bool,
    pub after_cancelled: i64,
    pub completed_at: Option<OffsetDateTime>,
    pub open_jobs: i32,
    pub holds: i32,
    pub tree_completed_at: Option<OffsetDateTime>,
}

/// Locks job state rows in order and reads their state under the locks. `job_keys` ascending.
pub async fn lock(tx: &mut Tx, job_keys: &[i64]) -> Result<Vec<TreeJobState>, sqlx::Error> {
    sqlx::query_as!(
        TreeJobState,
        r#"select job_key, solo, sealed, sealed_by_feed, cancelled_at is not null as "cancelled!",
             deleted_at is not null as "deleted!",
             job_looks_complete(job_state) as "looks_complete!", job_pending(job_state) as "pending!",
             n_running as running, job_waiting(job_state) as "waiting!",
             n_succeeded as succeeded, job_unsuccessful(job_state) as "unsuccessful!",
             open_feeds, after_open, after_failed, n_after_cancelled as after_cancelled, completed_at, open_jobs,
             holds, tree_completed_at
           from job_state where job_key = any($1::bigint[]) order by job_key for no key update"#,
        job_keys
    )
    .fetch_all(&mut **tx)
    .await
}

/// Completes jobs.
pub async fn complete(tx: &mut Tx, job_keys: &[i64]) -> Result<(), sqlx::Error> {
    sqlx::query!(
        "update job_state set completed_at = clock_timestamp(), version = version + 1, updated_at = clock_timestamp()
         where job_key = any($1::bigint[]) and completed_at is null",
        job_keys
    )
    .execute(&mut **tx)
    .await?;
    Ok(())
}

/// Reopens jobs. They count as started even if no item was ever claimed: a reopened job is running (`job-status`).
pub async fn reopen(tx: &mut Tx, job_keys: &[i64]) -> Result<(), sqlx::Error> {
    sqlx::query!(
        "update job_state set started_at = coalesce(started_at, completed_at), completed_at = null,
           tree_completed_at = null, tree_outcome = null, version = version + 1, updated_at = clock_timestamp()
         where job_key = any($1::bigint[])",
        job_keys
    )
    .execute(&mut **tx)
    .await?;
    Ok(())
}

/// Seals fed jobs whose parent is complete.
pub async fn seal_fed(tx: &mut Tx, job_keys: &[i64]) -> Result<(), sqlx::Error> {
    sqlx::query!(
        "update job_state set sealed = true, sealed_by_feed = true, version = version + 1, updated_at = clock_timestamp()
         where job_key = any($1::bigint[]) and not sealed",
        job_keys
    )
    .execute(&mut **tx)
    .await?;
    Ok(())
}

/// Unseals fed jobs whose parent was reopened; a complete one is reopened in the same statement, because complete
/// jobs are sealed.
pub async fn unseal_fed(tx: &mut Tx, job_keys: &[i64]) -> Result<(), sqlx::Error> {
    sqlx::query!(
        "update job_state set sealed = false, sealed_by_feed = false, version = version + 1,
           started_at = coalesce(started_at, completed_at), completed_at = null, updated_at = clock_timestamp()
         where job_key = any($1::bigint[]) and sealed_by_feed",
        job_keys
    )
    .execute(&mut **tx)
    .await?;
    Ok(())
}

/// Writes the number of jobs that a job still waits for.
pub async fn set_after(tx: &mut Tx, job_key: i64, open: i32) -> Result<(), sqlx::Error> {
    sqlx::query!(
        "update job_state set after_open = $2, version = version + 1, updated_at = clock_timestamp() where job_key = $1",
        job_key,
        open
    )
    .execute(&mut **tx)
    .await?;
    Ok(())
}

/// Counts the waiting items as canceled, because a job that they waited for did not succeed (`after`).
pub async fn fail_after(tx: &mut Tx, job_key: i64) -> Result<(), sqlx::Error> {
    sqlx::query!(
        "update job_state set after_failed = true, version = version + 1, updated_at = clock_timestamp(),
           n_after_cancelled = n_after_cancelled + job_waiting(job_state),
           n_cancelled = n_cancelled + job_waiting(job_state),
           n_available = 0, n_retryable = 0, n_scheduled = 0, n_blocked = 0, n_waiting_for_event = 0
         where job_key = $1",
        job_key
    )
    .execute(&mut **tx)
    .await?;
    Ok(())
}

/// Counts the items that `after` canceled as waiting again.
pub async fn return_after(tx: &mut Tx, job_key: i64) -> Result<(), sqlx::Error> {
    sqlx::query!(
        "update job_state set after_failed = false, version = version + 1, updated_at = clock_timestamp(),
           n_cancelled = n_cancelled - n_after_cancelled, n_blocked = n_blocked + n_after_cancelled,
           n_after_cancelled = 0
         where job_key = $1",
        job_key
    )
    .execute(&mut **tx)
    .await?;
    Ok(())
}

/// Locks the open file cursors and the deadlines of jobs, in the lock order: before anything else that a cancellation
/// locks.
pub async fn lock_cursors_and_deadlines(tx: &mut Tx, job_keys: &[i64]) -> Result<(), sqlx::Error> {
    sqlx::query_scalar!(
        "select job_key from import_cursor where job_key = any($1::bigint[]) and done_at is null
         order by job_key for no key update",
        job_keys
    )
    .fetch_all(&mut **tx)
    .await?;
    sqlx::query_scalar!(
        "select job_key from deadline where job_key = any($1::bigint[]) order by job_key for update",
        job_keys
    )
    .fetch_all(&mut **tx)
    .await?;
    Ok(())
}

/// Cancels jobs: pending items count as canceled, no items are added, and a tree of one job without running items
/// completes and is announced. Complete jobs are only marked as canceled (`completion`). Requires
/// [`lock_cursors_and_deadlines`].
pub async fn cancel(tx: &mut Tx, job_keys: &[i64], reason: Option<&str>) -> Result<(), sqlx::Error> {
    sqlx::query!(
        "update job_state set cancelled_at = clock_timestamp(), cancel_reason = $2, sealed = true, open_feeds = 0,
           after_open = 0, after_failed = false, n_after_cancelled = 0,
           -- Of a job that is complete there is nothing left to count.
           n_cancelled = n_cancelled + job_waiting(job_state),
           n_available = 0, n_retryable = 0, n_scheduled = 0, n_blocked = 0, n_waiting_for_event = 0,
           version = version + 1, updated_at = clock_timestamp(),
           completed_at = case when solo and n_running = 0 then clock_timestamp() else completed_at end,
           tree_completed_at = case when solo and n_running = 0 then clock_timestamp() else tree_completed_at end,
           tree_outcome = case when solo and n_running = 0 then outcome_of(true, 0, 0) else tree_outcome end,
           completion = completion + case when solo and n_running = 0 then 1 else 0 end
         where job_key = any($1::bigint[]) and cancelled_at is null",
        job_keys,
        reason
    )
    .execute(&mut **tx)
    .await?;
    deliveries::announce(tx, job_keys).await?;
    sqlx::query!("delete from feed_remainder where job_key = any($1::bigint[])", job_keys).execute(&mut **tx).await?;
    sqlx::query!("delete from deadline where job_key = any($1::bigint[])", job_keys).execute(&mut **tx).await?;
    sqlx::query!(
        "update import_cursor set done_at = clock_timestamp(), failed = 'the job was canceled'
         where job_key = any($1::bigint[]) and done_at is null",
        job_keys
    )
    .execute(&mut **tx)
    .await?;
    Ok(())
}

/// Changes the number of open jobs at the root. Returns the numbers of open jobs and of holds.
pub async fn count_jobs(tx: &mut Tx, root_job_key: i64, by: i32) -> Result<(i32, i32), sqlx::Error> {
    let row = sqlx::query!(
        "update job_state set open_jobs = open_jobs + $2, version = version + 1 where job_key = $1
         returning open_jobs, holds",
        root_job_key,
        by
    )
    .fetch_one(&mut **tx)
    .await?;
    Ok((row.open_jobs, row.holds))
}

/// Completes a tree whose jobs are all complete, and announces it. Its outcome is computed over all items, or is
/// `cancelled` if its root was canceled (`completion`). Reads at most a thousand job state rows, once in a tree's
/// life.
pub async fn complete_tree(tx: &mut Tx, root_job_key: i64, root_id: Uuid) -> Result<(), sqlx::Error> {
    sqlx::query!(
        "update job_state set tree_completed_at = clock_timestamp(), completion = completion + 1,
           version = version + 1, updated_at = clock_timestamp(),
           tree_outcome = (
             select outcome_of(job_state.cancelled_at is not null, sum(job_unsuccessful(g))::bigint,
                               sum(g.n_succeeded)::bigint)
             from job_state g where g.root_id = $2)
         where job_key = $1 and tree_completed_at is null",
        root_job_key,
        root_id
    )
    .execute(&mut **tx)
    .await?;
    deliveries::announce(tx, &[root_job_key]).await
}

/// Reopens a tree.
pub async fn reopen_tree(tx: &mut Tx, root_job_key: i64) -> Result<(), sqlx::Error> {
    sqlx::query!(
        "update job_state set tree_completed_at = null, tree_outcome = null, version = version + 1 where job_key = $1",
        root_job_key
    )
    .execute(&mut **tx)
    .await?;
    Ok(())
}

/// Completes and announces trees of one job that a hold kept open and that have nothing pending. Skips others.
pub async fn complete_solos(tx: &mut Tx, job_keys: &[i64]) -> Result<(), sqlx::Error> {
    sqlx::query!(
        "update job_state set completed_at = clock_timestamp(), tree_completed_at = clock_timestamp(),
           completion = completion + 1, version = version + 1, updated_at = clock_timestamp(),
           tree_outcome = outcome_of(cancelled_at is not null, job_unsuccessful(job_state), n_succeeded)
         where job_key = any($1::bigint[]) and solo and sealed and completed_at is null and open_feeds = 0
           and (holds = 0 or cancelled_at is not null)
           and job_pending(job_state) = 0",
        job_keys
    )
    .execute(&mut **tx)
    .await?;
    deliveries::announce(tx, job_keys).await
}

/// Adds or removes holds on the completion of these trees. Requires the locks of the roots' job state rows.
pub async fn hold(tx: &mut Tx, root_job_keys: &[i64], by: i32) -> Result<(), sqlx::Error> {
    sqlx::query!(
        "update job_state set holds = holds + $2, version = version + 1 where job_key = any($1::bigint[])",
        root_job_keys,
        by
    )
    .execute(&mut **tx)
    .await?;
    Ok(())
}

/// Trees that were replaced by newer ones (`idempotency-key`).
pub async fn superseded(tx: &mut Tx, root_ids: &[Uuid]) -> Result<Vec<Uuid>, sqlx::Error> {
    sqlx::query_scalar!("select id from job where id = any($1::uuid[]) and superseded_by is not null", root_ids)
        .fetch_all(&mut **tx)
        .await
}

/// Takes jobs that have expired and are to be sealed (`start-and-expiry`). Returns their keys.
pub async fn due_deadlines(tx: &mut Tx, limit: i64) -> Result<Vec<i64>, sqlx::Error> {
    sqlx::query_scalar!(
        "delete from deadline where job_key = any(array(
           select job_key from deadline where expires_at <= (select clock_timestamp())
           order by expires_at limit $1 for update skip locked))
         returning job_key",
        limit
    )
    .fetch_all(&mut **tx)
    .await
}
