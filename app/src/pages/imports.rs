//! `/imports`: a reader's own uploads, newest first.

use domain::{Job, progress::grouped};
use leptos::prelude::*;

use crate::{
    components::{
        bar::{Size, still_bar},
        moment::ago,
        panel::{empty, next_page},
        state::{icon, job_badge},
    },
    frame::{Page, Place},
    meter::Meter,
};

/// What the page shows.
#[derive(Clone, Debug, Default)]
pub struct Imports {
    pub jobs: Vec<Job>,
    /// Address of the next page.
    pub next: Option<String>,
    /// Whether this is the first page.
    pub first: bool,
}

pub fn page(imports: &Imports) -> Page {
    let start = || {
        view! {
            <a class="button primary" href="/imports/new">
                {icon("upload")}
                "Upload a file"
            </a>
        }
        .into_any()
    };
    let content = if imports.jobs.is_empty() && imports.first {
        let action = view! {
            {start()}
            <a href="/sample.csv" download="treeline-sample.csv">
                "Try a sample CSV"
            </a>
        }
        .into_any();
        empty(
            "No uploads yet",
            "Upload a spreadsheet and watch its rows being worked on, one by one. The results, and the rows that failed with the reasons, are yours to take home.",
            action,
        )
    } else {
        let rows = imports.jobs.iter().map(row).collect_view();
        view! {
            <ul class="cards">{rows}</ul>
            {next_page(imports.next.as_ref(), "Older uploads")}
        }
        .into_any()
    };
    let content = view! {
        <div class="page-head">
            <h1>"My uploads"</h1>
            {(!imports.jobs.is_empty()).then(start)}
        </div>
        <div class="bare" id="uploads" data-refresh="" data-topics="imports">
            {content}
        </div>
    }
    .into_any();
    Page { title: "My uploads".to_owned(), place: Place::Imports, content, lives: false }
}

fn row(job: &Job) -> impl IntoView + use<> {
    let name = super::import::name(job);
    let counts = job.tree.counts;
    let meter = Meter::of_tree(job);
    let state = (job.tree.status, job.tree.outcome);
    view! {
        <li class="card" data-key=job.id.to_string()>
            <div class="card-head">
                <a class="card-link" href=format!("/imports/{}", job.id)>
                    {name.clone()}
                </a>
                {job_badge(Signal::stored(state))}
            </div>
            <div class="meter">
                {still_bar(meter, Size::Thin, format!("Progress of {name}"))}
                <span class="meter-number">{meter.number()}</span>
            </div>
            <p class="sub card-facts">
                <span>{format!("{} of {} rows done", grouped(counts.succeeded), grouped(meter.whole))}</span>
                {(counts.unsuccessful() > 0)
                    .then(|| view! { <span class="bad">{format!("{} failed", grouped(counts.unsuccessful()))}</span> })}
                <span>{ago(job.created_at)}</span>
            </p>
        </li>
    }
}
