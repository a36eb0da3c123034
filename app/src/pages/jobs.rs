//! `/jobs`: root jobs by filter, newest first. The filter is the address.

use domain::{Job, JobStatus, Outcome, progress::grouped};
use leptos::prelude::*;

use crate::{
    components::{
        bar::{Size, still_bar},
        moment::ago,
        panel::{empty, refusal},
        state::job_badge,
    },
    frame::{Page, Place},
    meter::Meter,
};

/// The filter as it stands in the address: unchecked words.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filter {
    pub status: String,
    pub outcome: String,
    pub job_type: String,
    pub q: String,
}

impl Filter {
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// What the page shows.
#[derive(Clone, Debug, Default)]
pub struct Jobs {
    pub filter: Filter,
    pub job_types: Vec<String>,
    pub jobs: Vec<Job>,
    /// Address of the next page.
    pub next: Option<String>,
    /// Whether this is the first page.
    pub first: bool,
    /// What is wrong with the filter.
    pub problem: Option<String>,
}

pub fn page(jobs: &Jobs) -> Page {
    let list = match (&jobs.problem, jobs.jobs.is_empty()) {
        (Some(problem), _) => refusal("This filter cannot be used", problem),
        (None, true) => nothing(jobs),
        (None, false) => table(jobs),
    };
    let content = view! {
        <div class="page-head">
            <h1>"Jobs"</h1>
        </div>
        {filter_form(jobs)}
        {list}
    }
    .into_any();
    Page { title: "Jobs".to_owned(), place: Place::Jobs, content, lives: false }
}

fn filter_form(jobs: &Jobs) -> impl IntoView + use<> {
    let filter = jobs.filter.clone();
    let option = |value: &str, word: &str, chosen: &str| {
        let (value, selected) = (value.to_owned(), value == chosen);
        view! {
            <option value=value selected=selected>
                {word.to_owned()}
            </option>
        }
    };
    let statuses = JobStatus::ALL.map(|status| option(status.as_str(), status.as_str(), &filter.status)).collect_view();
    let outcomes = [Outcome::Succeeded, Outcome::Partial, Outcome::Failed, Outcome::Cancelled]
        .map(|outcome| option(outcome.as_str(), outcome.as_str(), &filter.outcome))
        .collect_view();
    let types = jobs.job_types.iter().map(|name| option(name, name, &filter.job_type)).collect_view();
    let clear = (!filter.is_empty()).then(|| view! { <a href="/jobs">"Clear"</a> });
    view! {
        <form class="filter" method="get" action="/jobs" role="search" aria-label="Filter jobs">
            <label class="field field-wide">
                <span>"Name, key or metadata"</span>
                <input type="search" name="q" value=filter.q.clone() maxlength="200" />
            </label>
            <label class="field">
                <span>"Status"</span>
                <select name="status">{option("", "any", &filter.status)} {statuses}</select>
            </label>
            <label class="field">
                <span>"Outcome"</span>
                <select name="outcome">{option("", "any", &filter.outcome)} {outcomes}</select>
            </label>
            <label class="field">
                <span>"Type"</span>
                <select name="type">{option("", "any", &filter.job_type)} {types}</select>
            </label>
            <div class="filter-actions">
                <button type="submit">"Filter"</button>
                {clear}
            </div>
        </form>
    }
}

fn nothing(jobs: &Jobs) -> AnyView {
    if !jobs.filter.is_empty() {
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
    if !jobs.first {
        let back = view! {
            <a class="button" href="/jobs">
                "Back to the newest"
            </a>
        };
        return empty("That was the last page", "There are no older jobs.", back.into_any());
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
    let next = jobs.next.clone().map(|next| {
        view! {
            <nav class="pages" aria-label="Pages">
                <a class="button" href=next rel="next">
                    "Older jobs"
                </a>
            </nav>
        }
    });
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
