//! `treeline schedules`: lists schedules, and manages one.

use client::{Client, PageQuery};
use domain::{
    api::{NewSchedule, Schedule, ScheduleRun},
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
    Show { id: Uuid },
    /// List the runs of a schedule, newest first.
    Runs { id: Uuid },
    /// Create a schedule from a JSON file, the body of `POST /schedules`; `-` reads standard input.
    Create { file: String },
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
    id: Uuid,
    /// Required on someone else's schedule; stored in the audit log.
    #[arg(long)]
    reason: Option<String>,
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
