//! Deletion of trees: the commit that deletes a tree, and the purge of its rows in batches.
//!
//! The tombstone is `deleted_at` on every job state row of a tree, and a row in `tombstone` for each job; counts over
//! several trees are corrected in the same commit. The rest may take its time, because nothing reads it anymore. Rows
//! are purged by item id or job key, never by a scan.

use sqlx::PgPool;
use time::OffsetDateTime;
use uuid::Uuid;

use crate::store::Tx;

/// A job with the fields that deleting and pinning need.
#[derive(Clone, Copy, Debug)]
pub struct JobLocation {
    pub root_id: Uuid,
    pub owner_id: Uuid,
    pub job_key: i64,
    pub is_root: bool,
    pub is_deleted: bool,
}

/// State of a job, also of a deleted one as long as its tombstone exists.
pub async fn find(pool: &PgPool, job_id: Uuid) -> Result<Option<JobLocation>, sqlx::Error> {
    sqlx::query_as!(
        JobLocation,
        r#"select j.root_id as "root_id!", j.owner_id as "owner_id!", j.job_key as "job_key!",
             j.parent_id is null as "is_root!", g.deleted_at is not null as "is_deleted!"
           from job j join job_state g on g.job_key = j.job_key where j.id = $1
           union all
           select root_id, owner_id, 0, root_id = job_id, true from tombstone where job_id = $1
           limit 1"#,
        job_id
    )
    .fetch_optional(pool)
    .await
}

/// Roots, under the locks of their job state rows, whose retention has ended, whose idempotency windows have passed,
/// and whose callbacks and notices are not pending.
pub async fn retention_over(tx: &mut Tx, root_ids: &[Uuid]) -> Result<Vec<Uuid>, sqlx::Error> {
    sqlx::query_scalar!(
        "select j.id from job j join job_state g on g.job_key = j.job_key
         where j.id = any($1::uuid[]) and j.retain_seconds is not null and g.tree_completed_at is not null
           and g.tree_completed_at + make_interval(secs => j.retain_seconds::float8) <= clock_timestamp()
           and not exists (
             select 1 from idempotency k where k.job_id = j.id and k.lapses_at > clock_timestamp())
           and not exists (select 1 from delivery d where d.job_id = j.id and d.state = 1)
           and not exists (
             select 1 from notice n join delivery d on d.notice_id = n.id where n.root_id = j.id and d.state = 1)",
        root_ids
    )
    .fetch_all(&mut **tx)
    .await
}

/// Locks the dedupe keys of these trees' jobs: keys precede job state rows in the lock order (`engine/src/lib.rs`).
pub async fn lock_keys(tx: &mut Tx, root_ids: &[Uuid]) -> Result<(), sqlx::Error> {
    sqlx::query!(
        "select d.key from job j
         join job_dedupe d on d.owner_id = j.owner_id and d.type_id = j.type_id and d.key = j.dedupe_key
         where j.root_id = any($1::uuid[]) and j.dedupe_key is not null
         order by d.owner_id, d.type_id, d.key for update of d",
        root_ids
    )
    .fetch_all(&mut **tx)
    .await?;
    Ok(())
}

/// The job state row of a tree's job, under its lock.
#[derive(Clone, Copy, Debug)]
pub struct LockedTreeJob {
    pub job_key: i64,
    pub root_id: Uuid,
    pub completed_at: Option<OffsetDateTime>,
    pub deleted: bool,
    pub pinned: bool,
    pub holds: i32,
}

/// Locks every job state row of these trees, in order. The root's row is the first of its tree, and only it says
/// whether the tree is complete, pinned or held.
pub async fn lock_trees(tx: &mut Tx, root_ids: &[Uuid]) -> Result<Vec<LockedTreeJob>, sqlx::Error> {
    sqlx::query_as!(
        LockedTreeJob,
        r#"select job_key, root_id, tree_completed_at as completed_at, deleted_at is not null as "deleted!", pinned,
             holds
           from job_state where root_id = any($1::uuid[]) order by job_key for no key update"#,
        root_ids
    )
    .fetch_all(&mut **tx)
    .await
}

/// Jobs with an open propagation. Under the locks of their job state rows no propagation begins.
pub async fn propagating_jobs(tx: &mut Tx, job_keys: &[i64]) -> Result<Vec<i64>, sqlx::Error> {
    sqlx::query_scalar!("select job_key from propagation where job_key = any($1::bigint[])", job_keys)
        .fetch_all(&mut **tx)
        .await
}

/// Deletes trees whose job state rows are locked: writes tombstones (which answer 410), frees keys and requests the
/// purge.
pub async fn write_tombstones(tx: &mut Tx, job_keys: &[i64]) -> Result<(), sqlx::Error> {
    sqlx::query!(
        "update job_state set deleted_at = clock_timestamp(), version = version + 1, updated_at = clock_timestamp()
         where job_key = any($1::bigint[])",
        job_keys
    )
    .execute(&mut **tx)
    .await?;
    sqlx::query!(
        "insert into tombstone (job_id, root_id, owner_id)
         select id, root_id, owner_id from job where job_key = any($1::bigint[]) on conflict (job_id) do nothing",
        job_keys
    )
    .execute(&mut **tx)
    .await?;
    sqlx::query!(
        "delete from job_dedupe d using job j
         where j.job_key = any($1::bigint[]) and j.dedupe_key is not null
           and d.owner_id = j.owner_id and d.type_id = j.type_id and d.key = j.dedupe_key and d.job_id = j.id",
        job_keys
    )
    .execute(&mut **tx)
    .await?;
    sqlx::query!("insert into purge (job_key) select unnest($1::bigint[]) on conflict do nothing", job_keys)
        .execute(&mut **tx)
        .await?;
    Ok(())
}

/// Subtracts the dead letters of deleted jobs from their owners' counts. After the job state rows, in order of key.
pub async fn forget_errors(tx: &mut Tx, job_keys: &[i64]) -> Result<(), sqlx::Error> {
    let locked = sqlx::query!(
        "select e.owner_id, e.type_id, e.fingerprint from owner_error e
         where (e.owner_id, e.type_id, e.fingerprint) in (
           select j.owner_id, j.type_id, g.fingerprint from error_group g join job j on j.job_key = g.job_key
           where g.job_key = any($1::bigint[]) and g.n_dead > 0)
         order by e.owner_id, e.type_id, e.fingerprint for no key update",
        job_keys
    )
    .fetch_all(&mut **tx)
    .await?;
    if locked.is_empty() {
        return Ok(());
    }
    sqlx::query!(
        "update owner_error e set n_dead = greatest(e.n_dead - gone.n, 0)
         from (
           select j.owner_id, j.type_id, g.fingerprint, sum(g.n_dead)::bigint as n
           from error_group g join job j on j.job_key = g.job_key
           where g.job_key = any($1::bigint[]) and g.n_dead > 0
           group by j.owner_id, j.type_id, g.fingerprint) as gone
         where e.owner_id = gone.owner_id and e.type_id = gone.type_id and e.fingerprint = gone.fingerprint",
        job_keys
    )
    .execute(&mut **tx)
    .await?;
    let owners: Vec<Uuid> = locked.iter().map(|row| row.owner_id).collect();
    let types: Vec<i32> = locked.iter().map(|row| row.type_id).collect();
    let prints: Vec<String> = locked.into_iter().map(|row| row.fingerprint).collect();
    sqlx::query!(
        "delete from owner_error e using unnest($1::uuid[], $2::int[], $3::text[]) as gone (owner_id, type_id, print)
         where e.owner_id = gone.owner_id and e.type_id = gone.type_id and e.fingerprint = gone.print
           and e.n_dead = 0",
        &owners,
        &types,
        &prints
    )
    .execute(&mut **tx)
    .await?;
    Ok(())
}

/// Pins or unpins a tree. Returns false if it is so already or the tree is deleted.
pub async fn set_pinned(tx: &mut Tx, job_key: i64, pinned: bool) -> Result<bool, sqlx::Error> {
    let done = sqlx::query!(
        "update job_state set pinned = $2, version = version + 1
         where job_key = $1 and deleted_at is null and pinned is distinct from $2",
        job_key,
        pinned
    )
    .execute(&mut **tx)
    .await?;
    Ok(done.rows_affected() == 1)
}

/// Deletes tombstones older than ninety days, after which the trees are 404. Returns the number of jobs.
pub async fn delete_old_tombstones(pool: &PgPool) -> Result<u64, sqlx::Error> {
    let gone = sqlx::query!(
        "delete from tombstone where ctid = any(array(
           select ctid from tombstone where deleted_at < (select clock_timestamp()) - interval '90 days' limit 5000))"
    )
    .execute(pool)
    .await?;
    Ok(gone.rows_affected())
}

/// Jobs to be purged, with the sequence number up to which their items are purged.
pub async fn take_purges(tx: &mut Tx, limit: i64) -> Result<Vec<(i64, i64)>, sqlx::Error> {
    let rows = sqlx::query!("select job_key, seq from purge order by job_key limit $1 for update skip locked", limit)
        .fetch_all(&mut **tx)
        .await?;
    Ok(rows.into_iter().map(|row| (row.job_key, row.seq)).collect())
}

/// The next items of a job, with their sequence numbers.
pub async fn items(tx: &mut Tx, job_key: i64, after: i64, limit: i64) -> Result<Vec<(Uuid, i64)>, sqlx::Error> {
    let rows = sqlx::query!(
        "select id, seq from item where job_key = $1 and seq > $2 order by seq limit $3",
        job_key,
        after,
        limit
    )
    .fetch_all(&mut **tx)
    .await?;
    Ok(rows.into_iter().map(|row| (row.id, row.seq)).collect())
}

/// Deletes at most 5,000 rows of a table; true if those were all.
macro_rules! delete_batch {
    ($table:tt, $which:tt, $tx:expr, $ids:expr) => {
        sqlx::query!(
            "delete from "
                + $table
                + " where ctid = any(array(select ctid from "
                + $table
                + " where "
                + $which
                + " limit 5000))",
            $ids
        )
        .execute(&mut **$tx)
        .await?
        .rows_affected()
            < 5_000
    };
}

/// Deletes tables with many rows per item, at most 5,000 rows of each. Returns false if there are more.
pub async fn remove_history(tx: &mut Tx, item_ids: &[Uuid]) -> Result<bool, sqlx::Error> {
    let attempts = delete_batch!("attempt", "item_id = any($1::uuid[])", tx, item_ids);
    let edits = delete_batch!("item_edit", "item_id = any($1::uuid[])", tx, item_ids);
    let logs = delete_batch!("attempt_log", "item_id = any($1::uuid[])", tx, item_ids);
    let sizes = delete_batch!("attempt_log_size", "item_id = any($1::uuid[])", tx, item_ids);
    Ok(attempts && edits && logs && sizes)
}

/// Deletes items and all tables with one row per item.
pub async fn remove_items(tx: &mut Tx, item_ids: &[Uuid]) -> Result<(), sqlx::Error> {
    sqlx::query!("delete from ready where item_id = any($1::uuid[])", item_ids).execute(&mut **tx).await?;
    sqlx::query!("delete from deferred where item_id = any($1::uuid[])", item_ids).execute(&mut **tx).await?;
    sqlx::query!("delete from blocked where item_id = any($1::uuid[])", item_ids).execute(&mut **tx).await?;
    sqlx::query!("delete from serialize_queue_entry where item_id = any($1::uuid[])", item_ids)
        .execute(&mut **tx)
        .await?;
    sqlx::query!("delete from feed_remainder where item_id = any($1::uuid[])", item_ids).execute(&mut **tx).await?;
    sqlx::query!("delete from event_wait where item_id = any($1::uuid[])", item_ids).execute(&mut **tx).await?;
    // In the order in which items with these keys are added.
    sqlx::query!(
        "with pick as materialized (
           select item_id from debounce where item_id = any($1::uuid[]) order by type_id, owner_id, key for update)
         delete from debounce where item_id = any(array(select item_id from pick))",
        item_ids
    )
    .execute(&mut **tx)
    .await?;
    sqlx::query!("delete from item_step where item_id = any($1::uuid[])", item_ids).execute(&mut **tx).await?;
    sqlx::query!("delete from earlier_step where item_id = any($1::uuid[])", item_ids).execute(&mut **tx).await?;
    sqlx::query!("delete from outcome where item_id = any($1::uuid[])", item_ids).execute(&mut **tx).await?;
    sqlx::query!("delete from item where id = any($1::uuid[])", item_ids).execute(&mut **tx).await?;
    Ok(())
}

/// Records the progress of a purge.
pub async fn advance_purge(tx: &mut Tx, job_key: i64, seq: i64) -> Result<(), sqlx::Error> {
    sqlx::query!("update purge set seq = $2 where job_key = $1", job_key, seq).execute(&mut **tx).await?;
    Ok(())
}

/// Deletes tables with many rows per job, at most 5,000 rows of each. Returns false if there are more.
pub async fn remove_keys(tx: &mut Tx, job_keys: &[i64]) -> Result<bool, sqlx::Error> {
    let keys = delete_batch!("item_dedupe", "job_key = any($1::bigint[])", tx, job_keys);
    let groups = delete_batch!("error_group", "job_key = any($1::bigint[])", tx, job_keys);
    let history = delete_batch!("job_history", "job_key = any($1::bigint[])", tx, job_keys);
    Ok(keys && groups && history)
}

/// Deletes jobs without other rows.
pub async fn remove_jobs(tx: &mut Tx, job_keys: &[i64]) -> Result<(), sqlx::Error> {
    sqlx::query!("delete from import_cursor where job_key = any($1::bigint[])", job_keys).execute(&mut **tx).await?;
    sqlx::query!("delete from completion_check where job_key = any($1::bigint[])", job_keys).execute(&mut **tx).await?;
    sqlx::query!("delete from job_edit where job_key = any($1::bigint[])", job_keys).execute(&mut **tx).await?;
    sqlx::query!("delete from deadline where job_key = any($1::bigint[])", job_keys).execute(&mut **tx).await?;
    sqlx::query!("delete from maintenance_check where job_key = any($1::bigint[])", job_keys)
        .execute(&mut **tx)
        .await?;
    sqlx::query!("delete from job where job_key = any($1::bigint[])", job_keys).execute(&mut **tx).await?;
    sqlx::query!("delete from job_state where job_key = any($1::bigint[])", job_keys).execute(&mut **tx).await?;
    sqlx::query!("delete from purge where job_key = any($1::bigint[])", job_keys).execute(&mut **tx).await?;
    Ok(())
}
