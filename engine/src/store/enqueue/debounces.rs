//! Items with debounce keys (`debounce`): the rows that lock the keys, and the waiting items whose payload is replaced.

use time::OffsetDateTime;
use uuid::Uuid;

use crate::store::Tx;

/// An item that opens its key, unless another one has.
#[derive(Clone, Copy, Debug)]
pub struct NewDebounce<'a> {
    pub item_id: Uuid,
    pub type_id: i32,
    pub owner_id: Uuid,
    pub key: &'a str,
    pub seconds: i32,
    pub max_seconds: i32,
}

/// The open row of a key, locked.
#[derive(Clone, Debug)]
pub struct OpenDebounce {
    pub item_id: Uuid,
    pub type_id: i32,
    pub owner_id: Uuid,
    pub key: String,
    pub first_at: OffsetDateTime,
    pub starts_by: OffsetDateTime,
}

/// Opens these keys, each once, or locks their open rows, in order. Returns the open rows.
pub async fn lock(tx: &mut Tx, rows: &[NewDebounce<'_>]) -> Result<Vec<OpenDebounce>, sqlx::Error> {
    let items: Vec<Uuid> = rows.iter().map(|r| r.item_id).collect();
    let types: Vec<i32> = rows.iter().map(|r| r.type_id).collect();
    let owners: Vec<Uuid> = rows.iter().map(|r| r.owner_id).collect();
    let keys: Vec<&str> = rows.iter().map(|r| r.key).collect();
    let seconds: Vec<i32> = rows.iter().map(|r| r.seconds).collect();
    let max_seconds: Vec<i32> = rows.iter().map(|r| r.max_seconds).collect();
    sqlx::query_as!(
        OpenDebounce,
        "insert into debounce as d (item_id, type_id, owner_id, key, seconds, max_seconds, first_at, last_at, starts_by)
         select item_id, type_id, owner_id, key, seconds, max_seconds, at, at, at + make_interval(secs => max_seconds)
         from unnest($1::uuid[], $2::int[], $3::uuid[], $4::text[], $5::int[], $6::int[])
           as new (item_id, type_id, owner_id, key, seconds, max_seconds)
         cross join (select clock_timestamp() as at) now
         order by type_id, owner_id, key
         on conflict (type_id, owner_id, key) where is_open do update set is_open = d.is_open
         returning item_id, type_id, owner_id, key, first_at, starts_by",
        &items,
        &types,
        &owners,
        &keys as &[&str],
        &seconds,
        &max_seconds
    )
    .fetch_all(&mut **tx)
    .await
}

/// Those of these items that wait and have never started, with their serialize queues. Read in one statement, without
/// locks.
pub async fn waiting(tx: &mut Tx, item_ids: &[Uuid]) -> Result<Vec<(Uuid, Option<i64>)>, sqlx::Error> {
    let rows = sqlx::query!(
        r#"select item_id as "item_id!", serialize_queue_id from ready where item_id = any($1::uuid[]) and attempts = 0
           union all
           select item_id, serialize_queue_id from deferred where item_id = any($1::uuid[]) and attempts = 0
           union all
           select item_id, serialize_queue_id from blocked where item_id = any($1::uuid[]) and attempts = 0"#,
        item_ids
    )
    .fetch_all(&mut **tx)
    .await?;
    Ok(rows.into_iter().map(|row| (row.item_id, row.serialize_queue_id)).collect())
}

/// A locked item that waits and has never started.
#[derive(Clone, Copy, Debug)]
pub struct LockedWaiting {
    pub item_id: Uuid,
    pub job_key: i64,
    pub expires_at: Option<OffsetDateTime>,
    /// Its place in `ready`, if it is there.
    pub fair_turn: Option<i64>,
    /// Blocked by `after`.
    pub by_after: bool,
    /// `run_after` of its job.
    pub job_run_after: Option<OffsetDateTime>,
}

/// Locks items of one table.
macro_rules! lock_in {
    ($table:tt, $fair_turn:tt, $by_after:tt, $tx:expr, $item_ids:expr) => {
        sqlx::query_as!(
            LockedWaiting,
            "select item_id, job_key, expires_at, "
                + $fair_turn
                + r#" as "fair_turn?", "#
                + $by_after
                + r#" as "by_after!",
             (select j.run_after from job j where j.job_key = w.job_key) as job_run_after
           from "#
                + $table
                + " w where item_id = any($1::uuid[]) and attempts = 0 order by item_id for update of w",
            $item_ids
        )
        .fetch_all(&mut **$tx)
        .await?
    };
}

/// Locks those of these items that wait and have never started. An item that moves meanwhile may be missing.
pub async fn lock_waiting(tx: &mut Tx, item_ids: &[Uuid]) -> Result<Vec<LockedWaiting>, sqlx::Error> {
    let mut locked = lock_in!("ready", "fair_turn", "false", tx, item_ids);
    locked.extend(lock_in!("deferred", "null::bigint", "false", tx, item_ids));
    locked.extend(lock_in!("blocked", "null::bigint", "by_after", tx, item_ids));
    Ok(locked)
}

/// Replaces the payloads and starts of items that this transaction has locked; `item_ids` ascending. An edit by a person
/// came before.
pub async fn replace(
    tx: &mut Tx,
    item_ids: &[Uuid],
    payloads: &[&str],
    run_after: &[OffsetDateTime],
) -> Result<(), sqlx::Error> {
    sqlx::query!("delete from item_edit where item_id = any($1::uuid[])", item_ids).execute(&mut **tx).await?;
    sqlx::query!(
        "update item set payload = ($2::text[])[width_bucket(id, $1::uuid[])],
           run_after = ($3::timestamptz[])[width_bucket(id, $1::uuid[])], changed_at = clock_timestamp()
         where id = any($1::uuid[])",
        item_ids,
        payloads as &[&str],
        run_after
    )
    .execute(&mut **tx)
    .await?;
    sqlx::query!(
        "update blocked set due_at = ($2::timestamptz[])[width_bucket(item_id, $1::uuid[])]
         where item_id = any($1::uuid[]) and by_after",
        item_ids,
        run_after
    )
    .execute(&mut **tx)
    .await?;
    Ok(())
}

/// An open key after its arrivals.
#[derive(Clone, Copy, Debug)]
pub struct DebounceRow<'a> {
    pub new: NewDebounce<'a>,
    pub first_at: OffsetDateTime,
    pub starts_by: OffsetDateTime,
    /// Number of these arrivals that replaced a payload.
    pub merged: i64,
}

/// Deletes rows that this transaction has opened for items that are not added.
pub async fn give_back(tx: &mut Tx, item_ids: &[Uuid]) -> Result<(), sqlx::Error> {
    if !item_ids.is_empty() {
        sqlx::query!("delete from debounce where item_id = any($1::uuid[])", item_ids).execute(&mut **tx).await?;
    }
    Ok(())
}

/// Closes the keys of items that no later one is merged into.
pub async fn close(tx: &mut Tx, item_ids: &[Uuid]) -> Result<(), sqlx::Error> {
    if !item_ids.is_empty() {
        sqlx::query!("update debounce set is_open = false where item_id = any($1::uuid[])", item_ids)
            .execute(&mut **tx)
            .await?;
    }
    Ok(())
}

/// Writes the open rows of keys that this transaction has locked.
pub async fn write(tx: &mut Tx, rows: &[DebounceRow<'_>], now: OffsetDateTime) -> Result<(), sqlx::Error> {
    let items: Vec<Uuid> = rows.iter().map(|r| r.new.item_id).collect();
    let types: Vec<i32> = rows.iter().map(|r| r.new.type_id).collect();
    let owners: Vec<Uuid> = rows.iter().map(|r| r.new.owner_id).collect();
    let keys: Vec<&str> = rows.iter().map(|r| r.new.key).collect();
    let seconds: Vec<i32> = rows.iter().map(|r| r.new.seconds).collect();
    let max_seconds: Vec<i32> = rows.iter().map(|r| r.new.max_seconds).collect();
    let first_at: Vec<OffsetDateTime> = rows.iter().map(|r| r.first_at).collect();
    let starts_by: Vec<OffsetDateTime> = rows.iter().map(|r| r.starts_by).collect();
    let merged: Vec<i64> = rows.iter().map(|r| r.merged).collect();
    sqlx::query!(
        "insert into debounce as d (item_id, type_id, owner_id, key, seconds, max_seconds, first_at, last_at, starts_by, merged)
         select item_id, type_id, owner_id, key, seconds, max_seconds, first_at, $10, starts_by, merged
         from unnest($1::uuid[], $2::int[], $3::uuid[], $4::text[], $5::int[], $6::int[], $7::timestamptz[],
                     $8::timestamptz[], $9::bigint[])
           as new (item_id, type_id, owner_id, key, seconds, max_seconds, first_at, starts_by, merged)
         on conflict (item_id) do update set seconds = excluded.seconds, max_seconds = excluded.max_seconds,
           last_at = excluded.last_at, starts_by = excluded.starts_by, merged = d.merged + excluded.merged",
        &items,
        &types,
        &owners,
        &keys as &[&str],
        &seconds,
        &max_seconds,
        &first_at,
        &starts_by,
        &merged,
        now
    )
    .execute(&mut **tx)
    .await?;
    Ok(())
}
