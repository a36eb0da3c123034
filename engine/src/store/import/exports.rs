//! Queries for exports besides results and failures: every item of a job, their number, and the requester of an
//! export.

use sqlx::PgPool;
use time::OffsetDateTime;
use uuid::Uuid;

/// Bytes of payloads and results on one page; one row may be larger.
const PAGE_BYTES: i64 = 4 << 20;

/// An item as it is now.
#[derive(Clone, Debug)]
pub struct ExportedItem {
    pub item_id: Uuid,
    pub seq: i64,
    pub row: Option<i64>,
    pub payload: String,
    /// `ItemState::code`.
    pub state: i16,
    pub attempts: i32,
    pub result: Option<String>,
    pub ended_at: Option<OffsetDateTime>,
    pub error_message: Option<String>,
    pub error_kind: Option<String>,
    pub error_detail: Option<String>,
}

/// The next items of a job after `seq`, at most 1,000; empty at its end.
pub async fn items(pool: &PgPool, job_key: i64, seq: i64) -> Result<Vec<ExportedItem>, sqlx::Error> {
    sqlx::query_as!(
        ExportedItem,
        r#"select id as "item_id!", seq as "seq!", row, payload as "payload!", state as "state!",
             attempts as "attempts!", result as "result?", ended_at as "ended_at?", error_message as "error_message?",
             error_kind as "error_kind?", error_detail as "error_detail?"
           from (
             select i.id, i.seq, i.row, o.result, o.ended_at, o.error_message, o.error_kind, o.error_detail,
               coalesce(
                 (select e.payload from item_edit e where e.item_id = i.id order by e.edit desc limit 1),
                 i.payload) as payload,
               coalesce(o.state,
                 (select 6 from lease l where l.item_id = i.id),
                 -- The job's own decision; its rows may still follow.
                 (select 3 from job_state g where g.job_key = $1 and (g.cancelled_at is not null or g.after_failed)),
                 (select case when d.for_event then 10 when d.retryable then 7 else 8 end from deferred d where d.item_id = i.id),
                 (select 9 from blocked b where b.item_id = i.id), 5)::smallint as state,
               coalesce(o.attempt,
                 (select l.attempt from lease l where l.item_id = i.id),
                 (select d.attempts from deferred d where d.item_id = i.id),
                 (select b.attempts from blocked b where b.item_id = i.id),
                 (select r.attempts from ready r where r.item_id = i.id limit 1), 0) as attempts,
               row_number() over page as place,
               sum(octet_length(i.payload) + coalesce(octet_length(o.result), 0)) over page as bytes
             from (select * from item where job_key = $1 and seq > $2 order by seq limit 1000) i
             left join lateral (select * from outcome where item_id = i.id offset 0) o on true
             window page as (order by i.seq rows unbounded preceding)) scanned
           where place = 1 or bytes <= $3
           order by seq"#,
        job_key,
        seq,
        PAGE_BYTES
    )
    .fetch_all(pool)
    .await
}

/// Numbers of items of some jobs: succeeded, ended otherwise, and in all.
#[derive(Clone, Copy, Debug)]
pub struct ItemTotals {
    pub succeeded: i64,
    pub failed: i64,
    pub all: i64,
}

/// The totals of these jobs, from their job state rows.
pub async fn totals(pool: &PgPool, job_keys: &[i64]) -> Result<ItemTotals, sqlx::Error> {
    sqlx::query_as!(
        ItemTotals,
        r#"select coalesce(sum(n_succeeded), 0)::bigint as "succeeded!",
             coalesce(sum(job_unsuccessful(g) - n_superseded), 0)::bigint as "failed!",
             coalesce(sum(job_pending(g) + n_succeeded + job_unsuccessful(g)), 0)::bigint as "all!"
           from job_state g where job_key = any($1::bigint[])"#,
        job_keys
    )
    .fetch_one(pool)
    .await
}

/// Requester of a job; null if unknown.
#[derive(Clone, Copy, Debug)]
pub struct Requester {
    pub by: Option<Uuid>,
    /// True if it could see all owners' work at that time.
    pub sees_all: bool,
}

/// Requester of a job.
pub async fn requester(pool: &PgPool, job_id: Uuid) -> Result<Option<Requester>, sqlx::Error> {
    sqlx::query_as!(
        Requester,
        "select requested_by as by, requester_sees_all as sees_all from job where id = $1",
        job_id
    )
    .fetch_optional(pool)
    .await
}

/// Id, name and kind (`user` or `service`) of the person or service that a credential belongs to.
#[derive(Clone, Debug)]
pub struct CredentialOwnerRow {
    pub id: Uuid,
    pub name: String,
    pub kind: String,
}

/// Person or service that a session or token belongs to, or the person whose account it is.
pub async fn credential_owner(pool: &PgPool, credential_id: Uuid) -> Result<Option<CredentialOwnerRow>, sqlx::Error> {
    sqlx::query_as!(
        CredentialOwnerRow,
        "select o.id, o.name, o.kind from owner o
         where o.id in (select owner_id from token where id = $1
                        union all
                        select owner_id from session where id = $1
                        union all
                        select id from owner where id = $1)",
        credential_id
    )
    .fetch_optional(pool)
    .await
}

/// Sets the requester of these jobs, which continue with its rights and never with more than before.
pub async fn change_requester(pool: &PgPool, job_keys: &[i64], by: Uuid, sees_all: bool) -> Result<(), sqlx::Error> {
    sqlx::query!(
        "update job set requested_by = $2, requester_sees_all = requester_sees_all and $3
         where job_key in (select job_key from job where job_key = any($1::bigint[]) order by job_key for update)
           and (requested_by is distinct from $2 or requester_sees_all <> (requester_sees_all and $3))",
        job_keys,
        by,
        sees_all
    )
    .execute(pool)
    .await?;
    Ok(())
}
