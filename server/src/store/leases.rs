//! Open assignments: handed out, kept alive, taken back.
//!
//! Every write here names the assignment id and, where a worker asks, the token it was given to; what does not
//! come back was not open.

use domain::id::Uuid;
use sqlx::PgPool;
use time::OffsetDateTime;

use super::{
    Tx,
    slots::{Columns, Slot},
};

/// Position from which a claim starts to scan: everything before it was empty a moment ago. Only a hint.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Mark {
    pub rank: i16,
    pub turn: i64,
}

impl Mark {
    /// The very beginning.
    pub const BOTTOM: Mark = Mark { rank: i16::MIN, turn: i64::MIN };
}

/// An item just handed out, with what its worker is told of it.
#[derive(Clone, Debug)]
pub struct ClaimedRow {
    pub fence: Uuid,
    pub item_id: Uuid,
    pub gate_id: i64,
    pub attempt: i32,
    pub failures: i32,
    pub rank: i16,
    pub turn: i64,
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
}

/// Fills at most `slots.len()` slots with items of one type, the first by rank, turn and item; they come
/// back in that order, and which of them gets which slot is open. Driven from the delete; the pick is one
/// index scan that starts at `mark`. `ghosts` are cancelled jobs whose rows have not been swept yet.
pub async fn claim(
    tx: &mut Tx,
    type_id: i32,
    mark: Mark,
    slots: &[Slot],
    (lease_seconds, run_timeout_seconds): (f64, Option<f64>),
    ghosts: &[i64],
) -> Result<Vec<ClaimedRow>, sqlx::Error> {
    let Columns { fences, credentials, workers, worker } = Columns::of(slots);
    let mut rows = sqlx::query_as!(
        ClaimedRow,
        r#"with pick as materialized (
             select ctid from ready
             where type_id = $1 and (rank, turn) >= ($2::smallint, $3::bigint)
               and (expires_at is null or expires_at > clock_timestamp())
               and gate_id <> all($10::bigint[])
             order by rank, turn, item_id limit $4 for update skip locked),
           gone as (
             delete from ready where ctid = any(array(select ctid from pick))
             returning item_id, gate_id, attempts, failures, rank, turn, expires_at, lane_id),
           numbered as (
             select gone.*, i.*, row_number() over () as n
             from gone cross join lateral (
               select seq, row, metadata, dedupe_key, serialize_key, created_at, expires_at as item_expires_at,
                 case when changed_at is null then payload else coalesce(
                   (select e.payload from item_edit e where e.item_id = item.id order by e.edit desc limit 1),
                   payload) end as payload
               from item where id = gone.item_id offset 0) i),
           ins as (
             insert into lease (id, item_id, gate_id, credential_id, worker_id, started_at, last_beat, run_until,
               expires_at, lease_seconds, type_id, attempt, failures, rank, lane_id, seq)
             select ($5::uuid[])[n], item_id, gate_id, ($6::uuid[])[n], ($7::text[])[($11::int[])[n]], clock_timestamp(),
               clock_timestamp(), clock_timestamp() + make_interval(secs => $9::float8), expires_at, $8::float8,
               $1, attempts + 1, failures, rank, lane_id, seq
             from numbered)
           select ($5::uuid[])[n] as "fence!", item_id as "item_id!", gate_id as "gate_id!",
             attempts + 1 as "attempt!", failures as "failures!", rank as "rank!", turn as "turn!",
             clock_timestamp() + make_interval(secs => $8::float8) as "lease_expires_at!",
             seq as "seq!", row, payload as "payload!", metadata, dedupe_key, serialize_key,
             item_expires_at as expires_at, created_at as "created_at!"
           from numbered"#,
        type_id,
        mark.rank,
        mark.turn,
        slots.len() as i64,
        &fences,
        &credentials,
        &workers as &[&str],
        lease_seconds,
        run_timeout_seconds,
        ghosts,
        &worker,
    )
    .fetch_all(&mut **tx)
    .await?;
    rows.sort_unstable_by_key(|row| (row.rank, row.turn, row.item_id));
    Ok(rows)
}

/// Takes named items out of `ready` for the given slots, those of them that can be had.
pub async fn claim_items(
    tx: &mut Tx,
    item_ids: &[Uuid],
    type_ids: &[i32],
    slots: &[Slot],
    (lease_seconds, run_timeout_seconds): (f64, Option<f64>),
    ghosts: &[i64],
) -> Result<Vec<ClaimedRow>, sqlx::Error> {
    let Columns { fences, credentials, workers, worker } = Columns::of(slots);
    let mut rows = sqlx::query_as!(
        ClaimedRow,
        r#"with pick as materialized (
             select ctid from ready
             where item_id = any($1::uuid[]) and type_id = any($2::int[])
               and (expires_at is null or expires_at > clock_timestamp())
               and gate_id <> all($9::bigint[])
             order by item_id limit $3 for update skip locked),
           gone as (
             delete from ready where ctid = any(array(select ctid from pick))
             returning item_id, gate_id, type_id, attempts, failures, rank, turn, expires_at, lane_id),
           numbered as (
             select gone.*, i.*, row_number() over () as n
             from gone cross join lateral (
               select seq, row, metadata, dedupe_key, serialize_key, created_at, expires_at as item_expires_at,
                 case when changed_at is null then payload else coalesce(
                   (select e.payload from item_edit e where e.item_id = item.id order by e.edit desc limit 1),
                   payload) end as payload
               from item where id = gone.item_id offset 0) i),
           ins as (
             insert into lease (id, item_id, gate_id, credential_id, worker_id, started_at, last_beat, run_until,
               expires_at, lease_seconds, type_id, attempt, failures, rank, lane_id, seq)
             select ($4::uuid[])[n], item_id, gate_id, ($5::uuid[])[n], ($6::text[])[($10::int[])[n]], clock_timestamp(),
               clock_timestamp(), clock_timestamp() + make_interval(secs => $8::float8), expires_at, $7::float8,
               type_id, attempts + 1, failures, rank, lane_id, seq
             from numbered)
           select ($4::uuid[])[n] as "fence!", item_id as "item_id!", gate_id as "gate_id!",
             attempts + 1 as "attempt!", failures as "failures!", rank as "rank!", turn as "turn!",
             clock_timestamp() + make_interval(secs => $7::float8) as "lease_expires_at!",
             seq as "seq!", row, payload as "payload!", metadata, dedupe_key, serialize_key,
             item_expires_at as expires_at, created_at as "created_at!"
           from numbered"#,
        item_ids,
        type_ids,
        slots.len() as i64,
        &fences,
        &credentials,
        &workers as &[&str],
        lease_seconds,
        run_timeout_seconds,
        ghosts,
        &worker,
    )
    .fetch_all(&mut **tx)
    .await?;
    rows.sort_unstable_by_key(|row| (row.rank, row.turn, row.item_id));
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

/// Locks a type and reads its cap. Count its open assignments after that, in a statement of its own, so
/// that it sees what was committed while the lock was waited for.
pub async fn lock_type(tx: &mut Tx, type_id: i32) -> Result<Option<i32>, sqlx::Error> {
    sqlx::query_scalar!("select concurrency from job_type where id = $1 for no key update", type_id)
        .fetch_one(&mut **tx)
        .await
}

/// Number of open assignments of a type.
pub async fn count_open(tx: &mut Tx, type_id: i32) -> Result<i64, sqlx::Error> {
    sqlx::query_scalar!(r#"select count(*) as "n!" from lease where type_id = $1"#, type_id).fetch_one(&mut **tx).await
}

/// An assignment just taken from its holder, to be ended.
#[derive(Clone, Debug)]
pub struct TakenRow {
    pub id: Uuid,
    pub item_id: Uuid,
    pub gate_id: i64,
    pub started_at: OffsetDateTime,
    pub type_id: i32,
    pub attempt: i32,
    pub failures: i32,
    pub rank: i16,
    pub touched: bool,
    pub worker_id: String,
    pub expires_at: Option<OffsetDateTime>,
    /// Its run time was up (sweeps only).
    pub timed_out: bool,
    pub lane_id: Option<i64>,
    /// The item was cancelled while it ran: any ending makes it so (`cancellation`).
    pub cancel_requested: bool,
}

/// Takes assignments from their holders. `fences` ascending, `credentials` beside them. What does not
/// come back was not open, or is another token's.
pub async fn take(tx: &mut Tx, fences: &[Uuid], credentials: &[Uuid]) -> Result<Vec<TakenRow>, sqlx::Error> {
    sqlx::query_as!(
        TakenRow,
        r#"delete from lease
           where id = any($1::uuid[]) and credential_id = ($2::uuid[])[width_bucket(id, $1::uuid[])]
           returning id, item_id, gate_id, started_at, type_id, attempt, failures, rank, touched, worker_id,
             expires_at, false as "timed_out!", lane_id, cancel_requested_at is not null as "cancel_requested!""#,
        fences,
        credentials
    )
    .fetch_all(&mut **tx)
    .await
}

/// Takes assignments whose lease or run time is over, at most `limit`, skipping what is being ended.
/// No lease is lost that could not have been renewed: time before `resumed_at` does not count (`uptime::tick`).
pub async fn take_lost(tx: &mut Tx, limit: i64) -> Result<Vec<TakenRow>, sqlx::Error> {
    #[cfg(feature = "failpoints")]
    if crate::failpoints::broken("sweep_by_item", file!()) {
        return super::broken::take_lost(tx, limit).await;
    }
    sqlx::query_as!(
        TakenRow,
        r#"with up as materialized (select resumed_at from uptime),
           pick as materialized (
             select id from lease
             where run_until < clock_timestamp()
                or greatest(last_beat, (select resumed_at from up)) + make_interval(secs => lease_seconds) < clock_timestamp()
             order by id limit $1 for update skip locked)
           delete from lease where id = any(array(select id from pick))
           returning id, item_id, gate_id, started_at, type_id, attempt, failures, rank, touched, worker_id,
             expires_at, coalesce(run_until < clock_timestamp(), false) as "timed_out!", lane_id,
             cancel_requested_at is not null as "cancel_requested!""#,
        limit
    )
    .fetch_all(&mut **tx)
    .await
}

/// A sign of life, with progress where the worker reported some.
#[derive(Clone, Debug)]
pub struct Beat {
    pub fence: Uuid,
    pub credential_id: Uuid,
    pub done: Option<i64>,
    pub total: Option<i64>,
    pub message: Option<String>,
    pub has_progress: bool,
}

/// A renewed lease.
#[derive(Clone, Copy, Debug)]
pub struct Renewed {
    pub id: Uuid,
    pub gate_id: i64,
    pub lease_expires_at: OffsetDateTime,
    pub cancel: bool,
}

/// Renews leases; `beats` ascending by assignment id, one for each. Touches no indexed column.
pub async fn beat(pool: &PgPool, beats: &[Beat]) -> Result<Vec<Renewed>, sqlx::Error> {
    let fences: Vec<Uuid> = beats.iter().map(|b| b.fence).collect();
    let credentials: Vec<Uuid> = beats.iter().map(|b| b.credential_id).collect();
    let done: Vec<Option<i64>> = beats.iter().map(|b| b.done).collect();
    let total: Vec<Option<i64>> = beats.iter().map(|b| b.total).collect();
    let messages: Vec<Option<&str>> = beats.iter().map(|b| b.message.as_deref()).collect();
    let told: Vec<bool> = beats.iter().map(|b| b.has_progress).collect();
    sqlx::query_as!(
        Renewed,
        r#"update lease l set last_beat = clock_timestamp(),
             progress_done = case when ($6::bool[])[width_bucket(l.id, $1::uuid[])]
               then ($3::bigint[])[width_bucket(l.id, $1::uuid[])] else progress_done end,
             progress_total = case when ($6::bool[])[width_bucket(l.id, $1::uuid[])]
               then ($4::bigint[])[width_bucket(l.id, $1::uuid[])] else progress_total end,
             progress_message = case when ($6::bool[])[width_bucket(l.id, $1::uuid[])]
               then ($5::text[])[width_bucket(l.id, $1::uuid[])] else progress_message end,
             touched = touched or ($6::bool[])[width_bucket(l.id, $1::uuid[])]
           where l.id = any($1::uuid[]) and l.credential_id = ($2::uuid[])[width_bucket(l.id, $1::uuid[])]
           returning l.id, l.gate_id, l.last_beat + make_interval(secs => l.lease_seconds) as "lease_expires_at!",
             (l.cancel_requested_at is not null
              or (select g.cancelled_at is not null from gate g where g.gate_id = l.gate_id)) as "cancel!""#,
        &fences,
        &credentials,
        &done as &[Option<i64>],
        &total as &[Option<i64>],
        &messages as &[Option<&str>],
        &told
    )
    .fetch_all(pool)
    .await
}

/// Holder of an assignment, read under its lock.
#[derive(Clone, Copy, Debug)]
pub struct HeldRow {
    pub item_id: Uuid,
    pub gate_id: i64,
}

/// Locks one open assignment of this token.
pub async fn hold(tx: &mut Tx, fence: Uuid, credential_id: Uuid) -> Result<Option<HeldRow>, sqlx::Error> {
    sqlx::query_as!(
        HeldRow,
        "update lease set touched = true, last_beat = clock_timestamp()
         where id = $1 and credential_id = $2 returning item_id, gate_id",
        fence,
        credential_id
    )
    .fetch_optional(&mut **tx)
    .await
}

/// Records a step as the item's last one.
pub async fn set_step(tx: &mut Tx, item_id: Uuid, name: &str, data: &str) -> Result<(), sqlx::Error> {
    sqlx::query!(
        "insert into item_step (item_id, name, data) values ($1, $2, $3)
         on conflict (item_id) do update set name = $2, data = $3, reached_at = clock_timestamp()",
        item_id,
        name,
        data
    )
    .execute(&mut **tx)
    .await?;
    Ok(())
}

/// Open assignments by assignment id, as claims show them.
pub async fn open(tx: &mut Tx, fences: &[Uuid]) -> Result<Vec<ClaimedRow>, sqlx::Error> {
    sqlx::query_as!(
        ClaimedRow,
        r#"select l.id as fence, l.item_id, l.gate_id, l.attempt, l.failures, l.rank, 0::bigint as "turn!",
             l.last_beat + make_interval(secs => l.lease_seconds) as "lease_expires_at!",
             i.seq as "seq!", i.row, i.payload as "payload!", i.metadata, i.dedupe_key, i.serialize_key,
             i.expires_at, i.created_at as "created_at!"
           from lease l cross join lateral (
             select seq, row, metadata, dedupe_key, serialize_key, expires_at, created_at,
               coalesce((select e.payload from item_edit e where e.item_id = item.id order by e.edit desc limit 1),
                        payload) as payload
             from item where id = l.item_id offset 0) i
           where l.id = any($1::uuid[]) order by l.id"#,
        fences
    )
    .fetch_all(&mut **tx)
    .await
}

/// Of these assignments, those that have reported a step or progress and are not cancelled: assignment id and
/// job state row. Locks them.
pub async fn touched(tx: &mut Tx, fences: &[Uuid]) -> Result<Vec<(Uuid, i64)>, sqlx::Error> {
    let rows = sqlx::query!(
        "select id, gate_id from lease
         where id = any($1::uuid[]) and touched and cancel_requested_at is null
           and not exists (select 1 from gate g where g.gate_id = lease.gate_id and g.cancelled_at is not null)
         order by id for no key update of lease",
        fences
    )
    .fetch_all(&mut **tx)
    .await?;
    Ok(rows.into_iter().map(|row| (row.id, row.gate_id)).collect())
}
