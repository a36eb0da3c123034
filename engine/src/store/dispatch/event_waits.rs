//! Waits of items for events (`waiting-for-events`): begun by an ending, ended by an event or by the timeout.
//!
//! A waiting item is a row of `deferred` with `for_event`, which cancellation, expiry and purge treat like any other
//! pending row. `event_wait` has what it waits for, and what came.

use std::collections::HashMap;

use domain::{
    Document, Time,
    event_wait::ReceivedEvent,
    identity::audit::{Actor, ActorKind},
};
use time::OffsetDateTime;
use uuid::Uuid;

use crate::store::Tx;

/// An item that begins to wait.
#[derive(Clone, Debug)]
pub struct NewWaitRow {
    pub item_id: Uuid,
    pub job_key: i64,
    pub type_id: i32,
    pub negated_priority: i16,
    pub expires_at: Option<OffsetDateTime>,
    pub attempts: i32,
    pub failures: i32,
    pub serialize_queue_id: Option<i64>,
    pub name: String,
    /// End of the timeout.
    pub until: Option<OffsetDateTime>,
    /// JSON.
    pub form: Option<String>,
}

/// Makes items wait for events. An earlier event of an item is forgotten.
pub async fn begin(tx: &mut Tx, rows: &[NewWaitRow]) -> Result<(), sqlx::Error> {
    if rows.is_empty() {
        return Ok(());
    }
    let ids: Vec<Uuid> = rows.iter().map(|r| r.item_id).collect();
    let job_keys: Vec<i64> = rows.iter().map(|r| r.job_key).collect();
    let types: Vec<i32> = rows.iter().map(|r| r.type_id).collect();
    let negated_priorities: Vec<i16> = rows.iter().map(|r| r.negated_priority).collect();
    let until: Vec<Option<OffsetDateTime>> = rows.iter().map(|r| r.until).collect();
    let expires: Vec<Option<OffsetDateTime>> = rows.iter().map(|r| r.expires_at).collect();
    let attempts: Vec<i32> = rows.iter().map(|r| r.attempts).collect();
    let failures: Vec<i32> = rows.iter().map(|r| r.failures).collect();
    let serialize_queues: Vec<Option<i64>> = rows.iter().map(|r| r.serialize_queue_id).collect();
    let names: Vec<&str> = rows.iter().map(|r| r.name.as_str()).collect();
    let forms: Vec<Option<&str>> = rows.iter().map(|r| r.form.as_deref()).collect();
    sqlx::query!(
        "insert into deferred (item_id, job_key, type_id, negated_priority, due_at, expires_at, attempts, failures, retryable,
           for_event, serialize_queue_id)
         select item_id, job_key, type_id, negated_priority, due_at, expires_at, attempts, failures, false, true,
           serialize_queue_id
         from unnest($1::uuid[], $2::bigint[], $3::int[], $4::smallint[], $5::timestamptz[],
                     $6::timestamptz[], $7::int[], $8::int[], $9::bigint[])
           as new (item_id, job_key, type_id, negated_priority, due_at, expires_at, attempts, failures, serialize_queue_id)",
        &ids,
        &job_keys,
        &types,
        &negated_priorities,
        &until as &[Option<OffsetDateTime>],
        &expires as &[Option<OffsetDateTime>],
        &attempts,
        &failures,
        &serialize_queues as &[Option<i64>],
    )
    .execute(&mut **tx)
    .await?;
    sqlx::query!(
        "insert into event_wait as w (item_id, name, form)
         select * from unnest($1::uuid[], $2::text[], $3::text[])
         on conflict (item_id) do update set name = excluded.name, form = excluded.form, began_at = clock_timestamp(),
           received_at = null, timed_out = false, data = null, sender_kind = null, sender_name = null",
        &ids,
        &names as &[&str],
        &forms as &[Option<&str>],
    )
    .execute(&mut **tx)
    .await?;
    Ok(())
}

/// A waiting item under its lock.
#[derive(Clone, Debug)]
pub struct LockedWait {
    pub job_key: i64,
    pub type_id: i32,
    pub negated_priority: i16,
    pub expires_at: Option<OffsetDateTime>,
    pub attempts: i32,
    pub failures: i32,
    pub serialize_queue_id: Option<i64>,
    pub name: String,
    pub form: Option<String>,
    pub began_at: OffsetDateTime,
    /// Its expires_at has passed.
    pub expired: bool,
}

/// Locks a waiting item and reads its wait; `None` if it does not wait for an event. Waits for a concurrent event, timeout
/// or cancellation, and sees their result.
pub async fn lock(tx: &mut Tx, item_id: Uuid) -> Result<Option<LockedWait>, sqlx::Error> {
    let locked = sqlx::query_scalar!("select true from deferred where item_id = $1 and for_event for update", item_id)
        .fetch_optional(&mut **tx)
        .await?;
    if locked.is_none() {
        return Ok(None);
    }
    sqlx::query_as!(
        LockedWait,
        r#"select d.job_key, d.type_id, d.negated_priority, d.expires_at, d.attempts, d.failures, d.serialize_queue_id,
             w.name, w.form, w.began_at, coalesce(d.expires_at <= clock_timestamp(), false) as "expired!"
           from (select * from deferred where item_id = $1 offset 0) d
           cross join lateral (select name, form, began_at from event_wait where item_id = d.item_id offset 0) w"#,
        item_id
    )
    .fetch_optional(&mut **tx)
    .await
}

/// Ends waits. Yields the items whose run_after was changed to a later time while they waited, with that time: an older
/// one no longer counts, as the item has started since.
macro_rules! end_waits {
    ($set:tt, $tx:expr, $item_ids:expr $(, $value:expr)*) => {
        sqlx::query!(
            "update event_wait w set received_at = clock_timestamp(), "
                + $set
                + r#" where w.item_id = any($1::uuid[])
                     returning w.item_id, (
                       select i.run_after from item i where i.id = w.item_id and i.changed_at >= w.began_at
                         and i.run_after > clock_timestamp()) as "postponed_to""#,
            $item_ids
            $(, $value)*
        )
        .fetch_all(&mut **$tx)
        .await?
        .into_iter()
        .filter_map(|row| Some((row.item_id, row.postponed_to?)))
    };
}

/// Records the event of a waiting item and takes the item out of `deferred`. Requires its lock. Returns the time to which
/// it was postponed meanwhile.
pub async fn receive(
    tx: &mut Tx,
    item_id: Uuid,
    data: &str,
    by: &Actor,
) -> Result<Option<OffsetDateTime>, sqlx::Error> {
    sqlx::query!("delete from deferred where item_id = $1", item_id).execute(&mut **tx).await?;
    let kind = by.kind.as_str();
    let mut postponed =
        end_waits!("data = $2, sender_kind = $3, sender_name = $4", tx, &[item_id], data, kind, by.name);
    Ok(postponed.next().map(|(_, postponed_to)| postponed_to))
}

/// Records that no event came in time. Returns the items that were postponed meanwhile, with the time to which they were.
pub async fn time_out(tx: &mut Tx, item_ids: &[Uuid]) -> Result<HashMap<Uuid, OffsetDateTime>, sqlx::Error> {
    if item_ids.is_empty() {
        return Ok(HashMap::new());
    }
    Ok(end_waits!("timed_out = true", tx, item_ids).collect())
}

/// Forgets the events of items that a person restarts.
pub async fn forget(tx: &mut Tx, item_ids: &[Uuid]) -> Result<(), sqlx::Error> {
    sqlx::query!("delete from event_wait where item_id = any($1::uuid[])", item_ids).execute(&mut **tx).await?;
    Ok(())
}

/// Last events of items, those that have one.
pub async fn received(tx: &mut Tx, item_ids: &[Uuid]) -> Result<Vec<(Uuid, ReceivedEvent)>, sqlx::Error> {
    let rows = sqlx::query!(
        r#"select item_id, name, received_at as "received_at!", timed_out, data, sender_kind, sender_name
           from event_wait where item_id = any($1::uuid[]) and received_at is not null"#,
        item_ids
    )
    .fetch_all(&mut **tx)
    .await?;
    Ok(rows
        .into_iter()
        .map(|row| {
            let sender = row.sender_kind.zip(row.sender_name);
            (row.item_id, event(row.name, row.received_at, row.timed_out, row.data, sender))
        })
        .collect())
}

/// Event as the API has it, from its columns; `sender` is kind and name.
pub fn event(
    name: String,
    received_at: OffsetDateTime,
    timed_out: bool,
    data: Option<String>,
    sender: Option<(String, String)>,
) -> ReceivedEvent {
    ReceivedEvent {
        name,
        data: data.map_or_else(Document::null, Document::trusted),
        timed_out,
        at: Time(received_at),
        by: sender.map(|(kind, name)| Actor { kind: ActorKind::parse(&kind).unwrap_or(ActorKind::Nobody), name }),
    }
}
