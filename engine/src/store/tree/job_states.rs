//! Job state rows: one row a job, with its lock, its counters and its completion.
//!
//! Every batch applies one delta per job in its last statements before the commit, so the row is locked only for the
//! duration of a commit. Lock and update are separate statements on purpose: the update sees what was committed while
//! the lock waited, so two batches that each end one of the last two items cannot both find one item left.

use std::time::Instant;

use domain::Counts;
use uuid::Uuid;

use crate::store::{Tx, deduct_lock_wait, notify::deliveries};

/// Change of one job state row by a batch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "each is a change of its own")]
pub struct Delta {
    pub counts: Counts,
    /// Sequence numbers used in the job.
    pub seqs: i64,
    /// The tree's last fair turn for this type, if this job state row stores it.
    pub fair_turn: i64,
    /// The job is sealed.
    pub seal: bool,
    /// Items are added, which a sealed job refuses.
    pub adds: bool,
    /// An item was claimed.
    pub starts: bool,
    /// Recorded feeds that are not written yet.
    pub feeds: i64,
    /// Part of `counts.cancelled` that is reverted when the job that they waited for is repaired.
    pub after_cancelled: i64,
    /// The job is canceled later in this transaction and must not complete first.
    pub stays_open: bool,
    /// The caller knows that the job is canceled and only ends its remaining items.
    pub knows_cancelled: bool,
    /// Only the fair turn changes, which this row stores for other jobs of its type; permitted for canceled jobs.
    pub fair_turn_only: bool,
}

impl Delta {
    /// Delta of a job state row that only stores the fair turn of other jobs.
    pub fn fair_turns() -> Self {
        Self { fair_turn_only: true, ..Self::default() }
    }

    /// True if items were only claimed and succeeded, which is the usual case.
    fn is_work(&self) -> bool {
        let Counts { available, running, succeeded, .. } = self.counts;
        let counts = Counts { available, running, succeeded, ..Counts::default() };
        *self == Self { counts, starts: self.starts, ..Self::default() }
    }
}

/// A job state row after its update.
#[derive(Clone, Copy, Debug)]
pub struct UpdatedJobState {
    pub job_key: i64,
    pub root_id: Uuid,
    /// A job of a larger tree that looks complete and needs a completion check.
    pub needs_completion_check: bool,
    /// A tree of one job that this transaction completed and that may have a receiver.
    pub calls: bool,
}

/// State of a job that is about to be changed, read under its lock.
#[derive(Clone, Copy, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "a row of the table has its columns")]
pub struct LockedJobState {
    pub job_key: i64,
    pub sealed: bool,
    pub cancelled: bool,
    pub deleted: bool,
    pub next_seq: i64,
    pub last_fair_turn: i64,
    /// Number of incomplete jobs that it waits for (`after`): its items are blocked.
    pub after_open: i32,
    /// One of them ended with another outcome than required: its items end.
    pub after_failed: bool,
}

impl LockedJobState {
    /// True if `after` blocks its items.
    pub fn blocks_items(&self) -> bool {
        self.after_open > 0 && !self.after_failed
    }
}

/// Locks job state rows in order and reads them. `job_keys` ascending.
pub async fn lock(tx: &mut Tx, job_keys: &[i64]) -> Result<Vec<LockedJobState>, sqlx::Error> {
    let begun = Instant::now();
    let locked = sqlx::query_as!(
        LockedJobState,
        r#"select job_key, sealed, cancelled_at is not null as "cancelled!", deleted_at is not null as "deleted!",
             next_seq, last_fair_turn, after_open, after_failed
           from job_state where job_key = any($1::bigint[]) order by job_key for no key update"#,
        job_keys
    )
    .fetch_all(&mut **tx)
    .await?;
    deduct_lock_wait(tx, begun.elapsed()).await?;
    Ok(locked)
}

/// Applies deltas, one per job, sorted by key. A job that refuses its delta (canceled, or sealed and added to) is not
/// returned: the caller compares and rolls back. Announces the trees that this completes.
pub async fn apply(tx: &mut Tx, deltas: &[(i64, Delta)]) -> Result<Vec<UpdatedJobState>, sqlx::Error> {
    if let [(job_key, delta)] = deltas
        && delta.is_work()
    {
        let Some((after, may_complete)) = work(tx, *job_key, delta).await? else { return Ok(Vec::new()) };
        return if may_complete { change(tx, &[(*job_key, Delta::default())]).await } else { Ok(vec![after]) };
    }
    if deltas.len() > 1 {
        lock(tx, &deltas.iter().map(|(id, _)| *id).collect::<Vec<_>>()).await?;
    }
    change(tx, deltas).await
}

/// [`apply`] to job state rows that this transaction has locked or written.
pub async fn apply_locked(tx: &mut Tx, deltas: &[(i64, Delta)]) -> Result<Vec<UpdatedJobState>, sqlx::Error> {
    change(tx, deltas).await
}

/// Applies claims and successes to one job state row at a third of the cost of the full statement. The second value
/// is true if nothing is pending and the job is sealed, so that the full statement must check completion.
async fn work(tx: &mut Tx, job_key: i64, delta: &Delta) -> Result<Option<(UpdatedJobState, bool)>, sqlx::Error> {
    let row = sqlx::query!(
        r#"update job_state set n_available = n_available + $2, n_running = n_running + $3, n_succeeded = n_succeeded + $4,
             started_at = case when $5 then coalesce(started_at, clock_timestamp()) else started_at end,
             version = version + 1, updated_at = clock_timestamp()
           where job_key = $1 and cancelled_at is null and deleted_at is null
           returning root_id, (sealed and completed_at is null and job_pending(job_state) = 0) as "may_complete!""#,
        job_key,
        delta.counts.available,
        delta.counts.running,
        delta.counts.succeeded,
        delta.starts
    )
    .fetch_optional(&mut **tx)
    .await?;
    Ok(row.map(|row| {
        (
            UpdatedJobState { job_key, root_id: row.root_id, needs_completion_check: false, calls: false },
            row.may_complete,
        )
    }))
}

/// [`apply`] for every kind of delta.
async fn change(tx: &mut Tx, deltas: &[(i64, Delta)]) -> Result<Vec<UpdatedJobState>, sqlx::Error> {
    let keys: Vec<i64> = deltas.iter().map(|(id, _)| *id).collect();
    let column = |of: fn(&Delta) -> i64| -> Vec<i64> { deltas.iter().map(|(_, d)| of(d)).collect() };
    let flag = |of: fn(&Delta) -> bool| -> Vec<bool> { deltas.iter().map(|(_, d)| of(d)).collect() };
    let after = sqlx::query_as!(
        UpdatedJobState,
        r#"update job_state g set
             (n_available, n_running, n_retryable, n_scheduled, n_blocked, n_waiting_for_event,
              n_succeeded, n_dead, n_cancelled, n_expired, n_after_cancelled,
              next_seq, last_fair_turn, open_feeds, sealed,
              started_at, version, updated_at,
              completed_at, tree_completed_at, completion, tree_outcome) = (
               select g.n_available + ($2::bigint[])[i], g.n_running + ($3::bigint[])[i],
                 g.n_retryable + ($4::bigint[])[i], g.n_scheduled + ($5::bigint[])[i], g.n_blocked + ($6::bigint[])[i],
                 g.n_waiting_for_event + ($7::bigint[])[i],
                 g.n_succeeded + ($8::bigint[])[i], g.n_dead + ($9::bigint[])[i], g.n_cancelled + ($10::bigint[])[i],
                 g.n_expired + ($11::bigint[])[i], g.n_after_cancelled + ($12::bigint[])[i],
                 g.next_seq + ($13::bigint[])[i], greatest(g.last_fair_turn, ($14::bigint[])[i]),
                 g.open_feeds + ($15::int[])[i], g.sealed or ($16::bool[])[i],
                 coalesce(g.started_at, case when ($17::bool[])[i] then clock_timestamp() end),
                 g.version + 1, clock_timestamp(),
                 case when completes then clock_timestamp() else g.completed_at end,
                 case when completes then clock_timestamp() else g.tree_completed_at end,
                 g.completion + completes::int,
                 case when completes
                   then outcome_of(g.cancelled_at is not null, job_unsuccessful(g) + ($18::bigint[])[i],
                                   g.n_succeeded + ($8::bigint[])[i])
                   else g.tree_outcome end
               from (select width_bucket(g.job_key, $1::bigint[]) as i) as at,
                 -- A tree of one job completes right here: nothing pending, nothing to come.
                 lateral (select g.solo and g.completed_at is null and not ($19::bool[])[i]
                   and (g.holds = 0 or g.cancelled_at is not null) and (g.sealed or ($16::bool[])[i])
                   and job_pending(g) + ($20::bigint[])[i] = 0 as completes) as completion)
           where g.job_key = any($1::bigint[])
             and (g.cancelled_at is null or ($21::bool[])[width_bucket(g.job_key, $1::bigint[])])
             and (g.deleted_at is null or ($21::bool[])[width_bucket(g.job_key, $1::bigint[])])
             and not (g.sealed and ($22::bool[])[width_bucket(g.job_key, $1::bigint[])])
           returning g.job_key, g.root_id, job_looks_complete(g) as "needs_completion_check!",
             (g.solo and g.calls is distinct from false and coalesce(g.tree_completed_at >= now(), false)) as "calls!""#,
        &keys,
        &column(|d| d.counts.available),
        &column(|d| d.counts.running),
        &column(|d| d.counts.retryable),
        &column(|d| d.counts.scheduled),
        &column(|d| d.counts.blocked),
        &column(|d| d.counts.waiting_for_event),
        &column(|d| d.counts.succeeded),
        &column(|d| d.counts.dead),
        &column(|d| d.counts.cancelled),
        &column(|d| d.counts.expired),
        &column(|d| d.after_cancelled),
        &column(|d| d.seqs),
        &column(|d| d.fair_turn),
        &deltas.iter().map(|(_, d)| d.feeds as i32).collect::<Vec<i32>>(),
        &flag(|d| d.seal),
        &flag(|d| d.starts),
        &column(|d| d.counts.unsuccessful()),
        &flag(|d| d.stays_open),
        &column(|d| d.counts.pending()),
        &flag(|d| d.knows_cancelled || d.fair_turn_only),
        &flag(|d| d.adds),
    )
    .fetch_all(&mut **tx)
    .await?;
    let called: Vec<i64> =
        after.iter().filter(|job_state| job_state.calls).map(|job_state| job_state.job_key).collect();
    if !called.is_empty() {
        deliveries::announce(tx, &called).await?;
    }
    Ok(after)
}

/// Reserves `n` consecutive job keys and returns them.
pub async fn reserve(tx: &mut Tx, n: i64) -> Result<Vec<i64>, sqlx::Error> {
    sqlx::query_scalar!(r#"select nextval('job_key') as "id!" from generate_series(1, $1::bigint)"#, n)
        .fetch_all(&mut **tx)
        .await
}

/// Records completion checks of jobs, in the commit that made them look complete.
pub async fn request_completion_checks(tx: &mut Tx, job_keys: &[i64]) -> Result<(), sqlx::Error> {
    sqlx::query!("insert into completion_check (job_key) select unnest($1::bigint[]) on conflict do nothing", job_keys)
        .execute(&mut **tx)
        .await?;
    Ok(())
}

/// Jobs with a pending completion check and their trees, oldest first.
pub async fn pending_completion_checks(pool: &sqlx::PgPool, limit: i64) -> Result<Vec<(i64, Uuid)>, sqlx::Error> {
    let rows = sqlx::query!(
        "select s.job_key, g.root_id from completion_check s join job_state g on g.job_key = s.job_key order by s.job_key limit $1",
        limit
    )
    .fetch_all(pool)
    .await?;
    Ok(rows.into_iter().map(|row| (row.job_key, row.root_id)).collect())
}
