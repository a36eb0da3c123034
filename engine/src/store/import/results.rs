//! Results and failures in pages: ordered, bounded in rows and in bytes.
//!
//! A page scans a bounded number of rows however few of them match, and skips payloads once the page is full. No
//! transaction stays open between two pages. The limits are literals, because the planner expects a tenth of the
//! table for a parameter. The rows of a page are selected first and the rest is looked up by key: a join under the
//! window was planned over the whole job.

use sqlx::PgPool;
use time::OffsetDateTime;
use uuid::Uuid;

use crate::store::Tx;

/// Bytes of payloads and results on one page; one row may be larger.
const PAGE_BYTES: i64 = 4 << 20;

/// A job whose items are listed.
#[derive(Clone, Debug)]
pub struct ListedJob {
    pub job_key: i64,
    pub job_id: Uuid,
    pub parent_id: Option<Uuid>,
    pub final_stage: bool,
    /// Head of its file, if it was filled from one.
    pub head: Option<String>,
}

/// Every job of a tree in order, parents first.
pub async fn jobs(pool: &PgPool, root_id: Uuid) -> Result<Vec<ListedJob>, sqlx::Error> {
    sqlx::query_as!(
        ListedJob,
        r#"select j.job_key, j.id as job_id, j.parent_id, j.final_stage, s.head as "head?"
           from job j left join import_cursor s on s.job_key = j.job_key
           where j.root_id = $1 order by j.ord"#,
        root_id
    )
    .fetch_all(pool)
    .await
}

/// Position of an item in the order: its job key and sequence number.
pub async fn position(pool: &PgPool, item_id: Uuid) -> Result<Option<(i64, i64)>, sqlx::Error> {
    let row = sqlx::query!("select job_key, seq from item where id = $1", item_id).fetch_optional(pool).await?;
    Ok(row.map(|row| (row.job_key, row.seq)))
}

/// A scanned item; `result` is `None` if it has not succeeded.
#[derive(Clone, Debug)]
pub struct ResultRow {
    pub item_id: Uuid,
    pub seq: i64,
    pub row: Option<i64>,
    pub payload: Option<String>,
    pub result: Option<String>,
}

/// The next items of a job after `seq`, at most 1,000; empty at its end.
///
/// A plan from the time when the job was small would collect and sort all rows after `seq` for the first thousand;
/// without bitmap scans only the ordered index scan remains.
pub async fn results(pool: &PgPool, job_key: i64, seq: i64) -> Result<Vec<ResultRow>, sqlx::Error> {
    let mut tx = crate::store::begin(pool).await?;
    sqlx::query("set local enable_bitmapscan = off").execute(&mut *tx).await?;
    let rows = sqlx::query_as!(
        ResultRow,
        r#"select id as "item_id!", seq as "seq!", row, payload, result
           from (
             select i.id, i.seq, i.row, o.result,
               case when o.result is not null then coalesce(
                 (select e.payload from item_edit e where e.item_id = i.id order by e.edit desc limit 1),
                 i.payload) end as payload,
               row_number() over page as place,
               sum(case when o.result is not null then octet_length(i.payload) + octet_length(o.result) else 0 end)
                 over page as bytes
             from (select * from item where job_key = $1 and seq > $2 order by seq limit 1000) i
             left join lateral (select result from outcome where item_id = i.id and state = 1 offset 0) o on true
             window page as (order by i.seq rows unbounded preceding)) scanned
           where place = 1 or bytes <= $3
           order by seq"#,
        job_key,
        seq,
        PAGE_BYTES
    )
    .fetch_all(&mut *tx)
    .await?;
    tx.rollback().await?;
    Ok(rows)
}

/// An item that did not succeed, or that its job has decided not to run although its row is not updated yet.
#[derive(Clone, Debug)]
pub struct FailureRow {
    pub item_id: Uuid,
    pub seq: i64,
    pub row: Option<i64>,
    pub payload: String,
    /// `ItemState::code`.
    pub state: i16,
    pub attempts: i32,
    pub ended_at: OffsetDateTime,
    pub error_message: Option<String>,
    pub error_kind: Option<String>,
    pub error_detail: Option<String>,
    /// Ended by `after`, although its row is not updated yet.
    pub by_after: bool,
}

/// The next items of a job after `seq` that did not succeed, at most 1,000; empty at its end.
///
/// One index scan for each of the three states: a single scan over all of them would have to sort every page. Then
/// the items after the position of an open propagation of a decision about the whole job: without one, that position
/// is null and nothing is scanned.
pub async fn failures(pool: &PgPool, job_key: i64, seq: i64) -> Result<Vec<FailureRow>, sqlx::Error> {
    sqlx::query_as!(
        FailureRow,
        r#"with found as (
             (select item_id, seq from outcome where state = 2 and job_key = $1 and seq > $2 order by seq limit 1000)
             union all
             (select item_id, seq from outcome
              where state = 3 and job_key = $1 and seq > $2 and superseded_by is null order by seq limit 1000)
             union all
             (select item_id, seq from outcome where state = 4 and job_key = $1 and seq > $2 order by seq limit 1000)
             union all
             (select i.id, i.seq from item i
              where i.job_key = $1 and i.seq > (
                  select greatest(c.seq, $2) from propagation c join job_state g on g.job_key = c.job_key
                  where c.job_key = $1 and c.kind in (1, 2) and (g.cancelled_at is not null or g.after_failed))
                and not exists (select 1 from outcome o where o.item_id = i.id)
                and not exists (select 1 from lease l where l.item_id = i.id)
              order by i.seq limit 1000)
             order by seq limit 1000)
           select id as "item_id!", seq as "seq!", row, payload as "payload!", state as "state!",
             attempt as "attempts!", ended_at as "ended_at!", error_message, error_kind, error_detail,
             by_after as "by_after!"
           from (
             select i.id, i.seq, i.row, coalesce(o.state, 3::smallint) as state,
               coalesce(o.attempt,
                 (select r.attempts from ready r where r.item_id = i.id limit 1),
                 (select d.attempts from deferred d where d.item_id = i.id),
                 (select b.attempts from blocked b where b.item_id = i.id), 0) as attempt,
               coalesce(o.ended_at, g.cancelled_at, g.updated_at) as ended_at,
               o.item_id is null and g.cancelled_at is null as by_after,
               o.error_message, o.error_kind, o.error_detail,
               coalesce(
                 (select e.payload from item_edit e where e.item_id = i.id order by e.edit desc limit 1),
                 i.payload) as payload,
               row_number() over page as place,
               sum(octet_length(i.payload)) over page as bytes
             from found f
             cross join lateral (select * from item where id = f.item_id offset 0) i
             cross join lateral (select cancelled_at, updated_at from job_state where job_key = $1 offset 0) g
             left join lateral (select * from outcome where item_id = f.item_id offset 0) o on true
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

/// The result of a job with a single item, empty if that item did not succeed; `None` if the job has more items.
pub async fn only_result(tx: &mut Tx, job_key: i64) -> Result<Option<Vec<String>>, sqlx::Error> {
    let row = sqlx::query!(
        r#"select next_seq = 2 as "single!",
             (select o.result from outcome o
              where o.item_id = (select i.id from item i where i.job_key = $1 and i.seq = 1) and o.state = 1) as result
           from job_state where job_key = $1"#,
        job_key
    )
    .fetch_optional(&mut **tx)
    .await?;
    Ok(row.and_then(|row| row.single.then(|| row.result.into_iter().collect())))
}
