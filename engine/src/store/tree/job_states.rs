//! Job state rows: one row a job, with its lock, its counters and its completion.
//!
//! Every batch applies one delta per job in its last statements before the commit, so the row is locked only for the
//! duration of a commit. Lock and update are separate statements on purpose: the update sees what was committed while
//! the lock waited, so two batches that each end one of the last two items cannot both find one item left.

use domain::Counts;
use uuid::Uuid;

use crate::store::{Tx, notify::deliveries};

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
    sqlx::query_as!(
        LockedJobState,
        r#"select job_key, sealed, cancelled_at is not null as "cancelled!", deleted_at is not null as "deleted!",
             next_seq, last_fair_turn, after_open, after_failed
           from job_state where job_key = any($1::bigint[]) order by job_key for no key update"#,
        job_keys
    )
    .fetch_all(&mut **tx)
    .await
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
           returning root_id, (sealed and completed_at is null
             and n_available + n_running + n_retryable + n_scheduled + n_blocked + n_waiting_for_event = 0) as "may_complete!""#,
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
             n_available = n_available + ($2::bigint[])[width_bucket(g.job_key, $1::bigint[])],
             n_running   = n_running   + ($3::bigint[])[width_bucket(g.job_key, $1::bigint[])],
             n_retryable = n_retryable + ($4::bigint[])[width_bucket(g.job_key, $1::bigint[])],
             n_scheduled = n_scheduled + ($5::bigint[])[width_bucket(g.job_key, $1::bigint[])],
             n_blocked   = n_blocked   + ($6::bigint[])[width_bucket(g.job_key, $1::bigint[])],
             n_waiting_for_event = n_waiting_for_event + ($22::bigint[])[width_bucket(g.job_key, $1::bigint[])],
             n_succeeded = n_succeeded + ($7::bigint[])[width_bucket(g.job_key, $1::bigint[])],
             n_dead      = n_dead      + ($8::bigint[])[width_bucket(g.job_key, $1::bigint[])],
             n_cancelled = n_cancelled + ($9::bigint[])[width_bucket(g.job_key, $1::bigint[])],
             n_expired   = n_expired   + ($10::bigint[])[width_bucket(g.job_key, $1::bigint[])],
             next_seq    = next_seq    + ($11::bigint[])[width_bucket(g.job_key, $1::bigint[])],
             last_fair_turn   = greatest(last_fair_turn, ($12::bigint[])[width_bucket(g.job_key, $1::bigint[])]),
             sealed      = sealed or ($13::bool[])[width_bucket(g.job_key, $1::bigint[])],
             started_at  = coalesce(started_at,
               case when ($14::bool[])[width_bucket(g.job_key, $1::bigint[])] then clock_timestamp() end),
             open_feeds  = open_feeds + ($18::int[])[width_bucket(g.job_key, $1::bigint[])],
             n_after_cancelled = n_after_cancelled + ($19::bigint[])[width_bucket(g.job_key, $1::bigint[])],
             version     = version + 1,
             updated_at  = clock_timestamp(),
             -- A tree of one job completes right here: nothing pending, nothing to come.
             completed_at = case
               when solo and completed_at is null and not ($21::bool[])[width_bucket(g.job_key, $1::bigint[])] and (holds = 0 or cancelled_at is not null)
                and (sealed or ($13::bool[])[width_bucket(g.job_key, $1::bigint[])])
                and n_available + n_running + n_retryable + n_scheduled + n_blocked + n_waiting_for_event
                    + ($15::bigint[])[width_bucket(g.job_key, $1::bigint[])] = 0
               then clock_timestamp() else completed_at end,
             tree_completed_at = case
               when solo and completed_at is null and not ($21::bool[])[width_bucket(g.job_key, $1::bigint[])] and (holds = 0 or cancelled_at is not null)
                and (sealed or ($13::bool[])[width_bucket(g.job_key, $1::bigint[])])
                and n_available + n_running + n_retryable + n_scheduled + n_blocked + n_waiting_for_event
                    + ($15::bigint[])[width_bucket(g.job_key, $1::bigint[])] = 0
               then clock_timestamp() else tree_completed_at end,
             completion = completion + case
               when solo and completed_at is null and not ($21::bool[])[width_bucket(g.job_key, $1::bigint[])] and (holds = 0 or cancelled_at is not null)
                and (sealed or ($13::bool[])[width_bucket(g.job_key, $1::bigint[])])
                and n_available + n_running + n_retryable + n_scheduled + n_blocked + n_waiting_for_event
                    + ($15::bigint[])[width_bucket(g.job_key, $1::bigint[])] = 0
               then 1 else 0 end,
             -- 1 succeeded, 2 partial, 3 failed, 4 cancelled (`completion`).
             tree_outcome = case
               when solo and completed_at is null and not ($21::bool[])[width_bucket(g.job_key, $1::bigint[])] and (holds = 0 or cancelled_at is not null)
                and (sealed or ($13::bool[])[width_bucket(g.job_key, $1::bigint[])])
                and n_available + n_running + n_retryable + n_scheduled + n_blocked + n_waiting_for_event
                    + ($15::bigint[])[width_bucket(g.job_key, $1::bigint[])] = 0
               then case
                 when cancelled_at is not null then 4
                 when n_dead + n_cancelled + n_expired
                      + ($16::bigint[])[width_bucket(g.job_key, $1::bigint[])] = 0 then 1
                 when n_succeeded + ($7::bigint[])[width_bucket(g.job_key, $1::bigint[])] > 0 then 2
                 else 3 end
               else tree_outcome end
           where g.job_key = any($1::bigint[])
             and (g.cancelled_at is null or ($20::bool[])[width_bucket(g.job_key, $1::bigint[])])
             and (g.deleted_at is null or ($20::bool[])[width_bucket(g.job_key, $1::bigint[])])
             and not (g.sealed and ($17::bool[])[width_bucket(g.job_key, $1::bigint[])])
           returning g.job_key, g.root_id,
             (not g.solo and g.sealed and g.completed_at is null and g.open_feeds = 0 and g.after_open = 0
              and g.n_available + g.n_running + g.n_retryable + g.n_scheduled + g.n_blocked + g.n_waiting_for_event = 0) as "needs_completion_check!",
             (g.solo and g.calls is distinct from false and coalesce(g.tree_completed_at >= now(), false)) as "calls!""#,
        &keys,
        &column(|d| d.counts.available),
        &column(|d| d.counts.running),
        &column(|d| d.counts.retryable),
        &column(|d| d.counts.scheduled),
        &column(|d| d.counts.blocked),
        &column(|d| d.counts.succeeded),
        &column(|d| d.counts.dead),
        &column(|d| d.counts.cancelled),
        &column(|d| d.counts.expired),
        &column(|d| d.seqs),
        &column(|d| d.fair_turn),
        &flag(|d| d.seal),
        &flag(|d| d.starts),
        &column(|d| d.counts.pending()),
        &column(|d| d.counts.unsuccessful()),
        &flag(|d| d.adds),
        &deltas.iter().map(|(_, d)| d.feeds as i32).collect::<Vec<i32>>(),
        &column(|d| d.after_cancelled),
        &flag(|d| d.knows_cancelled || d.fair_turn_only),
        &flag(|d| d.stays_open),
        &column(|d| d.counts.waiting_for_event),
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
