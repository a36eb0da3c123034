//! Candidates for lists of items: job state rows in order, and the jobs with items that may match.
//!
//! Every order of a list is (job key, seq), each ascending or descending, and never changes. The filter selects the
//! index that supplies keys; `item_list_keys::matching` then tests them, so a scan may return too many keys but never
//! too few. Nothing here reads a payload, except to search its text.

mod walks; // scans of jobs by filter

use domain::Counts;
use sqlx::PgPool;
use uuid::Uuid;

pub use walks::{
    gates_moving, gates_with_blocked, gates_with_deferred, gates_with_error, gates_with_leases, gates_with_state,
    walk_gates, walk_gates_of, walk_gates_of_type,
};

/// Position in a list of items: job key and seq.
pub type Position = (i64, i64);

/// Order of a list of items. Job keys and sequence numbers grow with age, so all three orders use the same indexes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ItemOrder {
    /// The newest job first, the items of each in the order in which they were added.
    #[default]
    NewestJobs,
    /// The newest job first, the newest item of each first.
    Newest,
    /// The oldest job first, the oldest item of each first.
    Oldest,
}

impl ItemOrder {
    /// True if jobs are scanned in descending order.
    pub const fn jobs_back(self) -> bool {
        !matches!(self, Self::Oldest)
    }

    /// True if the items of a job are scanned in descending order.
    pub const fn items_back(self) -> bool {
        matches!(self, Self::Newest)
    }

    /// Position before the first item.
    pub const fn start(self) -> Position {
        (if self.jobs_back() { i64::MAX } else { 0 }, self.first_of_job())
    }

    /// Sequence number before the first item of a job.
    pub const fn first_of_job(self) -> i64 {
        if self.items_back() { i64::MAX } else { 0 }
    }

    /// Position after the last item of a job.
    pub const fn behind(self, gate_id: i64) -> Position {
        (gate_id, if self.items_back() { 0 } else { i64::MAX })
    }

    /// Returns true if a job comes before another one.
    pub const fn before(self, gate: i64, other: i64) -> bool {
        if self.jobs_back() { gate > other } else { gate < other }
    }
}

/// A job that a list of items scans.
#[derive(Clone, Copy, Debug)]
pub struct ListedGate {
    pub gate_id: i64,
    pub type_id: i32,
    pub owner_id: Uuid,
    pub counts: Counts,
    /// True while a decision about its items is propagated to their rows: the state tables alone are then misleading.
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
                superseded: 0,
            },
            moving: row.moving,
            removed: row.removed,
        }
    }
}

/// The job state rows of these items' jobs, in order.
pub async fn gates_of_items(pool: &PgPool, ids: &[Uuid]) -> Result<Vec<ListedGate>, sqlx::Error> {
    let ids = sqlx::query_scalar!("select distinct gate_id from item where id = any($1::uuid[])", ids)
        .fetch_all(pool)
        .await?;
    gates(pool, &ids).await
}

macro_rules! gates_where {
    ($these:tt, $argument:expr) => {
        sqlx::query_as!(
            GateRow,
            r#"select g.gate_id, j.type_id, j.owner_id, g.n_available, g.n_running, g.n_retryable, g.n_scheduled,
                 g.n_blocked, g.n_succeeded, g.n_dead, g.n_cancelled, g.n_expired,
                 exists (select 1 from carry c where c.gate_id = g.gate_id) as "moving!",
                 g.removed_at is not null as "removed!"
               from job j
               -- A look for each: as long as nothing is known of the tables, a join would read all of them.
               cross join lateral (select * from gate where gate_id = j.gate_id offset 0) g
               where "#
                + $these
                + " order by g.gate_id",
            $argument
        )
    };
}

/// The job state rows of a tree, in order; there are at most a thousand.
pub async fn gates_of_tree(pool: &PgPool, root_id: Uuid) -> Result<Vec<ListedGate>, sqlx::Error> {
    let rows = gates_where!("j.root_id = $1", root_id).fetch_all(pool).await?;
    Ok(rows.into_iter().map(ListedGate::from).collect())
}

/// Job state rows by key, in order; deleted ones are missing.
pub async fn gates(pool: &PgPool, gate_ids: &[i64]) -> Result<Vec<ListedGate>, sqlx::Error> {
    let rows = gates_where!("j.gate_id = any($1::bigint[])", gate_ids).fetch_all(pool).await?;
    Ok(rows.into_iter().map(ListedGate::from).collect())
}
