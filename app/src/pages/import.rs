//! `/imports/{id}`: one sentence, one bar, one number; then what went wrong; then what to take home.

use domain::{Job, JobStatus, api::ErrorGroup, hold::Held};
use leptos::prelude::*;

use super::{job::holds::holds_of_import, problems};
use crate::{
    components::{moment::clock, panel::section, state::icon},
    frame::{Page, Place},
    live::import::LiveImport,
    reading::Head,
    upload::Corrects,
};

/// How an import is called: its file's name.
pub fn name(job: &Job) -> String {
    job.name.clone().unwrap_or_else(|| job.key.clone())
}

pub fn page(job: &Job, groups: &[ErrorGroup], staff: bool) -> Page {
    page_with(job, groups, staff, Around::default())
}

/// What else is known around an import.
#[derive(Default)]
pub struct Around {
    /// What keeps its rows from being worked on.
    pub held: Vec<Held>,
    /// Between the downloads and the small print.
    pub panel: Option<AnyView>,
    /// Whether the reader may correct its failed rows.
    pub may_correct: bool,
    /// The import whose rows this one corrects, and those that correct rows of this one.
    pub corrects: Option<Corrects>,
    pub corrected_by: Vec<Corrects>,
}

/// Failed rows that can be corrected in a page.
const FEW: i64 = 200;

/// The same, with what is around it.
pub fn page_with(job: &Job, groups: &[ErrorGroup], staff: bool, around: Around) -> Page {
    let name = name(job);
    let completed = job.tree.status == JobStatus::Completed;
    let dead = job.tree.counts.dead;
    let Around { held, panel, may_correct, corrects, corrected_by } = around;
    let correct = (may_correct && dead > 0).then(|| section("correct", "Correct", corrections(job)));
    let content = view! {
        <div class="narrow">
            <p class="crumbs">
                <a href="/imports">"My uploads"</a>
            </p>
            <h1 class="file-name">{icon("file")} " " {name.clone()}</h1>
            <LiveImport id=job.id label=format!("Progress of {name}") head=Head::of(job) />
            // A reason to wait, such as a paused type, may change without an event of its own.
            <div id="around" data-refresh="" data-topics="types">
                {holds_of_import(&held)}
                {(dead > 0 || !completed)
                    .then(|| section("problems", "What went wrong", problems::groups(groups, dead, !completed, true)))}
                {section("downloads", "Take home", downloads(job, completed))} {correct}
            </div>
            {related(corrects.as_ref(), &corrected_by)} {panel}
            <p class="sub">
                "Uploaded " {clock(job.created_at)} " · type " {job.job_type.clone()}
                {staff.then(|| view! { " · " <a href=format!("/jobs/{}", job.id)>"as a job"</a> })}
            </p>
        </div>
    }
    .into_any();
    Page { title: name, place: Place::Imports, content, lives: true }
}

/// What to do about rows that failed.
fn corrections(job: &Job) -> AnyView {
    let id = job.id;
    let dead = job.counts.dead;
    let here = (1..=FEW).contains(&dead).then(|| {
        view! {
            <a class="button" href=format!("/imports/{id}/correct")>
                "Correct these rows"
            </a>
        }
    });
    view! {
        <p>
            "Correct the failed rows in the list from above, in any program that opens CSV, and upload that list: only those rows are worked on again."
            {here.is_some().then_some(" A few rows are corrected quickest right here.")}
        </p>
        <div class="actions">
            {here}
            <a class="button" href=format!("/imports/new?again={id}")>
                {icon("upload")}
                "Upload corrected rows"
            </a>
        </div>
    }
    .into_any()
}

/// The ways between an import and those that correct its rows.
fn related(corrects: Option<&Corrects>, corrected_by: &[Corrects]) -> Option<AnyView> {
    if corrects.is_none() && corrected_by.is_empty() {
        return None;
    }
    let link = |import: &Corrects| view! { <a href=format!("/imports/{}", import.id)>{import.name.clone()}</a> };
    let first = corrects.map(|first| view! { <p class="note">"These rows correct " {link(first)} "."</p> });
    let later = corrected_by
        .iter()
        .map(|later| view! { <p class="note">"Corrected rows were uploaded as " {link(later)} "."</p> })
        .collect_view();
    Some(view! { <div class="related">{first} {later}</div> }.into_any())
}

/// The files to take home. While work goes on they hold what is there so far, and say so.
pub(super) fn downloads(job: &Job, completed: bool) -> AnyView {
    let id = job.id;
    let counts = job.tree.counts;
    let failed = counts.dead;
    let so_far = if completed { "" } else { " so far" };
    let stem = name(job);
    let stem = stem.rsplit_once('.').map_or(stem.as_str(), |(stem, _)| stem).to_owned();
    let link = |address: String, file: String, text: String, present: bool, strong: bool| {
        if present {
            let class = if strong { "button primary" } else { "button" };
            view! {
                <a class=class href=address download=file>
                    {icon("download")}
                    {text}
                </a>
            }
            .into_any()
        } else {
            view! { <span class="button button-off" aria-disabled="true">{icon("download")} {text}</span> }.into_any()
        }
    };
    let rows = domain::progress::grouped(failed);
    view! {
        <div class="actions">
            {link(
                format!("/api/v1/jobs/{id}/failures?format=csv"),
                format!("{stem}-failed.csv"),
                format!("{rows} failed {}{so_far} (CSV)", if failed == 1 { "row" } else { "rows" }),
                failed > 0,
                failed > 0 && completed,
            )}
            {link(
                format!("/api/v1/jobs/{id}/results?format=csv"),
                format!("{stem}-results.csv"),
                format!("Results{so_far} (CSV)"),
                counts.succeeded > 0,
                failed == 0 && completed,
            )}
            {link(
                format!("/api/v1/jobs/{id}/results?format=ndjson"),
                format!("{stem}-results.ndjson"),
                format!("Results{so_far} (NDJSON)"),
                counts.succeeded > 0,
                false,
            )}
        </div>
    }
    .into_any()
}
