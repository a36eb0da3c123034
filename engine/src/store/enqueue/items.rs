//! Items, and the tables of pending items that are not running: `ready`, `deferred` and `blocked`.

use sqlx::PgPool;
use time::OffsetDateTime;
use uuid::Uuid;

use crate::store::Tx;

/// A new item.
#[derive(Clone, Debug)]
pub struct NewItemRow {
    pub id: Uuid,
    pub job_key: i64,
    pub seq: i64,
    pub row: Option<i64>,
    pub priority: i16,
    pub payload: String,
    pub metadata: Option<String>,
    pub dedupe_key: Option<String>,
    pub serialize_key: Option<String>,
    pub run_after: Option<OffsetDateTime>,
    pub expires_at: Option<OffsetDateTime>,
    /// The item of the parent that fed it.
    pub fed_by: Option<Uuid>,
    /// Trace context of the request that added it.
    pub traceparent: Option<String>,
}

/// Inserts items. They have no state yet: the caller inserts each into one of the state tables.
pub async fn insert(tx: &mut Tx, items: &[NewItemRow]) -> Result<(), sqlx::Error> {
    let ids: Vec<Uuid> = items.iter().map(|i| i.id).collect();
    let job_keys: Vec<i64> = items.iter().map(|i| i.job_key).collect();
    let seqs: Vec<i64> = items.iter().map(|i| i.seq).collect();
    let rows: Vec<Option<i64>> = items.iter().map(|i| i.row).collect();
    let priorities: Vec<i16> = items.iter().map(|i| i.priority).collect();
    let payloads: Vec<&str> = items.iter().map(|i| i.payload.as_str()).collect();
    let metadata: Vec<Option<&str>> = items.iter().map(|i| i.metadata.as_deref()).collect();
    let run_after: Vec<Option<OffsetDateTime>> = items.iter().map(|i| i.run_after).collect();
    let expires: Vec<Option<OffsetDateTime>> = items.iter().map(|i| i.expires_at).collect();
    let dedupe: Vec<Option<&str>> = items.iter().map(|i| i.dedupe_key.as_deref()).collect();
    let serialize: Vec<Option<&str>> = items.iter().map(|i| i.serialize_key.as_deref()).collect();
    let fed_by: Vec<Option<Uuid>> = items.iter().map(|i| i.fed_by).collect();
    let traceparents: Vec<Option<&str>> = items.iter().map(|i| i.traceparent.as_deref()).collect();
    sqlx::query!(
        "insert into item (id, job_key, seq, row, priority, payload, metadata, run_after, expires_at, dedupe_key,
           serialize_key, fed_by, traceparent, created_at)
         select id, job_key, seq, row, priority, payload, metadata, run_after, expires_at, dedupe_key, serialize_key,
           fed_by, traceparent, clock_timestamp()
         from unnest($1::uuid[], $2::bigint[], $3::bigint[], $4::bigint[], $5::smallint[], $6::text[], $7::text[],
                     $8::timestamptz[], $9::timestamptz[], $10::text[], $11::text[], $12::uuid[], $13::text[])
           as new (id, job_key, seq, row, priority, payload, metadata, run_after, expires_at, dedupe_key,
                   serialize_key, fed_by, traceparent)",
        &ids,
        &job_keys,
        &seqs,
        &rows as &[Option<i64>],
        &priorities,
        &payloads as &[&str],
        &metadata as &[Option<&str>],
        &run_after as &[Option<OffsetDateTime>],
        &expires as &[Option<OffsetDateTime>],
        &dedupe as &[Option<&str>],
        &serialize as &[Option<&str>],
        &fed_by as &[Option<Uuid>],
        &traceparents as &[Option<&str>],
    )
    .execute(&mut **tx)
    .await?;
    Ok(())
}

/// An item that may be claimed.
#[derive(Clone, Copy, Debug)]
pub struct ReadyRow {
    pub item_id: Uuid,
    pub job_key: i64,
    pub type_id: i32,
    pub negated_priority: i16,
    pub fair_turn: i64,
    pub expires_at: Option<OffsetDateTime>,
    pub attempts: i32,
    pub failures: i32,
    /// The serialize queue of its serialize key, which it heads.
    pub serialize_queue_id: Option<i64>,
}

/// Makes items claimable.
pub async fn make_ready(tx: &mut Tx, rows: &[ReadyRow]) -> Result<(), sqlx::Error> {
    if rows.is_empty() {
        return Ok(());
    }
    let ids: Vec<Uuid> = rows.iter().map(|r| r.item_id).collect();
    let job_keys: Vec<i64> = rows.iter().map(|r| r.job_key).collect();
    let types: Vec<i32> = rows.iter().map(|r| r.type_id).collect();
    let negated_priorities: Vec<i16> = rows.iter().map(|r| r.negated_priority).collect();
    let fair_turns: Vec<i64> = rows.iter().map(|r| r.fair_turn).collect();
    let expires: Vec<Option<OffsetDateTime>> = rows.iter().map(|r| r.expires_at).collect();
    let attempts: Vec<i32> = rows.iter().map(|r| r.attempts).collect();
    let failures: Vec<i32> = rows.iter().map(|r| r.failures).collect();
    let serialize_queues: Vec<Option<i64>> = rows.iter().map(|r| r.serialize_queue_id).collect();
    sqlx::query!(
        "insert into ready (item_id, job_key, type_id, negated_priority, fair_turn, expires_at, attempts, failures, serialize_queue_id)
         select * from unnest($1::uuid[], $2::bigint[], $3::int[], $4::smallint[], $5::bigint[],
                              $6::timestamptz[], $7::int[], $8::int[], $9::bigint[])",
        &ids,
        &job_keys,
        &types,
        &negated_priorities,
        &fair_turns,
        &expires as &[Option<OffsetDateTime>],
        &attempts,
        &failures,
        &serialize_queues as &[Option<i64>],
    )
    .execute(&mut **tx)
    .await?;
    Ok(())
}

/// An item that waits for a point in time.
#[derive(Clone, Copy, Debug)]
pub struct DeferredRow {
    pub item_id: Uuid,
    pub job_key: i64,
    pub type_id: i32,
    pub negated_priority: i16,
    pub due_at: OffsetDateTime,
    pub expires_at: Option<OffsetDateTime>,
    pub attempts: i32,
    pub failures: i32,
    /// After a failure (`retryable`), else for its run_after (`scheduled`).
    pub retryable: bool,
    /// Waits for an event: a row of `event_waits`, which `defer` does not write.
    pub for_event: bool,
    pub serialize_queue_id: Option<i64>,
}

impl ReadyRow {
    /// The row of this item if it may not start before `due_at`.
    pub fn scheduled(self, due_at: OffsetDateTime) -> DeferredRow {
        DeferredRow {
            item_id: self.item_id,
            job_key: self.job_key,
            type_id: self.type_id,
            negated_priority: self.negated_priority,
            due_at,
            expires_at: self.expires_at,
            attempts: self.attempts,
            failures: self.failures,
            retryable: false,
            for_event: false,
            serialize_queue_id: self.serialize_queue_id,
        }
    }
}

/// Defers items until they are due.
pub async fn defer(tx: &mut Tx, rows: &[DeferredRow]) -> Result<(), sqlx::Error> {
    if rows.is_empty() {
        return Ok(());
    }
    let ids: Vec<Uuid> = rows.iter().map(|r| r.item_id).collect();
    let job_keys: Vec<i64> = rows.iter().map(|r| r.job_key).collect();
    let types: Vec<i32> = rows.iter().map(|r| r.type_id).collect();
    let negated_priorities: Vec<i16> = rows.iter().map(|r| r.negated_priority).collect();
    let due: Vec<OffsetDateTime> = rows.iter().map(|r| r.due_at).collect();
    let expires: Vec<Option<OffsetDateTime>> = rows.iter().map(|r| r.expires_at).collect();
    let attempts: Vec<i32> = rows.iter().map(|r| r.attempts).collect();
    let failures: Vec<i32> = rows.iter().map(|r| r.failures).collect();
    let retryable: Vec<bool> = rows.iter().map(|r| r.retryable).collect();
    let serialize_queues: Vec<Option<i64>> = rows.iter().map(|r| r.serialize_queue_id).collect();
    sqlx::query!(
        "insert into deferred (item_id, job_key, type_id, negated_priority, due_at, expires_at, attempts, failures, retryable,
           serialize_queue_id)
         select * from unnest($1::uuid[], $2::bigint[], $3::int[], $4::smallint[], $5::timestamptz[],
                              $6::timestamptz[], $7::int[], $8::int[], $9::bool[], $10::bigint[])",
        &ids,
        &job_keys,
        &types,
        &negated_priorities,
        &due,
        &expires as &[Option<OffsetDateTime>],
        &attempts,
        &failures,
        &retryable,
        &serialize_queues as &[Option<i64>],
    )
    .execute(&mut **tx)
    .await?;
    Ok(())
}

/// An item blocked by `after` or by an older item of its serialize key.
#[derive(Clone, Copy, Debug)]
pub struct BlockedRow {
    pub item_id: Uuid,
    pub job_key: i64,
    pub type_id: i32,
    pub negated_priority: i16,
    /// Its run_after, which applies once it is released.
    pub due_at: Option<OffsetDateTime>,
    pub expires_at: Option<OffsetDateTime>,
    pub attempts: i32,
    pub failures: i32,
    pub by_after: bool,
    pub serialize_queue_id: Option<i64>,
}

/// Blocks items until they are released.
pub async fn block(tx: &mut Tx, rows: &[BlockedRow]) -> Result<(), sqlx::Error> {
    if rows.is_empty() {
        return Ok(());
    }
    let ids: Vec<Uuid> = rows.iter().map(|r| r.item_id).collect();
    let job_keys: Vec<i64> = rows.iter().map(|r| r.job_key).collect();
    let types: Vec<i32> = rows.iter().map(|r| r.type_id).collect();
    let negated_priorities: Vec<i16> = rows.iter().map(|r| r.negated_priority).collect();
    let expires: Vec<Option<OffsetDateTime>> = rows.iter().map(|r| r.expires_at).collect();
    let attempts: Vec<i32> = rows.iter().map(|r| r.attempts).collect();
    let failures: Vec<i32> = rows.iter().map(|r| r.failures).collect();
    let by_after: Vec<bool> = rows.iter().map(|r| r.by_after).collect();
    let due: Vec<Option<OffsetDateTime>> = rows.iter().map(|r| r.due_at).collect();
    let serialize_queues: Vec<Option<i64>> = rows.iter().map(|r| r.serialize_queue_id).collect();
    sqlx::query!(
        "insert into blocked (item_id, job_key, type_id, negated_priority, expires_at, attempts, failures, by_after, serialize_queue_id, due_at)
         select * from unnest($1::uuid[], $2::bigint[], $3::int[], $4::smallint[], $5::timestamptz[], $6::int[],
                              $7::int[], $8::bool[], $9::bigint[], $10::timestamptz[])",
        &ids,
        &job_keys,
        &types,
        &negated_priorities,
        &expires as &[Option<OffsetDateTime>],
        &attempts,
        &failures,
        &by_after,
        &serialize_queues as &[Option<i64>],
        &due as &[Option<OffsetDateTime>],
    )
    .execute(&mut **tx)
    .await?;
    Ok(())
}

/// Lowest fair turn that waits at a priority of a type, scanning from `from`: of claimable items, or else of parked ones.
/// If nothing waits, it is the time in steps of ten microseconds. Nothing serves a turn so soon after another, so that
/// turns which are over are always below, on every server and at every restart.
pub async fn current_fair_turn(
    tx: &mut Tx,
    type_id: i32,
    negated_priority: i16,
    from: i64,
) -> Result<i64, sqlx::Error> {
    sqlx::query_scalar!(
        r#"select coalesce(
             (select fair_turn from ready where type_id = $1 and negated_priority = $2 and fair_turn >= $3
              order by fair_turn limit 1),
             (select fair_turn from ready where type_id = -$1 and negated_priority = $2 order by fair_turn limit 1),
             (extract(epoch from clock_timestamp()) * 100000)::bigint) as "turn!""#,
        type_id,
        negated_priority,
        from
    )
    .fetch_one(&mut **tx)
    .await
}

/// Types with claimable items. One index probe each: for a single `exists`, the planner would read all ready rows of
/// one type to find none of another.
pub async fn waiting_types(pool: &PgPool, type_ids: &[i32]) -> Result<Vec<i32>, sqlx::Error> {
    sqlx::query_scalar!(
        r#"select t as "t!" from unnest($1::int[]) as t
           cross join lateral (
             select 1 from ready where type_id = t and (expires_at is null or expires_at > clock_timestamp())
             order by type_id, negated_priority, fair_turn, item_id limit 1) r"#,
        type_ids
    )
    .fetch_all(pool)
    .await
}

/// Seconds until the next deferred item is due; negative when it is overdue.
pub async fn next_due_seconds(pool: &PgPool) -> Result<Option<f64>, sqlx::Error> {
    let seconds = sqlx::query_scalar!(
        r#"select extract(epoch from (select due_at from deferred order by due_at limit 1) - clock_timestamp())::float8
             as "seconds""#
    )
    .fetch_one(pool)
    .await?;
    Ok(seconds)
}

/// The database's clock.
pub async fn now(tx: &mut Tx) -> Result<OffsetDateTime, sqlx::Error> {
    sqlx::query_scalar!(r#"select clock_timestamp() as "now!""#).fetch_one(&mut **tx).await
}
