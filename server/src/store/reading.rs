//! What pages and the API show of items: the item beside whichever state table holds it.
//!
//! Reads join by primary key from a bounded number of items; none of them counts.

use sqlx::PgPool;
use time::OffsetDateTime;
use uuid::Uuid;

/// An item with the row that says where it stands. At most one of the state tables has it.
#[derive(Clone, Debug)]
pub struct ItemView {
    pub id: Uuid,
    pub gate_id: i64,
    pub seq: i64,
    pub row: Option<i64>,
    pub priority: i16,
    pub payload: Option<String>,
    pub metadata: Option<String>,
    pub dedupe_key: Option<String>,
    pub serialize_key: Option<String>,
    pub run_after: Option<OffsetDateTime>,
    pub expires_at: Option<OffsetDateTime>,
    pub fed_by: Option<Uuid>,
    pub created_at: OffsetDateTime,
    /// `ItemState::code`.
    pub state: i16,
    pub attempts: i32,
    pub failures: i32,
    pub due_at: Option<OffsetDateTime>,
    pub worker_id: Option<String>,
    pub lease_started_at: Option<OffsetDateTime>,
    pub last_beat: Option<OffsetDateTime>,
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
    pub step_name: Option<String>,
    pub step_data: Option<String>,
}

/// Items by id, in no order. With `payloads` false the payloads stay where they are.
pub async fn items(pool: &PgPool, ids: &[Uuid], payloads: bool) -> Result<Vec<ItemView>, sqlx::Error> {
    sqlx::query_as!(
        ItemView,
        r#"select i.id as "id!", i.gate_id as "gate_id!", i.seq as "seq!", i.row as "row?", i.priority as "priority!",
             case when $2 then coalesce(
               (select e.payload from item_edit e where e.item_id = i.id order by e.edit desc limit 1), i.payload) end
               as "payload?",
             i.metadata as "metadata?", i.dedupe_key as "dedupe_key?", i.serialize_key as "serialize_key?",
             i.run_after as "run_after?", i.expires_at as "expires_at?", i.fed_by as "fed_by?",
             i.created_at as "created_at!",
             coalesce(o.state, case
               when l.id is not null then 6
               when d.item_id is not null then case when d.retryable then 7 else 8 end
               when b.item_id is not null then 9
               else 5 end)::smallint as "state!",
             coalesce(o.attempt, l.attempt, d.attempts, b.attempts, r.attempts, 0) as "attempts!",
             coalesce(o.failures, l.failures, d.failures, b.failures, r.failures, 0) as "failures!",
             d.due_at as "due_at?", coalesce(l.worker_id, o.worker_id) as "worker_id?",
             l.started_at as "lease_started_at?", l.last_beat as "last_beat?",
             l.last_beat + make_interval(secs => l.lease_seconds) as "lease_expires_at?",
             l.cancel_requested_at as "cancel_requested_at?",
             l.progress_done as "progress_done?", l.progress_total as "progress_total?",
             l.progress_message as "progress_message?",
             o.ended_at as "ended_at?", case when $2 then o.result end as "result?",
             coalesce(o.error_message, a.error_message) as "error_message?",
             coalesce(o.error_kind, a.error_kind) as "error_kind?",
             coalesce(o.error_detail, a.error_detail) as "error_detail?",
             coalesce(case when o.error_message is not null then o.ended_at end, a.ended_at) as "error_at?",
             s.name as "step_name?", s.data as "step_data?"
           from item i
           left join outcome o on o.item_id = i.id
           left join lease l on l.item_id = i.id
           left join deferred d on d.item_id = i.id
           left join blocked b on b.item_id = i.id
           left join ready r on r.item_id = i.id
           left join item_step s on s.item_id = i.id
           left join lateral (
             select error_message, error_kind, error_detail, ended_at from attempt
             where item_id = i.id and error_message is not null order by attempt desc limit 1) a
             on o.item_id is null
           where i.id = any($1::uuid[])"#,
        ids,
        payloads
    )
    .fetch_all(pool)
    .await
}

/// Items that workers hold in these jobs, the longest first.
pub async fn in_flight(pool: &PgPool, gate_ids: &[i64], limit: i64) -> Result<Vec<Uuid>, sqlx::Error> {
    sqlx::query_scalar!(
        "select item_id from lease where gate_id = any($1::bigint[]) order by started_at, item_id limit $2",
        gate_ids,
        limit
    )
    .fetch_all(pool)
    .await
}

/// A place in a list of items.
pub type Position = (i64, i64);

/// Items of these jobs in order behind a position, any state: (id, gate, seq).
pub async fn page(
    pool: &PgPool,
    gate_ids: &[i64],
    after: Position,
    row: Option<i64>,
    limit: i64,
) -> Result<Vec<(Uuid, i64, i64)>, sqlx::Error> {
    let rows = sqlx::query!(
        r#"select id, gate_id, seq from item
           where gate_id = any($1::bigint[]) and (gate_id, seq) > ($2::bigint, $3::bigint)
             and ($4::bigint is null or row = $4)
           order by gate_id, seq limit $5"#,
        gate_ids,
        after.0,
        after.1,
        row,
        limit
    )
    .fetch_all(pool)
    .await?;
    Ok(rows.into_iter().map(|row| (row.id, row.gate_id, row.seq)).collect())
}

/// Items of these jobs in these final states other than succeeded, in order behind a position. One scan
/// of the partial index for each job and state.
pub async fn page_unsuccessful(
    pool: &PgPool,
    gate_ids: &[i64],
    states: &[i16],
    fingerprint: Option<&str>,
    after: Position,
    limit: i64,
) -> Result<Vec<(Uuid, i64, i64)>, sqlx::Error> {
    let rows = sqlx::query!(
        r#"select o.item_id as "item_id!", o.gate_id as "gate_id!", o.seq as "seq!"
           from unnest($1::bigint[]) as g (gate_id)
           cross join unnest($2::smallint[]) as s (state)
           cross join lateral (
             select item_id, gate_id, seq from outcome
             where gate_id = g.gate_id and state = s.state and state <> 1
               and (gate_id, seq) > ($3::bigint, $4::bigint)
               and ($6::text is null or fingerprint = $6)
             order by seq limit $5) o
           order by o.gate_id, o.seq limit $5"#,
        gate_ids,
        states,
        after.0,
        after.1,
        limit,
        fingerprint
    )
    .fetch_all(pool)
    .await?;
    Ok(rows.into_iter().map(|row| (row.item_id, row.gate_id, row.seq)).collect())
}

/// Gates of jobs that a list of items looks through: of a job, of a tree, of a type, of an owner; at
/// most a thousand, the newest first.
pub async fn gates(
    pool: &PgPool,
    job: Option<Uuid>,
    root: Option<Uuid>,
    job_type: Option<&str>,
    owner_id: Option<Uuid>,
) -> Result<Vec<i64>, sqlx::Error> {
    sqlx::query_scalar!(
        "select j.gate_id from job j join gate g on g.gate_id = j.gate_id
         where ($1::uuid is null or j.id = $1) and ($2::uuid is null or j.root_id = $2)
           and ($3::text is null or j.type_id = (select id from job_type where name = $3))
           and ($4::uuid is null or j.owner_id = $4) and g.removed_at is null
         order by j.gate_id desc limit 1000",
        job,
        root,
        job_type,
        owner_id
    )
    .fetch_all(pool)
    .await
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
}

/// The attempts of an item, oldest first; the open one has no end. Rows that never had a worker are not
/// attempts.
pub async fn attempts(pool: &PgPool, item_id: Uuid) -> Result<Vec<AttemptView>, sqlx::Error> {
    sqlx::query_as!(
        AttemptView,
        r#"select attempt as "attempt!", worker_id as "worker_id?", started_at as "started_at?",
             ended_at as "ended_at?", ended_as as "ended_as?", error_message as "error_message?",
             error_kind as "error_kind?", error_detail as "error_detail?", result as "result?"
           from (
             select attempt, worker_id, started_at, ended_at, ended_as, error_message, error_kind, error_detail, result
             from attempt where item_id = $1
             union all
             select attempt, worker_id, started_at, ended_at, ended_as, error_message, error_kind, error_detail, result
             from outcome where item_id = $1 and lease_id is not null
             union all
             select attempt, worker_id, started_at, null, null, null, null, null, null from lease where item_id = $1) all_of
           order by 1"#,
        item_id
    )
    .fetch_all(pool)
    .await
}
