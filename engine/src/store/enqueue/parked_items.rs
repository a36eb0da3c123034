//! Items of types with a limit for each key (`concurrency-by-key`, `rate-limit`): parked under minus their type, admitted
//! by claims, and claimed by id.
//!
//! Claims run these statements under the lock of the type. Everybody else only inserts parked items and hints.

use sqlx::PgPool;
use time::OffsetDateTime;
use uuid::Uuid;

use super::items::ReadyRow;
use crate::store::{
    Tx,
    dispatch::{
        claim_slots::{ClaimSlot, SlotColumns},
        leases::{ClaimCursor, ClaimedRow},
    },
};

/// Hints at the parked items of these keys: (type, key). Each key once.
pub async fn hint(tx: &mut Tx, keys: impl IntoIterator<Item = (i32, Uuid)>) -> Result<(), sqlx::Error> {
    let mut keys: Vec<(i32, Uuid)> = keys.into_iter().collect();
    if keys.is_empty() {
        return Ok(());
    }
    keys.sort_unstable();
    keys.dedup();
    let (types, keys): (Vec<i32>, Vec<Uuid>) = keys.into_iter().unzip();
    sqlx::query!(
        "insert into limit_hint (type_id, limit_key, due_at)
         select type_id, limit_key, clock_timestamp()
         from unnest($1::int[], $2::uuid[]) as new (type_id, limit_key)",
        &types,
        &keys
    )
    .execute(&mut **tx)
    .await?;
    Ok(())
}

/// Hints at the parked items of keys of a type from some time on.
pub async fn hint_later(tx: &mut Tx, type_id: i32, hints: &[(Uuid, OffsetDateTime)]) -> Result<(), sqlx::Error> {
    if hints.is_empty() {
        return Ok(());
    }
    let (keys, due): (Vec<Uuid>, Vec<OffsetDateTime>) = hints.iter().copied().unzip();
    sqlx::query!(
        "insert into limit_hint (type_id, limit_key, due_at)
         select $1, limit_key, due_at from unnest($2::uuid[], $3::timestamptz[]) as new (limit_key, due_at)",
        type_id,
        &keys,
        &due
    )
    .execute(&mut **tx)
    .await?;
    Ok(())
}

/// Takes the oldest due hints of a type. Returns their keys, in order of time.
pub async fn take_hints(tx: &mut Tx, type_id: i32, limit: i64) -> Result<Vec<Uuid>, sqlx::Error> {
    let mut rows = sqlx::query!(
        "delete from limit_hint where ctid = any(array(
           select ctid from limit_hint where type_id = $1 and due_at <= (select clock_timestamp())
           order by type_id, due_at limit $2 for update skip locked))
         returning limit_key, due_at",
        type_id,
        limit
    )
    .fetch_all(&mut **tx)
    .await?;
    rows.sort_unstable_by_key(|row| row.due_at);
    Ok(rows.into_iter().map(|row| row.limit_key).collect())
}

/// Seconds until the next hint of a type is due; negative when it is overdue.
pub async fn next_hint_seconds(tx: &mut Tx, type_id: i32) -> Result<Option<f64>, sqlx::Error> {
    let seconds = sqlx::query_scalar!(
        r#"select extract(epoch from (select due_at from limit_hint where type_id = $1 order by type_id, due_at limit 1)
             - clock_timestamp())::float8 as "seconds""#,
        type_id
    )
    .fetch_one(&mut **tx)
    .await?;
    Ok(seconds)
}

/// Types among these with due hints.
pub async fn hinted_types(pool: &PgPool, type_ids: &[i32]) -> Result<Vec<i32>, sqlx::Error> {
    sqlx::query_scalar!(
        r#"select t as "t!" from unnest($1::int[]) as t
           cross join lateral (
             select 1 from limit_hint where type_id = t and due_at <= clock_timestamp()
             order by type_id, due_at limit 1) h"#,
        type_ids
    )
    .fetch_all(pool)
    .await
}

/// Type and negated priority of the first parked item of keys with due hints, at most 64 of a type: those that the next claim
/// of the type may admit.
pub async fn first_admissible(tx: &mut Tx, type_ids: &[i32]) -> Result<Vec<(i32, i16)>, sqlx::Error> {
    let rows = sqlx::query!(
        r#"select h.type_id, first.negated_priority
           from unnest($1::int[]) as t
           cross join lateral (
             select type_id, limit_key from limit_hint where type_id = t and due_at <= (select clock_timestamp())
             order by type_id, due_at limit 64) h
           cross join lateral (
             select negated_priority from ready where type_id = -h.type_id and limit_key = h.limit_key
             order by type_id, limit_key, negated_priority, fair_turn, item_id limit 1) first"#,
        type_ids
    )
    .fetch_all(&mut **tx)
    .await?;
    Ok(rows.into_iter().map(|row| (row.type_id, row.negated_priority)).collect())
}

/// Parks items, each by the key at its index.
pub async fn park(tx: &mut Tx, rows: &[ReadyRow], keys: &[Uuid]) -> Result<(), sqlx::Error> {
    let ids: Vec<Uuid> = rows.iter().map(|r| r.item_id).collect();
    let job_keys: Vec<i64> = rows.iter().map(|r| r.job_key).collect();
    let types: Vec<i32> = rows.iter().map(|r| -r.type_id).collect();
    let negated_priorities: Vec<i16> = rows.iter().map(|r| r.negated_priority).collect();
    let fair_turns: Vec<i64> = rows.iter().map(|r| r.fair_turn).collect();
    let expires: Vec<Option<OffsetDateTime>> = rows.iter().map(|r| r.expires_at).collect();
    let attempts: Vec<i32> = rows.iter().map(|r| r.attempts).collect();
    let failures: Vec<i32> = rows.iter().map(|r| r.failures).collect();
    let serialize_queues: Vec<Option<i64>> = rows.iter().map(|r| r.serialize_queue_id).collect();
    sqlx::query!(
        "insert into ready (item_id, job_key, type_id, negated_priority, fair_turn, expires_at, attempts, failures,
           serialize_queue_id, limit_key)
         select * from unnest($1::uuid[], $2::bigint[], $3::int[], $4::smallint[], $5::bigint[],
                              $6::timestamptz[], $7::int[], $8::int[], $9::bigint[], $10::uuid[])",
        &ids,
        &job_keys,
        &types,
        &negated_priorities,
        &fair_turns,
        &expires as &[Option<OffsetDateTime>],
        &attempts,
        &failures,
        &serialize_queues as &[Option<i64>],
        keys,
    )
    .execute(&mut **tx)
    .await?;
    Ok(())
}

/// Number of items of a key that run or are admitted.
#[derive(Clone, Copy, Debug)]
pub struct KeyUse {
    pub limit_key: Uuid,
    pub running: i64,
    pub admitted: i64,
}

/// Uses of these keys of a type.
pub async fn uses(tx: &mut Tx, type_id: i32, keys: &[Uuid]) -> Result<Vec<KeyUse>, sqlx::Error> {
    sqlx::query_as!(
        KeyUse,
        r#"select k.limit_key as "limit_key!",
             (select count(*) from lease where type_id = $1 and limit_key = k.limit_key) as "running!",
             (select count(*) from ready where type_id = $1 and limit_key = k.limit_key) as "admitted!"
           from unnest($2::uuid[]) as k (limit_key)"#,
        type_id,
        keys
    )
    .fetch_all(&mut **tx)
    .await
}

/// Number of running items of these keys; keys without any are missing.
pub async fn running(
    executor: impl sqlx::PgExecutor<'_>,
    type_ids: &[i32],
    keys: &[Uuid],
) -> Result<Vec<(Uuid, i64)>, sqlx::Error> {
    let rows = sqlx::query!(
        r#"select limit_key as "limit_key!", count(*) as "n!" from lease
           where type_id = any($1::int[]) and limit_key = any($2::uuid[]) group by limit_key"#,
        type_ids,
        keys
    )
    .fetch_all(executor)
    .await?;
    Ok(rows.into_iter().map(|row| (row.limit_key, row.n)).collect())
}

/// An item that was admitted.
#[derive(Clone, Copy, Debug)]
pub struct AdmittedItem {
    pub item_id: Uuid,
    pub job_key: i64,
    pub limit_key: Uuid,
    pub negated_priority: i16,
    pub fair_turn: i64,
}

/// Admits the first parked items of keys: so many of each key as is said at its index. Skips locked rows.
pub async fn admit(
    tx: &mut Tx,
    type_id: i32,
    keys: &[Uuid],
    numbers: &[i64],
    cancelled_jobs: &[i64],
) -> Result<Vec<AdmittedItem>, sqlx::Error> {
    sqlx::query_as!(
        AdmittedItem,
        r#"with pick as materialized (
             select r.item_id from unnest($2::uuid[], $3::bigint[]) as k (limit_key, n)
             cross join lateral (
               select item_id from ready where type_id = -$1::int and limit_key = k.limit_key and job_key <> all($4::bigint[])
               order by type_id, limit_key, negated_priority, fair_turn, item_id limit k.n for update skip locked) r)
           update ready set type_id = $1 where item_id = any(array(select item_id from pick))
           returning item_id, job_key, limit_key as "limit_key!", negated_priority, fair_turn"#,
        type_id,
        keys,
        numbers,
        cancelled_jobs
    )
    .fetch_all(&mut **tx)
    .await
}

/// Keys among these that still have parked items.
pub async fn keys_with_parked(tx: &mut Tx, type_id: i32, keys: &[Uuid]) -> Result<Vec<Uuid>, sqlx::Error> {
    sqlx::query_scalar!(
        r#"select k.limit_key as "limit_key!" from unnest($2::uuid[]) as k (limit_key)
           cross join lateral (
             select 1 from ready where type_id = -$1::int and limit_key = k.limit_key
             order by type_id, limit_key, negated_priority, fair_turn, item_id limit 1) r"#,
        type_id,
        keys
    )
    .fetch_all(&mut **tx)
    .await
}

/// An item that a claim may get, locked, with its payload as it is now.
#[derive(Clone, Debug)]
pub struct Candidate {
    pub item_id: Uuid,
    pub negated_priority: i16,
    pub fair_turn: i64,
    pub limit_key: Option<Uuid>,
    pub payload: String,
}

/// The first items of a type that are not parked, from the cursor on. Skips locked rows.
pub async fn candidates(
    tx: &mut Tx,
    type_id: i32,
    cursor: ClaimCursor,
    limit: i64,
    cancelled_jobs: &[i64],
) -> Result<Vec<Candidate>, sqlx::Error> {
    sqlx::query_as!(
        Candidate,
        r#"with pick as materialized (
             select item_id, limit_key, negated_priority, fair_turn from ready
             where type_id = $1 and (negated_priority, fair_turn) >= ($2::smallint, $3::bigint)
               and (expires_at is null or expires_at > clock_timestamp())
               and job_key <> all($5::bigint[])
             order by negated_priority, fair_turn, item_id limit $4 for update skip locked)
           select item_id as "item_id!", negated_priority as "negated_priority!", fair_turn as "fair_turn!", limit_key,
             i.payload as "payload!"
           from pick cross join lateral (
             select case when changed_at is null then payload else coalesce(
                 (select e.payload from item_edit e where e.item_id = item.id order by e.edit desc limit 1),
                 payload) end as payload
             from item where id = pick.item_id offset 0) i
           order by negated_priority, fair_turn, item_id"#,
        type_id,
        cursor.negated_priority,
        cursor.fair_turn,
        limit,
        cancelled_jobs
    )
    .fetch_all(&mut **tx)
    .await
}

/// Those of these items that wait for a claim, parked or not. Skips locked rows.
pub async fn candidates_by_id(
    tx: &mut Tx,
    type_id: i32,
    item_ids: &[Uuid],
    limit: i64,
    cancelled_jobs: &[i64],
) -> Result<Vec<Candidate>, sqlx::Error> {
    sqlx::query_as!(
        Candidate,
        r#"with pick as materialized (
             select item_id, negated_priority, fair_turn, limit_key from ready
             where item_id = any($2::uuid[]) and type_id in ($1::int, -$1::int)
               and (expires_at is null or expires_at > clock_timestamp())
               and job_key <> all($4::bigint[])
             order by item_id limit $3 for update skip locked)
           select item_id as "item_id!", negated_priority as "negated_priority!", fair_turn as "fair_turn!", limit_key,
             i.payload as "payload!"
           from pick cross join lateral (
             select case when changed_at is null then payload else coalesce(
                 (select e.payload from item_edit e where e.item_id = item.id order by e.edit desc limit 1),
                 payload) end as payload
             from item where id = pick.item_id offset 0) i
           order by item_id"#,
        type_id,
        item_ids,
        limit,
        cancelled_jobs
    )
    .fetch_all(&mut **tx)
    .await
}

/// Claims items that this transaction has locked; `item_ids` ascending, each with the key that it counts for.
pub async fn claim(
    tx: &mut Tx,
    type_id: i32,
    item_ids: &[Uuid],
    keys: &[Option<Uuid>],
    slots: &[ClaimSlot],
    (lease_seconds, run_timeout_seconds): (f64, Option<f64>),
) -> Result<Vec<ClaimedRow>, sqlx::Error> {
    let SlotColumns { assignment_ids, credentials, workers, worker } = SlotColumns::of(slots);
    let mut rows = sqlx::query_as!(
        ClaimedRow,
        r#"with gone as (
             delete from ready where item_id = any($2::uuid[]) and type_id in ($1::int, -$1::int)
             returning item_id, job_key, attempts, failures, negated_priority, fair_turn, expires_at, serialize_queue_id),
           numbered as (
             select gone.*, i.*, row_number() over () as n
             from gone cross join lateral (
               select seq, row, metadata, dedupe_key, serialize_key, created_at, traceparent, expires_at as item_expires_at,
                 case when changed_at is null then payload else coalesce(
                   (select e.payload from item_edit e where e.item_id = item.id order by e.edit desc limit 1),
                   payload) end as payload
               from item where id = gone.item_id offset 0) i),
           ins as (
             insert into lease (id, item_id, job_key, credential_id, worker_id, started_at, last_heartbeat_at, run_until,
               expires_at, lease_seconds, type_id, attempt, failures, negated_priority, serialize_queue_id, seq, limit_key)
             select ($4::uuid[])[n], item_id, job_key, ($5::uuid[])[n], ($6::text[])[($9::int[])[n]], clock_timestamp(),
               clock_timestamp(), clock_timestamp() + make_interval(secs => $8::float8), expires_at, $7::float8,
               $1, attempts + 1, failures, negated_priority, serialize_queue_id, seq,
               ($3::uuid[])[width_bucket(item_id, $2::uuid[])]
             from numbered)
           select ($4::uuid[])[n] as "assignment_id!", item_id as "item_id!", job_key as "job_key!",
             attempts + 1 as "attempt!", failures as "failures!", negated_priority as "negated_priority!", fair_turn as "fair_turn!",
             clock_timestamp() + make_interval(secs => $7::float8) as "lease_expires_at!",
             seq as "seq!", row, payload as "payload!", metadata, dedupe_key, serialize_key,
             item_expires_at as expires_at, created_at as "created_at!", traceparent
           from numbered"#,
        type_id,
        item_ids,
        keys as &[Option<Uuid>],
        &assignment_ids,
        &credentials,
        &workers as &[&str],
        lease_seconds,
        run_timeout_seconds,
        &worker,
    )
    .fetch_all(&mut **tx)
    .await?;
    rows.sort_unstable_by_key(|row| (row.negated_priority, row.fair_turn, row.item_id));
    Ok(rows)
}

/// Parks items that this transaction has locked; `item_ids` ascending, each with the key whose limit parks it.
pub async fn park_again(tx: &mut Tx, type_id: i32, item_ids: &[Uuid], keys: &[Uuid]) -> Result<(), sqlx::Error> {
    if item_ids.is_empty() {
        return Ok(());
    }
    sqlx::query!(
        "update ready set type_id = -$1::int, limit_key = ($3::uuid[])[width_bucket(item_id, $2::uuid[])]
         where item_id = any($2::uuid[])",
        type_id,
        item_ids,
        keys
    )
    .execute(&mut **tx)
    .await?;
    Ok(())
}

/// Types with parked items: one index probe each.
pub async fn parked_types(pool: &PgPool) -> Result<Vec<i32>, sqlx::Error> {
    sqlx::query_scalar!(
        r#"with recursive parked as (
             (select type_id from ready where type_id < 0 order by type_id desc limit 1)
             union all
             select (select r.type_id from ready r where r.type_id < parked.type_id order by r.type_id desc limit 1)
             from parked where parked.type_id is not null)
           select -type_id as "type_id!" from parked where type_id is not null"#
    )
    .fetch_all(pool)
    .await
}

/// Releases parked items of a type whose keys have no limit any more. Returns their number.
pub async fn release(pool: &PgPool, type_id: i32, limit: i64) -> Result<u64, sqlx::Error> {
    let done = sqlx::query!(
        "update ready set type_id = $1, limit_key = null where item_id = any(array(
           select item_id from ready where type_id = -$1::int
           order by negated_priority, fair_turn, item_id limit $2 for update skip locked))",
        type_id,
        limit
    )
    .execute(pool)
    .await?;
    Ok(done.rows_affected())
}

/// Hints at the keys of parked items of a type after `after`. Returns the last key; `None` when there are no more.
pub async fn hint_all(pool: &PgPool, type_id: i32, after: Uuid, limit: i64) -> Result<Option<Uuid>, sqlx::Error> {
    let keys = sqlx::query_scalar!(
        r#"with recursive keys as (
             (select limit_key, 1::bigint as n from ready
              where type_id = -$1::int and limit_key > $2 order by type_id, limit_key limit 1)
             union all
             select (select r.limit_key from ready r where r.type_id = -$1::int and r.limit_key > keys.limit_key
                     order by r.type_id, r.limit_key limit 1), n + 1
             from keys where keys.limit_key is not null and n < $3::bigint)
           insert into limit_hint (type_id, limit_key, due_at)
           select $1, limit_key, clock_timestamp() from keys where limit_key is not null
           returning limit_key"#,
        type_id,
        after,
        limit
    )
    .fetch_all(pool)
    .await?;
    Ok(keys.into_iter().max())
}
