//! Keys of items in the order of lists, one index for each way to look, and the test that they all pass.
//!
//! A group of gates is either one, whose index is then read in order and may be as long as it likes, or
//! several small ones, whose keys are few and are sorted: an index scan over several gates is in no
//! order. So the statements come in pairs.

use sqlx::PgPool;
use time::OffsetDateTime;
use uuid::Uuid;

use super::finding::Position;

/// An item's id and its place.
#[derive(Clone, Copy, Debug)]
pub struct Key {
    pub id: Uuid,
    pub gate_id: i64,
    pub seq: i64,
}

/// Every item of one job behind a place.
pub async fn all_of_one(pool: &PgPool, gate_id: i64, seq: i64, limit: i64) -> Result<Vec<Key>, sqlx::Error> {
    sqlx::query_as!(
        Key,
        "select id, gate_id, seq from item where gate_id = $1 and seq > $2 order by seq limit $3",
        gate_id,
        seq,
        limit
    )
    .fetch_all(pool)
    .await
}

/// Every item of several small jobs behind a place.
pub async fn all_of(pool: &PgPool, gate_ids: &[i64], after: Position, limit: i64) -> Result<Vec<Key>, sqlx::Error> {
    sqlx::query_as!(
        Key,
        "select id, gate_id, seq from item
         where gate_id = any($1::bigint[]) and (gate_id, seq) > ($2::bigint, $3::bigint)
         order by gate_id, seq limit $4",
        gate_ids,
        after.0,
        after.1,
        limit
    )
    .fetch_all(pool)
    .await
}

/// Items of one job in these final states other than succeeded: one index scan for each state.
pub async fn unsuccessful_of_one(
    pool: &PgPool,
    gate_id: i64,
    states: &[i16],
    seq: i64,
    limit: i64,
) -> Result<Vec<Key>, sqlx::Error> {
    sqlx::query_as!(
        Key,
        r#"select o.item_id as "id!", o.gate_id as "gate_id!", o.seq as "seq!"
           from unnest($2::smallint[]) as s (state)
           cross join lateral (
             select item_id, gate_id, seq from outcome
             where gate_id = $1 and state = s.state and state <> 1 and seq > $3
             order by seq limit $4) o
           order by o.seq limit $4"#,
        gate_id,
        states,
        seq,
        limit
    )
    .fetch_all(pool)
    .await
}

/// The same of several small jobs.
pub async fn unsuccessful_of(
    pool: &PgPool,
    gate_ids: &[i64],
    states: &[i16],
    after: Position,
    limit: i64,
) -> Result<Vec<Key>, sqlx::Error> {
    sqlx::query_as!(
        Key,
        "select item_id as id, gate_id, seq from outcome
         where state = any($2::smallint[]) and state <> 1 and gate_id = any($1::bigint[])
           and (gate_id, seq) > ($3::bigint, $4::bigint)
         order by gate_id, seq limit $5",
        gate_ids,
        states,
        after.0,
        after.1,
        limit
    )
    .fetch_all(pool)
    .await
}

/// Items of one job whose last failure has this fingerprint.
pub async fn error_of_one(
    pool: &PgPool,
    gate_id: i64,
    fingerprint: &str,
    seq: i64,
    limit: i64,
) -> Result<Vec<Key>, sqlx::Error> {
    sqlx::query_as!(
        Key,
        "select item_id as id, gate_id, seq from outcome
         where fingerprint = $2 and gate_id = $1 and seq > $3 order by seq limit $4",
        gate_id,
        fingerprint,
        seq,
        limit
    )
    .fetch_all(pool)
    .await
}

/// The same of several small jobs.
pub async fn error_of(
    pool: &PgPool,
    gate_ids: &[i64],
    fingerprint: &str,
    after: Position,
    limit: i64,
) -> Result<Vec<Key>, sqlx::Error> {
    sqlx::query_as!(
        Key,
        "select item_id as id, gate_id, seq from outcome
         where fingerprint = $2 and gate_id = any($1::bigint[]) and (gate_id, seq) > ($3::bigint, $4::bigint)
         order by gate_id, seq limit $5",
        gate_ids,
        fingerprint,
        after.0,
        after.1,
        limit
    )
    .fetch_all(pool)
    .await
}

/// Which tables of pending items are looked at.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Held {
    pub running: bool,
    pub deferred: bool,
    pub blocked: bool,
}

/// Pending items of jobs that have few of them: all are read and sorted.
pub async fn held_of(
    pool: &PgPool,
    gate_ids: &[i64],
    held: Held,
    after: Position,
    limit: i64,
) -> Result<Vec<Key>, sqlx::Error> {
    sqlx::query_as!(
        Key,
        "select i.id, i.gate_id, i.seq
         from (
           select item_id from lease
           where $2::bool and gate_id = any($1::bigint[])
             and type_id = any(array(select type_id from job where gate_id = any($1::bigint[])))
           union all select item_id from deferred where $3::bool and gate_id = any($1::bigint[])
           union all select item_id from blocked where $4::bool and gate_id = any($1::bigint[])) h
         cross join lateral (select id, gate_id, seq from item where id = h.item_id offset 0) i
         where (i.gate_id, i.seq) > ($5::bigint, $6::bigint)
         order by i.gate_id, i.seq limit $7",
        gate_ids,
        held.running,
        held.deferred,
        held.blocked,
        after.0,
        after.1,
        limit
    )
    .fetch_all(pool)
    .await
}

/// Items by the first line of their record in the file.
pub async fn row_of(
    pool: &PgPool,
    gate_ids: &[i64],
    row: i64,
    after: Position,
    limit: i64,
) -> Result<Vec<Key>, sqlx::Error> {
    sqlx::query_as!(
        Key,
        "select id, gate_id, seq from item
         where gate_id = any($1::bigint[]) and row = $2 and row is not null
           and (gate_id, seq) > ($3::bigint, $4::bigint)
         order by gate_id, seq limit $5",
        gate_ids,
        row,
        after.0,
        after.1,
        limit
    )
    .fetch_all(pool)
    .await
}

/// Items by their dedupe key.
pub async fn deduped_of(
    pool: &PgPool,
    gate_ids: &[i64],
    key: &str,
    after: Position,
    limit: i64,
) -> Result<Vec<Key>, sqlx::Error> {
    sqlx::query_as!(
        Key,
        "select i.id, i.gate_id, i.seq from item_dedupe d join item i on i.id = d.item_id
         where d.gate_id = any($1::bigint[]) and d.key = $2 and (i.gate_id, i.seq) > ($3::bigint, $4::bigint)
         order by i.gate_id, i.seq limit $5",
        gate_ids,
        key,
        after.0,
        after.1,
        limit
    )
    .fetch_all(pool)
    .await
}

/// Items by their ids.
pub async fn named_of(
    pool: &PgPool,
    gate_ids: &[i64],
    ids: &[Uuid],
    after: Position,
    limit: i64,
) -> Result<Vec<Key>, sqlx::Error> {
    sqlx::query_as!(
        Key,
        "select i.id, i.gate_id, i.seq
         from unnest($2::uuid[]) as named (id)
         cross join lateral (select id, gate_id, seq from item where id = named.id offset 0) i
         where i.gate_id = any($1::bigint[]) and (i.gate_id, i.seq) > ($3::bigint, $4::bigint)
         order by i.gate_id, i.seq limit $5",
        gate_ids,
        ids,
        after.0,
        after.1,
        limit
    )
    .fetch_all(pool)
    .await
}

/// What keys are tested for; whatever is `None` is not.
#[derive(Clone, Debug, Default)]
pub struct Test {
    /// `ItemState::code`, any of these.
    pub states: Option<Vec<i16>>,
    pub fingerprint: Option<String>,
    /// The worker that holds it, or ended it.
    pub worker: Option<String>,
    pub dedupe_key: Option<String>,
    pub serialize_key: Option<String>,
    pub row: Option<i64>,
    /// The last step that it has reached.
    pub step: Option<String>,
    pub created_after: Option<OffsetDateTime>,
    pub created_before: Option<OffsetDateTime>,
    /// Part of payload or error, already escaped for `like`.
    pub text: Option<String>,
}

/// Those of these items that pass. The state is that of `reading::items`. The subqueries keep their
/// `offset 0`: each row is looked up by its key, whatever the planner thinks of a table's size.
pub async fn matching(pool: &PgPool, ids: &[Uuid], test: &Test) -> Result<Vec<Uuid>, sqlx::Error> {
    sqlx::query_scalar!(
        r#"select i.id
           from item i
           cross join lateral (select * from gate where gate_id = i.gate_id offset 0) g
           left join lateral (select * from outcome where item_id = i.id offset 0) o on true
           left join lateral (select * from lease where item_id = i.id offset 0) l on true
           left join lateral (select * from deferred where item_id = i.id offset 0) d on true
           left join lateral (select * from blocked where item_id = i.id offset 0) b on true
           where i.id = any($1::uuid[]) and g.removed_at is null
             and ($2::smallint[] is null or (case
               when o.item_id is not null then case
                 when o.state = 3 and o.error_kind = 'after_failed' and not g.after_failed and g.cancelled_at is null
                   then 9 else o.state end
               when l.item_id is not null then 6
               when g.cancelled_at is not null or g.after_failed then 3
               when d.item_id is not null then case when d.retryable then 7 else 8 end
               when b.item_id is not null then 9
               else 5 end) = any($2))
             and ($3::text is null or o.fingerprint = $3)
             and ($4::text is null or coalesce(l.worker_id, o.worker_id) = $4)
             and ($5::text is null or i.dedupe_key = $5)
             and ($6::text is null or i.serialize_key = $6)
             and ($7::bigint is null or i.row = $7)
             and ($8::timestamptz is null or i.created_at > $8)
             and ($9::timestamptz is null or i.created_at < $9)
             and ($10::text is null
               or coalesce((select e.payload from item_edit e where e.item_id = i.id order by e.edit desc limit 1),
                           i.payload) ilike $10
               or coalesce(o.error_message, (select a.error_message from attempt a where a.item_id = i.id
                           and a.error_message is not null order by a.attempt desc limit 1)) ilike $10)
             and ($11::text is null or (select s.name from item_step s where s.item_id = i.id) = $11)"#,
        ids,
        test.states.as_deref(),
        test.fingerprint,
        test.worker,
        test.dedupe_key,
        test.serialize_key,
        test.row,
        test.created_after,
        test.created_before,
        test.text,
        test.step
    )
    .fetch_all(pool)
    .await
}
