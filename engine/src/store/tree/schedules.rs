//! Schedules and their runs. A schedule's row is locked while its runs are created.

use domain::{
    Problem, Time,
    api::{RunState, ScheduleRun},
};
use sqlx::{PgConnection, PgPool};
use time::OffsetDateTime;
use uuid::Uuid;

use crate::store::{
    Tx,
    page_range::{PageRange, by_age},
};

/// Number of runs that are stored for each schedule.
const MOST_RUNS: i64 = 1_000;

/// A schedule, with its last run.
#[derive(Clone, Debug)]
pub struct ScheduleRow {
    pub id: Uuid,
    pub owner_id: Uuid,
    pub owner_kind: String,
    pub owner_name: String,
    pub name: String,
    pub cron: String,
    pub time_zone: String,
    pub job: String,
    pub overlap: String,
    pub catch_up: String,
    pub catch_up_window_seconds: i64,
    pub starts_at: Option<OffsetDateTime>,
    pub ends_at: Option<OffsetDateTime>,
    pub paused: bool,
    pub made_by: Uuid,
    pub made_by_person: bool,
    pub next_at: Option<OffsetDateTime>,
    pub last_seq: i64,
    pub queued: i32,
    pub created_at: OffsetDateTime,
    pub updated_at: OffsetDateTime,
    /// The database's clock.
    pub now: OffsetDateTime,
    pub run_tick: Option<OffsetDateTime>,
    pub run_at: Option<OffsetDateTime>,
    pub run_state: Option<String>,
    pub run_job_id: Option<Uuid>,
    pub run_reason: Option<String>,
    pub run_problem: Option<String>,
    pub run_by_hand: Option<bool>,
    /// Tick of the last run that was not by hand.
    pub last_tick: Option<OffsetDateTime>,
    /// Root of the last tree.
    pub last_job_id: Option<Uuid>,
    /// Root of the last tree that was not created by hand.
    pub last_tick_job_id: Option<Uuid>,
}

impl ScheduleRow {
    /// Notes the tree of a tick, if it has one.
    pub fn set_started(&mut self, job_id: Option<Uuid>) {
        if job_id.is_some() {
            (self.last_job_id, self.last_tick_job_id) = (job_id, job_id);
        }
    }

    /// The last run.
    pub fn last_run(&self) -> Option<ScheduleRun> {
        let run = RunRow {
            seq: self.last_seq,
            tick: self.run_tick?,
            at: self.run_at?,
            state: self.run_state.clone()?,
            job_id: self.run_job_id,
            reason: self.run_reason.clone(),
            problem: self.run_problem.clone(),
            by_hand: self.run_by_hand?,
        };
        run.shown()
    }
}

/// A run as it is stored.
struct RunRow {
    seq: i64,
    tick: OffsetDateTime,
    at: OffsetDateTime,
    state: String,
    job_id: Option<Uuid>,
    reason: Option<String>,
    problem: Option<String>,
    by_hand: bool,
}

impl RunRow {
    fn shown(self) -> Option<ScheduleRun> {
        Some(ScheduleRun {
            seq: self.seq,
            tick: Time(self.tick),
            at: Time(self.at),
            state: RunState::parse(&self.state)?,
            job_id: self.job_id,
            reason: self.reason,
            problem: self.problem.as_deref().and_then(|text| serde_json::from_str::<Problem>(text).ok()),
            by_hand: self.by_hand,
        })
    }
}

/// Result of a tick.
#[derive(Clone, Debug)]
pub struct NewRun {
    pub seq: i64,
    pub tick: OffsetDateTime,
    pub state: RunState,
    pub job_id: Option<Uuid>,
    pub reason: Option<&'static str>,
    /// A problem document.
    pub problem: Option<String>,
    pub by_hand: bool,
}

macro_rules! select {
    ($these:tt, $argument:expr) => {
        sqlx::query_as!(
            ScheduleRow,
            r#"select s.id, s.owner_id, o.kind as owner_kind, o.name as owner_name, s.name, s.cron, s.time_zone, s.job,
                 s.overlap, s.catch_up, s.catch_up_window_seconds, s.starts_at, s.ends_at, s.paused, s.made_by,
                 s.made_by_person, s.next_at, s.last_seq, s.queued, s.created_at, s.updated_at,
                 clock_timestamp() as "now!", r.tick as "run_tick?", r.at as "run_at?", r.state as "run_state?",
                 r.job_id as run_job_id, r.reason as run_reason, r.problem as run_problem, r.by_hand as "run_by_hand?",
                 (select max(l.tick) from schedule_run l where l.schedule_id = s.id and not l.by_hand) as last_tick,
                 (select l.job_id from schedule_run l where l.schedule_id = s.id and l.state = 'started'
                  order by l.seq desc limit 1) as last_job_id,
                 (select l.job_id from schedule_run l where l.schedule_id = s.id and l.state = 'started' and not l.by_hand
                  order by l.seq desc limit 1) as last_tick_job_id
               from schedule s
               join owner o on o.id = s.owner_id
               left join schedule_run r on r.schedule_id = s.id and r.seq = s.last_seq
               where "# + $these + " order by s.id",
            $argument
        )
    };
}

/// The schedule with this id.
pub async fn find(on: &mut PgConnection, id: Uuid) -> sqlx::Result<Option<ScheduleRow>> {
    select!("s.id = $1", id).fetch_optional(on).await
}

/// Owner of a schedule.
pub async fn owner(pool: &PgPool, id: Uuid) -> sqlx::Result<Option<Uuid>> {
    sqlx::query_scalar!("select owner_id from schedule where id = $1", id).fetch_optional(pool).await
}

/// A page of the list of all schedules, or of an owner's.
pub async fn list(pool: &PgPool, owner_id: Option<Uuid>, part: PageRange) -> sqlx::Result<Vec<ScheduleRow>> {
    macro_rules! listed {
        ($on:tt, $order:tt) => {
            sqlx::query_scalar!(
                r#"select id from schedule
                   where ($1::uuid is null or owner_id = $1) and ($2::uuid is null or id "#
                    + $on
                    + " $2) order by id "
                    + $order
                    + " limit $3",
                owner_id,
                part.behind,
                part.limit
            )
            .fetch_all(pool)
            .await?
        };
    }
    let ids: Vec<Uuid> = by_age!(part.oldest_first, listed);
    let mut rows = select!("s.id = any($1::uuid[])", &ids as &[Uuid]).fetch_all(pool).await?;
    if !part.oldest_first {
        rows.reverse();
    }
    Ok(rows)
}

/// A page of the history of a schedule.
pub async fn runs(pool: &PgPool, schedule_id: Uuid, part: PageRange<i64>) -> sqlx::Result<Vec<ScheduleRun>> {
    macro_rules! listed {
        ($on:tt, $order:tt) => {
            sqlx::query_as!(
                RunRow,
                "select seq, tick, at, state, job_id, reason, problem, by_hand from schedule_run
                 where schedule_id = $1 and ($2::bigint is null or seq "
                    + $on
                    + " $2) order by seq "
                    + $order
                    + " limit $3",
                schedule_id,
                part.behind,
                part.limit
            )
            .fetch_all(pool)
            .await?
        };
    }
    let rows: Vec<RunRow> = by_age!(part.oldest_first, listed);
    let unknown = || sqlx::Error::Decode("a run has an unknown state".into());
    rows.into_iter().map(|row| row.shown().ok_or_else(unknown)).collect()
}

/// Writes a new schedule.
pub async fn insert(tx: &mut Tx, row: &ScheduleRow) -> sqlx::Result<()> {
    sqlx::query!(
        "insert into schedule (id, owner_id, name, cron, time_zone, job, overlap, catch_up, catch_up_window_seconds,
           starts_at, ends_at, paused, made_by, made_by_person, next_at, next_check_at)
         values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $15)",
        row.id,
        row.owner_id,
        row.name,
        row.cron,
        row.time_zone,
        row.job,
        row.overlap,
        row.catch_up,
        row.catch_up_window_seconds,
        row.starts_at,
        row.ends_at,
        row.paused,
        row.made_by,
        row.made_by_person,
        row.next_at
    )
    .execute(&mut **tx)
    .await?;
    Ok(())
}

/// Writes the editable fields of a schedule.
pub async fn update(tx: &mut Tx, row: &ScheduleRow) -> sqlx::Result<()> {
    sqlx::query!(
        "update schedule set name = $2, cron = $3, time_zone = $4, job = $5, overlap = $6, catch_up = $7,
           catch_up_window_seconds = $8, starts_at = $9, ends_at = $10, paused = $11, made_by = $12,
           made_by_person = $13, next_at = $14,
           next_check_at = case when not $11 and queued > 0 then clock_timestamp() else $14 end,
           updated_at = clock_timestamp()
         where id = $1",
        row.id,
        row.name,
        row.cron,
        row.time_zone,
        row.job,
        row.overlap,
        row.catch_up,
        row.catch_up_window_seconds,
        row.starts_at,
        row.ends_at,
        row.paused,
        row.made_by,
        row.made_by_person,
        row.next_at
    )
    .execute(&mut **tx)
    .await?;
    Ok(())
}

/// Locks a schedule.
pub async fn lock(tx: &mut Tx, id: Uuid) -> sqlx::Result<Option<Uuid>> {
    sqlx::query_scalar!("select id from schedule where id = $1 for update", id).fetch_optional(&mut **tx).await
}

/// Locks a schedule that is due and that no other server holds.
pub async fn lock_due(tx: &mut Tx) -> sqlx::Result<Option<Uuid>> {
    sqlx::query_scalar!(
        "select id from schedule where next_check_at <= clock_timestamp() order by next_check_at limit 1 for update skip locked"
    )
    .fetch_optional(&mut **tx)
    .await
}

/// Advances a schedule after its ticks. A schedule with queued runs is checked every second. Its last trees remain listed,
/// because they can be open for longer than other runs are stored.
pub async fn advance(
    tx: &mut Tx,
    id: Uuid,
    next_at: Option<OffsetDateTime>,
    last_seq: i64,
    queued: i32,
) -> sqlx::Result<()> {
    sqlx::query!(
        "update schedule set next_at = $2, last_seq = $3, queued = $4,
           next_check_at = case when $4 > 0 and not paused then least($2, clock_timestamp() + interval '1 second')
                          else $2 end
         where id = $1",
        id,
        next_at,
        last_seq,
        queued
    )
    .execute(&mut **tx)
    .await?;
    sqlx::query!(
        "delete from schedule_run where schedule_id = $1 and seq <= $2 and state <> 'queued'
           and seq <> coalesce((select max(l.seq) from schedule_run l
                                where l.schedule_id = $1 and l.state = 'started'), 0)
           and seq <> coalesce((select max(l.seq) from schedule_run l
                                where l.schedule_id = $1 and l.state = 'started' and not l.by_hand), 0)",
        id,
        last_seq - MOST_RUNS
    )
    .execute(&mut **tx)
    .await?;
    Ok(())
}

/// Postpones the next check of a schedule, because the server could not create its run. Several tries fit into the time
/// after which a tick counts as missed.
pub async fn postpone(pool: &PgPool, id: Uuid) -> sqlx::Result<()> {
    sqlx::query!(
        "update schedule set next_check_at = clock_timestamp() + interval '1 second' where id = $1 and next_check_at is not null",
        id
    )
    .execute(pool)
    .await?;
    Ok(())
}

/// Writes a run.
pub async fn insert_run(tx: &mut Tx, schedule_id: Uuid, run: &NewRun) -> sqlx::Result<()> {
    sqlx::query!(
        "insert into schedule_run (schedule_id, seq, tick, state, job_id, reason, problem, by_hand)
         values ($1, $2, $3, $4, $5, $6, $7, $8)",
        schedule_id,
        run.seq,
        run.tick,
        run.state.as_str(),
        run.job_id,
        run.reason,
        run.problem,
        run.by_hand
    )
    .execute(&mut **tx)
    .await?;
    Ok(())
}

/// The longest-queued run: its ordinal and its tick.
pub async fn first_queued(tx: &mut Tx, schedule_id: Uuid) -> sqlx::Result<Option<(i64, OffsetDateTime)>> {
    let row = sqlx::query!(
        "select seq, tick from schedule_run where schedule_id = $1 and state = 'queued' order by seq limit 1",
        schedule_id
    )
    .fetch_optional(&mut **tx)
    .await?;
    Ok(row.map(|row| (row.seq, row.tick)))
}

/// Writes the result of a queued run.
pub async fn end_queued(tx: &mut Tx, schedule_id: Uuid, run: &NewRun) -> sqlx::Result<()> {
    sqlx::query!(
        "update schedule_run set state = $3, job_id = $4, problem = $5, at = clock_timestamp()
         where schedule_id = $1 and seq = $2",
        schedule_id,
        run.seq,
        run.state.as_str(),
        run.job_id,
        run.problem
    )
    .execute(&mut **tx)
    .await?;
    Ok(())
}

/// Deletes a schedule with its runs; its trees stay.
pub async fn delete(tx: &mut Tx, id: Uuid) -> sqlx::Result<bool> {
    let done = sqlx::query!("delete from schedule where id = $1", id).execute(&mut **tx).await?;
    Ok(done.rows_affected() > 0)
}

/// Returns true if a run of the schedule has this tree.
pub async fn has_run(tx: &mut Tx, schedule_id: Uuid, job_id: Uuid) -> Result<bool, sqlx::Error> {
    sqlx::query_scalar!(
        r#"select exists (select 1 from schedule_run where schedule_id = $1 and job_id = $2) as "exists!""#,
        schedule_id,
        job_id
    )
    .fetch_one(&mut **tx)
    .await
}
