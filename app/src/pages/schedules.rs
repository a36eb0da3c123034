//! Schedules: the list, the form for a new one, and the page of one with its next and recent runs.

mod form; // the form of a schedule
mod words; // cron expressions in words

use std::collections::HashMap;

use domain::{
    Job,
    api::{RunState, Schedule, ScheduleRun},
    id::Uuid,
};
use leptos::prelude::*;

use self::form::form;
use crate::{
    components::{
        action_form::{ActionForm, RefusedAction, action_form_open, flash, key_field},
        breadcrumbs::breadcrumbs,
        panel::{empty, next_page, note, refusal, section},
        state::icon,
        table::{self, words},
        timestamp::{ago, clock},
    },
    frame::{NavSection, Page},
    job_view::{job_shape, job_word},
    pace::duration,
};

pub use self::{form::Typed, words::in_words};

/// Content of the list.
#[derive(Clone, Debug, Default)]
pub struct Schedules {
    pub all: Vec<Schedule>,
    /// Root jobs of the last runs.
    pub jobs: HashMap<Uuid, Job>,
    /// Address of the next page.
    pub next: Option<String>,
    pub first: bool,
    /// Error in the query.
    pub problem: Option<String>,
    /// What has just been done.
    pub flash: Option<String>,
}

/// `/schedules`.
pub fn list_page(page_data: &Schedules) -> Page {
    let list = match (&page_data.problem, page_data.all.is_empty()) {
        (Some(problem), _) => refusal("There is no such list", problem),
        (None, false) => {
            let next = next_page(page_data.next.as_ref(), "Older");
            view! { <div class="card">{table(page_data)}</div> {next} }.into_any()
        }
        (None, true) if !page_data.first => {
            empty("No more schedules", "There are none before these.", all().into_any())
        }
        (None, true) => {
            let text = "A schedule creates the same job again and again: every night, on weekdays, once a month.";
            empty("No schedules yet", text, new("btn btn-primary").into_any())
        }
    };
    let content = view! {
        <div class="page-head">
            <h1>"Schedules"</h1>
            <div class="actions">{(!page_data.all.is_empty()).then(|| new("btn btn-primary"))}</div>
            <p class="sub">"Jobs that start by themselves."</p>
        </div>
        {flash(page_data.flash.as_deref())}
        <div class="stack gap-4" id="schedules" data-refresh="" data-topics="schedules roots">
            {list}
        </div>
    }
    .into_any();
    Page {
        title: "Schedules".to_owned(),
        nav_section: NavSection::Schedules,
        content,
        is_live: false,
        is_translated: false,
    }
}

fn all() -> impl IntoView {
    view! {
        <a class="btn" href="/schedules">
            "See all"
        </a>
    }
}

fn new(class: &'static str) -> impl IntoView {
    view! {
        <a class=class href="/schedules/new">
            {icon("plus")}
            "New schedule"
        </a>
    }
}

fn table(page_data: &Schedules) -> AnyView {
    let rows = page_data
        .all
        .iter()
        .map(|one| {
            let last = one.last_run.as_ref();
            view! {
                <tr role="row" data-key=one.id.to_string()>
                    <th scope="row" role="rowheader" class="name">
                        <span class="two">
                            <a class="clip" href=format!("/schedules/{}", one.id)>{one.name.clone()}</a>
                            <span>{job_type(one)}</span>
                        </span>
                    </th>
                    <td role="cell" class="fit">{badge(one)}</td>
                    <td role="cell" data-label="Runs">{expression(one)}</td>
                    <td role="cell" data-label="Next run">{next_run(one)}</td>
                    <td role="cell" data-label="Last run">
                        {last.map_or_else(|| "Not yet".into_any(), |run| result(run, &page_data.jobs))}
                    </td>
                    <td role="cell" class="who" data-label="By" title=one.owner.name.clone()>{one.owner.name.clone()}</td>
                </tr>
            }
        })
        .collect_view();
    let heads = words(["Schedule", "Status", "Runs", "Next run", "Last run", "By"]);
    table::frame("Schedules", "schedules", heads, rows)
}

/// Job type that the stored body names.
fn job_type(one: &Schedule) -> String {
    let body: Option<serde_json::Value> = serde_json::from_str(one.job.text()).ok();
    body.and_then(|body| body["type"].as_str().map(str::to_owned)).unwrap_or_default()
}

fn badge(one: &Schedule) -> AnyView {
    let (shape, icon_name, word) = match (one.paused, one.next_runs.is_empty()) {
        (true, _) => ("paused", "pause", "Paused"),
        (false, true) => ("cancelled", "cancelled", "Ended"),
        (false, false) => ("succeeded", "succeeded", "Active"),
    };
    view! { <span class=format!("state s-{shape} badge")>{icon(icon_name)} " " {word}</span> }.into_any()
}

fn expression(one: &Schedule) -> AnyView {
    let code = view! { <span class="mono">{one.cron.clone()}</span> };
    match in_words(&one.cron) {
        Some(words) => view! { <span class="two"><span>{words}</span> {code}</span> }.into_any(),
        None => code.into_any(),
    }
}

fn next_run(one: &Schedule) -> AnyView {
    match one.next_runs.first().filter(|_| !one.paused) {
        Some(at) => clock(*at).into_any(),
        None => "\u{2013}".into_any(),
    }
}

/// Result of a run: the state of its tree, or the reason why there is none.
fn result(run: &ScheduleRun, jobs: &HashMap<Uuid, Job>) -> AnyView {
    let (shape, word) = match run.state {
        RunState::Queued => ("scheduled", "Waits for the previous run"),
        RunState::Failed => ("dead", "Could not start"),
        RunState::Skipped => match run.reason.as_deref() {
            Some("overlap") => ("cancelled", "Skipped, the previous run was not complete"),
            Some("missed") => ("cancelled", "Skipped, Treeline was down"),
            Some("queue_full") => ("cancelled", "Skipped, too many runs wait"),
            _ => ("cancelled", "Skipped"),
        },
        RunState::Started => {
            let job = run.job_id.and_then(|id| jobs.get(&id));
            return match job {
                Some(job) => {
                    let took = job.completed_at.map(|end| {
                        let seconds = end.seconds_since(job.started_at.unwrap_or(job.created_at));
                        format!(", took {}", duration(seconds))
                    });
                    let (shape, word) = (job_shape(job.status, job.outcome), job_word(job.status, job.outcome));
                    view! {
                        <span class=format!("state s-{shape}")>
                            {icon(shape)} <a href=format!("/jobs/{}", job.id)>{word}</a>
                        </span>
                        {took}
                    }
                    .into_any()
                }
                None => "Started; the job was deleted since".into_any(),
            };
        }
    };
    let why = run.problem.as_ref().map(|problem| view! { " " <span class="sub">{problem.detail.clone()}</span> });
    view! { <span class=format!("state s-{shape}")>{icon(shape)} {word}</span> {why} }.into_any()
}

/// `/schedules/new`.
pub fn new_page(typed: &Typed) -> Page {
    breadcrumbs(&[("/schedules", "Schedules")], "New schedule");
    let content = view! {
        <div class="page-head">
            <h1>"New schedule"</h1>
            <p class="sub">"Each run creates one job, with your current permissions."</p>
        </div>
        {section("settings", "When and what", form(typed, "/schedules".to_owned(), "Create schedule", true, false))}
    }
    .into_any();
    Page {
        title: "New schedule".to_owned(),
        nav_section: NavSection::Schedules,
        content,
        is_live: false,
        is_translated: false,
    }
}

/// One schedule with its history.
#[derive(Clone, Debug)]
pub struct SchedulePageData {
    pub one: Schedule,
    /// Newest first.
    pub runs: Vec<ScheduleRun>,
    /// Root jobs of these runs that still exist.
    pub jobs: HashMap<Uuid, Job>,
    /// Address of the page of older runs.
    pub older: Option<String>,
    /// True if it is someone else's.
    pub others: bool,
    pub typed: Typed,
    pub refused: Option<RefusedAction>,
    pub flash: Option<String>,
    /// Name of the form to open.
    pub open: Option<String>,
    /// Idempotency-Key of the form that runs the schedule.
    pub key: String,
}

/// `/schedules/{id}`.
pub fn page(page_data: &SchedulePageData) -> Page {
    let one = &page_data.one;
    breadcrumbs(&[("/schedules", "Schedules")], one.name.clone());
    let content = view! {
        <div class="page-head">
            <h1>{one.name.clone()}</h1>
            <span id="state" data-refresh="" data-topics="schedules">
                {badge(one)}
            </span>
            <p class="sub">{in_words(&one.cron).unwrap_or_else(|| one.cron.clone())} {format!(", {}, by {}", one.time_zone, one.owner.name)}</p>
        </div>
        {flash(page_data.flash.as_deref())}
        <div class="grid">
            <div class="c8 stack gap-4">
                <div id="runs-part" data-refresh="" data-topics="schedules roots">
                    {section("runs", "Recent runs", runs(page_data))}
                </div>
                <div class="bare">{section("actions", "Actions", actions(page_data))}</div>
                {section("settings", "Settings", form(&page_data.typed, format!("/schedules/{}", one.id), "Save changes", false, page_data.others))}
            </div>
            <div class="c4 stack gap-4" id="next-part" data-refresh="" data-topics="schedules">
                {section("next", "Next runs", next_runs(one))}
            </div>
        </div>
    }
    .into_any();
    Page { title: one.name.clone(), nav_section: NavSection::Schedules, content, is_live: false, is_translated: false }
}

fn next_runs(one: &Schedule) -> AnyView {
    if one.next_runs.is_empty() {
        return note("None. Its last time has passed.");
    }
    if one.paused {
        return note("None while it is paused.");
    }
    let lines = one.next_runs.iter().map(|at| view! { <li>{clock(*at)}</li> }).collect_view();
    view! { <ol class="lines">{lines}</ol> }.into_any()
}

fn runs(page_data: &SchedulePageData) -> AnyView {
    if page_data.runs.is_empty() {
        return note("No run yet.");
    }
    let rows = page_data
        .runs
        .iter()
        .map(|run| {
            view! {
                <tr role="row" data-key=run.seq.to_string()>
                    <th scope="row" role="rowheader" class="name">
                        {clock(run.tick)}
                        {run.by_hand.then(|| view! { " " <span class="sub">"started by hand"</span> })}
                    </th>
                    <td role="cell" class="wide wrap" data-label="Result">{result(run, &page_data.jobs)}</td>
                    <td role="cell" class="fit" data-label="Changed">{ago(run.at)}</td>
                </tr>
            }
        })
        .collect_view();
    let table = table::frame("Recent runs", "runs", words(["Run", "Result", "Changed"]), rows);
    view! { {table} {next_page(page_data.older.as_ref(), "Older runs")} }.into_any()
}

fn actions(page_data: &SchedulePageData) -> AnyView {
    let (one, refused) = (&page_data.one, page_data.refused.as_ref());
    let form = |name: &'static str, verb: &'static str, text: &'static str, button: &str, dangerous: bool| {
        let url = format!("/schedules/{}/{name}", one.id);
        let text = text.into_any();
        let others = page_data.others;
        let fields = (name == "run").then(|| key_field(&page_data.key));
        let action = ActionForm { action: name, url, verb, text, fields, button: button.to_owned(), dangerous, others };
        action_form_open(action, refused, page_data.open.as_deref() == Some(name))
    };
    let run = "Creates the job at once, also while the schedule is paused or its previous run is not complete.";
    let pause = "No runs until it is resumed. Runs that pass meanwhile are not made up for.";
    let toggle = if one.paused {
        form("resume", "Resume…", "The next run is the first one from now on.", "Resume", false)
    } else {
        form("pause", "Pause…", pause, "Pause", false)
    };
    view! {
        <div class="action-forms" id="schedule-actions" data-refresh="">
            {form("run", "Run now…", run, "Run now", false)} {toggle}
            {form("delete", "Delete…", "Deletes the schedule with its history. The jobs that it created stay.", "Delete schedule", true)}
        </div>
    }
    .into_any()
}
