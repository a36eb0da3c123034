//! Schedules: creation, changes, and lists. `run` makes their ticks, `ticks` computes the times.
//!
//! A schedule belongs to its creator, like a job. Its trees have the current rights of the creator: of the token, or of
//! the person's account, because a session ends sooner than a schedule.

mod job_text; // the job of a schedule as text
mod run; // ticks
mod ticks; // times of a cron expression

pub(crate) use run::ScheduleWork;

use domain::{
    Document, Problem, Time,
    api::{
        CATCH_UP_SECONDS, CatchUp, LARGEST_SCHEDULED_JOB, LONGEST_CATCH_UP_SECONDS, LONGEST_SCHEDULE_NAME, NEXT_RUNS,
        NewJob, NewSchedule, Overlap, Schedule, SchedulePatch, ScheduleRun,
    },
    job::{Owner, OwnerKind},
    limits::is_text,
    query::topic::Topic,
};
use time::{Duration, OffsetDateTime};
use uuid::Uuid;

use crate::{
    Engine,
    access::caller::{Caller, Scope},
    error::{Error, Result},
    notify::audit,
    sealing::stored_secrets::{open_scheduled, seal_scheduled},
    store::{
        Tx,
        notify::audit as audit_log,
        page_range::PageRange,
        tree::schedules::{self, ScheduleRow},
    },
    stored_response::ResponseSlot,
    task::in_task,
};

use ticks::Ticks;

impl Engine {
    /// Creates a schedule. `job` is the text of the job's body. Returns 422 if the cron expression, the zone or the job
    /// is refused.
    pub async fn create_schedule(
        &self,
        caller: &Caller,
        new: NewSchedule,
        job: String,
        response_slot: ResponseSlot,
    ) -> Result<Schedule> {
        caller.require(Scope::JobsWrite)?;
        self.check_job(caller, &new.job, &job).await?;
        let now = OffsetDateTime::now_utc();
        let row = ScheduleRow {
            id: Uuid::now_v7(),
            owner_id: caller.owner_id,
            owner_kind: if caller.role.is_some() { "user" } else { "service" }.to_owned(),
            owner_name: caller.name.clone(),
            name: new.name,
            cron: new.cron,
            time_zone: new.time_zone.unwrap_or_else(|| "UTC".to_owned()),
            job: self.sealed_job(job),
            overlap: new.overlap.unwrap_or(Overlap::Skip).as_str().to_owned(),
            catch_up: new.catch_up.unwrap_or(CatchUp::None).as_str().to_owned(),
            catch_up_window_seconds: new.catch_up_window_seconds.unwrap_or(CATCH_UP_SECONDS),
            starts_at: new.starts_at.map(|at| at.0),
            ends_at: new.ends_at.map(|at| at.0),
            paused: new.paused,
            made_by: caller.credential_id,
            made_by_person: caller.role.is_some(),
            next_at: None,
            last_seq: 0,
            queued: 0,
            created_at: now,
            updated_at: now,
            now,
            run_tick: None,
            run_at: None,
            run_state: None,
            run_job_id: None,
            run_reason: None,
            run_problem: None,
            run_by_hand: None,
            last_tick: None,
            last_job_id: None,
            last_tick_job_id: None,
        };
        valid(&row)?;
        let (engine, caller) = (self.clone(), caller.clone());
        in_task("creating a schedule", async move {
            let mut tx = crate::store::begin(&engine.0.core.pools.read).await?;
            schedules::insert(&mut tx, &row).await?;
            // The database's clock decides about the first tick.
            let mut row = found(&mut tx, row.id).await?;
            row.next_at = first_tick(&row)?;
            schedules::update(&mut tx, &row).await?;
            record(&mut tx, &caller, "schedule.create", &row, None).await?;
            let created = engine.to_api(&row)?;
            response_slot.store(&mut tx, &created).await?;
            crate::store::commit(tx).await?;
            engine.0.core.live.changed(Topic::Schedules);
            Ok(created)
        })
        .await
    }

    /// Returns one page of the schedules that are visible to the caller.
    pub async fn schedules(&self, caller: &Caller, part: PageRange) -> Result<Vec<Schedule>> {
        caller.require(Scope::JobsRead)?;
        let rows = schedules::list(self.0.core.pools.reads().await, caller.visible_owner(), part).await?;
        rows.iter().map(|row| self.to_api(row)).collect()
    }

    /// Returns a schedule that is visible to the caller.
    pub async fn schedule(&self, caller: &Caller, id: Uuid) -> Result<Schedule> {
        caller.require(Scope::JobsRead)?;
        let mut connection = self.0.core.pools.read.acquire().await?;
        self.to_api(&visible(caller, found(&mut connection, id).await)?)
    }

    /// Returns one page of the runs of a schedule that is visible to the caller. The newest thousand, and the last that
    /// started, are stored.
    pub async fn schedule_runs(&self, caller: &Caller, id: Uuid, part: PageRange<i64>) -> Result<Vec<ScheduleRun>> {
        self.schedule(caller, id).await?;
        Ok(schedules::runs(self.0.core.pools.reads().await, id, part).await?)
    }

    /// Changes a schedule. `job` is the text of the job's body, if it changes; the stored secret of its webhook stays
    /// if the text has the URL as shown and no `secret`. A job from the owner makes the schedule act with the rights of
    /// this credential.
    pub async fn patch_schedule(
        &self,
        caller: &Caller,
        id: Uuid,
        patch: SchedulePatch,
        job: Option<String>,
    ) -> Result<Schedule> {
        caller.require(Scope::JobsWrite)?;
        self.schedule_to_write(caller, id).await?;
        if let (Some(new), Some(text)) = (&patch.job, &job) {
            self.check_job(caller, new, text).await?;
        }
        let (reason, engine, by) = (patch.reason.clone(), self.clone(), caller.clone());
        self.change(caller, id, "schedule.change", reason, move |row| {
            if let Some(job) = job.filter(|_| patch.job.is_some()) {
                if row.owner_id == by.owner_id {
                    (row.made_by, row.made_by_person) = (by.credential_id, by.role.is_some());
                }
                let stored = engine.opened_job(row)?;
                row.job = engine.sealed_job(job_text::with_stored_target(&job, &stored));
            }
            apply(row, patch);
            Ok(())
        })
        .await
    }

    /// Pauses or resumes a schedule. Ticks that pass while it is paused are not made up for. Idempotent.
    pub async fn pause_schedule(
        &self,
        caller: &Caller,
        id: Uuid,
        paused: bool,
        reason: Option<String>,
    ) -> Result<Schedule> {
        caller.require(Scope::JobsWrite)?;
        let action = if paused { "schedule.pause" } else { "schedule.resume" };
        self.change(caller, id, action, reason, move |row| {
            row.paused = paused;
            Ok(())
        })
        .await
    }

    /// Deletes a schedule with its history. Its trees stay.
    pub async fn delete_schedule(&self, caller: &Caller, id: Uuid, reason: Option<String>) -> Result<()> {
        caller.require(Scope::JobsWrite)?;
        let (engine, caller) = (self.clone(), caller.clone());
        in_task("deleting a schedule", async move {
            let mut tx = crate::store::begin(&engine.0.core.pools.read).await?;
            let row = locked(&mut tx, &caller, id).await?;
            let reason = audit::reason_for(&caller, row.owner_id, reason.as_deref())?;
            schedules::delete(&mut tx, id).await?;
            record(&mut tx, &caller, "schedule.delete", &row, reason.as_deref()).await?;
            crate::store::commit(tx).await?;
            engine.0.core.live.changed(Topic::Schedules);
            Ok(())
        })
        .await
    }

    async fn change(
        &self,
        caller: &Caller,
        id: Uuid,
        action: &'static str,
        reason: Option<String>,
        change: impl FnOnce(&mut ScheduleRow) -> Result<()> + Send + 'static,
    ) -> Result<Schedule> {
        let (engine, caller) = (self.clone(), caller.clone());
        in_task("changing a schedule", async move {
            let _turn = engine.0.core.schedules.requests.lock().await;
            let mut tx = crate::store::begin(&engine.0.core.pools.read).await?;
            let mut row = locked(&mut tx, &caller, id).await?;
            let reason = audit::reason_for(&caller, row.owner_id, reason.as_deref())?;
            let before = row.clone();
            change(&mut row)?;
            valid(&row)?;
            let same_times = (&row.cron, &row.time_zone, row.starts_at, row.ends_at, row.paused)
                == (&before.cron, &before.time_zone, before.starts_at, before.ends_at, before.paused);
            if !same_times {
                row.last_tick = Box::pin(engine.run_due_before_change(&mut tx, &before)).await?;
                row.next_at = first_tick(&row)?;
            }
            schedules::update(&mut tx, &row).await?;
            record(&mut tx, &caller, action, &row, reason.as_deref()).await?;
            let row = found(&mut tx, id).await?;
            crate::store::commit(tx).await?;
            engine.0.core.live.changed(Topic::Schedules);
            engine.to_api(&row)
        })
        .await
    }

    async fn schedule_to_write(&self, caller: &Caller, id: Uuid) -> Result<()> {
        let mut connection = self.0.core.pools.read.acquire().await?;
        visible(caller, found(&mut connection, id).await).map(drop)
    }

    /// Refuses a job as `POST /jobs` would; pointers begin with `/job`.
    async fn check_job(&self, caller: &Caller, job: &NewJob, text: &str) -> Result<()> {
        if text.len() > LARGEST_SCHEDULED_JOB {
            let detail = format!("expected at most {LARGEST_SCHEDULED_JOB} bytes");
            return Err(Problem::invalid_body([("/job".to_owned(), detail)]).into());
        }
        let mut open = vec![(job, "/job".to_owned())];
        while let Some((job, pointer)) = open.pop() {
            if job.id.is_some() {
                let detail = "expected no id, because each tick creates a new job".to_owned();
                return Err(Problem::invalid_body([(format!("{pointer}/id"), detail)]).into());
            }
            open.extend(job.children.iter().enumerate().map(|(n, child)| (child, format!("{pointer}/children/{n}"))));
        }
        self.check_sizes(job).map_err(in_the_job)?;
        match self.check_tree(caller, job.clone()).await {
            Err(Error::Problem(problem)) => Err(in_the_job(*problem).into()),
            other => other,
        }
    }
}

/// Moves the pointers of a job's problem into the schedule's body.
fn in_the_job(problem: Problem) -> Problem {
    problem.moved(|pointer| Some(format!("/job{pointer}")))
}

fn apply(row: &mut ScheduleRow, patch: SchedulePatch) {
    row.name = patch.name.unwrap_or_else(|| row.name.clone());
    row.cron = patch.cron.unwrap_or_else(|| row.cron.clone());
    row.time_zone = patch.time_zone.unwrap_or_else(|| row.time_zone.clone());
    if let Some(overlap) = patch.overlap {
        overlap.as_str().clone_into(&mut row.overlap);
    }
    if let Some(catch_up) = patch.catch_up {
        catch_up.as_str().clone_into(&mut row.catch_up);
    }
    row.catch_up_window_seconds = patch.catch_up_window_seconds.unwrap_or(row.catch_up_window_seconds);
    row.starts_at = patch.starts_at.map_or(row.starts_at, |at| at.map(|at| at.0));
    row.ends_at = patch.ends_at.map_or(row.ends_at, |at| at.map(|at| at.0));
    row.paused = patch.paused.unwrap_or(row.paused);
}

/// Refuses fields outside their limits: 422.
fn valid(row: &ScheduleRow) -> Result<(), Problem> {
    let fault = |field: &str, detail: String| Err(Problem::invalid_body([(format!("/{field}"), detail)]));
    if !is_text(&row.name, 1, LONGEST_SCHEDULE_NAME) {
        return fault("name", format!("expected 1 to {LONGEST_SCHEDULE_NAME} characters"));
    }
    if !(0..=LONGEST_CATCH_UP_SECONDS).contains(&row.catch_up_window_seconds) {
        return fault("catch_up_window_seconds", format!("expected 0 to {LONGEST_CATCH_UP_SECONDS}"));
    }
    if row.ends_at.is_some_and(|ends| row.starts_at.is_some_and(|starts| ends <= starts)) {
        return fault("ends_at", "expected a time after starts_at".to_owned());
    }
    let ticks = Ticks::of(&row.cron, &row.time_zone)?;
    if ticks.after(row.now).is_none() {
        return fault("cron", "expected an expression that names a time to come".to_owned());
    }
    Ok(())
}

/// Next tick that creates a tree; `None` while paused, or after the end.
fn first_tick(row: &ScheduleRow) -> Result<Option<OffsetDateTime>, Problem> {
    let ticks = Ticks::of(&row.cron, &row.time_zone)?;
    Ok(tick_from_now(&ticks, row).filter(|_| !row.paused))
}

/// Next tick from now on, also of a paused schedule; `None` after the end. If the clock was set back, no tick runs again.
fn tick_from_now(ticks: &Ticks, row: &ScheduleRow) -> Option<OffsetDateTime> {
    tick_from(ticks, row, row.last_tick.map_or(row.now, |last| row.now.max(last)))
}

/// First tick after a time and from the start on; `None` after the end.
fn tick_from(ticks: &Ticks, row: &ScheduleRow, after: OffsetDateTime) -> Option<OffsetDateTime> {
    let after = row.starts_at.map_or(after, |starts| after.max(starts - Duration::microseconds(1)));
    tick_after(ticks, row, after)
}

fn tick_after(ticks: &Ticks, row: &ScheduleRow, after: OffsetDateTime) -> Option<OffsetDateTime> {
    ticks.after(after).filter(|tick| row.ends_at.is_none_or(|ends| *tick <= ends))
}

async fn found(on: &mut sqlx::PgConnection, id: Uuid) -> Result<ScheduleRow> {
    Ok(schedules::find(on, id).await?.ok_or_else(|| Problem::not_found("schedule"))?)
}

fn visible(caller: &Caller, row: Result<ScheduleRow>) -> Result<ScheduleRow> {
    let row = row?;
    if caller.visible_owner().is_some_and(|owner| owner != row.owner_id) {
        return Err(Problem::not_found("schedule").into());
    }
    Ok(row)
}

/// Locks a schedule that the caller may change.
async fn locked(tx: &mut Tx, caller: &Caller, id: Uuid) -> Result<ScheduleRow> {
    schedules::lock(tx, id).await?;
    visible(caller, found(tx, id).await)
}

async fn record(
    tx: &mut Tx,
    caller: &Caller,
    action: &'static str,
    row: &ScheduleRow,
    reason: Option<&str>,
) -> Result<()> {
    if let Some(entry) = audit::row(caller, action, row.owner_id, reason) {
        audit_log::record(tx, &entry.with_detail(format!("{}: {} {}", row.name, row.cron, row.time_zone))).await?;
    }
    Ok(())
}

impl Engine {
    /// Text of a job as it is stored: sealed if it has a webhook, which may contain secrets.
    fn sealed_job(&self, text: String) -> String {
        if job_text::has_webhook(&text) { seal_scheduled(&self.0.core.sealer, &text) } else { text }
    }

    /// Text of a job as it was given.
    fn opened_job(&self, row: &ScheduleRow) -> Result<String> {
        open_scheduled(&self.0.core.sealer, &row.job).map_err(|error| Error::Broken(error.to_string()))
    }

    /// A schedule as the API shows it.
    fn to_api(&self, row: &ScheduleRow) -> Result<Schedule> {
        let ticks = Ticks::of(&row.cron, &row.time_zone)?;
        let first = if row.paused { tick_from_now(&ticks, row) } else { row.next_at };
        let next = std::iter::successors(first, |tick| tick_after(&ticks, row, *tick));
        let kind = if row.owner_kind == "user" { OwnerKind::User } else { OwnerKind::Service };
        let unknown = || Error::Broken("a schedule has an unknown policy".to_owned());
        Ok(Schedule {
            id: row.id,
            owner: Owner { kind, name: row.owner_name.clone() },
            name: row.name.clone(),
            cron: row.cron.clone(),
            time_zone: row.time_zone.clone(),
            job: Document::trusted(job_text::shown(&self.opened_job(row)?)),
            overlap: Overlap::parse(&row.overlap).ok_or_else(unknown)?,
            catch_up: CatchUp::parse(&row.catch_up).ok_or_else(unknown)?,
            catch_up_window_seconds: row.catch_up_window_seconds,
            starts_at: row.starts_at.map(Time),
            ends_at: row.ends_at.map(Time),
            paused: row.paused,
            next_runs: next.take(NEXT_RUNS).map(Time).collect(),
            last_run: row.last_run(),
            created_at: Time(row.created_at),
            updated_at: Time(row.updated_at),
        })
    }
}
