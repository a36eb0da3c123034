//! Ticks of schedules: every due tick becomes one run, on any server, once (`schedule-exactly-once`).
//!
//! A server locks a due schedule, creates the tree of each tick, and moves the schedule on. The tree is created in a commit
//! of its own. Its id and its Idempotency-Key are derived from the schedule and the tick, so that a server that repeats a
//! tick after a crash finds the tree.

use std::ops::Range;

use domain::{
    Code, JobStatus, Problem, Time,
    api::{CatchUp, NewJob, Overlap, RunState, Schedule},
    dispatch::traceparent::Traceparent,
    job::OwnerKind,
    query::topic::Topic,
};
use sha2::{Digest as _, Sha256};
use time::{Duration, OffsetDateTime};
use uuid::Uuid;

use crate::{
    Creation, Engine,
    access::{
        caller::{Caller, Role, Scope},
        rights::rights_of,
    },
    error::{Error, Result},
    notify::audit,
    store::{
        Tx,
        enqueue::idempotency,
        tree::{
            jobs,
            schedules::{self, NewRun, ScheduleRow},
        },
    },
    task::in_task,
};

use super::{found, locked, record, tick_after, ticks::Ticks, to_api};

/// Age from which a tick counts as missed.
const LATE: Duration = Duration::seconds(5);
/// Maximum number of ticks of one schedule in one transaction.
const MOST_TICKS: usize = 20;
/// Maximum number of runs that wait for a tree.
const MOST_QUEUED: i32 = 100;
/// Maximum number of schedules handled in a row.
const MOST_SCHEDULES: usize = 100;

/// Begins the trace of a tree; `None` if traces are off.
type BeginTrace<'a> = &'a (dyn Fn() -> Option<Traceparent> + Sync);

impl Engine {
    /// Makes the due ticks of all schedules that no other server is handling; returns the number of schedules. Each tree
    /// belongs to a trace of its own.
    pub async fn sweep_schedules(&self, trace: BeginTrace<'_>) -> Result<usize> {
        let mut handled = 0;
        while handled < MOST_SCHEDULES {
            let mut tx = crate::store::begin(&self.0.core.pools.read).await?;
            let Some(id) = schedules::lock_due(&mut tx).await? else { break };
            match self.run_due(&mut tx, id, trace).await {
                Ok(()) => crate::store::commit(tx).await?,
                Err(error) => {
                    tracing::warn!(schedule_id = %id, %error, "schedule tick failed");
                    tx.rollback().await?;
                    schedules::postpone(&self.0.core.pools.read, id).await?;
                }
            }
            handled += 1;
        }
        if handled > 0 {
            self.0.core.live.changed(Topic::Schedules);
        }
        Ok(handled)
    }

    /// Creates a tree of the schedule now, whatever its overlap policy.
    pub async fn run_schedule(
        &self,
        caller: &Caller,
        id: Uuid,
        reason: Option<String>,
        traceparent: Option<Traceparent>,
    ) -> Result<Schedule> {
        caller.require(Scope::JobsWrite)?;
        let (engine, caller) = (self.clone(), caller.clone());
        in_task("running a schedule", async move {
            let mut tx = crate::store::begin(&engine.0.core.pools.read).await?;
            let row = locked(&mut tx, &caller, id).await?;
            let reason = audit::reason_for(&caller, row.owner_id, reason.as_deref())?;
            let tick = row.now;
            let job_id = engine.start_run(&row, tick, traceparent).await?;
            let seq = row.last_seq + 1;
            let run = NewRun { job_id: Some(job_id), by_hand: true, ..new_run(seq, tick, RunState::Started) };
            schedules::insert_run(&mut tx, id, &run).await?;
            schedules::advance(&mut tx, id, row.next_at, seq, row.queued).await?;
            record(&mut tx, &caller, "schedule.run", &row, reason.as_deref()).await?;
            let row = found(&mut tx, id).await?;
            crate::store::commit(tx).await?;
            engine.0.core.live.changed(Topic::Schedules);
            to_api(&row)
        })
        .await
    }

    /// Makes the due ticks of a locked schedule.
    async fn run_due(&self, tx: &mut Tx, id: Uuid, trace: BeginTrace<'_>) -> Result<()> {
        let mut row = found(tx, id).await?;
        let ticks = Ticks::of(&row.cron, &row.time_zone)?;
        self.run_queued(tx, &mut row, trace).await?;
        let due = Due::of(&ticks, &row);
        if let Some(first) = due.missed {
            let end = due.run.first().copied().or(due.next).unwrap_or(row.now);
            self.list_missed(tx, &mut row, &ticks, first..end).await?;
        }
        for tick in due.run {
            row.last_seq += 1;
            let run = self.tick(&row, tick, trace).await?;
            schedules::insert_run(tx, id, &run).await?;
            row.queued += i32::from(run.state == RunState::Queued);
            row.last_job_id = run.job_id.or(row.last_job_id);
        }
        Ok(schedules::advance(tx, id, due.next, row.last_seq, row.queued).await?)
    }

    /// Lists missed ticks. One run stands for those that follow each other. A tick whose tree was created by a server that
    /// crashed before it could say so has its own run.
    async fn list_missed(
        &self,
        tx: &mut Tx,
        row: &mut ScheduleRow,
        ticks: &Ticks,
        missed: Range<OffsetDateTime>,
    ) -> Result<()> {
        let mut first = Some(missed.start);
        for tick in self.created_ticks(row, &missed).await? {
            if let Some(skipped) = first.filter(|first| *first < tick) {
                list_skipped(tx, row, skipped).await?;
            }
            row.last_seq += 1;
            let job_id = Some(tree_id(row.id, tick));
            let run = NewRun { job_id, ..new_run(row.last_seq, tick, RunState::Started) };
            schedules::insert_run(tx, row.id, &run).await?;
            row.last_job_id = job_id;
            first = tick_after(ticks, row, tick);
        }
        match first.filter(|first| *first < missed.end) {
            Some(skipped) => list_skipped(tx, row, skipped).await,
            None => Ok(()),
        }
    }

    /// Ticks of this time that have trees, by their Idempotency-Keys.
    async fn created_ticks(&self, row: &ScheduleRow, during: &Range<OffsetDateTime>) -> Result<Vec<OffsetDateTime>> {
        let keys = tree_key(row.id, during.start)..tree_key(row.id, during.end);
        let found = idempotency::keys_of_trees(&self.0.core.pools.read, row.owner_id, &keys).await?;
        let prefix = tree_key_prefix(row.id);
        Ok(found.iter().filter_map(|key| Some(Time::parse(key.strip_prefix(&prefix)?)?.0)).collect())
    }

    /// Starts the run that has waited longest, if the previous tree is complete.
    async fn run_queued(&self, tx: &mut Tx, row: &mut ScheduleRow, trace: BeginTrace<'_>) -> Result<()> {
        if row.queued == 0 {
            return Ok(());
        }
        let Some((seq, tick)) = schedules::first_queued(tx, row.id).await? else {
            row.queued = 0;
            return Ok(());
        };
        let was_created = self.has_tree(row.id, tick).await?;
        if !was_created && self.is_open(row.last_job_id).await? {
            return Ok(());
        }
        let run = self.attempt(row, NewRun { seq, ..new_run(seq, tick, RunState::Started) }, trace).await?;
        schedules::end_queued(tx, row.id, &run).await?;
        row.queued -= 1;
        row.last_job_id = run.job_id.or(row.last_job_id);
        Ok(())
    }

    /// Makes one tick by the overlap policy.
    async fn tick(&self, row: &ScheduleRow, tick: OffsetDateTime, trace: BeginTrace<'_>) -> Result<NewRun> {
        let run = new_run(row.last_seq, tick, RunState::Started);
        // A server created it and crashed before it could say so.
        if self.has_tree(row.id, tick).await? {
            return Ok(NewRun { job_id: Some(tree_id(row.id, tick)), ..run });
        }
        let overlap = Overlap::parse(&row.overlap).unwrap_or(Overlap::Skip);
        if row.queued > 0 || self.is_open(row.last_job_id).await? {
            match overlap {
                Overlap::Skip => {
                    return Ok(NewRun { state: RunState::Skipped, reason: Some("overlap"), ..run });
                }
                Overlap::Queue if row.queued >= MOST_QUEUED => {
                    return Ok(NewRun { state: RunState::Skipped, reason: Some("queue_full"), ..run });
                }
                Overlap::Queue => return Ok(NewRun { state: RunState::Queued, ..run }),
                Overlap::CancelPrevious => self.cancel_previous(row).await?,
            }
        }
        self.attempt(row, run, trace).await
    }

    async fn cancel_previous(&self, row: &ScheduleRow) -> Result<()> {
        let Some(previous) = row.last_job_id else { return Ok(()) };
        let canceled = async {
            let caller = self.schedule_caller(row).await?;
            self.cancel_job(&caller, previous, None).await
        };
        match canceled.await {
            // Complete or deleted by now, or the owner may not cancel it: then creating is refused, too.
            Err(Error::Problem(problem)) if problem.status < 500 => Ok(()),
            other => other,
        }
    }

    /// Creates the tree of a run; a refusal is the run's result.
    async fn attempt(&self, row: &ScheduleRow, run: NewRun, trace: BeginTrace<'_>) -> Result<NewRun> {
        match self.start_run(row, run.tick, trace()).await {
            Ok(job_id) => Ok(NewRun { job_id: Some(job_id), ..run }),
            Err(Error::Problem(problem)) if problem.status < 500 => {
                let problem = serde_json::to_string(&problem).map_err(|error| Error::Broken(error.to_string()))?;
                Ok(NewRun { state: RunState::Failed, problem: Some(problem), ..run })
            }
            Err(error) => Err(error),
        }
    }

    /// Creates the tree of a tick, or finds it.
    async fn start_run(
        &self,
        row: &ScheduleRow,
        tick: OffsetDateTime,
        traceparent: Option<Traceparent>,
    ) -> Result<Uuid> {
        let caller = self.schedule_caller(row).await?;
        let broken = |error: serde_json::Error| Problem::invalid_body([("/job".to_owned(), error.to_string())]);
        let new: NewJob = serde_json::from_str(&row.job).map_err(broken)?;
        let hash: [u8; 32] = Sha256::digest(&row.job).into();
        let creation = Creation {
            new: NewJob { id: Some(tree_id(row.id, tick)), ..new },
            key: Some((tree_key(row.id, tick), hash)),
            body_hash: Some(hash),
            may_need_key: true,
            traceparent,
        };
        Ok(self.create_tree(&caller, creation).await?.0.root_id())
    }

    /// The caller on whose behalf a schedule acts, with current rights. 401 if the token or the account is not valid
    /// anymore.
    async fn schedule_caller(&self, row: &ScheduleRow) -> Result<Caller> {
        let pool = &self.0.core.pools.read;
        let (role, scopes) = if row.made_by_person {
            let none = |detail: &str| Error::refuse(Code::Unauthenticated, detail);
            match schedules::person(pool, row.owner_id).await? {
                None => return Err(none("The account does not exist any more.")),
                Some((_, true)) => return Err(none("The account was disabled.")),
                Some((role, false)) => (role.as_deref().and_then(Role::parse), Vec::new()),
            }
        } else {
            let rights = rights_of(pool, row.made_by).await?;
            (rights.role, rights.scopes)
        };
        Ok(Caller {
            owner_id: row.owner_id,
            kind: if row.owner_kind == "user" { OwnerKind::User } else { OwnerKind::Service },
            name: row.owner_name.clone(),
            role,
            scopes,
            credential_id: row.made_by,
            work_types: None,
            must_change_password: false,
            enrolls: false,
            proxy_user: None,
            address: None,
        })
    }

    async fn has_tree(&self, schedule_id: Uuid, tick: OffsetDateTime) -> Result<bool> {
        Ok(!jobs::ids_in_use(&self.0.core.pools.read, &[tree_id(schedule_id, tick)]).await?.is_empty())
    }

    /// Returns true if a tree exists and is not complete.
    async fn is_open(&self, root_id: Option<Uuid>) -> Result<bool> {
        let Some(root_id) = root_id else { return Ok(false) };
        let trees = self.0.core.read_trees(&[root_id]).await?;
        Ok(trees.first().is_some_and(|root| root.status != JobStatus::Completed))
    }
}

fn new_run(seq: i64, tick: OffsetDateTime, state: RunState) -> NewRun {
    NewRun { seq, tick, state, job_id: None, reason: None, problem: None, by_hand: false }
}

/// Writes the run that stands for missed ticks from this one on.
async fn list_skipped(tx: &mut Tx, row: &mut ScheduleRow, first: OffsetDateTime) -> Result<()> {
    row.last_seq += 1;
    let run = NewRun { reason: Some("missed"), ..new_run(row.last_seq, first, RunState::Skipped) };
    Ok(schedules::insert_run(tx, row.id, &run).await?)
}

/// Idempotency-Key of the tree of a tick. Keys of one schedule sort by time.
fn tree_key(schedule_id: Uuid, tick: OffsetDateTime) -> String {
    format!("{}{}", tree_key_prefix(schedule_id), Time(tick))
}

fn tree_key_prefix(schedule_id: Uuid) -> String {
    format!("schedule:{schedule_id}:")
}

/// Id of the tree of a tick.
fn tree_id(schedule_id: Uuid, tick: OffsetDateTime) -> Uuid {
    let micros = tick.unix_timestamp_nanos() / 1_000;
    let hash = Sha256::new().chain_update(schedule_id).chain_update(micros.to_be_bytes()).finalize();
    let mut bytes = [0; 16];
    bytes.copy_from_slice(&hash[..16]);
    uuid::Builder::from_custom_bytes(bytes).into_uuid()
}

/// Ticks of a schedule that are due.
#[derive(Debug, PartialEq, Eq)]
struct Due {
    /// First of the ticks that were missed and are not made up for.
    missed: Option<OffsetDateTime>,
    run: Vec<OffsetDateTime>,
    /// First tick after those.
    next: Option<OffsetDateTime>,
}

impl Due {
    fn of(ticks: &Ticks, row: &ScheduleRow) -> Self {
        let Some(first) = row.next_at.filter(|first| *first <= row.now) else {
            return Self { missed: None, run: Vec::new(), next: row.next_at };
        };
        let late = row.now - LATE;
        let before_window = row.now - Duration::seconds(row.catch_up_window_seconds) - Duration::microseconds(1);
        let from = match CatchUp::parse(&row.catch_up) {
            _ if first > late => Some(first),
            Some(CatchUp::All) if first > before_window => Some(first),
            Some(CatchUp::All) => tick_after(ticks, row, before_window.min(late)),
            Some(CatchUp::Last) => {
                last_until(ticks, late, first.max(before_window)).or_else(|| tick_after(ticks, row, late))
            }
            Some(CatchUp::None) | None => tick_after(ticks, row, late),
        };
        let missed = (from != Some(first)).then_some(first);
        let mut all = std::iter::successors(from, |tick| tick_after(ticks, row, *tick)).peekable();
        let mut run = Vec::new();
        while run.len() < MOST_TICKS
            && let Some(tick) = all.next_if(|tick| *tick <= row.now)
        {
            run.push(tick);
        }
        Self { missed, run, next: all.next() }
    }
}

/// Last tick until a time, if it is not before another time.
fn last_until(ticks: &Ticks, until: OffsetDateTime, least: OffsetDateTime) -> Option<OffsetDateTime> {
    let mut back = Duration::seconds(1);
    loop {
        let from = (until - back).max(least - Duration::microseconds(1));
        let inside = |tick: &OffsetDateTime| *tick <= until;
        let found = std::iter::successors(ticks.after(from).filter(inside), |tick| ticks.after(*tick).filter(inside));
        if let Some(last) = found.last() {
            return Some(last);
        }
        if from < least {
            return None;
        }
        back *= 2;
    }
}
