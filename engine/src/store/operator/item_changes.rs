//! Items that people retry or cancel: their previous outcomes and new states (`cancellation`, `manual-retry`). Every
//! statement handles many items; rows are locked in order of their ids.

use std::collections::HashMap;

use domain::ItemState;
use sqlx::PgPool;
use time::OffsetDateTime;
use uuid::Uuid;

use crate::store::Tx;

/// Fields of an item that do not change while it is retried.
#[derive(Clone, Debug)]
pub struct RetriedItem {
    pub id: Uuid,
    pub job_key: i64,
    pub priority: i16,
    pub serialize_key: Option<String>,
    pub run_after: Option<OffsetDateTime>,
    pub expires_at: Option<OffsetDateTime>,
}

/// Items in no order; unknown ones are omitted.
pub async fn items(pool: &PgPool, item_ids: &[Uuid]) -> Result<Vec<RetriedItem>, sqlx::Error> {
    sqlx::query_as!(
        RetriedItem,
        "select id, job_key, priority, serialize_key, run_after, expires_at from item where id = any($1::uuid[])",
        item_ids
    )
    .fetch_all(pool)
    .await
}

/// A final state, and the item whose corrected row took this one's place.
#[derive(Clone, Copy, Debug)]
pub struct FinalState {
    pub state: ItemState,
    pub superseded_by: Option<Uuid>,
    /// A failed `after` had canceled it and was repaired: it is blocked, as soon as the propagation reaches it.
    pub is_returning: bool,
}

/// Final states of items that have one.
pub async fn final_states(tx: &mut Tx, item_ids: &[Uuid]) -> Result<HashMap<Uuid, FinalState>, sqlx::Error> {
    let rows = sqlx::query!(
        r#"select item_id, state, superseded_by,
             (state = 3 and error_kind = 'after_failed' and exists (
                select 1 from job_state g
                where g.job_key = o.job_key and not g.after_failed and g.cancelled_at is null)) is true as "is_returning!"
           from outcome o where item_id = any($1::uuid[])"#,
        item_ids
    )
    .fetch_all(&mut **tx)
    .await?;
    Ok(rows
        .into_iter()
        .filter_map(|row| {
            let state = ItemState::from_code(row.state)?;
            Some((row.item_id, FinalState { state, superseded_by: row.superseded_by, is_returning: row.is_returning }))
        })
        .collect())
}

/// Requests the cancellation of running items. Returns the running ones.
pub async fn ask_to_cancel(tx: &mut Tx, item_ids: &[Uuid]) -> Result<Vec<Uuid>, sqlx::Error> {
    sqlx::query_scalar!(
        "with leased as materialized (
           select id from lease where item_id = any($1::uuid[]) order by id for no key update)
         update lease set cancel_requested_at = coalesce(cancel_requested_at, clock_timestamp())
         where id = any(array(select id from leased)) returning item_id",
        item_ids
    )
    .fetch_all(&mut **tx)
    .await
}

/// Outcome of an item before the retry.
#[derive(Clone, Debug)]
pub struct PreviousOutcome {
    pub item_id: Uuid,
    pub state: i16,
    pub attempt: i32,
    pub fingerprint: Option<String>,
    /// No attempt led there: a person or a deadline did, or the item was dead from the start.
    pub without_attempt: bool,
    /// The item was dead from the start: its row or its payload could not be used.
    pub unusable: bool,
}

/// Deletes the outcomes of dead, expired and singly canceled items; their final attempts move into the history. Items
/// in other states are not returned.
pub async fn take_outcomes(tx: &mut Tx, item_ids: &[Uuid]) -> Result<Vec<PreviousOutcome>, sqlx::Error> {
    sqlx::query_as!(
        PreviousOutcome,
        r#"with pick as materialized (
             select item_id from outcome
             where item_id = any($1::uuid[]) and state in (2, 3, 4) and superseded_by is null
               and not (state = 3 and coalesce(error_kind, '') = 'after_failed')
             order by item_id for update),
           gone as (
             delete from outcome where item_id = any(array(select item_id from pick)) returning *),
           kept as (
             insert into attempt (item_id, attempt, job_key, lease_id, started_at, ended_at, ended_as, worker_id,
               error_message, error_kind, error_detail, final_state)
             select item_id, attempt, job_key, lease_id, started_at, ended_at, ended_as, worker_id, error_message,
               error_kind, error_detail, state
             from gone where lease_id is not null)
           select item_id as "item_id!", state as "state!", attempt as "attempt!", fingerprint,
             lease_id is null as "without_attempt!", state = 2 and lease_id is null as "unusable!"
           from gone"#,
        item_ids
    )
    .fetch_all(&mut **tx)
    .await
}

/// Makes deferred items due now, except those that wait for events, and gives them new expiries where there are some;
/// `items` sorted by id. Their later starts are forgotten, which an edit would apply again. Locks the items first, as
/// edits do. Returns those that were deferred.
pub async fn make_due(tx: &mut Tx, items: &[(Uuid, Option<OffsetDateTime>)]) -> Result<Vec<Uuid>, sqlx::Error> {
    let (ids, expires): (Vec<Uuid>, Vec<Option<OffsetDateTime>>) = items.iter().copied().unzip();
    sqlx::query_scalar!(
        "with locked as materialized (
           select id from item where id = any($1::uuid[]) order by id for no key update),
         pick as materialized (
           select item_id from deferred where item_id = any(array(select id from locked)) and not for_event
           order by item_id for update),
         started as (
           update item set run_after = null, changed_at = clock_timestamp()
           where id = any(array(select item_id from pick)) and run_after > clock_timestamp())
         update deferred set due_at = clock_timestamp(),
           expires_at = coalesce(($2::timestamptz[])[width_bucket(item_id, $1::uuid[])], expires_at)
         where item_id = any(array(select item_id from pick)) returning item_id",
        &ids,
        &expires as &[Option<OffsetDateTime>]
    )
    .fetch_all(&mut **tx)
    .await
}

/// Forgets the later starts of items that have `started` already, and records the time of the change of those and of
/// `undated` items: nothing else shows that they were final before.
pub async fn forget_starts(tx: &mut Tx, started: &[Uuid], undated: &[Uuid]) -> Result<(), sqlx::Error> {
    sqlx::query!(
        "update item set changed_at = clock_timestamp(),
           run_after = case when id <> all($1::uuid[]) or run_after <= clock_timestamp() then run_after end
         where id = any(array(
           select id from item where id = any($1::uuid[]) and run_after > clock_timestamp() or id = any($2::uuid[])
           order by id for no key update))",
        started,
        undated
    )
    .execute(&mut **tx)
    .await?;
    Ok(())
}

/// Stores edited payloads; the originals remain. Edited items are marked as changed, because claims look for edits of
/// those only.
pub async fn edit(tx: &mut Tx, item_ids: &[Uuid], payloads: &[&str]) -> Result<(), sqlx::Error> {
    sqlx::query!(
        "with changed as (update item set changed_at = clock_timestamp() where id = any($1::uuid[]))
         insert into item_edit (item_id, edit, payload)
         select item_id, (select coalesce(max(e.edit), 0) + 1 from item_edit e where e.item_id = new.item_id), payload
         from unnest($1::uuid[], $2::text[]) as new (item_id, payload)",
        item_ids,
        payloads as &[&str]
    )
    .execute(&mut **tx)
    .await?;
    Ok(())
}

/// Current payloads: the last edits, or the originals. Each is looked up by key, whatever number of rows the planner
/// expects.
pub async fn payloads(pool: &PgPool, item_ids: &[Uuid]) -> Result<HashMap<Uuid, String>, sqlx::Error> {
    let rows = sqlx::query!(
        r#"select i.id, coalesce((select e.payload from item_edit e where e.item_id = i.id order by e.edit desc limit 1),
                               i.payload) as "payload!"
           from unnest($1::uuid[]) as of (item_id)
           cross join lateral (select id, payload from item where id = of.item_id offset 0) i"#,
        item_ids
    )
    .fetch_all(pool)
    .await?;
    Ok(rows.into_iter().map(|row| (row.id, row.payload)).collect())
}

/// The first `characters` characters of current payloads.
pub async fn payload_beginnings(
    pool: &PgPool,
    item_ids: &[Uuid],
    characters: i32,
) -> Result<HashMap<Uuid, String>, sqlx::Error> {
    let rows = sqlx::query!(
        r#"select i.id, left(coalesce((select e.payload from item_edit e where e.item_id = i.id order by e.edit desc limit 1),
                                    i.payload), $2) as "beginning!"
           from unnest($1::uuid[]) as of (item_id)
           cross join lateral (select id, payload from item where id = of.item_id offset 0) i"#,
        item_ids,
        characters
    )
    .fetch_all(pool)
    .await?;
    Ok(rows.into_iter().map(|row| (row.id, row.beginning)).collect())
}

/// Sizes of these payloads in bytes, without reading them.
pub async fn payload_bytes(pool: &PgPool, item_ids: &[Uuid]) -> Result<HashMap<Uuid, usize>, sqlx::Error> {
    let rows = sqlx::query!(
        r#"select i.id, octet_length(coalesce(
             (select e.payload from item_edit e where e.item_id = i.id order by e.edit desc limit 1), i.payload)) as "bytes!"
           from unnest($1::uuid[]) as of (item_id)
           cross join lateral (select id, payload from item where id = of.item_id offset 0) i"#,
        item_ids
    )
    .fetch_all(pool)
    .await?;
    Ok(rows.into_iter().map(|row| (row.id, usize::try_from(row.bytes).unwrap_or(0))).collect())
}

/// Forgets the steps that items have reached; the list of their attempts keeps them.
pub async fn forget_steps(tx: &mut Tx, item_ids: &[Uuid]) -> Result<(), sqlx::Error> {
    sqlx::query!(
        "with forgotten as (
           delete from item_step where item_id = any($1::uuid[]) returning item_id, name, data, reached_at)
         insert into earlier_step (item_id, name, data, reached_at)
         select item_id, name, data, reached_at from forgotten",
        item_ids
    )
    .execute(&mut **tx)
    .await?;
    Ok(())
}

/// Sets the expiry of an item.
pub async fn set_expiry(tx: &mut Tx, item_id: Uuid, at: OffsetDateTime) -> Result<(), sqlx::Error> {
    sqlx::query!("update item set expires_at = $2 where id = $1", item_id, at).execute(&mut **tx).await?;
    Ok(())
}

/// Subtracts dead items of jobs from their error groups, or from `other` if they were counted there. Requires the
/// locks of the job state rows. The newest remaining item becomes the group's example. Returns (job key, fingerprint
/// of the group, number).
pub async fn uncount(
    tx: &mut Tx,
    job_keys: &[i64],
    fingerprints: &[&str],
    counts: &[i64],
) -> Result<Vec<(i64, String, i64)>, sqlx::Error> {
    let rows = sqlx::query!(
        r#"update error_group g set n_dead = greatest(g.n_dead - less.n, 0),
             sample_item_id = coalesce(next.item_id, g.sample_item_id),
             message = coalesce(next.error_message, g.message)
           from (
             select job_key, fingerprint, sum(n)::bigint as n
             from (
               select gone.job_key, gone.n,
                 coalesce((select e.fingerprint from error_group e
                           where e.job_key = gone.job_key and e.fingerprint = gone.fingerprint), 'other') as fingerprint
               from unnest($1::bigint[], $2::text[], $3::bigint[]) as gone (job_key, fingerprint, n)) as named
             group by job_key, fingerprint) as less
           left join lateral (
             select o.item_id, o.error_message from outcome o
             where o.job_key = less.job_key and o.fingerprint = less.fingerprint and o.state = 2
             order by o.seq desc limit 1) as next on true
           where g.job_key = less.job_key and g.fingerprint = less.fingerprint
           returning g.job_key, g.fingerprint, less.n as "n!""#,
        job_keys,
        fingerprints as &[&str],
        counts
    )
    .fetch_all(&mut **tx)
    .await?;
    Ok(rows.into_iter().map(|row| (row.job_key, row.fingerprint, row.n)).collect())
}

/// Subtracts dead items from an owner's error group. If the example is gone, the newest within reach replaces it.
pub async fn uncount_for_owner(
    tx: &mut Tx,
    owner_id: Uuid,
    type_id: i32,
    fingerprint: &str,
    n: i64,
) -> Result<(), sqlx::Error> {
    let without_example = sqlx::query_scalar!(
        r#"update owner_error e set n_dead = greatest(e.n_dead - $4, 0)
           where e.owner_id = $1 and e.type_id = $2 and e.fingerprint = $3
           returning (e.n_dead > 0 and not exists (
             select 1 from outcome o where o.item_id = e.sample_item_id and o.state = 2)) as "stale!""#,
        owner_id,
        type_id,
        fingerprint,
        n
    )
    .fetch_optional(&mut **tx)
    .await?;
    if without_example == Some(true) {
        sqlx::query!(
            "update owner_error e set sample_item_id = next.item_id, message = next.error_message
             from (
               select o.item_id, o.error_message
               from (select * from outcome where fingerprint = $3 and state = 2
                     order by job_key desc, seq desc limit 1000) o
               join job j on j.job_key = o.job_key
               where j.owner_id = $1 and j.type_id = $2 and o.error_message is not null
               order by o.job_key desc, o.seq desc limit 1) as next
             where e.owner_id = $1 and e.type_id = $2 and e.fingerprint = $3",
            owner_id,
            type_id,
            fingerprint
        )
        .execute(&mut **tx)
        .await?;
    }
    Ok(())
}
