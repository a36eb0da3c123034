//! `/jobs`: root jobs by filter, newest first. The filter is the address.

use domain::{Job, filter::Term, progress::grouped};
use leptos::prelude::*;

use crate::{
    components::{
        asking::{Asked, bar},
        bar::{Size, still_bar},
        deed::told,
        moment::ago,
        panel::{empty, next_page},
        state::job_badge,
    },
    frame::{Page, Place},
    meter::Meter,
};

/// What the page shows.
#[derive(Clone, Debug)]
pub struct Jobs {
    pub asked: Asked,
    pub job_types: Vec<String>,
    pub jobs: Vec<Job>,
    /// Address of the next page.
    pub next: Option<String>,
    /// Whether this is the first page.
    pub first: bool,
    pub did: Option<String>,
}

pub fn page(jobs: &Jobs) -> Page {
    let list = match (jobs.asked.fault.is_some(), jobs.jobs.is_empty()) {
        (true, _) => ().into_any(),
        (false, true) => nothing(jobs),
        (false, false) => table(jobs),
    };
    let status = |word: &str| Some(Term::is("status", word));
    let outcome = |word: &str| Some(Term::is("outcome", word));
    let shortcuts = [
        ("All", None),
        ("Waiting", status("waiting")),
        ("Running", status("running")),
        ("Partly failed", outcome("partial")),
        ("Failed", outcome("failed")),
        ("Stalled", Some(Term::is("stalled", "yes"))),
    ];
    let content = view! {
        <div class="page-head">
            <h1>"Jobs"</h1>
            <a href="/items">"Items"</a>
        </div>
        {told(jobs.did.as_deref())}
        {bar(&jobs.asked, "Filter jobs", &shortcuts, &jobs.job_types)}
        {list}
    }
    .into_any();
    Page { title: "Jobs".to_owned(), place: Place::Jobs, content, lives: false }
}

fn nothing(jobs: &Jobs) -> AnyView {
    if let Some(next) = jobs.next.clone() {
        let go_on = view! {
            <a class="button" href=next rel="next">
                "Look further"
            </a>
        };
        return empty(
            "Nothing so far",
            "The newest jobs hold nothing that matches. There are older ones.",
            go_on.into_any(),
        );
    }
    if !jobs.first {
        let back = view! {
            <a class="button" href=jobs.asked.link(&jobs.asked.filter)>
                "Back to the newest"
            </a>
        };
        return empty("That was the last page", "There are no older jobs.", back.into_any());
    }
    if !jobs.asked.is_empty() {
        let clear = view! {
            <a class="button" href="/jobs">
                "Clear the filter"
            </a>
        };
        return empty(
            "Nothing matches",
            "No job fits this filter. Take something out of it, or clear it.",
            clear.into_any(),
        );
    }
    let start = view! {
        <a class="button primary" href="/imports/new">
            "Upload a file"
        </a>
        <a href="/api/docs">"Create one over the API"</a>
    };
    empty("No jobs yet", "Jobs appear here as soon as a file is uploaded or a service creates one.", start.into_any())
}

fn table(jobs: &Jobs) -> AnyView {
    let rows = jobs.jobs.iter().map(row).collect_view();
    let next = next_page(jobs.next.as_ref(), "Older jobs");
    view! {
        <div class="scroll" tabindex="0" role="region" aria-label="Jobs">
            <table class="table jobs" role="table">
                <thead role="rowgroup">
                    <tr role="row">
                        <th scope="col" role="columnheader">"Job"</th>
                        <th scope="col" role="columnheader">"Status"</th>
                        <th scope="col" role="columnheader">"Progress"</th>
                        <th scope="col" role="columnheader" class="number">"Done"</th>
                        <th scope="col" role="columnheader" class="number">"Failed"</th>
                        <th scope="col" role="columnheader" class="number">"All"</th>
                        <th scope="col" role="columnheader">"Owner"</th>
                        <th scope="col" role="columnheader">"Created"</th>
                    </tr>
                </thead>
                <tbody role="rowgroup">{rows}</tbody>
            </table>
        </div>
        {next}
    }
    .into_any()
}

fn row(job: &Job) -> impl IntoView + use<> {
    let name = super::import::name(job);
    let meter = Meter::of_tree(job);
    let state = (job.tree.status, job.tree.outcome);
    let counts = meter.counts;
    view! {
        <tr role="row">
            <th scope="row" role="rowheader">
                <a href=format!("/jobs/{}", job.id)>{name.clone()}</a>
                " "
                <span class="sub">{job.job_type.clone()}</span>
            </th>
            <td role="cell">{job_badge(Signal::stored(state))}</td>
            <td role="cell" class="jobs-bar">
                <span class="meter">
                    {still_bar(meter, Size::Thin, format!("Progress of {name}"))}
                    <span class="meter-number">{meter.number()}</span>
                </span>
            </td>
            <td role="cell" class="number" data-label="Done">{grouped(counts.succeeded)}</td>
            <td role="cell" class="number" data-label="Failed">{grouped(counts.dead)}</td>
            <td role="cell" class="number" data-label="All">{grouped(meter.whole)}</td>
            <td role="cell" data-label="Owner">{job.owner.name.clone()}</td>
            <td role="cell" data-label="Created">{ago(job.created_at)}</td>
        </tr>
    }
}
