//! Open assignments: claimed, renewed, taken back.
//!
//! Every write names the assignment id and, for requests of workers, the token that claimed it; assignments that are
//! not returned were not open.

use std::collections::BTreeMap;

use domain::{dispatch::type_limits::TypeLimits, id::Uuid};
use sqlx::PgPool;
use time::OffsetDateTime;

use super::claim_slots::{ClaimSlot, SlotColumns};
use crate::store::{Tx, tree::definitions::read_limits};

/// Position from which a claim starts to scan: everything before it was empty a moment ago. Only a hint.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ClaimCursor {
    pub negated_priority: i16,
    pub fair_turn: i64,
}

impl ClaimCursor {
    /// The very beginning.
    pub const BOTTOM: ClaimCursor = ClaimCursor { negated_priority: i16::MIN, fair_turn: i64::MIN };
}

/// A claimed item with the data for its worker.
#[derive(Clone, Debug)]
pub struct ClaimedRow {
    pub assignment_id: Uuid,
    pub item_id: Uuid,
    pub job_key: i64,
    pub attempt: i32,
    pub failures: i32,
    pub negated_priority: i16,
    pub fair_turn: i64,
    pub lease_expires_at: OffsetDateTime,
    pub seq: i64,
    pub row: Option<i64>,
    /// The last edit, or the original.
    pub payload: String,
    pub metadata: Option<String>,
    pub dedupe_key: Option<String>,
    pub serialize_key: Option<String>,
    pub expires_at: Option<OffsetDateTime>,
    pub created_at: OffsetDateTime,
    /// Trace context of the request that added it.
    pub traceparent: Option<String>,
}

/// Fills at most `slots.len()` slots with items of one type, ordered by priority, fair turn and item. The rows are
/// returned in that order; their assignment to slots is arbitrary. The delete drives the statement, and the pick is
/// one index scan that starts at the cursor. `cancelled_jobs` are jobs whose rows have not been swept yet.
pub async fn claim(
    tx: &mut Tx,
    type_id: i32,
    cursor: ClaimCursor,
    slots: &[ClaimSlot],
    (lease_seconds, run_timeout_seconds): (f64, Option<f64>),
    cancelled_jobs: &[i64],
) -> Result<Vec<ClaimedRow>, sqlx::Error> {
    let SlotColumns { assignment_ids, credentials, workers, worker } = SlotColumns::of(slots);
    let mut rows = sqlx::query_as!(
        ClaimedRow,
        r#"with pick as materialized (
             select ctid from ready
             where type_id = $1 and (negated_priority, fair_turn) >= ($2::smallint, $3::bigint)
               and (expires_at is null or expires_at > clock_timestamp())
               and job_key <> all($10::bigint[])
             order by negated_priority, fair_turn, item_id limit $4 for update skip locked),
           gone as (
             delete from ready where ctid = any(array(select ctid from pick))
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
               expires_at, lease_seconds, type_id, attempt, failures, negated_priority, serialize_queue_id, seq)
             select ($5::uuid[])[n], item_id, job_key, ($6::uuid[])[n], ($7::text[])[($11::int[])[n]], clock_timestamp(),
               clock_timestamp(), clock_timestamp() + make_interval(secs => $9::float8), expires_at, $8::float8,
               $1, attempts + 1, failures, negated_priority, serialize_queue_id, seq
             from numbered)
           select ($5::uuid[])[n] as "assignment_id!", item_id as "item_id!", job_key as "job_key!",
             attempts + 1 as "attempt!", failures as "failures!", negated_priority as "negated_priority!", fair_turn as "fair_turn!",
             clock_timestamp() + make_interval(secs => $8::float8) as "lease_expires_at!",
             seq as "seq!", row, payload as "payload!", metadata, dedupe_key, serialize_key,
             item_expires_at as expires_at, created_at as "created_at!", traceparent
           from numbered"#,
        type_id,
        cursor.negated_priority,
        cursor.fair_turn,
        slots.len() as i64,
        &assignment_ids,
        &credentials,
        &workers as &[&str],
        lease_seconds,
        run_timeout_seconds,
        cancelled_jobs,
        &worker,
    )
    .fetch_all(&mut **tx)
    .await?;
    rows.sort_unstable_by_key(|row| (row.negated_priority, row.fair_turn, row.item_id));
    Ok(rows)
}

/// Position of the first available item of each type from its start on; types without one are left out. Locks nothing.
pub async fn first_waiting(
    tx: &mut Tx,
    starts: &BTreeMap<i32, ClaimCursor>,
) -> Result<Vec<(i32, ClaimCursor)>, sqlx::Error> {
    let type_ids: Vec<i32> = starts.keys().copied().collect();
    let priorities: Vec<i16> = starts.values().map(|start| start.negated_priority).collect();
    let turns: Vec<i64> = starts.values().map(|start| start.fair_turn).collect();
    let rows = sqlx::query!(
        r#"select of.type_id as "type_id!", first.negated_priority, first.fair_turn
           from unnest($1::int[], $2::smallint[], $3::bigint[]) as of (type_id, from_priority, from_turn)
           cross join lateral (
             select negated_priority, fair_turn from ready r
             where r.type_id = of.type_id and (negated_priority, fair_turn) >= (of.from_priority, of.from_turn)
             order by negated_priority, fair_turn, item_id limit 1) first"#,
        &type_ids,
        &priorities,
        &turns,
    )
    .fetch_all(&mut **tx)
    .await?;
    let position = |negated_priority, fair_turn| ClaimCursor { negated_priority, fair_turn };
    Ok(rows.into_iter().map(|row| (row.type_id, position(row.negated_priority, row.fair_turn))).collect())
}

/// Claims those of the given items that are ready.
pub async fn claim_items(
    tx: &mut Tx,
    item_ids: &[Uuid],
    type_ids: &[i32],
    slots: &[ClaimSlot],
    (lease_seconds, run_timeout_seconds): (f64, Option<f64>),
    cancelled_jobs: &[i64],
) -> Result<Vec<ClaimedRow>, sqlx::Error> {
    let SlotColumns { assignment_ids, credentials, workers, worker } = SlotColumns::of(slots);
    let mut rows = sqlx::query_as!(
        ClaimedRow,
        r#"with pick as materialized (
             select ctid from ready
             where item_id = any($1::uuid[]) and type_id = any($2::int[])
               and (expires_at is null or expires_at > clock_timestamp())
               and job_key <> all($9::bigint[])
             order by item_id limit $3 for update skip locked),
           gone as (
             delete from ready where ctid = any(array(select ctid from pick))
             returning item_id, job_key, type_id, attempts, failures, negated_priority, fair_turn, expires_at, serialize_queue_id),
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
               expires_at, lease_seconds, type_id, attempt, failures, negated_priority, serialize_queue_id, seq)
             select ($4::uuid[])[n], item_id, job_key, ($5::uuid[])[n], ($6::text[])[($10::int[])[n]], clock_timestamp(),
               clock_timestamp(), clock_timestamp() + make_interval(secs => $8::float8), expires_at, $7::float8,
               type_id, attempts + 1, failures, negated_priority, serialize_queue_id, seq
             from numbered)
           select ($4::uuid[])[n] as "assignment_id!", item_id as "item_id!", job_key as "job_key!",
             attempts + 1 as "attempt!", failures as "failures!", negated_priority as "negated_priority!", fair_turn as "fair_turn!",
             clock_timestamp() + make_interval(secs => $7::float8) as "lease_expires_at!",
             seq as "seq!", row, payload as "payload!", metadata, dedupe_key, serialize_key,
             item_expires_at as expires_at, created_at as "created_at!", traceparent
           from numbered"#,
        item_ids,
        type_ids,
        slots.len() as i64,
        &assignment_ids,
        &credentials,
        &workers as &[&str],
        lease_seconds,
        run_timeout_seconds,
        cancelled_jobs,
        &worker,
    )
    .fetch_all(&mut **tx)
    .await?;
    rows.sort_unstable_by_key(|row| (row.negated_priority, row.fair_turn, row.item_id));
    Ok(rows)
}

/// The payloads of items as they are now: the last edit, or the original. In no order.
pub async fn payloads(tx: &mut Tx, item_ids: &[Uuid]) -> Result<Vec<(Uuid, String)>, sqlx::Error> {
    let rows = sqlx::query!(
        r#"select id,
             case when changed_at is null then payload else coalesce(
               (select e.payload from item_edit e where e.item_id = item.id order by e.edit desc limit 1),
               payload) end as "payload!"
           from item where id = any($1::uuid[])"#,
        item_ids
    )
    .fetch_all(&mut **tx)
    .await?;
    Ok(rows.into_iter().map(|row| (row.id, row.payload)).collect())
}

/// The last steps of items, those that have one.
pub async fn steps(tx: &mut Tx, item_ids: &[Uuid]) -> Result<Vec<(Uuid, String, String)>, sqlx::Error> {
    let rows = sqlx::query!("select item_id, name, data from item_step where item_id = any($1::uuid[])", item_ids)
        .fetch_all(&mut **tx)
        .await?;
    Ok(rows.into_iter().map(|row| (row.item_id, row.name, row.data)).collect())
}

/// A type under its lock: its limits as they are now.
#[derive(Clone, Debug, Default)]
pub struct LockedType {
    pub concurrency: Option<i32>,
    pub limits: TypeLimits,
}

/// Locks a type and reads its limits. Count its open assignments afterwards in a separate statement, which sees what
/// was committed while this one waited for the lock.
pub async fn lock_type(tx: &mut Tx, type_id: i32) -> Result<LockedType, sqlx::Error> {
    let row = sqlx::query!("select concurrency, limits from job_type where id = $1 for no key update", type_id)
        .fetch_one(&mut **tx)
        .await?;
    Ok(LockedType { concurrency: row.concurrency, limits: read_limits(row.limits.as_deref()) })
}

/// Number of open assignments of a type.
pub async fn count_open(tx: &mut Tx, type_id: i32) -> Result<i64, sqlx::Error> {
    sqlx::query_scalar!(r#"select count(*) as "n!" from lease where type_id = $1"#, type_id).fetch_one(&mut **tx).await
}

/// An assignment whose lease this transaction has deleted and that is to be ended.
#[derive(Clone, Debug)]
pub struct TakenLease {
    pub id: Uuid,
    pub item_id: Uuid,
    pub job_key: i64,
    pub started_at: OffsetDateTime,
    pub type_id: i32,
    pub attempt: i32,
    pub failures: i32,
    pub negated_priority: i16,
    pub touched: bool,
    pub credential_id: Uuid,
    pub worker_id: String,
    pub expires_at: Option<OffsetDateTime>,
    /// Its run timeout had passed (sweeps only).
    pub timed_out: bool,
    pub serialize_queue_id: Option<i64>,
    /// Key that it counted for (`concurrency-by-key`).
    pub limit_key: Option<Uuid>,
    /// The item was canceled while it ran: any ending cancels it (`cancellation`).
    pub cancel_requested: bool,
}

/// Deletes leases to end their assignments. `assignment_ids` ascending, with `credentials` at the same indexes.
/// Assignments that are not returned were not open or belong to another token.
pub async fn take(tx: &mut Tx, assignment_ids: &[Uuid], credentials: &[Uuid]) -> Result<Vec<TakenLease>, sqlx::Error> {
    sqlx::query_as!(
        TakenLease,
        r#"delete from lease
           where id = any($1::uuid[]) and credential_id = ($2::uuid[])[width_bucket(id, $1::uuid[])]
           returning id, item_id, job_key, started_at, type_id, attempt, failures, negated_priority, touched,
             credential_id, worker_id, expires_at, false as "timed_out!", serialize_queue_id, limit_key, cancel_requested_at is not null as "cancel_requested!""#,
        assignment_ids,
        credentials
    )
    .fetch_all(&mut **tx)
    .await
}

/// Deletes leases that have expired or whose run timeout has passed, at most `limit`, skipping those that are being
/// ended. Time without a server does not count: the lease runs from the later of its last heartbeat and `resumed_at`, and
/// is compared with `last_seen_at`, which stops while nothing receives heartbeats (`uptime::tick`).
pub async fn take_lost(tx: &mut Tx, limit: i64) -> Result<Vec<TakenLease>, sqlx::Error> {
    #[cfg(feature = "failpoints")]
    if crate::failpoints::broken("sweep_by_item", file!()) {
        return super::unguarded_statements::take_lost(tx, limit).await;
    }
    sqlx::query_as!(
        TakenLease,
        r#"with up as materialized (select resumed_at, last_seen_at from uptime),
           pick as materialized (
             select id from lease
             where run_until < (select last_seen_at from up)
                or greatest(last_heartbeat_at, (select resumed_at from up)) + make_interval(secs => lease_seconds)
                   < (select last_seen_at from up)
             order by id limit $1 for update skip locked)
           delete from lease where id = any(array(select id from pick))
           returning id, item_id, job_key, started_at, type_id, attempt, failures, negated_priority, touched,
             credential_id, worker_id, expires_at, coalesce(run_until < clock_timestamp(), false) as "timed_out!", serialize_queue_id,
             limit_key, cancel_requested_at is not null as "cancel_requested!""#,
        limit
    )
    .fetch_all(&mut **tx)
    .await
}

/// A heartbeat, with progress if the worker reported it.
#[derive(Clone, Debug)]
pub struct Heartbeat {
    pub assignment_id: Uuid,
    pub credential_id: Uuid,
    pub done: Option<i64>,
    pub total: Option<i64>,
    pub message: Option<String>,
    pub has_progress: bool,
}

/// A renewed lease.
#[derive(Clone, Copy, Debug)]
pub struct RenewedLease {
    pub id: Uuid,
    pub job_key: i64,
    pub lease_expires_at: OffsetDateTime,
    pub cancel: bool,
}

/// Renews leases; `heartbeats` ascending by assignment id, one for each. Touches no indexed column.
pub async fn renew(pool: &PgPool, heartbeats: &[Heartbeat]) -> Result<Vec<RenewedLease>, sqlx::Error> {
    let assignment_ids: Vec<Uuid> = heartbeats.iter().map(|b| b.assignment_id).collect();
    let credentials: Vec<Uuid> = heartbeats.iter().map(|b| b.credential_id).collect();
    let done: Vec<Option<i64>> = heartbeats.iter().map(|b| b.done).collect();
    let total: Vec<Option<i64>> = heartbeats.iter().map(|b| b.total).collect();
    let messages: Vec<Option<&str>> = heartbeats.iter().map(|b| b.message.as_deref()).collect();
    let with_progress: Vec<bool> = heartbeats.iter().map(|b| b.has_progress).collect();
    sqlx::query_as!(
        RenewedLease,
        r#"update lease l set last_heartbeat_at = clock_timestamp(),
             progress_done = case when ($6::bool[])[width_bucket(l.id, $1::uuid[])]
               then ($3::bigint[])[width_bucket(l.id, $1::uuid[])] else progress_done end,
             progress_total = case when ($6::bool[])[width_bucket(l.id, $1::uuid[])]
               then ($4::bigint[])[width_bucket(l.id, $1::uuid[])] else progress_total end,
             progress_message = case when ($6::bool[])[width_bucket(l.id, $1::uuid[])]
               then ($5::text[])[width_bucket(l.id, $1::uuid[])] else progress_message end,
             touched = touched or ($6::bool[])[width_bucket(l.id, $1::uuid[])]
           where l.id = any($1::uuid[]) and l.credential_id = ($2::uuid[])[width_bucket(l.id, $1::uuid[])]
           returning l.id, l.job_key, l.last_heartbeat_at + make_interval(secs => l.lease_seconds) as "lease_expires_at!",
             (l.cancel_requested_at is not null
              or (select g.cancelled_at is not null from job_state g where g.job_key = l.job_key)) as "cancel!""#,
        &assignment_ids,
        &credentials,
        &done as &[Option<i64>],
        &total as &[Option<i64>],
        &messages as &[Option<&str>],
        &with_progress
    )
    .fetch_all(pool)
    .await
}

/// Holder of an assignment, read under its lock.
#[derive(Clone, Copy, Debug)]
pub struct LockedLease {
    pub item_id: Uuid,
    pub job_key: i64,
}

/// Locks an open assignment of this token and renews it.
pub async fn lock(tx: &mut Tx, assignment_id: Uuid, credential_id: Uuid) -> Result<Option<LockedLease>, sqlx::Error> {
    sqlx::query_as!(
        LockedLease,
        "update lease set touched = true, last_heartbeat_at = clock_timestamp()
         where id = $1 and credential_id = $2 returning item_id, job_key",
        assignment_id,
        credential_id
    )
    .fetch_optional(&mut **tx)
    .await
}

/// Records a step as the item's last one. That of an earlier attempt is kept for the list of attempts.
pub async fn set_step(tx: &mut Tx, lease: LockedLease, name: &str, data: &str) -> Result<(), sqlx::Error> {
    sqlx::query!(
        "with earlier as (
           insert into earlier_step (item_id, name, data, reached_at)
           select item_id, name, data, reached_at from item_step
           where item_id = $1 and reached_at < (select started_at from lease where item_id = $1))
         insert into item_step (item_id, name, data, job_key) values ($1, $2, $3, $4)
         on conflict (item_id) do update set name = $2, data = $3, job_key = $4, reached_at = clock_timestamp()",
        lease.item_id,
        name,
        data,
        lease.job_key
    )
    .execute(&mut **tx)
    .await?;
    Ok(())
}

/// Open assignments by id, in the form of claims.
pub async fn open(tx: &mut Tx, assignment_ids: &[Uuid]) -> Result<Vec<ClaimedRow>, sqlx::Error> {
    sqlx::query_as!(
        ClaimedRow,
        r#"select l.id as assignment_id, l.item_id, l.job_key, l.attempt, l.failures, l.negated_priority, 0::bigint as "fair_turn!",
             l.last_heartbeat_at + make_interval(secs => l.lease_seconds) as "lease_expires_at!",
             i.seq as "seq!", i.row, i.payload as "payload!", i.metadata, i.dedupe_key, i.serialize_key,
             i.expires_at, i.created_at as "created_at!", i.traceparent
           from lease l cross join lateral (
             select seq, row, metadata, dedupe_key, serialize_key, expires_at, created_at, traceparent,
               coalesce((select e.payload from item_edit e where e.item_id = item.id order by e.edit desc limit 1),
                        payload) as payload
             from item where id = l.item_id offset 0) i
           where l.id = any($1::uuid[]) order by l.id"#,
        assignment_ids
    )
    .fetch_all(&mut **tx)
    .await
}

/// Jobs of these assignments, as far as they are open. Locks nothing.
pub async fn jobs_of(tx: &mut Tx, assignment_ids: &[Uuid]) -> Result<Vec<i64>, sqlx::Error> {
    sqlx::query_scalar!("select job_key from lease where id = any($1::uuid[])", assignment_ids)
        .fetch_all(&mut **tx)
        .await
}

/// Assignments among these, sorted and of these credentials, that have reported a step or progress and are not canceled:
/// assignment id and job key. Locks them.
pub async fn touched(
    tx: &mut Tx,
    assignment_ids: &[Uuid],
    credentials: &[Uuid],
) -> Result<Vec<(Uuid, i64)>, sqlx::Error> {
    let rows = sqlx::query!(
        "select id, job_key from lease
         where id = any($1::uuid[]) and credential_id = ($2::uuid[])[width_bucket(id, $1::uuid[])]
           and touched and cancel_requested_at is null
           and not exists (select 1 from job_state g where g.job_key = lease.job_key and g.cancelled_at is not null)
         order by id for no key update of lease",
        assignment_ids,
        credentials
    )
    .fetch_all(&mut **tx)
    .await?;
    Ok(rows.into_iter().map(|row| (row.id, row.job_key)).collect())
}
