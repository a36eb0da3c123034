//! `treeline schedules`: lists schedules, and manages one.

use client::{Client, PageQuery};
use domain::{
    Time,
    api::{CatchUp, NewSchedule, Overlap, Schedule, SchedulePatch, ScheduleRun},
    id::Uuid,
};

use super::{Exit, all, input, show};

#[derive(Debug, clap::Args)]
pub(super) struct Options {
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// List schedules, newest first; the default.
    List,
    /// Print a schedule as JSON.
    Show {
        #[arg(value_parser = super::object_id)]
        id: Uuid,
    },
    /// List the runs of a schedule, newest first.
    Runs {
        #[arg(value_parser = super::object_id)]
        id: Uuid,
    },
    /// Create a schedule from a JSON file, the body of `POST /schedules`; `-` reads standard input.
    Create { file: String },
    /// Change the given fields of a schedule. Its ticks and trees so far stay.
    Edit(Edit),
    /// Create a tree now.
    Run(Change),
    /// Skip all ticks until the schedule is resumed.
    Pause(Change),
    /// Continue with the next tick.
    Resume(Change),
    /// Delete a schedule; its trees stay.
    Delete(Change),
}

#[derive(Debug, clap::Args)]
struct Change {
    #[arg(value_parser = super::object_id)]
    id: Uuid,
    /// Required on someone else's schedule; stored in the audit log.
    #[arg(long)]
    reason: Option<String>,
}

#[derive(Debug, clap::Args)]
#[group(id = "fields", required = true, multiple = true)]
struct Fields {
    /// Display name.
    #[arg(long)]
    name: Option<String>,
    /// Cron expression of five or six fields, or a form such as @daily.
    #[arg(long, value_name = "EXPRESSION")]
    cron: Option<String>,
    /// IANA time zone, such as Europe/Berlin.
    #[arg(long, value_name = "ZONE")]
    time_zone: Option<String>,
    /// JSON file with the job of a tick, the body of `POST /jobs`; `-` reads standard input.
    #[arg(long, value_name = "FILE")]
    job: Option<String>,
    /// What a tick does while the previous tree is not complete: skip, queue or cancel_previous.
    #[arg(long, value_name = "RULE", value_parser = overlap)]
    overlap: Option<Overlap>,
    /// Missed ticks that create a tree: none, last or all.
    #[arg(long, value_name = "RULE", value_parser = catch_up)]
    catch_up: Option<CatchUp>,
    /// Age up to which a missed tick creates a tree.
    #[arg(long, value_name = "SECONDS")]
    catch_up_window_seconds: Option<i64>,
    /// Time before which there are no ticks, such as 2027-01-31T00:00:00Z, or none.
    #[arg(long, value_name = "TIME", value_parser = bound)]
    starts_at: Option<Bound>,
    /// Time after which there are no ticks, or none.
    #[arg(long, value_name = "TIME", value_parser = bound)]
    ends_at: Option<Bound>,
}

#[derive(Debug, clap::Args)]
struct Edit {
    #[arg(value_parser = super::object_id)]
    id: Uuid,
    #[command(flatten)]
    fields: Fields,
    /// Required on someone else's schedule; stored in the audit log.
    #[arg(long)]
    reason: Option<String>,
}

/// First or last time of a schedule; `None` removes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Bound(Option<Time>);

fn bound(text: &str) -> Result<Bound, String> {
    match (text, Time::parse(text)) {
        ("none", _) => Ok(Bound(None)),
        (_, Some(time)) => Ok(Bound(Some(time))),
        (_, None) => Err("expected a time such as 2027-01-31T00:00:00Z, or none".to_owned()),
    }
}

fn overlap(text: &str) -> Result<Overlap, String> {
    Overlap::parse(text).ok_or_else(|| "expected skip, queue or cancel_previous".to_owned())
}

fn catch_up(text: &str) -> Result<CatchUp, String> {
    CatchUp::parse(text).ok_or_else(|| "expected none, last or all".to_owned())
}

impl Edit {
    fn patch(self) -> anyhow::Result<SchedulePatch> {
        let fields = self.fields;
        Ok(SchedulePatch {
            name: fields.name,
            cron: fields.cron,
            time_zone: fields.time_zone,
            job: fields.job.as_deref().map(input::body).transpose()?,
            overlap: fields.overlap,
            catch_up: fields.catch_up,
            catch_up_window_seconds: fields.catch_up_window_seconds,
            starts_at: fields.starts_at.map(|Bound(time)| time),
            ends_at: fields.ends_at.map(|Bound(time)| time),
            paused: None,
            reason: self.reason,
        })
    }
}

pub(super) async fn run(client: &Client, options: Options, json: bool) -> anyhow::Result<Exit> {
    match options.command.unwrap_or(Command::List) {
        Command::List => print(&all(async |page: &PageQuery| client.schedules(page).await).await?, json),
        Command::Show { id } => show::json(&client.schedule(id).await?),
        Command::Runs { id } => {
            let runs = all(async |page: &PageQuery| client.schedule_runs(id, page).await).await?;
            show::list(&runs, json, ["TICK", "STATE", "JOB", "DETAIL"], run_row);
        }
        Command::Create { file } => {
            let new: NewSchedule = input::body(&file)?;
            print(&[client.create_schedule(&new).await?], json);
        }
        Command::Edit(edit) => print(&[client.patch_schedule(edit.id, &edit.patch()?).await?], json),
        Command::Run(Change { id, reason }) => {
            let schedule = client.run_schedule(id, reason.as_deref()).await?;
            if json {
                show::json(&schedule);
            } else {
                show::list(schedule.last_run.as_slice(), false, ["TICK", "STATE", "JOB", "DETAIL"], run_row);
            }
        }
        Command::Pause(Change { id, reason }) => print(&[client.pause_schedule(id, reason.as_deref()).await?], json),
        Command::Resume(Change { id, reason }) => print(&[client.resume_schedule(id, reason.as_deref()).await?], json),
        Command::Delete(Change { id, reason }) => client.delete_schedule(id, reason.as_deref()).await?,
    }
    Ok(Exit::Done)
}

fn print(schedules: &[Schedule], json: bool) {
    show::list(schedules, json, ["ID", "NAME", "CRON", "TIME ZONE", "TYPE", "NEXT RUN"], row);
}

fn row(schedule: &Schedule) -> [String; 6] {
    let next = match schedule.next_runs.first() {
        _ if schedule.paused => "paused".to_owned(),
        Some(next) => next.to_string(),
        None => "none".to_owned(),
    };
    let job = serde_json::from_str::<serde_json::Value>(schedule.job.text()).unwrap_or_default();
    let job_type = job["type"].as_str().unwrap_or_default().to_owned();
    let (name, cron, zone) = (schedule.name.clone(), schedule.cron.clone(), schedule.time_zone.clone());
    [schedule.id.to_string(), name, cron, zone, job_type, next]
}

fn run_row(run: &ScheduleRun) -> [String; 4] {
    let problem = run.problem.as_ref().map(ToString::to_string);
    [
        run.tick.to_string(),
        run.state.as_str().to_owned(),
        run.job_id.map(|id| id.to_string()).unwrap_or_default(),
        problem.or_else(|| run.reason.clone()).unwrap_or_default(),
    ]
}
