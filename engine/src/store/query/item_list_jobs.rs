//! Candidates for lists of items: job state rows in order, and the jobs with items that may match.
//!
//! Every order of a list is (job key, seq), each ascending or descending, and never changes. The filter selects the
//! index that supplies keys; `item_list_keys::matching` then tests them, so a scan may return too many keys but never
//! too few. Nothing here reads a payload, except to search its text.

mod job_scans; // scans of jobs by filter

use domain::Counts;
use sqlx::PgPool;
use uuid::Uuid;

pub use job_scans::{
    jobs_propagating, jobs_with_blocked, jobs_with_deferred, jobs_with_error, jobs_with_leases, jobs_with_state,
    scan_jobs, scan_jobs_of_owner, scan_jobs_of_type,
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
    pub const fn behind(self, job_key: i64) -> Position {
        (job_key, if self.items_back() { 0 } else { i64::MAX })
    }

    /// Returns true if a job comes before another one.
    pub const fn before(self, job_key: i64, other: i64) -> bool {
        if self.jobs_back() { job_key > other } else { job_key < other }
    }
}

/// A job that a list of items scans.
#[derive(Clone, Copy, Debug)]
pub struct ListedJobState {
    pub job_key: i64,
    pub type_id: i32,
    pub owner_id: Uuid,
    pub counts: Counts,
    /// True while a decision about its items is propagated to their rows: the state tables alone are then misleading.
    pub propagating: bool,
    pub deleted: bool,
}

struct JobStateRow {
    job_key: i64,
    type_id: i32,
    owner_id: Uuid,
    n_available: i64,
    n_running: i64,
    n_retryable: i64,
    n_scheduled: i64,
    n_blocked: i64,
    n_waiting_for_event: i64,
    n_succeeded: i64,
    n_dead: i64,
    n_cancelled: i64,
    n_expired: i64,
    propagating: bool,
    deleted: bool,
}

impl From<JobStateRow> for ListedJobState {
    fn from(row: JobStateRow) -> Self {
        Self {
            job_key: row.job_key,
            type_id: row.type_id,
            owner_id: row.owner_id,
            counts: Counts {
                available: row.n_available,
                running: row.n_running,
                retryable: row.n_retryable,
                scheduled: row.n_scheduled,
                blocked: row.n_blocked,
                waiting_for_event: row.n_waiting_for_event,
                succeeded: row.n_succeeded,
                dead: row.n_dead,
                cancelled: row.n_cancelled,
                expired: row.n_expired,
                superseded: 0,
            },
            propagating: row.propagating,
            deleted: row.deleted,
        }
    }
}

/// The job state rows of these items' jobs, in order.
pub async fn job_states_of_items(pool: &PgPool, ids: &[Uuid]) -> Result<Vec<ListedJobState>, sqlx::Error> {
    let ids = sqlx::query_scalar!("select distinct job_key from item where id = any($1::uuid[])", ids)
        .fetch_all(pool)
        .await?;
    job_states(pool, &ids).await
}

macro_rules! job_states_where {
    ($these:tt, $argument:expr) => {
        sqlx::query_as!(
            JobStateRow,
            r#"select g.job_key, j.type_id, j.owner_id, g.n_available, g.n_running, g.n_retryable, g.n_scheduled,
                 g.n_blocked, g.n_waiting_for_event, g.n_succeeded, g.n_dead, g.n_cancelled, g.n_expired,
                 exists (select 1 from propagation c where c.job_key = g.job_key) as "propagating!",
                 g.deleted_at is not null as "deleted!"
               from job j
               -- A look for each: as long as nothing is known of the tables, a join would read all of them.
               cross join lateral (select * from job_state where job_key = j.job_key offset 0) g
               where "#
                + $these
                + " order by g.job_key",
            $argument
        )
    };
}

/// The job state rows of a tree, in order; there are at most a thousand.
pub async fn job_states_of_tree(pool: &PgPool, root_id: Uuid) -> Result<Vec<ListedJobState>, sqlx::Error> {
    let rows = job_states_where!("j.root_id = $1", root_id).fetch_all(pool).await?;
    Ok(rows.into_iter().map(ListedJobState::from).collect())
}

/// Job state rows by key, in order; deleted ones are missing.
pub async fn job_states(pool: &PgPool, job_keys: &[i64]) -> Result<Vec<ListedJobState>, sqlx::Error> {
    let rows = job_states_where!("j.job_key = any($1::bigint[])", job_keys).fetch_all(pool).await?;
    Ok(rows.into_iter().map(ListedJobState::from).collect())
}
