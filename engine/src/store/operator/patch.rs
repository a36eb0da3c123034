//! Small edits by people: definitions of jobs, and the settings that delay a waiting item.
//!
//! Rows of `ready` and `deferred` are deleted and inserted again, never updated in place, because claims and sweeps
//! select them by ctid. Rows that are being claimed are skipped, not waited for.

use sqlx::PgPool;
use time::OffsetDateTime;
use uuid::Uuid;

use crate::store::{
    Tx,
    enqueue::{
        items::{DeferredRow, ReadyRow},
        parked_items,
    },
};

/// Fields of a job that can be edited.
#[derive(Clone, Debug, PartialEq)]
pub struct EditableJob {
    pub job_key: i64,
    pub type_id: i32,
    pub delivery: String,
    pub is_root: bool,
    pub name: Option<String>,
    pub metadata: String,
    pub priority: i16,
    pub run_after: Option<OffsetDateTime>,
    pub expires_at: Option<OffsetDateTime>,
    pub max_failures: Option<i32>,
    pub expected_count: Option<i64>,
    pub on_completed: Option<String>,
}

/// Settings of a job that its children and its items inherit (`start-and-expiry`).
#[derive(Clone, Debug, PartialEq)]
pub struct InheritedSettings {
    pub job_key: i64,
    pub id: Uuid,
    pub parent_id: Option<Uuid>,
    pub priority: i16,
    pub run_after: Option<OffsetDateTime>,
    pub expires_at: Option<OffsetDateTime>,
}

/// Priority, start, and expiry.
pub type Settings = (i16, Option<OffsetDateTime>, Option<OffsetDateTime>);

impl InheritedSettings {
    /// What is inherited.
    pub fn values(&self) -> Settings {
        (self.priority, self.run_after, self.expires_at)
    }
}

/// Locks a job's definition and reads it; `None` if the job is deleted.
pub async fn lock_job(tx: &mut Tx, id: Uuid) -> Result<Option<EditableJob>, sqlx::Error> {
    sqlx::query_as!(
        EditableJob,
        r#"select j.job_key, j.type_id, j.delivery, j.parent_id is null as "is_root!", j.name, j.metadata, j.priority,
             j.run_after, j.expires_at, j.max_failures, j.expected_count, j.on_completed
           from job j where j.id = $1
             and exists (select 1 from job_state g where g.job_key = j.job_key and g.deleted_at is null)
           for no key update"#,
        id
    )
    .fetch_optional(&mut **tx)
    .await
}

/// Locks the definitions of all jobs of a tree, so that edits of a tree follow each other, and reads what is inherited.
pub async fn lock_tree(tx: &mut Tx, root_id: Uuid) -> Result<Vec<InheritedSettings>, sqlx::Error> {
    sqlx::query_as!(
        InheritedSettings,
        "select job_key, id, parent_id, priority, run_after, expires_at from job where root_id = $1
         order by ord for no key update",
        root_id
    )
    .fetch_all(&mut **tx)
    .await
}

/// Writes a job's definition, except for what is inherited.
pub async fn write_job(tx: &mut Tx, job: &EditableJob) -> Result<(), sqlx::Error> {
    sqlx::query!(
        "update job set name = $2, metadata = $3, max_failures = $4, expected_count = $5, on_completed = $6
         where job_key = $1",
        job.job_key,
        job.name,
        job.metadata,
        job.max_failures,
        job.expected_count,
        job.on_completed
    )
    .execute(&mut **tx)
    .await?;
    Ok(())
}

/// Writes what these jobs and their items inherit, with the times at which the jobs expire.
pub async fn write_inherited(tx: &mut Tx, rows: &[InheritedSettings]) -> Result<(), sqlx::Error> {
    let job_keys: Vec<i64> = rows.iter().map(|row| row.job_key).collect();
    let priorities: Vec<i16> = rows.iter().map(|row| row.priority).collect();
    let run_after: Vec<Option<OffsetDateTime>> = rows.iter().map(|row| row.run_after).collect();
    let expires: Vec<Option<OffsetDateTime>> = rows.iter().map(|row| row.expires_at).collect();
    sqlx::query!(
        "update job j set priority = new.priority, run_after = new.run_after, expires_at = new.expires_at
         from unnest($1::bigint[], $2::smallint[], $3::timestamptz[], $4::timestamptz[])
           as new (job_key, priority, run_after, expires_at)
         where j.job_key = new.job_key",
        &job_keys,
        &priorities,
        &run_after as &[Option<OffsetDateTime>],
        &expires as &[Option<OffsetDateTime>]
    )
    .execute(&mut **tx)
    .await?;
    sqlx::query!(
        "delete from deadline d using unnest($1::bigint[], $2::timestamptz[]) as new (job_key, expires_at)
         where d.job_key = new.job_key and new.expires_at is null",
        &job_keys,
        &expires as &[Option<OffsetDateTime>]
    )
    .execute(&mut **tx)
    .await?;
    sqlx::query!(
        "insert into deadline (job_key, expires_at)
         select g.job_key, new.expires_at
         from unnest($1::bigint[], $2::timestamptz[]) as new (job_key, expires_at)
         join job_state g on g.job_key = new.job_key
         where not g.sealed and new.expires_at is not null order by g.job_key
         on conflict (job_key) do update set expires_at = excluded.expires_at",
        &job_keys,
        &expires as &[Option<OffsetDateTime>]
    )
    .execute(&mut **tx)
    .await?;
    Ok(())
}

/// Increments the versions of edited jobs and makes every server drop its cached copies.
pub async fn mark_changed(tx: &mut Tx, job_keys: &[i64]) -> Result<(), sqlx::Error> {
    sqlx::query!(
        "insert into job_change (job_key) select job_key from unnest($1::bigint[]) as edited (job_key) order by job_key
         on conflict (job_key) do update set changed_at = clock_timestamp()",
        job_keys
    )
    .execute(&mut **tx)
    .await?;
    sqlx::query!(
        "update job_state set version = version + 1, updated_at = clock_timestamp()
         where job_key = any(array(
           select job_key from job_state where job_key = any($1::bigint[]) order by job_key for no key update))",
        job_keys
    )
    .execute(&mut **tx)
    .await?;
    Ok(())
}

/// Keys of jobs that were edited since `since`, and the database's time before the query.
pub async fn changes_since(
    pool: &PgPool,
    since: Option<OffsetDateTime>,
) -> Result<(OffsetDateTime, Vec<i64>), sqlx::Error> {
    let now = sqlx::query_scalar!(r#"select clock_timestamp() as "now!""#).fetch_one(pool).await?;
    let job_keys = sqlx::query_scalar!(
        "select job_key from job_change where changed_at > coalesce($1, clock_timestamp() - interval '1 minute')",
        since
    )
    .fetch_all(pool)
    .await?;
    Ok((now, job_keys))
}

/// Deletes records of edits that every server has seen, at most a thousand.
pub async fn forget_changes(pool: &PgPool) -> Result<u64, sqlx::Error> {
    let gone = sqlx::query!(
        "delete from job_change where ctid = any(array(
           select ctid from job_change where changed_at < (select clock_timestamp()) - interval '1 day'
           order by changed_at limit 1000 for update skip locked))"
    )
    .execute(pool)
    .await?;
    Ok(gone.rows_affected())
}

/// Fields of an item that determine when it becomes available.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EditableItem {
    pub id: Uuid,
    pub job_key: i64,
    pub priority: i16,
    pub run_after: Option<OffsetDateTime>,
    pub expires_at: Option<OffsetDateTime>,
}

/// Locks an item and reads these fields.
pub async fn lock_item(tx: &mut Tx, id: Uuid) -> Result<Option<EditableItem>, sqlx::Error> {
    sqlx::query_as!(
        EditableItem,
        "select id, job_key, priority, run_after, expires_at from item where id = $1 for no key update",
        id
    )
    .fetch_optional(&mut **tx)
    .await
}

/// Items of a job that its edit may concern.
#[derive(Debug)]
pub struct EditableItems {
    /// Last sequence number that was read; `None` for the last items.
    pub last: Option<i64>,
    /// Pending items, and those that a failed `after` has canceled, sorted by id.
    pub items: Vec<EditableItem>,
}

/// Reads the items of a job after `seq`, at most `limit`. Locks them, so that what is written to them replaces no other edit.
pub async fn editable_items(tx: &mut Tx, job_key: i64, seq: i64, limit: i64) -> Result<EditableItems, sqlx::Error> {
    let scanned = sqlx::query!(
        r#"select i.id, i.seq,
             (exists (select 1 from ready r where r.item_id = i.id)
              or exists (select 1 from deferred d where d.item_id = i.id)
              or exists (select 1 from blocked b where b.item_id = i.id)) as "waits!",
             exists (select 1 from outcome o where o.item_id = i.id and o.state = 3 and o.error_kind = 'after_failed')
               as "canceled_by_after!"
           from item i where i.job_key = $1 and i.seq > $2 order by i.seq limit $3"#,
        job_key,
        seq,
        limit
    )
    .fetch_all(&mut **tx)
    .await?;
    let last = if (scanned.len() as i64) < limit { None } else { scanned.last().map(|row| row.seq) };
    let ids: Vec<Uuid> = scanned.iter().filter(|row| row.waits || row.canceled_by_after).map(|row| row.id).collect();
    let items = sqlx::query_as!(
        EditableItem,
        "select id, job_key, priority, run_after, expires_at from item
         where id = any($1::uuid[]) order by id for no key update",
        &ids
    )
    .fetch_all(&mut **tx)
    .await?;
    Ok(EditableItems { last, items })
}

/// Items among these that a failed `after` has canceled: they wait again when what failed is repaired.
pub async fn canceled_by_after(tx: &mut Tx, ids: &[Uuid]) -> Result<Vec<Uuid>, sqlx::Error> {
    sqlx::query_scalar!(
        "select item_id from outcome where item_id = any($1::uuid[]) and state = 3 and error_kind = 'after_failed'",
        ids
    )
    .fetch_all(&mut **tx)
    .await
}

/// Writes these fields of items; `rows` sorted by id.
pub async fn write_items(tx: &mut Tx, rows: &[EditableItem]) -> Result<(), sqlx::Error> {
    let ids: Vec<Uuid> = rows.iter().map(|row| row.id).collect();
    let priorities: Vec<i16> = rows.iter().map(|row| row.priority).collect();
    let run_after: Vec<Option<OffsetDateTime>> = rows.iter().map(|row| row.run_after).collect();
    let expires: Vec<Option<OffsetDateTime>> = rows.iter().map(|row| row.expires_at).collect();
    sqlx::query!(
        "update item set priority = ($2::smallint[])[width_bucket(id, $1::uuid[])],
           run_after = ($3::timestamptz[])[width_bucket(id, $1::uuid[])],
           expires_at = ($4::timestamptz[])[width_bucket(id, $1::uuid[])],
           changed_at = clock_timestamp()
         where id = any($1::uuid[])",
        &ids,
        &priorities,
        &run_after as &[Option<OffsetDateTime>],
        &expires as &[Option<OffsetDateTime>]
    )
    .execute(&mut **tx)
    .await?;
    Ok(())
}

/// Takes items out of `ready`, except those that are being claimed. Other items of the same keys may be admitted instead.
pub async fn take_ready(tx: &mut Tx, ids: &[Uuid]) -> Result<Vec<ReadyRow>, sqlx::Error> {
    let rows = sqlx::query!(
        r#"with pick as materialized (
             select ctid from ready where item_id = any($1::uuid[]) order by item_id for update skip locked)
           delete from ready where ctid = any(array(select ctid from pick))
           returning item_id, job_key, abs(type_id) as "type_id!", negated_priority, fair_turn, expires_at, attempts,
             failures, serialize_queue_id, limit_key"#,
        ids
    )
    .fetch_all(&mut **tx)
    .await?;
    parked_items::hint(tx, rows.iter().filter_map(|row| Some((row.type_id, row.limit_key?)))).await?;
    Ok(rows
        .into_iter()
        .map(|row| ReadyRow {
            item_id: row.item_id,
            job_key: row.job_key,
            type_id: row.type_id,
            negated_priority: row.negated_priority,
            fair_turn: row.fair_turn,
            expires_at: row.expires_at,
            attempts: row.attempts,
            failures: row.failures,
            serialize_queue_id: row.serialize_queue_id,
        })
        .collect())
}

/// Takes items out of `deferred`, except those that another transaction is moving or that wait for events.
pub async fn take_deferred(tx: &mut Tx, ids: &[Uuid]) -> Result<Vec<DeferredRow>, sqlx::Error> {
    sqlx::query_as!(
        DeferredRow,
        "with pick as materialized (
             select ctid from deferred where item_id = any($1::uuid[]) and not for_event
             order by item_id for update skip locked)
           delete from deferred where ctid = any(array(select ctid from pick))
           returning item_id, job_key, type_id, negated_priority, due_at as \"due_at!\", expires_at, attempts, failures, retryable, for_event, serialize_queue_id",
        ids
    )
    .fetch_all(&mut **tx)
    .await
}

/// Ends of the backoffs of these items, as their last attempts recorded them; the number of attempts of each at its index.
pub async fn retry_times(
    tx: &mut Tx,
    item_ids: &[Uuid],
    attempts: &[i32],
) -> Result<Vec<(Uuid, OffsetDateTime)>, sqlx::Error> {
    let rows = sqlx::query!(
        r#"select d.item_id as "item_id!",
             (select a.retry_at from attempt a where a.item_id = d.item_id and a.attempt = d.attempts) as "retry_at?"
           from unnest($1::uuid[], $2::int[]) as d (item_id, attempts)"#,
        item_ids,
        attempts
    )
    .fetch_all(&mut **tx)
    .await?;
    Ok(rows.into_iter().filter_map(|row| Some((row.item_id, row.retry_at?))).collect())
}

/// Changes the settings that apply to blocked items once they are released; `rows` sorted by id. Returns the items
/// that are blocked.
pub async fn change_blocked(tx: &mut Tx, rows: &[EditableItem]) -> Result<Vec<Uuid>, sqlx::Error> {
    let ids: Vec<Uuid> = rows.iter().map(|row| row.id).collect();
    let negated_priorities: Vec<i16> = rows.iter().map(|row| -row.priority).collect();
    let due: Vec<Option<OffsetDateTime>> = rows.iter().map(|row| row.run_after).collect();
    let expires: Vec<Option<OffsetDateTime>> = rows.iter().map(|row| row.expires_at).collect();
    sqlx::query_scalar!(
        "update blocked set negated_priority = ($2::smallint[])[width_bucket(item_id, $1::uuid[])],
           due_at = ($3::timestamptz[])[width_bucket(item_id, $1::uuid[])],
           expires_at = ($4::timestamptz[])[width_bucket(item_id, $1::uuid[])]
         where item_id = any($1::uuid[]) returning item_id",
        &ids,
        &negated_priorities,
        &due as &[Option<OffsetDateTime>],
        &expires as &[Option<OffsetDateTime>]
    )
    .fetch_all(&mut **tx)
    .await
}

/// Changes the settings that apply to items once their event has come; `rows` sorted by id. Returns the items that wait for
/// one.
pub async fn change_waits(tx: &mut Tx, rows: &[EditableItem]) -> Result<Vec<Uuid>, sqlx::Error> {
    let ids: Vec<Uuid> = rows.iter().map(|row| row.id).collect();
    let negated_priorities: Vec<i16> = rows.iter().map(|row| -row.priority).collect();
    let expires: Vec<Option<OffsetDateTime>> = rows.iter().map(|row| row.expires_at).collect();
    sqlx::query_scalar!(
        "update deferred set negated_priority = ($2::smallint[])[width_bucket(item_id, $1::uuid[])],
           expires_at = ($3::timestamptz[])[width_bucket(item_id, $1::uuid[])]
         where item_id = any($1::uuid[]) and for_event returning item_id",
        &ids,
        &negated_priorities,
        &expires as &[Option<OffsetDateTime>]
    )
    .fetch_all(&mut **tx)
    .await
}

/// Returns true if other jobs of the tree still block the items of a job.
pub async fn blocked_by_after(tx: &mut Tx, job_key: i64) -> Result<bool, sqlx::Error> {
    let blocked = sqlx::query_scalar!(
        r#"select (after_open > 0 or after_failed) as "held!" from job_state where job_key = $1"#,
        job_key
    )
    .fetch_optional(&mut **tx)
    .await?;
    Ok(blocked.unwrap_or(true))
}
