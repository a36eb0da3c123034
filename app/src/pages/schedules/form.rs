//! Form of a schedule: time, job, and handling of overlapping and missed runs.

use domain::{
    Problem,
    api::{CatchUp, Overlap},
};
use leptos::prelude::*;

use crate::components::{
    action_form::{field_fault, key_field, problem_notice, reason},
    form::{Field, choice},
    text_area::text_area,
};

/// Fields of a schedule, as typed.
#[derive(Clone, Debug)]
pub struct Typed {
    pub name: String,
    pub cron: String,
    pub time_zone: String,
    /// Body of `POST /jobs`.
    pub job: String,
    pub overlap: String,
    pub catch_up: String,
    pub catch_up_window_seconds: String,
    pub reason: String,
    pub problem: Option<Problem>,
    /// Idempotency-Key of the form of a new schedule.
    pub key: String,
    /// Last change of the schedule that the form shows.
    pub seen: String,
}

impl Typed {
    /// Fields of a new schedule of a job type.
    pub fn new(job_type: &str, cron: &str) -> Self {
        let job_type = serde_json::Value::from(job_type);
        Self {
            name: String::new(),
            cron: cron.to_owned(),
            time_zone: "UTC".to_owned(),
            job: format!(
                "{{\n  \"type\": {job_type},\n  \"items\": [{{ \"payload\": {{}} }}],\n  \"sealed\": true\n}}"
            ),
            overlap: Overlap::Skip.as_str().to_owned(),
            catch_up: CatchUp::Last.as_str().to_owned(),
            catch_up_window_seconds: domain::api::CATCH_UP_SECONDS.to_string(),
            reason: String::new(),
            problem: None,
            key: String::new(),
            seen: String::new(),
        }
    }
}

/// Common cron expressions and their labels.
const PATTERNS: [(&str, &str); 5] = [
    ("*/15 * * * *", "Every 15 minutes"),
    ("0 * * * *", "Hourly"),
    ("0 2 * * *", "Daily"),
    ("0 2 * * 1", "Weekly"),
    ("0 2 1 * *", "Monthly"),
];

const OVERLAPS: [(Overlap, &str); 3] = [
    (Overlap::Skip, "Skip this run"),
    (Overlap::Queue, "Wait for the previous run"),
    (Overlap::CancelPrevious, "Cancel the previous run"),
];

const CATCH_UPS: [(CatchUp, &str); 3] = [
    (CatchUp::Last, "Run once, as soon as possible"),
    (CatchUp::All, "Make up for each run"),
    (CatchUp::None, "Skip it"),
];

/// Suggested time zones.
const ZONES: [&str; 16] = [
    "UTC",
    "Europe/Berlin",
    "Europe/London",
    "Europe/Madrid",
    "Europe/Warsaw",
    "Europe/Kyiv",
    "America/New_York",
    "America/Chicago",
    "America/Denver",
    "America/Los_Angeles",
    "America/Sao_Paulo",
    "Africa/Lagos",
    "Asia/Dubai",
    "Asia/Kolkata",
    "Asia/Singapore",
    "Asia/Tokyo",
];

const JOB_HELP: &str = "The body of POST /jobs: type, name, items, and so on. A secret in on_completed is not shown. \
                        It stays while the URL stays; null removes it.";

/// Renders the form. `others`: it is someone else's schedule, so a reason is required.
pub(super) fn form(typed: &Typed, action: String, button: &'static str, is_new: bool, others: bool) -> AnyView {
    let problem = typed.problem.as_ref();
    let job_faults = field_fault(problem, "/job", "job-fault");
    let bad = job_faults.is_some();
    let overlaps = OVERLAPS.map(|(policy, word)| (policy.as_str(), word));
    let catch_ups = CATCH_UPS.map(|(policy, word)| (policy.as_str(), word));
    let name = Field::new("Name", "name", "text").value(&typed.name).judged(problem, "/name");
    let cron = Field::new("Cron expression", "cron", "text")
        .value(&typed.cron)
        .hint("Minute, hour, day, month, weekday; with seconds first where six fields are given.")
        .judged(problem, "/cron");
    let window = Field::new("At most this old, seconds", "catch_up_window_seconds", "number")
        .value(&typed.catch_up_window_seconds)
        .hint("Runs that were missed longer ago are skipped.")
        .judged(problem, "/catch_up_window_seconds");
    view! {
        <form class="form" method="post" action=action id="schedule-form">
            {problem.map(problem_notice)}
            {is_new.then(|| key_field(&typed.key))}
            {(!is_new).then(|| view! { <input type="hidden" name="seen" value=typed.seen.clone() /> })}
            {is_new.then(patterns)}
            <div class="fields">{name.view()}</div>
            <div class="fields">{cron.view()} {zone(typed, problem)}</div>
            <div class="field field-wide">
                <label class="label" for="job">"Job that is created each time, as JSON"</label>
                {text_area("job", "job", &typed.job, "job-help", bad)}
                <span class="help" id="job-help">{JOB_HELP}</span>
                {job_faults}
            </div>
            <div class="fields">
                {choice("If the previous run is not complete", "overlap", &overlaps, &typed.overlap)}
                {choice("If a run was missed", "catch_up", &catch_ups, &typed.catch_up)}
                {window.view()}
            </div>
            {others.then(|| reason("schedule", &typed.reason, true))}
            <div class="actions">
                <button class="btn btn-primary" type="submit">
                    {button}
                </button>
            </div>
        </form>
    }
    .into_any()
}

/// Buttons that fill in a common expression; the other fields stay.
fn patterns() -> impl IntoView {
    let buttons = PATTERNS
        .map(|(cron, word)| view! { <button type="submit" name="pattern" value=cron formnovalidate>{word}</button> })
        .collect_view();
    view! {
        // The first button is the one that the Enter key presses.
        <button class="vh" type="submit" tabindex="-1" aria-hidden="true">"Create"</button>
        <div class="seg-control" role="group" aria-label="Common patterns">
            {buttons}
        </div>
    }
}

fn zone(typed: &Typed, problem: Option<&Problem>) -> AnyView {
    let fault = crate::components::form::fault(problem, "/time_zone");
    let bad = fault.is_some();
    let described = if bad { "time_zone-hint time_zone-fault" } else { "time_zone-hint" };
    let zones = ZONES.map(|zone| view! { <option value=zone></option> }).collect_view();
    view! {
        <div class="field">
            <label class="label" for="time_zone">"Time zone"</label>
            <input
                type="text"
                id="time_zone"
                name="time_zone"
                value=typed.time_zone.clone()
                list="zones"
                required=true
                maxlength="100"
                autocomplete="off"
                aria-describedby=described
                aria-invalid=bad.then_some("true")
            />
            <datalist id="zones">{zones}</datalist>
            <span class="help" id="time_zone-hint">"Such as Europe/Berlin. Daylight saving is handled."</span>
            {fault.map(|fault| view! { <span class="field-error" id="time_zone-fault">{fault}</span> })}
        </div>
    }
    .into_any()
}
