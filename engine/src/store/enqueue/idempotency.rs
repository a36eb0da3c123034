//! Idempotency-Keys: the request of a key, and its response (`idempotency-key`).
//!
//! A key is written in the transaction of what it creates: both exist or neither. Every write is guarded by the state
//! that the caller has read, and returns whether the guard held: of two servers with the same key, one learns that it
//! must read again. Keys are locked before anything else, sorted.

use std::ops::Range;

use sqlx::{PgExecutor, PgPool};
use uuid::Uuid;

use crate::store::Tx;

/// A key in the namespace of its owner and of the user that the owner acts for (empty: none).
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KeyName {
    pub owner_id: Uuid,
    pub scope: String,
    pub key: String,
}

/// A key as stored.
#[derive(Clone, Debug)]
pub struct IdempotencyRecord {
    /// Call that it was used for, such as `POST /jobs`.
    pub call: String,
    /// SHA-256 of the body.
    pub fingerprint: Vec<u8>,
    /// Root of the created tree.
    pub job_id: Option<Uuid>,
    pub status: Option<i16>,
    pub answer: Option<String>,
    /// Lines of a stream that are committed.
    pub lines: i64,
    /// The window has passed.
    pub window_over: bool,
    /// The tree has been deleted.
    pub deleted: bool,
    pub complete: bool,
    /// Outcome of the tree: 1 succeeded, 2 partial, 3 failed, 4 canceled.
    pub outcome: Option<i16>,
}

impl IdempotencyRecord {
    /// True if the key has expired: its window has passed and its tree is complete.
    pub fn lapsed(&self) -> bool {
        self.window_over && (self.job_id.is_none() || self.deleted || self.complete)
    }
}

/// A stored key.
pub async fn find(pool: &PgPool, name: &KeyName) -> Result<Option<IdempotencyRecord>, sqlx::Error> {
    #[cfg(feature = "failpoints")]
    if crate::failpoints::broken("no_lookup", file!()) {
        return Ok(None);
    }
    sqlx::query_as!(
        IdempotencyRecord,
        r#"select i.call, i.fingerprint, i.job_id, i.status, i.answer, i.lines,
             i.lapses_at <= clock_timestamp() as "window_over!",
             i.job_id is not null and (g.job_key is null or g.deleted_at is not null) as "deleted!",
             coalesce(g.tree_completed_at is not null, false) as "complete!", g.tree_outcome as "outcome?"
           from idempotency i
           left join job j on j.id = i.job_id
           left join job_state g on g.job_key = j.job_key
           where i.owner_id = $1 and i.scope = $2 and i.key = $3"#,
        name.owner_id,
        name.scope,
        name.key
    )
    .fetch_optional(pool)
    .await
}

/// Trees of this key, of one owner or of all; at most a thousand, one for each owner and acted-for user.
pub async fn trees_of_key(pool: &PgPool, key: &str, owner_id: Option<Uuid>) -> Result<Vec<Uuid>, sqlx::Error> {
    sqlx::query_scalar!(
        r#"select job_id as "job_id!" from idempotency
           where key = $1 and job_id is not null and ($2::uuid is null or owner_id = $2) limit 1000"#,
        key,
        owner_id
    )
    .fetch_all(pool)
    .await
}

/// Keys of trees in a range of bytes, in their order, for whomever the owner acted.
pub async fn keys_of_trees(pool: &PgPool, owner_id: Uuid, range: &Range<String>) -> Result<Vec<String>, sqlx::Error> {
    sqlx::query_scalar!(
        "select key from idempotency
         where owner_id = $1 and key ~>=~ $2 and key ~<~ $3 and job_id is not null order by key using ~<~",
        owner_id,
        range.start,
        range.end
    )
    .fetch_all(pool)
    .await
}

/// A key that is to name a new tree.
#[derive(Clone, Debug)]
pub struct NewKey<'a> {
    pub name: &'a KeyName,
    pub call: &'a str,
    pub fingerprint: &'a [u8],
    pub job_id: Uuid,
}

/// Inserts new keys, sorted by name. Returns the jobs whose keys were free. Waits for concurrent inserts of the same
/// keys.
pub async fn insert(tx: &mut Tx, keys: &[NewKey<'_>], window_seconds: f64) -> Result<Vec<Uuid>, sqlx::Error> {
    let owners: Vec<Uuid> = keys.iter().map(|k| k.name.owner_id).collect();
    let scopes: Vec<&str> = keys.iter().map(|k| k.name.scope.as_str()).collect();
    let names: Vec<&str> = keys.iter().map(|k| k.name.key.as_str()).collect();
    let calls: Vec<&str> = keys.iter().map(|k| k.call).collect();
    let fingerprints: Vec<&[u8]> = keys.iter().map(|k| k.fingerprint).collect();
    let jobs: Vec<Uuid> = keys.iter().map(|k| k.job_id).collect();
    sqlx::query_scalar!(
        r#"insert into idempotency (owner_id, scope, key, call, fingerprint, job_id, lapses_at)
           select owner_id, scope, key, call, fingerprint, job_id, clock_timestamp() + make_interval(secs => $7)
           from unnest($1::uuid[], $2::text[], $3::text[], $4::text[], $5::bytea[], $6::uuid[])
             as new (owner_id, scope, key, call, fingerprint, job_id)
           order by owner_id, scope, key
           on conflict do nothing
           returning job_id as "job_id!""#,
        &owners,
        &scopes as &[&str],
        &names as &[&str],
        &calls as &[&str],
        &fingerprints as &[&[u8]],
        &jobs,
        window_seconds
    )
    .fetch_all(&mut **tx)
    .await
}

/// Assigns a key to another tree, with a new window; `before` is its current tree. `within` permits this although the
/// window has not passed. Returns false if the key has changed in the meantime.
pub async fn rename(
    tx: &mut Tx,
    key: &NewKey<'_>,
    before: Option<Uuid>,
    within: bool,
    window_seconds: f64,
) -> Result<bool, sqlx::Error> {
    let moved = sqlx::query!(
        "update idempotency set call = $4, fingerprint = $5, job_id = $6, status = null, answer = null, lines = 0,
           created_at = clock_timestamp(), lapses_at = clock_timestamp() + make_interval(secs => $8)
         where owner_id = $1 and scope = $2 and key = $3 and job_id is not distinct from $7
           and ($9 or lapses_at <= clock_timestamp())",
        key.name.owner_id,
        key.name.scope,
        key.name.key,
        key.call,
        key.fingerprint,
        key.job_id,
        before,
        window_seconds,
        within
    )
    .execute(&mut **tx)
    .await?;
    Ok(moved.rows_affected() == 1)
}

/// Marks a failed or canceled tree as superseded, under its job state row. Returns false if it is being retried and
/// so not in that state anymore.
pub async fn supersede(tx: &mut Tx, root_id: Uuid, by: Uuid) -> Result<bool, sqlx::Error> {
    let job_state = sqlx::query!(
        "update job_state set version = version + 1, updated_at = clock_timestamp()
         where job_key = (select j.job_key from job j where j.id = $1)
           and deleted_at is null and tree_completed_at is not null and tree_outcome in (3, 4)",
        root_id
    )
    .execute(&mut **tx)
    .await?;
    if job_state.rows_affected() == 0 {
        return Ok(false);
    }
    sqlx::query!("update job set superseded_by = $2 where id = $1", root_id, by).execute(&mut **tx).await?;
    Ok(true)
}

/// Deletes the dedupe keys of a tree's jobs for the tree that replaces it.
pub async fn free_job_keys(tx: &mut Tx, root_id: Uuid) -> Result<(), sqlx::Error> {
    sqlx::query!(
        "delete from job_dedupe d using job j
         where j.root_id = $1 and j.dedupe_key is not null
           and d.owner_id = j.owner_id and d.type_id = j.type_id and d.key = j.dedupe_key and d.job_id = j.id",
        root_id
    )
    .execute(&mut **tx)
    .await?;
    Ok(())
}

/// Progress of a call that does not create a tree.
#[derive(Clone, Copy, Debug)]
pub struct CallProgress<'a> {
    pub name: &'a KeyName,
    pub call: &'a str,
    /// Lines of a stream that are committed; 0 where there is no stream.
    pub lines: i64,
    /// SHA-256 of everything up to there.
    pub fingerprint: &'a [u8],
}

/// Inserts the key of a new call; an expired key counts as new. Returns false if the key is in use. Waits for a
/// concurrent insert of the same key.
pub async fn begin(
    executor: impl PgExecutor<'_>,
    call: &CallProgress<'_>,
    window_seconds: f64,
) -> Result<bool, sqlx::Error> {
    let begun = sqlx::query!(
        "insert into idempotency as i (owner_id, scope, key, call, fingerprint, lines, lapses_at)
         values ($1, $2, $3, $4, $5, $6, clock_timestamp() + make_interval(secs => $7))
         on conflict (owner_id, scope, key) do update
           set call = excluded.call, fingerprint = excluded.fingerprint, lines = excluded.lines, status = null,
             answer = null, job_id = null, created_at = clock_timestamp(), lapses_at = excluded.lapses_at
           where i.lapses_at <= clock_timestamp()
             and not exists (select 1 from job j join job_state g on g.job_key = j.job_key
                             where j.id = i.job_id and g.tree_completed_at is null and g.deleted_at is null)",
        call.name.owner_id,
        call.name.scope,
        call.name.key,
        call.call,
        call.fingerprint,
        call.lines,
        window_seconds
    )
    .execute(executor)
    .await?;
    Ok(begun.rows_affected() == 1)
}

/// Advances a key along a stream. Returns false if it is not at `before` lines anymore.
pub async fn advance(tx: &mut Tx, to: &CallProgress<'_>, before: i64) -> Result<bool, sqlx::Error> {
    let moved = sqlx::query!(
        "update idempotency set fingerprint = $5, lines = $6
         where owner_id = $1 and scope = $2 and key = $3 and call = $4 and lines = $7 and status is null",
        to.name.owner_id,
        to.name.scope,
        to.name.key,
        to.call,
        to.fingerprint,
        to.lines,
        before
    )
    .execute(&mut **tx)
    .await?;
    Ok(moved.rows_affected() == 1)
}

/// Stores the response: partial, or final with its HTTP status.
pub async fn answer(
    executor: impl PgExecutor<'_>,
    name: &KeyName,
    status: Option<i16>,
    answer: &str,
) -> Result<(), sqlx::Error> {
    sqlx::query!(
        "update idempotency set status = $4, answer = $5 where owner_id = $1 and scope = $2 and key = $3",
        name.owner_id,
        name.scope,
        name.key,
        status,
        answer
    )
    .execute(executor)
    .await?;
    Ok(())
}

/// Stores the HTTP status and the response that repeated requests get. Returns false if the call has ended.
pub async fn end(tx: &mut Tx, name: &KeyName, status: i16, answer: &str) -> Result<bool, sqlx::Error> {
    let ended = sqlx::query!(
        "update idempotency set status = $4, answer = $5
         where owner_id = $1 and scope = $2 and key = $3 and status is null",
        name.owner_id,
        name.scope,
        name.key,
        status,
        answer
    )
    .execute(&mut **tx)
    .await?;
    Ok(ended.rows_affected() == 1)
}

/// Deletes the key of a refused call, unless the call has ended.
pub async fn forget(executor: impl PgExecutor<'_>, name: &KeyName) -> Result<(), sqlx::Error> {
    sqlx::query!(
        "delete from idempotency where owner_id = $1 and scope = $2 and key = $3 and status is null",
        name.owner_id,
        name.scope,
        name.key
    )
    .execute(executor)
    .await?;
    Ok(())
}

/// Takes over a key whose call started at least `seconds` ago and was never answered: its server is gone. Returns
/// false if it was answered or is too recent.
pub async fn take_over(pool: &PgPool, name: &KeyName, seconds: f64) -> Result<bool, sqlx::Error> {
    let taken = sqlx::query!(
        "update idempotency set created_at = clock_timestamp()
         where owner_id = $1 and scope = $2 and key = $3 and status is null
           and created_at <= clock_timestamp() - make_interval(secs => $4)",
        name.owner_id,
        name.scope,
        name.key,
        seconds
    )
    .execute(pool)
    .await?;
    Ok(taken.rows_affected() == 1)
}

/// Types that require a key.
pub async fn types_requiring_key(tx: &mut Tx, type_ids: &[i32]) -> Result<Vec<i32>, sqlx::Error> {
    sqlx::query_scalar!("select id from job_type where id = any($1::int[]) and require_idempotency_key", type_ids)
        .fetch_all(&mut **tx)
        .await
}

/// Deletes expired keys, oldest first. Returns their number.
pub async fn sweep(pool: &PgPool, limit: i64) -> Result<u64, sqlx::Error> {
    let swept = sqlx::query!(
        "delete from idempotency where ctid = any(array(
           select i.ctid from idempotency i
           left join job j on j.id = i.job_id
           left join job_state g on g.job_key = j.job_key
           where i.lapses_at <= (select clock_timestamp())
             and (g.job_key is null or g.deleted_at is not null or g.tree_completed_at is not null)
           order by i.lapses_at limit $1
           for update of i skip locked))",
        limit
    )
    .execute(pool)
    .await?;
    Ok(swept.rows_affected())
}
