//! Replays of trees: the definition is copied within the database, and items follow in steps (`replay`).

use sqlx::PgPool;
use time::OffsetDateTime;
use uuid::Uuid;

use crate::store::{Tx, enqueue::idempotency::KeyName, tree::jobs::JobDedupeKey};

/// A job to be replayed, and its copy.
#[derive(Clone, Copy, Debug)]
pub struct JobCopy {
    pub from_job_key: i64,
    pub id: Uuid,
    pub job_key: i64,
    pub ord: i32,
    pub parent_id: Option<Uuid>,
    pub fair_turn_job_key: i64,
}

/// Inserts copies of jobs with the definition of the originals, without run_after. `replay_of` is set on the root.
/// `alone` makes a tree of one job without dependencies.
pub async fn copy_jobs(
    tx: &mut Tx,
    root_id: Uuid,
    replay_of: Uuid,
    jobs: &[JobCopy],
    alone: bool,
    requester: (Uuid, bool),
) -> Result<u64, sqlx::Error> {
    let done = sqlx::query!(
        r#"insert into job (id, root_id, job_key, ord, parent_id, owner_id, type_id, key, name, delivery, max_failures,
             steps, payload_schema, retain_seconds, priority, expires_at, expected_count, final_stage, feed, after,
             after_outcome, metadata, dedupe_key, initiated_by, on_completed, upload_id, replay_of, fair_turn_job_key,
             requested_by, requester_sees_all)
           select n.id, $1, n.job_key, n.ord, n.parent_id, j.owner_id, j.type_id, j.key, j.name, j.delivery,
             j.max_failures, j.steps, j.payload_schema, j.retain_seconds, j.priority,
             case when not $8::bool then j.expires_at end,
             case when not $8::bool then j.expected_count end, j.final_stage and not $8::bool,
             case when not $8::bool then j.feed end,
             case when $8::bool then '{}'::text[] else j.after end,
             case when not $8::bool then j.after_outcome end, j.metadata,
             case when not $8::bool then j.dedupe_key end, j.initiated_by,
             case when not $8::bool then j.on_completed end,
             case when not $8::bool then j.upload_id end,
             case when n.parent_id is null then $2::uuid end, n.fair_turn_job_key,
             $10::uuid, j.requester_sees_all and $11::bool
           from unnest($3::bigint[], $4::uuid[], $5::bigint[], $6::int[], $7::uuid[], $9::bigint[])
             as n (from_job_key, id, job_key, ord, parent_id, fair_turn_job_key)
           join job j on j.job_key = n.from_job_key"#,
        root_id,
        replay_of,
        &column(jobs, |j| j.from_job_key),
        &column(jobs, |j| j.id),
        &column(jobs, |j| j.job_key),
        &column(jobs, |j| j.ord),
        &column(jobs, |j| j.parent_id) as &[Option<Uuid>],
        alone,
        &column(jobs, |j| j.fair_turn_job_key),
        requester.0,
        requester.1,
    )
    .execute(&mut **tx)
    .await?;
    Ok(done.rows_affected())
}

fn column<'a, R, T>(rows: &'a [R], of: impl Fn(&'a R) -> T) -> Vec<T> {
    rows.iter().map(of).collect()
}

/// The job state row of a copied job.
#[derive(Clone, Copy, Debug)]
pub struct JobStateCopy {
    pub job_key: i64,
    pub solo: bool,
    pub sealed: bool,
    /// 1 while its items follow.
    pub open_feeds: i32,
    pub open_jobs: i32,
    pub after_open: i32,
    pub holds: i32,
}

/// Writes the job state rows; the definitions are there.
pub async fn insert_job_states(tx: &mut Tx, root_id: Uuid, job_states: &[JobStateCopy]) -> Result<(), sqlx::Error> {
    sqlx::query!(
        "insert into job_state (job_key, root_id, solo, sealed, open_feeds, open_jobs, after_open, holds, calls)
         select job_key, $1, solo, sealed, open_feeds, open_jobs, after_open, holds,
           exists (select 1 from job j where j.job_key = new.job_key and j.on_completed is not null)
         from unnest($2::bigint[], $3::bool[], $4::bool[], $5::int[], $6::int[], $7::int[], $8::int[])
           as new (job_key, solo, sealed, open_feeds, open_jobs, after_open, holds)",
        root_id,
        &column(job_states, |g| g.job_key),
        &column(job_states, |g| g.solo),
        &column(job_states, |g| g.sealed),
        &column(job_states, |g| g.open_feeds),
        &column(job_states, |g| g.open_jobs),
        &column(job_states, |g| g.after_open),
        &column(job_states, |g| g.holds),
    )
    .execute(&mut **tx)
    .await?;
    Ok(())
}

/// Jobs whose file was read only in part, because they were canceled or sealed before its end.
pub async fn partly_imported(tx: &mut Tx, job_keys: &[i64]) -> Result<Vec<i64>, sqlx::Error> {
    sqlx::query_scalar!(
        "select job_key from import_cursor
         where job_key = any($1::bigint[]) and (done_at is null or failed is not null)",
        job_keys
    )
    .fetch_all(&mut **tx)
    .await
}

/// Copies the positions in the files of jobs: lists read the columns there, and a file that was read only in part is
/// continued.
pub async fn copy_import_cursors(tx: &mut Tx, jobs: &[JobCopy]) -> Result<(), sqlx::Error> {
    sqlx::query!(
        "insert into import_cursor (job_key, job_id, upload_id, format, head, byte_offset, line, done_at)
         select n.job_key, n.id, c.upload_id, c.format, c.head, c.byte_offset, c.line,
           case when c.failed is null then c.done_at end
         from unnest($1::bigint[], $2::bigint[], $3::uuid[]) as n (from_job_key, job_key, id)
         join import_cursor c on c.job_key = n.from_job_key",
        &column(jobs, |j| j.from_job_key),
        &column(jobs, |j| j.job_key),
        &column(jobs, |j| j.id),
    )
    .execute(&mut **tx)
    .await?;
    Ok(())
}

/// Records the times at which copied jobs are sealed because they expire (`start-and-expiry`).
pub async fn copy_deadlines(tx: &mut Tx, root_id: Uuid) -> Result<(), sqlx::Error> {
    sqlx::query!(
        "insert into deadline (job_key, expires_at)
         select job_key, expires_at from job where root_id = $1 and expires_at is not null",
        root_id
    )
    .execute(&mut **tx)
    .await?;
    Ok(())
}

/// Records the tree that the Idempotency-Key of this transaction's call has created.
pub async fn set_key_tree(tx: &mut Tx, name: &KeyName, root_id: Uuid) -> Result<(), sqlx::Error> {
    sqlx::query!(
        "update idempotency set job_id = $4, status = 201 where owner_id = $1 and scope = $2 and key = $3",
        name.owner_id,
        name.scope,
        name.key,
        root_id
    )
    .execute(&mut **tx)
    .await?;
    Ok(())
}

/// Dedupe keys of the jobs of a tree by job key, whether or not another job holds them now.
pub async fn dedupe_keys(tx: &mut Tx, root_id: Uuid) -> Result<Vec<(i64, JobDedupeKey)>, sqlx::Error> {
    let rows = sqlx::query!(
        r#"select job_key, owner_id, type_id, dedupe_key as "key!" from job
           where root_id = $1 and dedupe_key is not null"#,
        root_id
    )
    .fetch_all(&mut **tx)
    .await?;
    Ok(rows
        .into_iter()
        .map(|row| (row.job_key, JobDedupeKey { owner_id: row.owner_id, type_id: row.type_id, key: row.key }))
        .collect())
}

/// Jobs that have had items.
pub async fn with_items(tx: &mut Tx, job_keys: &[i64]) -> Result<Vec<i64>, sqlx::Error> {
    sqlx::query_scalar!("select job_key from job_state where job_key = any($1::bigint[]) and next_seq > 1", job_keys)
        .fetch_all(&mut **tx)
        .await
}

/// Takes a share lock on a root's job state row, so that its tree is neither deleted nor reopened meanwhile. Returns
/// true if it exists.
pub async fn share_root(tx: &mut Tx, root_job_key: i64) -> Result<bool, sqlx::Error> {
    let found =
        sqlx::query_scalar!("select deleted_at is null from job_state where job_key = $1 for share", root_job_key)
            .fetch_optional(&mut **tx)
            .await?;
    Ok(found.flatten().unwrap_or(false))
}

/// A copied job whose items are being copied.
#[derive(Clone, Copy, Debug)]
pub struct ReplayCopy {
    pub root_id: Uuid,
    pub job_key: i64,
    pub from_job_key: i64,
    /// Items up to this sequence number are done.
    pub seq: i64,
}

/// Starts copying the items of a tree.
pub async fn begin(
    tx: &mut Tx,
    root_id: Uuid,
    from_root_id: Uuid,
    job_states: &[(i64, i64)],
) -> Result<(), sqlx::Error> {
    sqlx::query!("insert into replay (root_id, from_root_id) values ($1, $2)", root_id, from_root_id)
        .execute(&mut **tx)
        .await?;
    sqlx::query!(
        "insert into replay_copy (root_id, job_key, from_job_key) select $1, * from unnest($2::bigint[], $3::bigint[])",
        root_id,
        &column(job_states, |g| g.0),
        &column(job_states, |g| g.1),
    )
    .execute(&mut **tx)
    .await?;
    Ok(())
}

/// Trees whose items are being copied, with their originals; at most `limit`.
pub async fn open(pool: &PgPool, limit: i64) -> Result<Vec<(Uuid, Uuid)>, sqlx::Error> {
    let rows = sqlx::query!("select root_id, from_root_id from replay order by root_id limit $1", limit)
        .fetch_all(pool)
        .await?;
    Ok(rows.into_iter().map(|row| (row.root_id, row.from_root_id)).collect())
}

/// The next job of a tree whose items are copied.
pub async fn next(pool: &PgPool, root_id: Uuid) -> Result<Option<ReplayCopy>, sqlx::Error> {
    sqlx::query_as!(
        ReplayCopy,
        "select root_id, job_key, from_job_key, seq from replay_copy where root_id = $1 order by job_key limit 1",
        root_id
    )
    .fetch_optional(pool)
    .await
}

/// Advances a job's position; `to` is `None` at its end. Returns false if another transaction has advanced it; this
/// transaction must then be rolled back. Requires the lock of the job state row.
pub async fn advance(tx: &mut Tx, copy: &ReplayCopy, to: Option<i64>) -> Result<bool, sqlx::Error> {
    let done = match to {
        Some(to) => {
            sqlx::query!(
                "update replay_copy set seq = $4 where root_id = $1 and job_key = $2 and seq = $3",
                copy.root_id,
                copy.job_key,
                copy.seq,
                to
            )
            .execute(&mut **tx)
            .await?
        }
        None => {
            sqlx::query!(
                "delete from replay_copy where root_id = $1 and job_key = $2 and seq = $3",
                copy.root_id,
                copy.job_key,
                copy.seq
            )
            .execute(&mut **tx)
            .await?
        }
    };
    Ok(done.rows_affected() == 1)
}

/// Ends the copying of a tree that has all its items. Returns false if it has not or another transaction ended it.
pub async fn end(tx: &mut Tx, root_id: Uuid) -> Result<bool, sqlx::Error> {
    let done = sqlx::query!(
        "delete from replay r where root_id = $1 and not exists (select 1 from replay_copy c where c.root_id = r.root_id)",
        root_id
    )
    .execute(&mut **tx)
    .await?;
    Ok(done.rows_affected() == 1)
}

/// An item of the original job.
#[derive(Clone, Copy, Debug)]
pub struct ReplayedItem {
    pub id: Uuid,
    pub seq: i64,
    /// True if a feed made it: the feed will make it again.
    pub fed: bool,
    /// Bytes of its payload.
    pub bytes: i32,
}

/// The next items of a job, in order.
pub async fn next_items(tx: &mut Tx, job_key: i64, after: i64, limit: i64) -> Result<Vec<ReplayedItem>, sqlx::Error> {
    sqlx::query_as!(
        ReplayedItem,
        r#"select id, seq, fed_by is not null as "fed!", octet_length(payload) as "bytes!"
           from item where job_key = $1 and seq > $2 order by seq limit $3"#,
        job_key,
        after,
        limit
    )
    .fetch_all(&mut **tx)
    .await
}

/// An item to be copied.
#[derive(Clone, Debug)]
pub struct SourceItem {
    pub id: Uuid,
    pub seq: i64,
    pub row: Option<i64>,
    pub priority: i16,
    /// The current payload: the last edit, or the original.
    pub payload: String,
    pub metadata: Option<String>,
    pub dedupe_key: Option<String>,
    pub serialize_key: Option<String>,
    pub expires_at: Option<OffsetDateTime>,
    /// Error of an item that was dead before its first attempt and was never repaired.
    pub dead_message: Option<String>,
    pub dead_kind: Option<String>,
    pub dead_detail: Option<String>,
}

/// Items in order of their sequence numbers. `ids` sorted.
pub async fn sources(tx: &mut Tx, ids: &[Uuid]) -> Result<Vec<SourceItem>, sqlx::Error> {
    sqlx::query_as!(
        SourceItem,
        r#"select i.id, i.seq, i.row, i.priority, coalesce(e.payload, i.payload) as "payload!", i.metadata,
             i.dedupe_key, i.serialize_key, i.expires_at, o.error_message as "dead_message?",
             o.error_kind as "dead_kind?", o.error_detail as "dead_detail?"
           from item i
           left join lateral (
             select e.payload from item_edit e where e.item_id = i.id order by e.edit desc limit 1) e on true
           left join outcome o on o.item_id = i.id and (o.state = 2 or o.superseded_by is not null)
             and o.attempt = 0 and e.payload is null
           where i.id = any($1::uuid[]) order by i.seq"#,
        ids
    )
    .fetch_all(&mut **tx)
    .await
}

/// The job that holds a dedupe key.
pub async fn key_holder(tx: &mut Tx, key: &JobDedupeKey) -> Result<Option<Uuid>, sqlx::Error> {
    sqlx::query_scalar!(
        "select job_id from job_dedupe where owner_id = $1 and type_id = $2 and key = $3",
        key.owner_id,
        key.type_id,
        key.key
    )
    .fetch_optional(&mut **tx)
    .await
}
