//! Replays of trees: the definition is copied within the database, and items follow in steps (`replay`).

use sqlx::PgPool;
use time::OffsetDateTime;
use uuid::Uuid;

use super::{Tx, idempotency::KeyName, jobs::JobKey};

/// A job to be replayed, and its copy.
#[derive(Clone, Copy, Debug)]
pub struct Copied {
    pub from_gate_id: i64,
    pub id: Uuid,
    pub gate_id: i64,
    pub ord: i32,
    pub parent_id: Option<Uuid>,
    pub turn_gate_id: i64,
}

/// Inserts copies of jobs with the definition of the originals, without run_after. `replay_of` is set on the root.
/// `alone` makes a tree of one job without dependencies.
pub async fn copy_jobs(
    tx: &mut Tx,
    root_id: Uuid,
    replay_of: Uuid,
    jobs: &[Copied],
    alone: bool,
    asked: (Uuid, bool),
) -> Result<u64, sqlx::Error> {
    let done = sqlx::query!(
        r#"insert into job (id, root_id, gate_id, ord, parent_id, owner_id, type_id, key, name, delivery, max_failures,
             steps, payload_schema, retain_seconds, priority, expires_at, expected_count, final_stage, feed, after,
             after_outcome, metadata, dedupe_key, initiated_by, on_completed, upload_id, replay_of, turn_gate_id,
             asked_by, asked_sees_all)
           select n.id, $1, n.gate_id, n.ord, n.parent_id, j.owner_id, j.type_id, j.key, j.name, j.delivery,
             j.max_failures, j.steps, j.payload_schema, j.retain_seconds, j.priority,
             case when not $8::bool then j.expires_at end,
             case when not $8::bool then j.expected_count end, j.final_stage and not $8::bool,
             case when not $8::bool then j.feed end,
             case when $8::bool then '{}'::text[] else j.after end,
             case when not $8::bool then j.after_outcome end, j.metadata,
             case when not $8::bool then j.dedupe_key end, j.initiated_by,
             case when not $8::bool then j.on_completed end,
             case when not $8::bool then j.upload_id end,
             case when n.parent_id is null then $2::uuid end, n.turn_gate_id,
             $10::uuid, j.asked_sees_all and $11::bool
           from unnest($3::bigint[], $4::uuid[], $5::bigint[], $6::int[], $7::uuid[], $9::bigint[])
             as n (from_gate_id, id, gate_id, ord, parent_id, turn_gate_id)
           join job j on j.gate_id = n.from_gate_id"#,
        root_id,
        replay_of,
        &column(jobs, |j| j.from_gate_id),
        &column(jobs, |j| j.id),
        &column(jobs, |j| j.gate_id),
        &column(jobs, |j| j.ord),
        &column(jobs, |j| j.parent_id) as &[Option<Uuid>],
        alone,
        &column(jobs, |j| j.turn_gate_id),
        asked.0,
        asked.1,
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
pub struct CopiedGate {
    pub gate_id: i64,
    pub solo: bool,
    pub sealed: bool,
    /// 1 while its items follow.
    pub open_feeds: i32,
    pub open_jobs: i32,
    pub after_open: i32,
    pub holds: i32,
}

/// Writes the job state rows; the definitions are there.
pub async fn insert_gates(tx: &mut Tx, root_id: Uuid, gates: &[CopiedGate]) -> Result<(), sqlx::Error> {
    sqlx::query!(
        "insert into gate (gate_id, root_id, solo, sealed, open_feeds, open_jobs, after_open, holds, calls)
         select gate_id, $1, solo, sealed, open_feeds, open_jobs, after_open, holds,
           exists (select 1 from job j where j.gate_id = new.gate_id and j.on_completed is not null)
         from unnest($2::bigint[], $3::bool[], $4::bool[], $5::int[], $6::int[], $7::int[], $8::int[])
           as new (gate_id, solo, sealed, open_feeds, open_jobs, after_open, holds)",
        root_id,
        &column(gates, |g| g.gate_id),
        &column(gates, |g| g.solo),
        &column(gates, |g| g.sealed),
        &column(gates, |g| g.open_feeds),
        &column(gates, |g| g.open_jobs),
        &column(gates, |g| g.after_open),
        &column(gates, |g| g.holds),
    )
    .execute(&mut **tx)
    .await?;
    Ok(())
}

/// Records the times at which copied jobs are sealed because they expire (`start-and-expiry`).
pub async fn copy_deadlines(tx: &mut Tx, root_id: Uuid) -> Result<(), sqlx::Error> {
    sqlx::query!(
        "insert into deadline (gate_id, expires_at)
         select gate_id, expires_at from job where root_id = $1 and expires_at is not null",
        root_id
    )
    .execute(&mut **tx)
    .await?;
    Ok(())
}

/// Records the tree that the Idempotency-Key of this transaction's call has created.
pub async fn name_tree(tx: &mut Tx, name: &KeyName, root_id: Uuid) -> Result<(), sqlx::Error> {
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
pub async fn job_keys(tx: &mut Tx, root_id: Uuid) -> Result<Vec<(i64, JobKey)>, sqlx::Error> {
    let rows = sqlx::query!(
        r#"select gate_id, owner_id, type_id, dedupe_key as "key!" from job
           where root_id = $1 and dedupe_key is not null"#,
        root_id
    )
    .fetch_all(&mut **tx)
    .await?;
    Ok(rows
        .into_iter()
        .map(|row| (row.gate_id, JobKey { owner_id: row.owner_id, type_id: row.type_id, key: row.key }))
        .collect())
}

/// Jobs that have had items.
pub async fn with_items(tx: &mut Tx, gate_ids: &[i64]) -> Result<Vec<i64>, sqlx::Error> {
    sqlx::query_scalar!("select gate_id from gate where gate_id = any($1::bigint[]) and next_seq > 1", gate_ids)
        .fetch_all(&mut **tx)
        .await
}

/// Takes a share lock on a root's job state row, so that its tree is neither deleted nor reopened meanwhile. Returns
/// true if it exists.
pub async fn share_root(tx: &mut Tx, root_gate: i64) -> Result<bool, sqlx::Error> {
    let found = sqlx::query_scalar!("select removed_at is null from gate where gate_id = $1 for share", root_gate)
        .fetch_optional(&mut **tx)
        .await?;
    Ok(found.flatten().unwrap_or(false))
}

/// A copied job whose items are being copied.
#[derive(Clone, Copy, Debug)]
pub struct Copying {
    pub root_id: Uuid,
    pub gate_id: i64,
    pub from_gate_id: i64,
    /// Items up to this sequence number are done.
    pub seq: i64,
}

/// Starts copying the items of a tree.
pub async fn begin(tx: &mut Tx, root_id: Uuid, from_root_id: Uuid, gates: &[(i64, i64)]) -> Result<(), sqlx::Error> {
    sqlx::query!("insert into replaying (root_id, from_root_id) values ($1, $2)", root_id, from_root_id)
        .execute(&mut **tx)
        .await?;
    sqlx::query!(
        "insert into copying (root_id, gate_id, from_gate_id) select $1, * from unnest($2::bigint[], $3::bigint[])",
        root_id,
        &column(gates, |g| g.0),
        &column(gates, |g| g.1),
    )
    .execute(&mut **tx)
    .await?;
    Ok(())
}

/// Trees whose items are being copied, with their originals; at most `limit`.
pub async fn open(pool: &PgPool, limit: i64) -> Result<Vec<(Uuid, Uuid)>, sqlx::Error> {
    let rows = sqlx::query!("select root_id, from_root_id from replaying order by root_id limit $1", limit)
        .fetch_all(pool)
        .await?;
    Ok(rows.into_iter().map(|row| (row.root_id, row.from_root_id)).collect())
}

/// The next job of a tree whose items are copied.
pub async fn next(pool: &PgPool, root_id: Uuid) -> Result<Option<Copying>, sqlx::Error> {
    sqlx::query_as!(
        Copying,
        "select root_id, gate_id, from_gate_id, seq from copying where root_id = $1 order by gate_id limit 1",
        root_id
    )
    .fetch_optional(pool)
    .await
}

/// Advances a job's position; `to` is `None` at its end. Returns false if another transaction has advanced it; this
/// transaction must then be rolled back. Requires the lock of the job state row.
pub async fn moved(tx: &mut Tx, copying: &Copying, to: Option<i64>) -> Result<bool, sqlx::Error> {
    let done = match to {
        Some(to) => {
            sqlx::query!(
                "update copying set seq = $4 where root_id = $1 and gate_id = $2 and seq = $3",
                copying.root_id,
                copying.gate_id,
                copying.seq,
                to
            )
            .execute(&mut **tx)
            .await?
        }
        None => {
            sqlx::query!(
                "delete from copying where root_id = $1 and gate_id = $2 and seq = $3",
                copying.root_id,
                copying.gate_id,
                copying.seq
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
        "delete from replaying r where root_id = $1 and not exists (select 1 from copying c where c.root_id = r.root_id)",
        root_id
    )
    .execute(&mut **tx)
    .await?;
    Ok(done.rows_affected() == 1)
}

/// An item of the original job.
#[derive(Clone, Copy, Debug)]
pub struct Met {
    pub id: Uuid,
    pub seq: i64,
    /// True if a feed made it: the feed will make it again.
    pub fed: bool,
    /// Bytes of its payload.
    pub bytes: i32,
}

/// The next items of a job, in order.
pub async fn met(tx: &mut Tx, gate_id: i64, after: i64, limit: i64) -> Result<Vec<Met>, sqlx::Error> {
    sqlx::query_as!(
        Met,
        r#"select id, seq, fed_by is not null as "fed!", octet_length(payload) as "bytes!"
           from item where gate_id = $1 and seq > $2 order by seq limit $3"#,
        gate_id,
        after,
        limit
    )
    .fetch_all(&mut **tx)
    .await
}

/// An item to be copied.
#[derive(Clone, Debug)]
pub struct Source {
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
pub async fn sources(tx: &mut Tx, ids: &[Uuid]) -> Result<Vec<Source>, sqlx::Error> {
    sqlx::query_as!(
        Source,
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
pub async fn key_holder(tx: &mut Tx, key: &JobKey) -> Result<Option<Uuid>, sqlx::Error> {
    sqlx::query_scalar!(
        "select job_id from job_dedupe where owner_id = $1 and type_id = $2 and key = $3",
        key.owner_id,
        key.type_id,
        key.key
    )
    .fetch_optional(&mut **tx)
    .await
}
