//! `/imports/{id}`: one number, one bar, one sentence; then the failed rows and the downloads.

mod actions; // share, cancel, delete
mod downloads; // results and failed rows
mod rows; // failed rows by error group

use domain::{Job, JobStatus, Outcome, api::ErrorGroup, dispatch::waiting_reason::WaitingItems};
use leptos::prelude::*;

use super::new_import::Corrects;
use crate::pages::job::holds::holds_of_import;
use crate::{
    components::{breadcrumbs::breadcrumbs, state::icon, timestamp::clock},
    frame::{NavSection, Page},
    job_view::{Head, counted, job_shape},
    live::import::LiveImport,
    t, t_view,
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
        (JobStatus::Waiting, _) => t!("live-status-waiting").to_owned(),
        (JobStatus::Running, _) => t!("live-status-running").to_owned(),
        (JobStatus::Cancelling, _) => t!("live-status-canceling").to_owned(),
        (JobStatus::Completed, Some(Outcome::Partial)) => {
            t!("progress-attention", n = bad, rows = &counted(file, bad))
        }
        (JobStatus::Completed, Some(Outcome::Failed)) if file => t!("progress-none").to_owned(),
        (JobStatus::Completed, Some(Outcome::Failed)) => t!("live-status-failed").to_owned(),
        (JobStatus::Completed, Some(Outcome::Cancelled)) => t!("live-status-canceled").to_owned(),
        (JobStatus::Completed, _) => t!("live-status-completed").to_owned(),
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
    breadcrumbs(&[("/imports", t!("nav-imports"))], name.as_str());
    let content = view! {
        {woods()}
        {actions.flash()}
        // Rendered by the server, and refreshed when the state changes.
        <div class="job-title" id="title" data-refresh="">
            <h1>{name.clone()}</h1>
            {state(job, file)}
            {actions::header(job, &actions, may_change, panel.is_some())}
        </div>
        <LiveImport id=job.id label=t!("progress-of", name = &name) head=Head::of(job) />
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
            {(!own).then(|| view! { {t_view!("progress-imported-by", owner = view! { <b>{job.owner.name.clone()}</b> })} " · " })}
            {if file {
                t_view!("progress-uploaded", time = clock(job.created_at))
            } else {
                t_view!("progress-created", time = clock(job.created_at))
            }} " · " {t!("progress-job-type", name = &job.job_type)}
            {staff.then(|| view! { " · " <a href=format!("/jobs/{}", job.id)>{t!("progress-open-job")}</a> })}
        </p>
    }
    .into_any();
    Page { title: name, nav_section: NavSection::Imports, content, is_live: true, is_translated: true }
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
                            {t!("progress-fix", rows = &counted(job.upload_id.is_some(), dead))}
                        </a>
                    }
                })}
            <a
                class=if here { "btn btn-lg" } else { "btn btn-primary btn-lg" }
                href=format!("/api/v1/jobs/{id}/failures?format=csv")
                download=file_of(job, "failed.csv")
            >
                {icon("download")}
                {t!("progress-download-failed")}
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
                <h2 id="correct-heading">{t!("progress-try-again")}</h2>
            </div>
            <div class="card-body stack">
                <p class="small soft">
                    {t!("progress-try-again-text")}
                </p>
                <div>
                    <a class="btn" href=format!("/imports/new?again={}", job.id)>
                        {icon("upload")}
                        {t!("import-upload-corrected")}
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
    let first = corrects
        .map(|first| view! { <p class="related-line">{t_view!("progress-corrects", import = link(first))}</p> });
    let later = corrected_by
        .iter()
        .map(|later| view! { <p class="related-line">{t_view!("progress-corrected-by", import = link(later))}</p> })
        .collect_view();
    Some(view! { <div class="notice notice-info related">{icon("info")} <div>{first} {later}</div></div> }.into_any())
}
