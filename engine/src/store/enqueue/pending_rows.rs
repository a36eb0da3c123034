//! Rows of pending items, taken from their tables: due, expired, canceled, released.
//!
//! The caller first reads rows without locks, then locks their serialize queues, and then takes the rows that still
//! exist: a serialize queue is always locked before a row that waits in it.

use time::OffsetDateTime;
use uuid::Uuid;

use super::{items::DeferredRow, parked_items};
use crate::store::Tx;

/// A pending item, read without a lock: it may be gone a moment later.
#[derive(Clone, Copy, Debug)]
pub struct PendingItem {
    pub item_id: Uuid,
    pub serialize_queue_id: Option<i64>,
}

/// Deferred items that are due, the oldest first.
pub async fn due(tx: &mut Tx, limit: i64) -> Result<Vec<PendingItem>, sqlx::Error> {
    sqlx::query_as!(
        PendingItem,
        "select item_id, serialize_queue_id from deferred where due_at <= (select clock_timestamp()) order by due_at limit $1",
        limit
    )
    .fetch_all(&mut **tx)
    .await
}

/// Takes due items out of `deferred`, skipping rows of other servers.
pub async fn take_due(tx: &mut Tx, item_ids: &[Uuid]) -> Result<Vec<DeferredRow>, sqlx::Error> {
    sqlx::query_as!(
        DeferredRow,
        "with pick as materialized (
           select item_id from deferred where item_id = any($1::uuid[]) and due_at <= (select clock_timestamp())
           order by item_id for update skip locked)
         delete from deferred where item_id = any(array(select item_id from pick))
         returning item_id, job_key, type_id, negated_priority, due_at as \"due_at!\", expires_at, attempts, failures, retryable, for_event, serialize_queue_id",
        item_ids
    )
    .fetch_all(&mut **tx)
    .await
}

/// Waiting items whose expires_at has passed, at most `limit` from each table, without those that a failed `after` has ended
/// already (the propagation ends their rows).
pub async fn expired(tx: &mut Tx, limit: i64) -> Result<Vec<PendingItem>, sqlx::Error> {
    sqlx::query_as!(
        PendingItem,
        r#"(select item_id as "item_id!", serialize_queue_id from ready where expires_at <= (select clock_timestamp()) order by expires_at limit $1)
           union all
           (select item_id, serialize_queue_id from deferred where expires_at <= (select clock_timestamp()) order by expires_at limit $1)
           union all
           (select item_id, serialize_queue_id from blocked
            where expires_at <= (select clock_timestamp())
              and not (by_after and job_key = any(array(select job_key from propagation where kind = 2)))
            order by expires_at limit $1)"#,
        limit
    )
    .fetch_all(&mut **tx)
    .await
}

/// Pending items among these, with their serialize queues.
pub async fn find(tx: &mut Tx, item_ids: &[Uuid]) -> Result<Vec<PendingItem>, sqlx::Error> {
    sqlx::query_as!(
        PendingItem,
        r#"select item_id as "item_id!", serialize_queue_id from ready where item_id = any($1::uuid[])
           union all select item_id, serialize_queue_id from deferred where item_id = any($1::uuid[])
           union all select item_id, serialize_queue_id from blocked where item_id = any($1::uuid[])"#,
        item_ids
    )
    .fetch_all(&mut **tx)
    .await
}

/// Table and kind from which a pending item was taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PendingIn {
    Ready,
    Scheduled,
    Retryable,
    Blocked,
    /// Among the deferred rows.
    WaitingForEvent,
}

impl PendingIn {
    fn from_number(n: i32) -> Self {
        match n {
            0 => Self::Ready,
            1 => Self::Scheduled,
            2 => Self::Retryable,
            4 => Self::WaitingForEvent,
            _ => Self::Blocked,
        }
    }
}

/// A pending item that was taken out of its table.
#[derive(Clone, Copy, Debug)]
pub struct TakenItem {
    pub item_id: Uuid,
    pub job_key: i64,
    pub type_id: i32,
    pub negated_priority: i16,
    pub attempts: i32,
    pub failures: i32,
    pub expires_at: Option<OffsetDateTime>,
    pub serialize_queue_id: Option<i64>,
    pub was: PendingIn,
}

/// A row that was deleted from a table of pending items.
struct TakenItemRow {
    item_id: Uuid,
    job_key: i64,
    type_id: i32,
    negated_priority: i16,
    attempts: i32,
    failures: i32,
    expires_at: Option<OffsetDateTime>,
    serialize_queue_id: Option<i64>,
    limit_key: Option<Uuid>,
    was: i32,
}

impl From<TakenItemRow> for TakenItem {
    fn from(row: TakenItemRow) -> Self {
        let TakenItemRow {
            item_id,
            job_key,
            type_id,
            negated_priority,
            attempts,
            failures,
            expires_at,
            serialize_queue_id,
            limit_key: _,
            was,
        } = row;
        let was = PendingIn::from_number(was);
        Self { item_id, job_key, type_id, negated_priority, attempts, failures, expires_at, serialize_queue_id, was }
    }
}

/// Takes items out of one table; `was` is the number of that table. Items that the limit of a key parks are under minus
/// their type.
macro_rules! take_from {
    ($table:tt, $was:tt, $limit_key:tt, $tx:expr, $item_ids:expr, $expired_only:expr) => {
        sqlx::query_as!(
            TakenItemRow,
            "with pick as materialized (
               select item_id from "
                + $table
                + " where item_id = any($1::uuid[])
                 and (not $2::bool or expires_at <= (select clock_timestamp())) order by item_id for update)
             delete from "
                + $table
                + " where item_id = any(array(select item_id from pick))
             returning item_id, job_key, abs(type_id) as "
                + r#""type_id!", negated_priority, attempts, failures, expires_at, serialize_queue_id, "#
                + $limit_key
                + r#" as "limit_key?", "#
                + $was
                + r#" as "was!""#,
            $item_ids,
            $expired_only
        )
        .fetch_all(&mut **$tx)
        .await?
        .into_iter()
    };
}

/// Takes items out of the tables of pending items. `item_ids` ascending; with `expired_only`, only expired ones.
/// Waits for concurrent claims, which wait for no serialize queue. Other items of the same keys may be admitted instead.
pub async fn take(tx: &mut Tx, item_ids: &[Uuid], expired_only: bool) -> Result<Vec<TakenItem>, sqlx::Error> {
    let mut taken: Vec<TakenItemRow> = take_from!("ready", "0", "limit_key", tx, item_ids, expired_only).collect();
    let keys = taken.iter().filter_map(|row| Some((row.type_id, row.limit_key?)));
    parked_items::hint(tx, keys).await?;
    taken.extend(take_from!(
        "deferred",
        "case when for_event then 4 when retryable then 2 else 1 end",
        "null::uuid",
        tx,
        item_ids,
        expired_only
    ));
    taken.extend(take_from!("blocked", "3", "null::uuid", tx, item_ids, expired_only));
    Ok(taken.into_iter().map(TakenItem::from).collect())
}

/// An item that `after` blocked.
#[derive(Clone, Copy, Debug)]
pub struct BlockedItem {
    pub taken: TakenItem,
    /// Its run_after.
    pub due_at: Option<OffsetDateTime>,
}

/// Takes items that `after` blocks out of `blocked`.
pub async fn take_blocked_by_after(tx: &mut Tx, item_ids: &[Uuid]) -> Result<Vec<BlockedItem>, sqlx::Error> {
    let rows = sqlx::query!(
        "with pick as materialized (
           select item_id from blocked where item_id = any($1::uuid[]) and by_after order by item_id for update)
         delete from blocked where item_id = any(array(select item_id from pick))
         returning item_id, job_key, type_id, negated_priority, attempts, failures, expires_at, due_at",
        item_ids
    )
    .fetch_all(&mut **tx)
    .await?;
    Ok(rows
        .into_iter()
        .map(|row| BlockedItem {
            taken: TakenItem {
                item_id: row.item_id,
                job_key: row.job_key,
                type_id: row.type_id,
                negated_priority: row.negated_priority,
                attempts: row.attempts,
                failures: row.failures,
                expires_at: row.expires_at,
                serialize_queue_id: None,
                was: PendingIn::Blocked,
            },
            due_at: row.due_at,
        })
        .collect())
}

/// A head of a serialize queue that was taken out of `blocked`.
#[derive(Clone, Copy, Debug)]
pub struct TakenHead {
    pub taken: TakenItem,
    /// Its job is canceled.
    pub is_cancelled: bool,
    /// Its run_after, if that is ahead.
    pub due_at: Option<OffsetDateTime>,
}

/// Takes the heads of serialize queues out of `blocked`. Requires the locks of the serialize queues.
pub async fn take_heads(tx: &mut Tx, item_ids: &[Uuid]) -> Result<Vec<TakenHead>, sqlx::Error> {
    let rows = sqlx::query!(
        r#"delete from blocked where item_id = any($1::uuid[]) and not by_after
           returning item_id, job_key, type_id, negated_priority, attempts, failures, expires_at, serialize_queue_id,
             case when due_at > clock_timestamp() then due_at end as due_at,
             (select g.cancelled_at is not null from job_state g where g.job_key = blocked.job_key) as "cancelled!""#,
        item_ids
    )
    .fetch_all(&mut **tx)
    .await?;
    Ok(rows
        .into_iter()
        .map(|row| {
            let taken = TakenItem {
                item_id: row.item_id,
                job_key: row.job_key,
                type_id: row.type_id,
                negated_priority: row.negated_priority,
                attempts: row.attempts,
                failures: row.failures,
                expires_at: row.expires_at,
                serialize_queue_id: row.serialize_queue_id,
                was: PendingIn::Blocked,
            };
            TakenHead { taken, is_cancelled: row.cancelled, due_at: row.due_at }
        })
        .collect())
}
