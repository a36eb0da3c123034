//! Ticks of schedules: every due tick becomes one run, on any server, once (`schedule-exactly-once`).
//!
//! A server locks a due schedule, creates the tree of each tick, and moves the schedule on. The tree is created in a commit
//! of its own. Its id and its Idempotency-Key are derived from the schedule and the tick, so that a server that repeats a
//! tick after a crash finds the tree.

use std::{
    ops::Range,
    sync::{Mutex, PoisonError},
    time::Instant,
};

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
        caller::{Caller, Scope},
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
    stored_response::ResponseSlot,
    task::in_task,
};

use super::{found, locked, record, tick_after, tick_from, ticks::Ticks};

/// Age from which a tick counts as missed if the server was idle.
const LATE: Duration = Duration::seconds(5);
/// Maximum part of a tick's age that the server's work on due schedules accounts for. Without a maximum, a server that
/// cannot create trees as fast as they are due would fall behind forever.
const MOST_BUSY: Duration = Duration::minutes(10);
/// Maximum number of ticks of one schedule in one transaction.
const MOST_TICKS: usize = 20;
/// Maximum number of runs that wait for a tree.
const MOST_QUEUED: i32 = 100;
/// Number of schedules after which their pages are updated during a long sweep.
const PAGES_EVERY: usize = 100;

/// Begins the trace of a tree; `None` if traces are off.
type BeginTrace<'a> = &'a (dyn Fn() -> Option<Traceparent> + Sync);

/// State of schedules in one server.
#[derive(Debug, Default)]
pub(crate) struct ScheduleWork {
    /// Begin of the current sweep.
    busy_since: Mutex<Option<Instant>>,
    /// Held while a request has a schedule's lock and creates trees, which takes further connections: several of these
    /// requests would wait for each other's connections.
    pub(super) requests: tokio::sync::Mutex<()>,
}

impl ScheduleWork {
    fn set_busy(&self, since: Option<Instant>) {
        *self.busy_since.lock().unwrap_or_else(PoisonError::into_inner) = since;
    }

    /// Age from which a tick counts as missed. Ticks that became due since the sweep began, or just before, wait for this
    /// server's work on other schedules: a server was running. Measured without the database's clock, which can be set.
    fn missed_age(&self) -> Duration {
        let since = *self.busy_since.lock().unwrap_or_else(PoisonError::into_inner);
        let busy = since.map_or(Duration::ZERO, |since| since.elapsed().try_into().unwrap_or(MOST_BUSY));
        LATE + busy.min(MOST_BUSY)
    }
}

impl Engine {
    /// Makes the due ticks of all schedules that no other server is handling, until there are none; returns the number of
    /// schedules. Each tree belongs to a trace of its own.
    pub async fn sweep_schedules(&self, trace: BeginTrace<'_>) -> Result<usize> {
        let work = &self.0.core.schedules;
        work.set_busy(Some(Instant::now()));
        let handled = self.handle_all_due(trace).await;
        work.set_busy(None);
        handled
    }

    async fn handle_all_due(&self, trace: BeginTrace<'_>) -> Result<usize> {
        let mut handled = 0;
        while !self.0.core.shutdown.is_cancelled() && self.handle_due(trace).await? {
            handled += 1;
            if handled % PAGES_EVERY == 0 {
                self.0.core.live.changed(Topic::Schedules);
            }
        }
        if handled > 0 {
            self.0.core.live.changed(Topic::Schedules);
        }
        Ok(handled)
    }

    /// Makes the due ticks of one schedule; returns false if none is due.
    async fn handle_due(&self, trace: BeginTrace<'_>) -> Result<bool> {
        let mut tx = crate::store::begin(&self.0.core.pools.read).await?;
        let Some(id) = schedules::lock_due(&mut tx).await? else { return Ok(false) };
        match self.run_due(&mut tx, id, trace).await {
            Ok(()) => crate::store::commit(tx).await?,
            Err(error) => {
                tracing::warn!(schedule_id = %id, %error, "schedule tick failed");
                tx.rollback().await?;
                schedules::postpone(&self.0.core.pools.read, id).await?;
            }
        }
        Ok(true)
    }

    /// Creates a tree of the schedule now, whatever its overlap policy.
    pub async fn run_schedule(
        &self,
        caller: &Caller,
        id: Uuid,
        reason: Option<String>,
        traceparent: Option<Traceparent>,
        response_slot: &ResponseSlot,
    ) -> Result<Schedule> {
        caller.require(Scope::JobsWrite)?;
        let (engine, caller, response_slot) = (self.clone(), caller.clone(), response_slot.clone());
        in_task("running a schedule", async move {
            let _turn = engine.0.core.schedules.requests.lock().await;
            let mut tx = crate::store::begin(&engine.0.core.pools.read).await?;
            let row = locked(&mut tx, &caller, id).await?;
            let reason = audit::reason_for(&caller, row.owner_id, reason.as_deref())?;
            let tick = row.now;
            let (tree, key) = name_by_hand(&mut tx, &row, response_slot.key()).await?;
            let started = engine.start_tree(&row, tree, key, traceparent).await;
            let job_id = started.map_err(not_of_the_caller)?;
            let seq = row.last_seq + 1;
            let run = NewRun { job_id: Some(job_id), by_hand: true, ..new_run(seq, tick, RunState::Started) };
            schedules::insert_run(&mut tx, id, &run).await?;
            schedules::advance(&mut tx, id, row.next_at, seq, row.queued).await?;
            record(&mut tx, &caller, "schedule.run", &row, reason.as_deref()).await?;
            let schedule = engine.to_api(&found(&mut tx, id).await?)?;
            response_slot.store(&mut tx, &schedule).await?;
            crate::store::commit(tx).await?;
            engine.0.core.live.changed(Topic::Schedules);
            Ok(schedule)
        })
        .await
    }

    /// Makes the due ticks of a locked schedule.
    async fn run_due(&self, tx: &mut Tx, id: Uuid, trace: BeginTrace<'_>) -> Result<()> {
        let mut row = found(tx, id).await?;
        let ticks = Ticks::of(&row.cron, &row.time_zone)?;
        self.run_queued(tx, &mut row, trace).await?;
        row.next_at = stored_tick(&ticks, &row);
        let due = Due::of(&ticks, &row, self.0.core.schedules.missed_age());
        if let Some(first) = due.missed {
            let end = due.run.first().copied().or(due.next).unwrap_or(row.now);
            self.list_missed(tx, &mut row, &ticks, first..end).await?;
        }
        for tick in due.run {
            row.last_seq += 1;
            let run = self.tick(&row, tick, trace).await?;
            schedules::insert_run(tx, id, &run).await?;
            row.queued += i32::from(run.state == RunState::Queued);
            row.set_started(run.job_id);
        }
        Ok(schedules::advance(tx, id, due.next, row.last_seq, row.queued).await?)
    }

    /// Makes the ticks of a locked schedule that are due before its times change. A run with the reason `missed` stands for
    /// those that are more than one transaction makes. Returns the tick of the last run.
    pub(super) async fn run_due_before_change(
        &self,
        tx: &mut Tx,
        before: &ScheduleRow,
    ) -> Result<Option<OffsetDateTime>> {
        let is_due = |row: &ScheduleRow| row.next_at.is_some_and(|next| next <= before.now);
        // An expression that is not valid any more, such as one in a zone that was renamed, must not prevent the change.
        let ticks = Ticks::of(&before.cron, &before.time_zone).ok().filter(|_| is_due(before));
        let Some(ticks) = ticks else { return Ok(before.last_tick) };
        self.run_due(tx, before.id, &|| None).await?;
        let mut row = found(tx, before.id).await?;
        if let Some(first) = row.next_at.filter(|_| is_due(&row)) {
            let next = tick_after(&ticks, &row, before.now);
            let end = next.unwrap_or(before.now + Duration::seconds(1));
            self.list_missed(tx, &mut row, &ticks, first..end).await?;
            schedules::advance(tx, row.id, next, row.last_seq, row.queued).await?;
        }
        Ok(row.last_tick)
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
        for tick in self.created_ticks(row, ticks, &missed).await? {
            if let Some(skipped) = first.filter(|first| *first < tick) {
                list_skipped(tx, row, skipped).await?;
            }
            row.last_seq += 1;
            let job_id = Some(tree_id(row.id, tick));
            let run = NewRun { job_id, ..new_run(row.last_seq, tick, RunState::Started) };
            schedules::insert_run(tx, row.id, &run).await?;
            row.set_started(job_id);
            first = tick_after(ticks, row, tick);
        }
        match first.filter(|first| *first < missed.end) {
            Some(skipped) => list_skipped(tx, row, skipped).await,
            None => Ok(()),
        }
    }

    /// Ticks of this time that have trees, by their Idempotency-Keys. Runs by hand have such keys, too, at other times.
    async fn created_ticks(
        &self,
        row: &ScheduleRow,
        ticks: &Ticks,
        during: &Range<OffsetDateTime>,
    ) -> Result<Vec<OffsetDateTime>> {
        let keys = tree_key(row.id, during.start)..tree_key(row.id, during.end);
        let found = idempotency::keys_of_trees(&self.0.core.pools.read, row.owner_id, &keys).await?;
        let prefix = tree_key_prefix(row.id);
        let times = found.iter().filter_map(|key| Some(Time::parse(key.strip_prefix(&prefix)?)?.0));
        Ok(times.filter(|time| ticks.has(*time)).collect())
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
        let run = new_run(seq, tick, RunState::Started);
        // A server created it and crashed before it could say so. The job may have been changed since.
        let run = if self.has_tree(row.id, tick).await? {
            NewRun { job_id: Some(tree_id(row.id, tick)), ..run }
        } else if !self.open_trees(row).await?.is_empty() {
            return Ok(());
        } else {
            self.attempt(row, run, trace).await?
        };
        schedules::end_queued(tx, row.id, &run).await?;
        row.queued -= 1;
        row.set_started(run.job_id);
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
        if row.queued > 0 || !self.open_trees(row).await?.is_empty() {
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
        for previous in self.open_trees(row).await? {
            let canceled = async {
                let caller = self.schedule_caller(row).await?;
                self.cancel_job(&caller, previous, None).await
            };
            match canceled.await {
                // Complete or deleted by now, or the owner may not cancel it: then creating is refused, too.
                Err(Error::Problem(problem)) if problem.status < 500 => {}
                other => other?,
            }
        }
        Ok(())
    }

    /// Creates the tree of a run; a refusal is the run's result.
    async fn attempt(&self, row: &ScheduleRow, run: NewRun, trace: BeginTrace<'_>) -> Result<NewRun> {
        let (tree, key) = (tree_id(row.id, run.tick), tree_key(row.id, run.tick));
        match self.start_tree(row, tree, key, trace()).await {
            Ok(job_id) => Ok(NewRun { job_id: Some(job_id), ..run }),
            Err(Error::Problem(problem)) if problem.status < 500 => {
                let problem = serde_json::to_string(&problem).map_err(|error| Error::Broken(error.to_string()))?;
                Ok(NewRun { state: RunState::Failed, problem: Some(problem), ..run })
            }
            Err(error) => Err(error),
        }
    }

    /// Creates the tree of a run by its id and its Idempotency-Key, or finds it.
    async fn start_tree(
        &self,
        row: &ScheduleRow,
        id: Uuid,
        key: String,
        traceparent: Option<Traceparent>,
    ) -> Result<Uuid> {
        let caller = self.schedule_caller(row).await?;
        let broken = |error: serde_json::Error| Problem::invalid_body([("/job".to_owned(), error.to_string())]);
        let job = self.opened_job(row)?;
        let new: NewJob = serde_json::from_str(&job).map_err(broken)?;
        let hash: [u8; 32] = Sha256::digest(&job).into();
        let creation = Creation {
            new: NewJob { id: Some(id), ..new },
            key: Some((key, hash)),
            body_hash: Some(hash),
            may_need_key: true,
            traceparent,
        };
        Ok(self.create_tree(&caller, creation).await?.0.root_id())
    }

    /// The caller on whose behalf a schedule acts, with current rights. 401 if the token or the account is not valid
    /// anymore.
    async fn schedule_caller(&self, row: &ScheduleRow) -> Result<Caller> {
        let credential_id = if row.made_by_person { row.owner_id } else { row.made_by };
        let rights = rights_of(&self.0.core.pools.read, credential_id).await?;
        Ok(Caller {
            owner_id: row.owner_id,
            kind: if row.owner_kind == "user" { OwnerKind::User } else { OwnerKind::Service },
            name: row.owner_name.clone(),
            role: rights.role,
            scopes: rights.scopes,
            credential_id,
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

    /// Previous trees that are not complete. A tree by hand does not hide that of the last tick.
    async fn open_trees(&self, row: &ScheduleRow) -> Result<Vec<Uuid>> {
        let mut previous: Vec<Uuid> = row.last_tick_job_id.into_iter().chain(row.last_job_id).collect();
        previous.dedup();
        if previous.is_empty() {
            return Ok(previous);
        }
        let trees = self.0.core.read_trees(&previous).await?;
        Ok(trees.iter().filter(|root| root.status != JobStatus::Completed).map(|root| root.id).collect())
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
    id_of(schedule_id, &micros.to_be_bytes())
}

/// Id and Idempotency-Key of the tree of a run by hand. With a key of the request, a repeated call finds the tree of a
/// server that crashed before it could say so; a tree that has its run belongs to a call of long ago.
async fn name_by_hand(tx: &mut Tx, row: &ScheduleRow, key: Option<&str>) -> Result<(Uuid, String)> {
    if let Some(key) = key {
        let tree = id_of(row.id, format!("by hand {key}").as_bytes());
        if !schedules::has_run(tx, row.id, tree).await? {
            return Ok((tree, format!("schedule-run:{}:{tree}", row.id)));
        }
    }
    Ok((tree_id(row.id, row.now), tree_key(row.id, row.now)))
}

fn id_of(schedule_id: Uuid, run: &[u8]) -> Uuid {
    let hash = Sha256::new().chain_update(schedule_id).chain_update(run).finalize();
    let mut bytes = [0; 16];
    bytes.copy_from_slice(&hash[..16]);
    uuid::Builder::from_custom_bytes(bytes).into_uuid()
}

/// Next tick as stored, if it is one. A new version of the server can have other rules of the time zone, and a stored tick
/// can have a run if the clock was set back: then the first tick after the last run, or since the last change.
fn stored_tick(ticks: &Ticks, row: &ScheduleRow) -> Option<OffsetDateTime> {
    let next = row.next_at?;
    let is_done = row.last_tick.is_some_and(|last| next <= last);
    if next > row.now || (ticks.has(next) && !is_done) {
        return Some(next);
    }
    let after = row.last_tick.map_or(row.updated_at, |last| last.max(row.updated_at));
    tick_from(ticks, row, after)
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
    fn of(ticks: &Ticks, row: &ScheduleRow, missed_age: Duration) -> Self {
        let Some(first) = row.next_at.filter(|first| *first <= row.now) else {
            return Self { missed: None, run: Vec::new(), next: row.next_at };
        };
        let late = row.now - missed_age;
        let before_window = row.now - Duration::seconds(row.catch_up_window_seconds) - Duration::microseconds(1);
        let from = match CatchUp::parse(&row.catch_up) {
            _ if first > late => Some(first),
            Some(CatchUp::All) if first > before_window => Some(first),
            Some(CatchUp::All) => tick_after(ticks, row, before_window.min(late)),
            Some(CatchUp::Last) => {
                let until = row.ends_at.map_or(late, |ends| ends.min(late));
                last_until(ticks, until, first.max(before_window)).or_else(|| tick_after(ticks, row, late))
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

/// A refusal of the credential that a schedule acts for, as one of the caller who runs it: 403.
fn not_of_the_caller(error: Error) -> Error {
    match error {
        Error::Problem(problem) if problem.code == Code::Unauthenticated => {
            Error::refuse(Code::Forbidden, format!("The schedule acts for another credential. {}", problem.detail))
        }
        other => other,
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
