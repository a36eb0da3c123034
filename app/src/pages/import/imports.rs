//! `/imports`: upload field, and the imports of the reader, newest first.

use domain::{Job, JobStatus};
use leptos::prelude::*;

use super::new_import::sample;
use crate::pages::import::progress::{state, woods};
use crate::{
    components::{
        bar::{Size, still_bar},
        logo::treeline,
        state::icon,
        timestamp::ago,
    },
    frame::{NavSection, Page},
    job_view::counted,
    meter::Meter,
    pace,
    speech::upload_refusals,
    t,
    upload::UploadForm,
};

/// Content of the page.
#[derive(Clone, Debug, Default)]
pub struct Imports {
    pub jobs: Vec<Job>,
    /// Address of the next page.
    pub next: Option<String>,
    /// True on the first page.
    pub first: bool,
    /// True if the reader has just deleted one.
    pub deleted: bool,
    /// True if the reader may upload.
    pub may_upload: bool,
    /// Maximum sizes of a file and of a workbook, in bytes.
    pub limit_bytes: i64,
    pub xlsx_limit_bytes: i64,
}

pub fn page(imports: &Imports) -> Page {
    let upload = (imports.may_upload && imports.first).then(|| {
        view! {
            {woods()}
            <UploadForm
                limit_bytes=imports.limit_bytes
                xlsx_limit_bytes=imports.xlsx_limit_bytes
                again=None
                refusals=upload_refusals()
            />
            {sample()}
        }
    });
    let new = (imports.may_upload && !imports.first).then(|| {
        view! {
            <div class="actions">
                <a class="btn btn-primary" href="/imports/new">
                    {icon("upload")}
                    {t!("imports-new")}
                </a>
            </div>
        }
    });
    let list = if imports.jobs.is_empty() {
        nothing(imports)
    } else {
        let rows = imports.jobs.iter().map(row).collect_view();
        view! {
            <ul class="lined top-line">{rows}</ul>
            {older(imports)}
        }
        .into_any()
    };
    let content = view! {
        <div class="page-head">
            <h1>{t!("nav-imports")}</h1>
            {new}
        </div>
        {imports.deleted.then(deleted)}
        {upload}
        <section class="card" aria-labelledby="recent">
            <div class="card-head">
                <h2 id="recent">{if imports.first { t!("imports-recent") } else { t!("imports-older") }}</h2>
            </div>
            <div id="uploads" data-refresh="" data-topics="imports">
                {list}
            </div>
        </section>
    }
    .into_any();
    let is_live = imports.may_upload && imports.first;
    Page {
        title: t!("nav-imports").to_owned(),
        nav_section: NavSection::Imports,
        content,
        is_live,
        is_translated: true,
    }
}

fn deleted() -> AnyView {
    view! {
        <div class="notice notice-ok" role="status">
            {icon("succeeded")}
            <p>{t!("imports-deleted")}</p>
        </div>
    }
    .into_any()
}

/// Empty list: no imports, or none on this page.
fn nothing(imports: &Imports) -> AnyView {
    let (title, text) = match (imports.first, imports.may_upload) {
        (true, true) => (t!("imports-first"), t!("imports-first-text")),
        (true, false) => (t!("imports-none"), t!("imports-none-text")),
        (false, _) => (t!("imports-none-older"), t!("imports-none-older-text")),
    };
    view! { <div class="empty">{treeline(1, "empty-mark")} <h2>{title}</h2> <p>{text}</p></div> }.into_any()
}

fn older(imports: &Imports) -> Option<AnyView> {
    let next = imports.next.clone()?;
    Some(
        view! {
            <nav class="table-foot" aria-label=t!("imports-pages")>
                <span></span>
                <a class="btn btn-sm" href=next rel="next">
                    {t!("imports-older-link")}
                </a>
            </nav>
        }
        .into_any(),
    )
}

fn row(job: &Job) -> impl IntoView + use<> {
    let name = crate::pages::import::progress::name(job);
    let id = job.id;
    let counts = job.tree.counts;
    let meter = Meter::of_tree(job);
    let completed = job.tree.status == JobStatus::Completed;
    let rows = counted(true, meter.whole);
    view! {
        <li class="imp" data-key=id.to_string()>
            <span class="file-icon">{icon("file-text")}</span>
            <div class="two imp-name">
                <a class="plain strong clip hit" href=format!("/imports/{id}")>
                    {name.clone()}
                </a>
                <span class="clip">{rows}</span>
            </div>
            <div class="imp-bar stack-1">
                <span class="meter">
                    {still_bar(meter, Size::Thin, t!("progress-of", name = &name))}
                    <span class="num meter-number">{meter.number()}</span>
                </span>
                <span class="xs faint">{progress(job)}</span>
            </div>
            <div class="imp-state">{state(job, true)}</div>
            <span class="xs faint imp-ago num">{ago(job.created_at)}</span>
            {if !completed {
                view! {
                    <a class="btn btn-sm" href=format!("/imports/{id}") aria-label=t!("imports-watch-name", name = &name)>
                        {t!("imports-watch")}
                    </a>
                }
                .into_any()
            } else if counts.dead > 0 && job.parent_id.is_none() {
                view! {
                    <a class="btn btn-sm" href=format!("/imports/{id}") aria-label=t!("imports-fix-name", name = &name)>
                        {icon("pencil")}
                        {t!("imports-fix")}
                    </a>
                }
                .into_any()
            } else if counts.succeeded > 0 {
                view! {
                    <a
                        class="btn btn-sm"
                        href=format!("/api/v1/jobs/{id}/results?format=csv")
                        download=crate::pages::import::progress::file_of(job, "results.csv")
                        aria-label=t!("imports-results-name", name = &name)
                    >
                        {icon("download")}
                        {t!("downloads-results")}
                    </a>
                }
                .into_any()
            } else {
                view! {
                    <a class="btn btn-sm" href=format!("/imports/{id}") aria-label=t!("imports-open-name", name = &name)>
                        {t!("imports-open")}
                    </a>
                }
                .into_any()
            }}
        </li>
    }
}

/// Fact below the bar: number of finished rows, or duration.
fn progress(job: &Job) -> String {
    let counts = job.tree.counts;
    match (job.tree.status, job.started_at.zip(job.completed_at)) {
        // The duration of a later completion includes the time in which somebody corrected rows.
        (JobStatus::Completed, Some((from, to))) if job.completion <= 1 => {
            t!("live-took", took = &pace::took(to.seconds_since(from)))
        }
        (JobStatus::Completed, _) => t!("live-bar-done", done = counts.succeeded),
        _ if counts.unresolved() > 0 => {
            t!("imports-done-failed", done = counts.succeeded, failed = counts.unresolved())
        }
        _ => t!("live-bar-done", done = counts.succeeded),
    }
}
