//! `/imports/{id}`: one number, one bar, one sentence; then the failed rows and the downloads.

mod actions; // share, cancel, delete
mod downloads; // results and failed rows
mod rows; // failed rows by error group

use domain::{
    Job, JobStatus, Outcome,
    api::ErrorGroup,
    dispatch::{progress::grouped, waiting_reason::WaitingItems},
};
use leptos::prelude::*;

use super::new_import::Corrects;
use crate::pages::job::holds::holds_of_import;
use crate::{
    components::{breadcrumbs::breadcrumbs, state::icon, timestamp::clock},
    frame::{NavSection, Page},
    job_view::{Head, job_shape},
    live::import::LiveImport,
};

pub use actions::Actions;
pub(crate) use downloads::card as downloads_card;
pub(crate) use rows::failed;

/// SVG patterns of the line of trees; each page that uses them contains them once.
const WOODS: &str = include_str!("progress/woods.svg");

pub(crate) fn woods() -> impl IntoView {
    view! { <div class="woods" inner_html=WOODS></div> }
}

/// Name of an import: the name of its file.
pub fn name(job: &Job) -> String {
    job.name.clone().unwrap_or_else(|| job.key.clone())
}

/// Name of a download: the name of the file without its extension, and the content.
pub(crate) fn file_of(job: &Job, what: &str) -> String {
    let name = name(job);
    let stem = name.rsplit_once('.').map_or(name.as_str(), |(stem, _)| stem);
    format!("{stem}-{what}")
}

/// A number of rows of a file, or of items of a job without a file.
pub(crate) fn counted(file: bool, n: i64) -> String {
    let (one, many) = if file { ("row", "rows") } else { ("item", "items") };
    format!("{} {}", grouped(n), if n == 1 { one } else { many })
}

/// Shape and label of the state, for the owner of a file.
pub(crate) fn state(job: &Job, file: bool) -> AnyView {
    let bad = job.tree.counts.unresolved();
    // Every failed row was corrected, so nothing is left to do.
    let outcome = match job.tree.outcome {
        Some(Outcome::Partial | Outcome::Failed) if bad == 0 => Some(Outcome::Succeeded),
        outcome => outcome,
    };
    let shape = job_shape(job.tree.status, outcome);
    let words = match (job.tree.status, outcome) {
        (JobStatus::Waiting, _) => "Waiting".to_owned(),
        (JobStatus::Running, _) => "In progress".to_owned(),
        (JobStatus::Cancelling, _) => "Canceling".to_owned(),
        (JobStatus::Completed, Some(Outcome::Partial)) if bad == 1 => format!("{} needs attention", counted(file, 1)),
        (JobStatus::Completed, Some(Outcome::Partial)) => format!("{} need attention", counted(file, bad)),
        (JobStatus::Completed, Some(Outcome::Failed)) if file => "No rows could be imported".to_owned(),
        (JobStatus::Completed, Some(Outcome::Failed)) => "Failed".to_owned(),
        (JobStatus::Completed, Some(Outcome::Cancelled)) => "Canceled".to_owned(),
        (JobStatus::Completed, _) => "Completed".to_owned(),
    };
    view! {
        <span class=format!("state s-{shape} badge")>
            <svg class="icon icon-state" aria-hidden="true" focusable="false">
                <use href=format!("#i-{shape}") />
            </svg>
            {words}
        </span>
    }
    .into_any()
}

pub fn page(job: &Job, groups: &[ErrorGroup], staff: bool) -> Page {
    page_with(job, groups, staff, ImportContext { own: true, ..ImportContext::default() })
}

/// Related state of an import.
#[derive(Default)]
pub struct ImportContext {
    /// The import is the reader's own.
    pub own: bool,
    /// Reasons why its rows are not processed.
    pub waiting: Vec<WaitingItems>,
    /// Panel of share links.
    pub panel: Option<AnyView>,
    /// True if the reader may change it.
    pub may_change: bool,
    pub actions: Actions,
    /// Import whose rows this one corrects, and imports that correct rows of this one.
    pub corrects: Option<Corrects>,
    pub corrected_by: Vec<Corrects>,
}

/// Maximum number of failed rows that can be corrected on a page.
const FEW: i64 = 200;

/// The page with its context.
pub fn page_with(job: &Job, groups: &[ErrorGroup], staff: bool, context: ImportContext) -> Page {
    let name = name(job);
    let completed = job.tree.status == JobStatus::Completed;
    let dead = job.tree.counts.dead;
    let ImportContext { own, waiting, panel, may_change, actions, corrects, corrected_by } = context;
    let fixes = may_change && dead > 0;
    let file = job.upload_id.is_some();
    breadcrumbs(&[("/imports", "Imports")], name.as_str());
    let content = view! {
        {woods()}
        {actions.flash()}
        // Rendered by the server, and refreshed when the state changes.
        <div class="job-title" id="title" data-refresh="">
            <h1>{name.clone()}</h1>
            {state(job, file)}
            {actions::header(job, &actions, may_change, panel.is_some())}
        </div>
        <LiveImport id=job.id label=format!("Progress of {name}") head=Head::of(job) />
        // A reason to wait, such as a paused type, may change without an event of the job.
        <div class="stack gap-4" id="around" data-refresh="" data-topics="types">
            {holds_of_import(&waiting)}
            {(fixes && completed).then(|| next_step(job))}
            <div class="grid">
                <div class="c8 stack gap-4">{failed(job, file, groups, fixes)}</div>
                <div class="c4 stack gap-4">{downloads_card(job, file, completed)} {(fixes && completed).then(|| corrections_card(job))}</div>
            </div>
            {related(corrects.as_ref(), &corrected_by)}
        </div>
        {panel}
        <p class="small soft">
            {(!own).then(|| view! { "Imported by " <b>{job.owner.name.clone()}</b> " · " })}
            {if file { "Uploaded " } else { "Created " }} {clock(job.created_at)} " · Job type "
            {job.job_type.clone()} {staff.then(|| view! { " · " <a href=format!("/jobs/{}", job.id)>"Open as a job"</a> })}
        </p>
    }
    .into_any();
    Page { title: name, nav_section: NavSection::Imports, content, is_live: true }
}

/// Main action when rows have failed.
fn next_step(job: &Job) -> AnyView {
    let id = job.id;
    let dead = job.tree.counts.dead;
    let here = (1..=FEW).contains(&job.counts.dead);
    view! {
        <div class="actions" id="fix">
            {here
                .then(|| {
                    view! {
                        <a class="btn btn-primary btn-lg" href=format!("/imports/{id}/correct")>
                            {icon("pencil")}
                            {format!("Fix {}", counted(job.upload_id.is_some(), dead))}
                        </a>
                    }
                })}
            <a
                class=if here { "btn btn-lg" } else { "btn btn-primary btn-lg" }
                href=format!("/api/v1/jobs/{id}/failures?format=csv")
                download=file_of(job, "failed.csv")
            >
                {icon("download")}
                "Download failed rows"
            </a>
        </div>
    }
    .into_any()
}

/// Card that accepts a list of rows that were corrected elsewhere.
fn corrections_card(job: &Job) -> AnyView {
    view! {
        <section class="card" id="correct" aria-labelledby="correct-heading">
            <div class="card-head">
                <h2 id="correct-heading">"Try again"</h2>
            </div>
            <div class="card-body stack">
                <p class="small soft">
                    "Already corrected the list of failed rows? Upload it: only those rows are worked on again, and they keep their line numbers."
                </p>
                <div>
                    <a class="btn" href=format!("/imports/new?again={}", job.id)>
                        {icon("upload")}
                        "Upload corrected rows"
                    </a>
                </div>
            </div>
        </section>
    }
    .into_any()
}

/// Links between an import and those that correct its rows.
fn related(corrects: Option<&Corrects>, corrected_by: &[Corrects]) -> Option<AnyView> {
    if corrects.is_none() && corrected_by.is_empty() {
        return None;
    }
    let link = |import: &Corrects| view! { <a href=format!("/imports/{}", import.id)>{import.name.clone()}</a> };
    let first = corrects.map(|first| view! { <p class="related-line">"These rows correct " {link(first)} "."</p> });
    let later = corrected_by
        .iter()
        .map(|later| view! { <p class="related-line">"Corrected rows were uploaded as " {link(later)} "."</p> })
        .collect_view();
    Some(view! { <div class="notice notice-info related">{icon("info")} <div>{first} {later}</div></div> }.into_any())
}
