//! `/jobs`: root jobs by filter, newest first. The filter is the address.

use domain::{Job, Time, filter::Term};
use leptos::prelude::*;

use crate::{
    address::address,
    components::{
        asking::{Asked, bar},
        deed::told,
        panel::{empty, next_page},
        selection::{Selection, form},
    },
    frame::{Page, Place},
    live::rows::{Listed, LiveJobs, News, Row, RowBoard, table},
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
    /// Where the list lives.
    pub watched: Option<Watched>,
}

/// What a live list is told by.
#[derive(Clone, Debug)]
pub struct Watched {
    /// Parameters of `GET /jobs`; ages are points in time.
    pub asked: Vec<(String, String)>,
    /// When the page was asked for.
    pub as_of: Time,
}

pub fn page(jobs: &Jobs) -> Page {
    let fault = jobs.asked.fault.is_some();
    let list = if fault { ().into_any() } else { list(jobs) };
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
    Page { title: "Jobs".to_owned(), place: Place::Jobs, content, lives: jobs.watched.is_some() && !fault }
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

/// What stands below the rows.
fn below(jobs: &Jobs) -> AnyView {
    let mut filter = jobs.asked.filter.clone();
    // The page shows roots where the filter does not say otherwise; so does what all of them means.
    if !jobs.asked.is_within() {
        filter = filter.with(Term::is("root", "yes"));
    }
    let selection = Selection {
        deeds: &[("cancel jobs", "Cancel selected…"), ("delete jobs", "Delete selected…")],
        matching: (!jobs.asked.filter.is_empty()).then(|| filter.to_string()),
        exact: None,
    };
    view! {
        {next_page(jobs.next.as_ref(), "Older jobs")}
        {form(selection)}
    }
    .into_any()
}

/// The list, alive where all that it shows are roots: of others the stream does not tell.
fn list(jobs: &Jobs) -> AnyView {
    let rows: Vec<Row> = jobs.jobs.iter().map(Row::of).collect();
    let none = rows.is_empty();
    let below = if none { nothing(jobs) } else { below(jobs) };
    let Some(watched) = &jobs.watched else {
        return view! {
            {table(RowBoard::new(rows))}
            {below}
        }
        .into_any();
    };
    let news = jobs.first.then(|| News {
        floor: jobs.next.is_some().then(|| rows.last().map_or(watched.as_of, |row| row.created_at)),
        as_of: watched.as_of,
    });
    let q = jobs.asked.filter.to_string();
    let listed = Listed {
        rows,
        asked: watched.asked.clone(),
        news,
        first: jobs.asked.link(&jobs.asked.filter),
        again: address(jobs.asked.path, &[("q", &q), ("refresh", "10")]),
    };
    view! { <LiveJobs listed=listed>{below}</LiveJobs> }.into_any()
}
