//! Keys of items in the order of lists, with one index for each filter, and the test that all keys must pass.
//!
//! A group of jobs is either one job, whose index is read in order and may have any length, or several small jobs,
//! whose few keys are sorted, because an index scan over several jobs has no order. So the statements come in pairs.

use sqlx::PgPool;
use time::OffsetDateTime;
use uuid::Uuid;

use super::item_list_jobs::{ItemOrder, Position};

/// An item's id and position.
#[derive(Clone, Copy, Debug)]
pub struct ItemKey {
    pub id: Uuid,
    pub job_key: i64,
    pub seq: i64,
}

/// Position after which several small jobs are read in an order. Their keys are few and are sorted.
#[derive(Clone, Copy, Debug)]
pub struct KeyScan {
    pub order: ItemOrder,
    pub after: Position,
    pub limit: i64,
}

impl KeyScan {
    /// Signs by which job keys and sequence numbers are multiplied, so that one ascending order serves both directions.
    const fn signs(self) -> (i64, i64) {
        (if self.order.jobs_back() { -1 } else { 1 }, if self.order.items_back() { -1 } else { 1 })
    }
}

/// Runs a statement over one job in either direction: `$behind` is `>` or `<`, `$order` is `asc` or `desc`.
macro_rules! either_way {
    ($order:expr, $scan:ident) => {
        if $order.items_back() { $scan!("<", "desc") } else { $scan!(">", "asc") }
    };
}

/// Keys of several small jobs: a statement that returns `k (id, job_key, seq)`, and its parameters after the first
/// five.
macro_rules! sorted {
    ($pool:expr, $scan:expr, $from:tt, $($value:expr),+) => {{
        let (by_job_key, by_seq) = $scan.signs();
        sqlx::query_as!(
            ItemKey,
            r#"select k.id as "id!", k.job_key as "job_key!", k.seq as "seq!" from ("# + $from + ") k (id, job_key, seq)
             where (k.job_key * $1::bigint, k.seq * $2::bigint) > ($3::bigint * $1, $4::bigint * $2)
             order by k.job_key * $1, k.seq * $2 limit $5",
            by_job_key,
            by_seq,
            $scan.after.0,
            $scan.after.1,
            $scan.limit,
            $($value),+
        )
        .fetch_all($pool)
        .await
    }};
}

/// Every item of one job after a position.
pub async fn all_of_one(
    pool: &PgPool,
    (job_key, seq): Position,
    order: ItemOrder,
    limit: i64,
) -> Result<Vec<ItemKey>, sqlx::Error> {
    macro_rules! scan {
        ($behind:tt, $order:tt) => {
            sqlx::query_as!(
                ItemKey,
                "select id, job_key, seq from item where job_key = $1 and seq "
                    + $behind
                    + " $2 order by seq "
                    + $order
                    + " limit $3",
                job_key,
                seq,
                limit
            )
            .fetch_all(pool)
            .await
        };
    }
    either_way!(order, scan)
}

/// Every item of several small jobs after a position.
pub async fn all_of(pool: &PgPool, job_keys: &[i64], scan: KeyScan) -> Result<Vec<ItemKey>, sqlx::Error> {
    sorted!(pool, scan, "select id, job_key, seq from item where job_key = any($6::bigint[])", job_keys)
}

/// Items of one job in these final states other than succeeded: one index scan for each state.
pub async fn unsuccessful_of_one(
    pool: &PgPool,
    (job_key, seq): Position,
    states: &[i16],
    order: ItemOrder,
    limit: i64,
) -> Result<Vec<ItemKey>, sqlx::Error> {
    macro_rules! scan {
        ($behind:tt, $order:tt) => {
            sqlx::query_as!(
                ItemKey,
                r#"select o.item_id as "id!", o.job_key as "job_key!", o.seq as "seq!"
                   from unnest($2::smallint[]) as s (state)
                   cross join lateral (
                     select item_id, job_key, seq from outcome
                     where job_key = $1 and state = s.state and state <> 1 and seq "#
                    + $behind
                    + " $3 order by seq "
                    + $order
                    + " limit $4) o
                   order by o.seq "
                    + $order
                    + " limit $4",
                job_key,
                states,
                seq,
                limit
            )
            .fetch_all(pool)
            .await
        };
    }
    either_way!(order, scan)
}

/// The same of several small jobs.
pub async fn unsuccessful_of(
    pool: &PgPool,
    job_keys: &[i64],
    states: &[i16],
    scan: KeyScan,
) -> Result<Vec<ItemKey>, sqlx::Error> {
    sorted!(
        pool,
        scan,
        "select item_id, job_key, seq from outcome
         where state = any($7::smallint[]) and state <> 1 and job_key = any($6::bigint[])",
        job_keys,
        states
    )
}

/// Items of one job whose last failure has this fingerprint.
pub async fn error_of_one(
    pool: &PgPool,
    (job_key, seq): Position,
    fingerprint: &str,
    order: ItemOrder,
    limit: i64,
) -> Result<Vec<ItemKey>, sqlx::Error> {
    macro_rules! scan {
        ($behind:tt, $order:tt) => {
            sqlx::query_as!(
                ItemKey,
                "select item_id as id, job_key, seq from outcome where fingerprint = $2 and job_key = $1 and seq "
                    + $behind
                    + " $3 order by seq "
                    + $order
                    + " limit $4",
                job_key,
                fingerprint,
                seq,
                limit
            )
            .fetch_all(pool)
            .await
        };
    }
    either_way!(order, scan)
}

/// The same of several small jobs.
pub async fn error_of(
    pool: &PgPool,
    job_keys: &[i64],
    fingerprint: &str,
    scan: KeyScan,
) -> Result<Vec<ItemKey>, sqlx::Error> {
    sorted!(
        pool,
        scan,
        "select item_id, job_key, seq from outcome where fingerprint = $7 and job_key = any($6::bigint[])",
        job_keys,
        fingerprint
    )
}

/// Tables of pending items that are read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PendingTables {
    pub running: bool,
    pub deferred: bool,
    pub blocked: bool,
}

/// Pending items of jobs that have few of them: all are read and sorted.
pub async fn pending_of(
    pool: &PgPool,
    job_keys: &[i64],
    tables: PendingTables,
    scan: KeyScan,
) -> Result<Vec<ItemKey>, sqlx::Error> {
    sorted!(
        pool,
        scan,
        "select i.id, i.job_key, i.seq
         from (
           select item_id from lease
           where $7::bool and job_key = any($6::bigint[])
             and type_id = any(array(select type_id from job where job_key = any($6::bigint[])))
           union all select item_id from deferred where $8::bool and job_key = any($6::bigint[])
           union all select item_id from blocked where $9::bool and job_key = any($6::bigint[])) h
         cross join lateral (select id, job_key, seq from item where id = h.item_id offset 0) i",
        job_keys,
        tables.running,
        tables.deferred,
        tables.blocked
    )
}

/// Items by the first line of their record in the file.
pub async fn items_by_row(
    pool: &PgPool,
    job_keys: &[i64],
    row: i64,
    scan: KeyScan,
) -> Result<Vec<ItemKey>, sqlx::Error> {
    sorted!(
        pool,
        scan,
        "select id, job_key, seq from item where job_key = any($6::bigint[]) and row = $7 and row is not null",
        job_keys,
        row
    )
}

/// Items by their dedupe key.
pub async fn items_by_dedupe_key(
    pool: &PgPool,
    job_keys: &[i64],
    key: &str,
    scan: KeyScan,
) -> Result<Vec<ItemKey>, sqlx::Error> {
    sorted!(
        pool,
        scan,
        "select i.id, i.job_key, i.seq from item_dedupe d join item i on i.id = d.item_id
         where d.job_key = any($6::bigint[]) and d.key = $7",
        job_keys,
        key
    )
}

/// Items by their ids.
pub async fn items_by_id(
    pool: &PgPool,
    job_keys: &[i64],
    ids: &[Uuid],
    scan: KeyScan,
) -> Result<Vec<ItemKey>, sqlx::Error> {
    sorted!(
        pool,
        scan,
        "select i.id, i.job_key, i.seq
         from unnest($7::uuid[]) as named (id)
         cross join lateral (select id, job_key, seq from item where id = named.id offset 0) i
         where i.job_key = any($6::bigint[])",
        job_keys,
        ids
    )
}

/// Filter of keys; a field that is `None` matches everything.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct KeyFilter {
    /// `ItemState::code`, any of these.
    pub states: Option<Vec<i16>>,
    pub fingerprint: Option<String>,
    /// The worker that runs it or has ended it.
    pub worker: Option<String>,
    pub dedupe_key: Option<String>,
    pub serialize_key: Option<String>,
    pub row: Option<i64>,
    /// The last step that it has reached.
    pub step: Option<String>,
    pub created_after: Option<OffsetDateTime>,
    pub created_before: Option<OffsetDateTime>,
    /// Part of payload or error, already escaped for `like`.
    pub text: Option<String>,
}

/// Items that pass. The state is that of `item_views::items`. The subqueries need `offset 0`: each row is looked up
/// by its key, whatever the planner assumes about the size of a table.
pub async fn matching(pool: &PgPool, ids: &[Uuid], test: &KeyFilter) -> Result<Vec<Uuid>, sqlx::Error> {
    sqlx::query_scalar!(
        r#"select i.id as "id!"
           from unnest($1::uuid[]) as wanted(id)
           cross join lateral (select * from item where id = wanted.id offset 0) i
           cross join lateral (select * from job_state where job_key = i.job_key offset 0) g
           left join lateral (select * from outcome where item_id = i.id offset 0) o on true
           left join lateral (select * from lease where item_id = i.id offset 0) l on true
           left join lateral (select * from deferred where item_id = i.id offset 0) d on true
           left join lateral (select * from blocked where item_id = i.id offset 0) b on true
           where g.deleted_at is null
             and ($2::smallint[] is null or (case
               when o.item_id is not null then case
                 when o.state = 3 and o.error_kind = 'after_failed' and not g.after_failed and g.cancelled_at is null
                   then 9 else o.state end
               when l.item_id is not null then 6
               when g.cancelled_at is not null or g.after_failed then 3
               when d.item_id is not null then case when d.for_event then 10 when d.retryable then 7 else 8 end
               when b.item_id is not null then 9
               else 5 end) = any($2))
             and ($3::text is null or o.fingerprint = $3)
             and ($4::text is null or coalesce(l.worker_id, o.worker_id) = $4)
             and ($5::text is null or i.dedupe_key = $5)
             and ($6::text is null or i.serialize_key = $6)
             and ($7::bigint is null or i.row = $7)
             and ($8::timestamptz is null or i.created_at > $8)
             and ($9::timestamptz is null or i.created_at < $9)
             and ($10::text is null
               or coalesce((select e.payload from item_edit e where e.item_id = i.id order by e.edit desc limit 1),
                           i.payload) ilike $10
               or coalesce(o.error_message, (select a.error_message from attempt a where a.item_id = i.id
                           and a.error_message is not null order by a.attempt desc limit 1)) ilike $10)
             and ($11::text is null or (select s.name from item_step s where s.item_id = i.id) = $11)"#,
        ids,
        test.states.as_deref(),
        test.fingerprint,
        test.worker,
        test.dedupe_key,
        test.serialize_key,
        test.row,
        test.created_after,
        test.created_before,
        test.text,
        test.step
    )
    .fetch_all(pool)
    .await
}
