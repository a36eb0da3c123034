//! Where a list of items looks: gates in order, and behind each the keys of items that may match.
//!
//! One order for every list, (gate, seq), which never changes. What is sought decides which index leads
//! to the keys; `keys::matching` then tests them, so that a driver may bring too many but never too few.
//! Nothing here reads a payload except to look for text in it.

use domain::Counts;
use sqlx::PgPool;
use uuid::Uuid;

/// A place in a list of items: gate and seq.
pub type Position = (i64, i64);

/// A job whose items a list looks through.
#[derive(Clone, Copy, Debug)]
pub struct ListedGate {
    pub gate_id: i64,
    pub type_id: i32,
    pub owner_id: Uuid,
    pub counts: Counts,
    /// A decision over its items was made and their rows still follow: state tables alone mislead.
    pub moving: bool,
    pub removed: bool,
}

struct GateRow {
    gate_id: i64,
    type_id: i32,
    owner_id: Uuid,
    n_available: i64,
    n_running: i64,
    n_retryable: i64,
    n_scheduled: i64,
    n_blocked: i64,
    n_succeeded: i64,
    n_dead: i64,
    n_cancelled: i64,
    n_expired: i64,
    moving: bool,
    removed: bool,
}

impl From<GateRow> for ListedGate {
    fn from(row: GateRow) -> Self {
        Self {
            gate_id: row.gate_id,
            type_id: row.type_id,
            owner_id: row.owner_id,
            counts: Counts {
                available: row.n_available,
                running: row.n_running,
                retryable: row.n_retryable,
                scheduled: row.n_scheduled,
                blocked: row.n_blocked,
                succeeded: row.n_succeeded,
                dead: row.n_dead,
                cancelled: row.n_cancelled,
                expired: row.n_expired,
            },
            moving: row.moving,
            removed: row.removed,
        }
    }
}

/// The gate of a job.
pub async fn gate_of_job(pool: &PgPool, job_id: Uuid) -> Result<Vec<ListedGate>, sqlx::Error> {
    let ids = sqlx::query_scalar!("select gate_id from job where id = $1", job_id).fetch_all(pool).await?;
    gates(pool, &ids).await
}

/// The gates of a tree, in order; there are at most a thousand.
pub async fn gates_of_tree(pool: &PgPool, root_id: Uuid) -> Result<Vec<ListedGate>, sqlx::Error> {
    let ids = sqlx::query_scalar!("select gate_id from job where root_id = $1 order by gate_id", root_id)
        .fetch_all(pool)
        .await?;
    gates(pool, &ids).await
}

/// The gates of these items' jobs, in order.
pub async fn gates_of_items(pool: &PgPool, ids: &[Uuid]) -> Result<Vec<ListedGate>, sqlx::Error> {
    let ids = sqlx::query_scalar!("select distinct gate_id from item where id = any($1::uuid[])", ids)
        .fetch_all(pool)
        .await?;
    gates(pool, &ids).await
}

/// These gates, in order; those that are gone are missing.
pub async fn gates(pool: &PgPool, gate_ids: &[i64]) -> Result<Vec<ListedGate>, sqlx::Error> {
    let rows = sqlx::query_as!(
        GateRow,
        r#"select g.gate_id, j.type_id, j.owner_id, g.n_available, g.n_running, g.n_retryable, g.n_scheduled,
             g.n_blocked, g.n_succeeded, g.n_dead, g.n_cancelled, g.n_expired,
             exists (select 1 from carry c where c.gate_id = g.gate_id) as "moving!",
             g.removed_at is not null as "removed!"
           from gate g join job j on j.gate_id = g.gate_id
           where g.gate_id = any($1::bigint[]) order by g.gate_id"#,
        gate_ids
    )
    .fetch_all(pool)
    .await?;
    Ok(rows.into_iter().map(ListedGate::from).collect())
}

/// Gates of all jobs from `from` on.
pub async fn walk_gates(pool: &PgPool, from: i64, limit: i64) -> Result<Vec<i64>, sqlx::Error> {
    sqlx::query_scalar!("select gate_id from job where gate_id >= $1 order by gate_id limit $2", from, limit)
        .fetch_all(pool)
        .await
}

/// Gates of a type's jobs from `from` on.
pub async fn walk_gates_of_type(pool: &PgPool, type_id: i32, from: i64, limit: i64) -> Result<Vec<i64>, sqlx::Error> {
    sqlx::query_scalar!(
        "select gate_id from job where type_id = $1 and gate_id >= $2 order by gate_id limit $3",
        type_id,
        from,
        limit
    )
    .fetch_all(pool)
    .await
}

/// Gates of an owner's jobs from `from` on: roots and children are in an index each, and are merged.
pub async fn walk_gates_of(pool: &PgPool, owner_id: Uuid, from: i64, limit: i64) -> Result<Vec<i64>, sqlx::Error> {
    sqlx::query_scalar!(
        r#"(select gate_id as "gate_id!" from job
            where owner_id = $1 and parent_id is null and gate_id >= $2 order by gate_id limit $3)
           union all
           (select gate_id from job
            where owner_id = $1 and parent_id is not null and gate_id >= $2 order by gate_id limit $3)
           order by 1 limit $3"#,
        owner_id,
        from,
        limit
    )
    .fetch_all(pool)
    .await
}

/// Gates from `from` on with items in a final state other than succeeded: one probe of the index each.
pub async fn gates_with_state(pool: &PgPool, state: i16, from: i64, limit: i64) -> Result<Vec<i64>, sqlx::Error> {
    sqlx::query_scalar!(
        r#"with recursive found (gate_id) as (
             (select gate_id from outcome where state = $1 and state <> 1 and gate_id >= $2
              order by gate_id, seq limit 1)
             union all
             select (select o.gate_id from outcome o where o.state = $1 and o.state <> 1 and o.gate_id > f.gate_id
                     order by o.gate_id, o.seq limit 1)
             from found f where f.gate_id is not null)
           select gate_id as "gate_id!" from found where gate_id is not null limit $3"#,
        state,
        from,
        limit
    )
    .fetch_all(pool)
    .await
}

/// Gates from `from` on with an error of this fingerprint.
pub async fn gates_with_error(
    pool: &PgPool,
    fingerprint: &str,
    from: i64,
    limit: i64,
) -> Result<Vec<i64>, sqlx::Error> {
    sqlx::query_scalar!(
        r#"with recursive found (gate_id) as (
             (select gate_id from outcome where fingerprint = $1 and gate_id >= $2 order by gate_id, seq limit 1)
             union all
             select (select o.gate_id from outcome o where o.fingerprint = $1 and o.gate_id > f.gate_id
                     order by o.gate_id, o.seq limit 1)
             from found f where f.gate_id is not null)
           select gate_id as "gate_id!" from found where gate_id is not null limit $3"#,
        fingerprint,
        from,
        limit
    )
    .fetch_all(pool)
    .await
}

/// Gates from `from` on with items in workers' hands, of one worker where it is named. All leases are
/// read: there are as many as workers hold items.
pub async fn gates_with_leases(
    pool: &PgPool,
    worker: Option<&str>,
    from: i64,
    limit: i64,
) -> Result<Vec<i64>, sqlx::Error> {
    sqlx::query_scalar!(
        "select distinct gate_id from lease where gate_id >= $1 and ($2::text is null or worker_id = $2)
         order by gate_id limit $3",
        from,
        worker,
        limit
    )
    .fetch_all(pool)
    .await
}

/// Gates from `from` on with items in a table of waiting ones: one probe of its index each.
macro_rules! gates_in {
    ($table:tt, $pool:expr, $from:expr, $limit:expr) => {
        sqlx::query_scalar!(
            "with recursive found (gate_id) as (
               (select gate_id from "
                + $table
                + " where gate_id >= $1 order by gate_id, item_id limit 1)
               union all
               select (select w.gate_id from "
                + $table
                + r#" w where w.gate_id > f.gate_id order by w.gate_id, w.item_id limit 1)
               from found f where f.gate_id is not null)
             select gate_id as "gate_id!" from found where gate_id is not null limit $2"#,
            $from,
            $limit
        )
        .fetch_all($pool)
        .await
    };
}

/// Gates from `from` on with deferred items.
pub async fn gates_with_deferred(pool: &PgPool, from: i64, limit: i64) -> Result<Vec<i64>, sqlx::Error> {
    gates_in!("deferred", pool, from, limit)
}

/// Gates from `from` on with blocked items.
pub async fn gates_with_blocked(pool: &PgPool, from: i64, limit: i64) -> Result<Vec<i64>, sqlx::Error> {
    gates_in!("blocked", pool, from, limit)
}

/// Gates from `from` on whose rows follow a decision.
pub async fn gates_moving(pool: &PgPool, from: i64, limit: i64) -> Result<Vec<i64>, sqlx::Error> {
    sqlx::query_scalar!("select distinct gate_id from carry where gate_id >= $1 order by gate_id limit $2", from, limit)
        .fetch_all(pool)
        .await
}
