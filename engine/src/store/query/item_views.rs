//! Views of items for pages and the API: the item with the row of its state table, and the reasons why it waits.
//!
//! Queries join by primary key from a bounded number of items and never count. While a decision about a whole job is
//! propagated to its rows, the job state row overrules the table.

use sqlx::{PgExecutor, PgPool};
use time::OffsetDateTime;
use uuid::Uuid;

use crate::store::page_range::by_age;

/// An item with its state. At most one of the state tables has a row for it.
#[derive(Clone, Debug)]
pub struct ItemView {
    pub id: Uuid,
    pub job_key: i64,
    pub seq: i64,
    pub row: Option<i64>,
    pub priority: i16,
    pub payload: Option<String>,
    /// The original payload, if a person has edited it.
    pub original_payload: Option<String>,
    pub metadata: Option<String>,
    pub dedupe_key: Option<String>,
    pub serialize_key: Option<String>,
    pub run_after: Option<OffsetDateTime>,
    pub expires_at: Option<OffsetDateTime>,
    pub fed_by: Option<Uuid>,
    pub created_at: OffsetDateTime,
    /// Time at which a person last changed it or its payload.
    pub changed_at: Option<OffsetDateTime>,
    /// `ItemState::code`.
    pub state: i16,
    pub attempts: i32,
    pub failures: i32,
    pub due_at: Option<OffsetDateTime>,
    /// Blocked (or to be blocked when due) by other jobs of the tree.
    pub by_after: bool,
    pub serialize_queue_id: Option<i64>,
    pub worker_id: Option<String>,
    pub lease_started_at: Option<OffsetDateTime>,
    pub last_heartbeat_at: Option<OffsetDateTime>,
    pub lease_expires_at: Option<OffsetDateTime>,
    pub cancel_requested_at: Option<OffsetDateTime>,
    pub progress_done: Option<i64>,
    pub progress_total: Option<i64>,
    pub progress_message: Option<String>,
    pub ended_at: Option<OffsetDateTime>,
    pub result: Option<String>,
    pub error_message: Option<String>,
    pub error_kind: Option<String>,
    pub error_detail: Option<String>,
    pub error_at: Option<OffsetDateTime>,
    /// End of its last attempt that did not make it final.
    pub attempt_ended_at: Option<OffsetDateTime>,
    pub step_name: Option<String>,
    pub step_data: Option<String>,
    pub step_at: Option<OffsetDateTime>,
    /// Its last wait for an event.
    pub wait_name: Option<String>,
    pub wait_form: Option<String>,
    pub wait_began_at: Option<OffsetDateTime>,
    pub event_at: Option<OffsetDateTime>,
    pub event_timed_out: Option<bool>,
    pub event_data: Option<String>,
    pub event_sender_kind: Option<String>,
    pub event_sender_name: Option<String>,
    pub job_cancelled_at: Option<OffsetDateTime>,
    pub job_cancel_reason: Option<String>,
    pub after_failed: bool,
    pub superseded_by: Option<Uuid>,
    pub debounce_key: Option<String>,
    pub debounce_seconds: Option<i32>,
    pub debounce_max_seconds: Option<i32>,
    pub debounce_merged: Option<i64>,
    pub debounce_first_at: Option<OffsetDateTime>,
    pub debounce_last_at: Option<OffsetDateTime>,
    pub debounce_starts_by: Option<OffsetDateTime>,
    pub deleted: bool,
}

/// Items by id, in no order. Payloads are only read if `payloads` is true.
///
/// The state is that of `item_list_keys::matching`: a final row, unless a failed `after` ended it and was repaired;
/// an open lease; then the job's own decision; then the table that has the row. Each row is looked up by its key
/// (`offset 0`), because a plan from the time when the tables were small is reused after they have grown.
pub async fn items(executor: impl PgExecutor<'_>, ids: &[Uuid], payloads: bool) -> Result<Vec<ItemView>, sqlx::Error> {
    sqlx::query_as!(
        ItemView,
        r#"select i.id as "id!", i.job_key as "job_key!", i.seq as "seq!", i.row as "row?", i.priority as "priority!",
             case when $2 then coalesce(e.payload, i.payload) end as "payload?",
             case when $2 and e.payload is not null then i.payload end as "original_payload?",
             i.metadata as "metadata?", i.dedupe_key as "dedupe_key?", i.serialize_key as "serialize_key?",
             i.run_after as "run_after?", i.expires_at as "expires_at?", i.fed_by as "fed_by?",
             i.created_at as "created_at!", greatest(i.changed_at, e.edited_at) as "changed_at?",
             (case
               when o.item_id is not null then case
                 when o.state = 3 and o.error_kind = 'after_failed' and not g.after_failed and g.cancelled_at is null
                   then 9 else o.state end
               when l.item_id is not null then 6
               when g.cancelled_at is not null or g.after_failed then 3
               when d.item_id is not null then case when d.for_event then 10 when d.retryable then 7 else 8 end
               when b.item_id is not null then 9
               else 5 end)::smallint as "state!",
             coalesce(o.attempt, l.attempt, d.attempts, b.attempts, r.attempts, 0) as "attempts!",
             coalesce(o.failures, l.failures, d.failures, b.failures, r.failures, 0) as "failures!",
             coalesce(d.due_at, b.due_at) as "due_at?",
             (coalesce(b.by_after, false) or g.after_open > 0) as "by_after!",
             coalesce(d.serialize_queue_id, b.serialize_queue_id) as "serialize_queue_id?",
             coalesce(l.worker_id, o.worker_id) as "worker_id?",
             l.started_at as "lease_started_at?", l.last_heartbeat_at as "last_heartbeat_at?",
             l.last_heartbeat_at + make_interval(secs => l.lease_seconds) as "lease_expires_at?",
             case when l.item_id is not null then coalesce(l.cancel_requested_at, g.cancelled_at) end
               as "cancel_requested_at?",
             l.progress_done as "progress_done?", l.progress_total as "progress_total?",
             l.progress_message as "progress_message?",
             o.ended_at as "ended_at?", case when $2 then o.result end as "result?",
             coalesce(o.error_message, a.error_message) as "error_message?",
             case when o.error_message is not null then o.error_kind else a.error_kind end as "error_kind?",
             case when o.error_message is not null then o.error_detail else a.error_detail end as "error_detail?",
             case when o.error_message is not null then o.ended_at when a.error_message is not null then a.ended_at end
               as "error_at?",
             (select max(p.ended_at) from attempt p where p.item_id = i.id) as "attempt_ended_at?",
             s.name as "step_name?", s.data as "step_data?", s.reached_at as "step_at?",
             w.name as "wait_name?", w.form as "wait_form?", w.began_at as "wait_began_at?", w.received_at as "event_at?",
             w.timed_out as "event_timed_out?", w.data as "event_data?", w.sender_kind as "event_sender_kind?",
             w.sender_name as "event_sender_name?",
             g.cancelled_at as "job_cancelled_at?", g.cancel_reason as "job_cancel_reason?",
             g.after_failed as "after_failed!", o.superseded_by as "superseded_by?",
             db.key as "debounce_key?", db.seconds as "debounce_seconds?", db.max_seconds as "debounce_max_seconds?",
             db.merged as "debounce_merged?", db.first_at as "debounce_first_at?", db.last_at as "debounce_last_at?",
             db.starts_by as "debounce_starts_by?", g.deleted_at is not null as "deleted!"
           from (select distinct id from unnest($1::uuid[]) as named (id)) named
           cross join lateral (select * from item where id = named.id offset 0) i
           cross join lateral (select * from job_state where job_key = i.job_key offset 0) g
           left join lateral (select * from outcome where item_id = i.id offset 0) o on true
           left join lateral (select * from lease where item_id = i.id offset 0) l on true
           left join lateral (select * from deferred where item_id = i.id offset 0) d on true
           left join lateral (select * from blocked where item_id = i.id offset 0) b on true
           left join lateral (
             select attempts, failures from ready where item_id = i.id order by attempts desc limit 1) r on true
           left join lateral (select * from item_step where item_id = i.id offset 0) s on true
           left join lateral (select * from debounce where item_id = i.id offset 0) db on true
           -- A wait ends an attempt, so an item without an ended one has none.
           left join lateral (
             select name, case when $2 then form end as form, began_at, received_at, timed_out,
               case when $2 then data end as data, sender_kind, sender_name
             from event_wait
             where item_id = i.id
               and coalesce(case when o.state = 1 then o.attempt - 1 else o.attempt end, l.attempt - 1, d.attempts,
                            b.attempts, r.attempts, 0) > 0 offset 0) w on true
           left join lateral (
             select payload, edited_at from item_edit where item_id = i.id order by edit desc limit 1) e on true
           left join lateral (
             select error_message, error_kind, error_detail, ended_at from attempt
             where item_id = i.id and error_message is not null order by attempt desc limit 1) a
             on o.item_id is null or o.state in (3, 4)"#,
        ids,
        payloads
    )
    .fetch_all(executor)
    .await
}

/// Running items of these jobs, the longest-running first.
pub async fn in_flight(pool: &PgPool, job_keys: &[i64], limit: i64) -> Result<Vec<Uuid>, sqlx::Error> {
    sqlx::query_scalar!(
        "select item_id from lease
         where type_id = any(array(select type_id from job where job_key = any($1::bigint[])))
           and job_key = any($1::bigint[])
         order by started_at, item_id limit $2",
        job_keys,
        limit
    )
    .fetch_all(pool)
    .await
}

/// The item at the head of each of these serialize queues: serialize queue, item, key.
pub async fn heads(pool: &PgPool, serialize_queue_ids: &[i64]) -> Result<Vec<(i64, Uuid, String)>, sqlx::Error> {
    let rows = sqlx::query!(
        r#"select l.id, h.item_id as "item_id!", l.key
           from serialize_queue l
           cross join lateral (select item_id from serialize_queue_entry where serialize_queue_id = l.id order by position limit 1) h
           where l.id = any($1::bigint[])"#,
        serialize_queue_ids
    )
    .fetch_all(pool)
    .await?;
    Ok(rows.into_iter().map(|row| (row.id, row.item_id, row.key)).collect())
}

/// The keys of the jobs that each of these jobs still waits for, in the order of the tree.
pub async fn waited_for(pool: &PgPool, job_keys: &[i64]) -> Result<Vec<(i64, Vec<String>)>, sqlx::Error> {
    let rows = sqlx::query!(
        r#"select j.job_key, array_agg(o.key order by o.ord) as "keys!"
           from job j
           join job o on o.root_id = j.root_id and o.key = any(j.after)
           join job_state og on og.job_key = o.job_key
           where j.job_key = any($1::bigint[]) and og.completed_at is null
           group by j.job_key"#,
        job_keys
    )
    .fetch_all(pool)
    .await?;
    Ok(rows.into_iter().map(|row| (row.job_key, row.keys)).collect())
}

/// Numbers of open assignments of these types; types without any are missing.
pub async fn open_of_types(pool: &PgPool, type_ids: &[i32]) -> Result<Vec<(i32, i64)>, sqlx::Error> {
    let rows = sqlx::query!(
        r#"select type_id, count(*) as "open!" from lease where type_id = any($1::int[]) group by type_id"#,
        type_ids
    )
    .fetch_all(pool)
    .await?;
    Ok(rows.into_iter().map(|row| (row.type_id, row.open)).collect())
}

/// Owner of a deleted job, as long as its tombstone exists.
pub async fn deleted_job_owner(pool: &PgPool, job_id: Uuid) -> Result<Option<Uuid>, sqlx::Error> {
    sqlx::query_scalar!("select owner_id from tombstone where job_id = $1", job_id).fetch_optional(pool).await
}

/// A past attempt of an item.
#[derive(Clone, Debug)]
pub struct AttemptView {
    pub attempt: i32,
    pub worker_id: Option<String>,
    pub started_at: Option<OffsetDateTime>,
    pub ended_at: Option<OffsetDateTime>,
    pub ended_as: Option<i16>,
    pub error_message: Option<String>,
    pub error_kind: Option<String>,
    pub error_detail: Option<String>,
    pub result: Option<String>,
    /// The last step that was reached in this attempt.
    pub step_name: Option<String>,
    pub step_data: Option<String>,
    pub waited_for: Option<String>,
}

/// Numbers of items of a job whose last step is each of these, in their order; each is counted up to `limit`.
pub async fn step_counts(
    pool: &PgPool,
    job_key: i64,
    steps: &[String],
    limit: i64,
) -> Result<Vec<(String, i64)>, sqlx::Error> {
    let rows = sqlx::query!(
        r#"select declared.name as "name!",
             (select count(*) from (
                select 1 from item_step s where s.job_key = $1 and s.name = declared.name limit $3) reached) as "items!"
           from unnest($2::text[]) with ordinality declared (name, place) order by declared.place"#,
        job_key,
        steps,
        limit
    )
    .fetch_all(pool)
    .await?;
    Ok(rows.into_iter().map(|row| (row.name, row.items)).collect())
}

/// Attempts of an item after a given one, oldest or newest first; the open one has no end. Excludes rows without a
/// worker.
pub async fn attempts(
    pool: &PgPool,
    item_id: Uuid,
    newest_first: bool,
    behind: Option<i32>,
    limit: i64,
) -> Result<Vec<AttemptView>, sqlx::Error> {
    macro_rules! listed {
        ($on:tt, $order:tt) => {
    sqlx::query_as!(
        AttemptView,
        r#"select attempt as "attempt!", worker_id as "worker_id?", started_at as "started_at?",
             ended_at as "ended_at?", ended_as as "ended_as?", error_message as "error_message?",
             error_kind as "error_kind?", error_detail as "error_detail?", result as "result?",
             s.name as "step_name?", s.data as "step_data?", waited_for as "waited_for?"
           from (
             (select attempt, worker_id, started_at, ended_at, ended_as, error_message, error_kind, error_detail, result,
                waited_for
              from attempt where item_id = $1 and attempt "# + $on + " $2 order by attempt " + $order + r#" limit $3)
             union all
             select attempt, worker_id, started_at, ended_at, ended_as, error_message, error_kind, error_detail, result,
               null
             from outcome where item_id = $1 and lease_id is not null and attempt "# + $on + r#" $2
             union all
             select attempt, worker_id, started_at, null, null, null, null, null, null, null from lease
             where item_id = $1 and attempt "# + $on + r#" $2) all_of
           left join lateral (
             select name, data from (
               select name, data, reached_at from item_step where item_id = $1
               union all
               select name, data, reached_at from earlier_step where item_id = $1) reached
             where reached_at >= started_at and (ended_at is null or reached_at <= ended_at)
             order by reached_at desc limit 1) s on true
           order by attempt "# + $order + " limit $3",
        item_id,
        behind.unwrap_or(if newest_first { i32::MAX } else { 0 }),
        limit
    )
    .fetch_all(pool)
    .await
        };
    }
    by_age!(!newest_first, listed)
}
