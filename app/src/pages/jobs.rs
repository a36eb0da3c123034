//! `/jobs`: root jobs by filter, newest first. The filter is part of the URL.

use crate::speech::grouped;
use domain::{Job, Time, query::filter::Term};
use leptos::prelude::*;

use crate::{
    address::address,
    components::{
        action_form::flash,
        bar::{Size, still_bar},
        filter_bar::{ListFilter, bar},
        panel::{empty, next_page},
        selection::{Selection, form, pick},
        state::{icon, job_badge},
        table::{
            self,
            Head::{Number, Picks, Words},
        },
        timestamp::ago,
    },
    frame::{NavSection, Page},
    live::job_list::LiveJobs,
    meter::Meter,
};

/// Content of the page.
#[derive(Clone, Debug)]
pub struct Jobs {
    pub list_filter: ListFilter,
    pub job_types: Vec<String>,
    pub jobs: Vec<Job>,
    /// Address of the next page.
    pub next: Option<String>,
    /// True on the first page.
    pub first: bool,
    pub flash: Option<String>,
    /// Query of the live list; `None` if it is not live.
    pub live_query: Option<LiveQuery>,
}

/// Query of a live list.
#[derive(Clone, Debug)]
pub struct LiveQuery {
    /// Parameters of `GET /jobs`; ages are points in time.
    pub parameters: Vec<(String, String)>,
    /// Time of the request.
    pub as_of: Time,
    /// Cursor of the page.
    pub cursor: Option<String>,
}

pub fn page(jobs: &Jobs) -> Page {
    let fault = jobs.list_filter.fault.is_some();
    let list = if fault { ().into_any() } else { list(jobs) };
    let status = |word: &str| Some(Term::is("status", word));
    let outcome = |word: &str| Some(Term::is("outcome", word));
    let shortcuts = [
        ("All", None),
        ("Waiting", status("waiting")),
        ("In progress", status("running")),
        ("Partly failed", outcome("partial")),
        ("Failed", outcome("failed")),
        ("Stalled", Some(Term::is("stalled", "yes"))),
    ];
    let content = view! {
        <div class="page-head">
            <h1>"Jobs"</h1>
            <div class="actions">
                <a class="btn" href="/items">
                    "All items"
                </a>
                <a class="btn" href="/jobs/new">
                    {icon("play")}
                    "Start job"
                </a>
                <a class="btn btn-primary" href="/imports/new">
                    {icon("upload")}
                    "New import"
                </a>
            </div>
        </div>
        {flash(jobs.flash.as_deref())}
        {bar(&jobs.list_filter, "Filter jobs", &shortcuts, &jobs.job_types)}
        {list}
    }
    .into_any();
    Page {
        title: "Jobs".to_owned(),
        nav_section: NavSection::Jobs,
        content,
        is_live: jobs.live_query.is_some() && !fault,
        is_translated: false,
    }
}

fn nothing(jobs: &Jobs) -> AnyView {
    if let Some(next) = jobs.next.clone() {
        return no_match_yet(next, jobs.first, jobs.list_filter.sort.as_deref() == Some("created_at"));
    }
    if !jobs.first {
        let back = view! {
            <a class="btn" href=jobs.list_filter.link(&jobs.list_filter.filter)>
                "Back to the first page"
            </a>
        };
        return empty("That was the last page", "There are no more jobs.", back.into_any());
    }
    if !jobs.list_filter.is_empty() {
        let clear = view! {
            <a class="btn" href=jobs.list_filter.everything()>
                "Clear filter"
            </a>
            <a class="btn" href=address("/search", &[("q", &jobs.list_filter.typed)])>
                "Search everything"
            </a>
        };
        return empty(
            "No jobs match",
            "Remove a filter to see more. Items, errors, and files are found by the search.",
            clear.into_any(),
        );
    }
    let start = view! {
        <a class="btn btn-primary" href="/imports/new">
            "Import a file"
        </a>
        <a class="btn" href="/jobs/new">
            "Start a job"
        </a>
        <a class="btn" href="/api/docs">
            "Create one with the API"
        </a>
    };
    empty(
        "No jobs yet",
        "A job appears here as soon as someone imports a file, starts one by hand, or a service creates one.",
        start.into_any(),
    )
}

/// Empty page with a next page: it searched 20,000 jobs without a match.
fn no_match_yet(next: String, first: bool, oldest_first: bool) -> AnyView {
    let title = match (first, oldest_first) {
        (true, false) => "No match in the newest 20,000 jobs",
        (true, true) => "No match in the oldest 20,000 jobs",
        (false, _) => "No match in the next 20,000 jobs",
    };
    let (text, label) = if oldest_first {
        ("There are newer jobs.", "Search newer jobs")
    } else {
        ("There are older jobs.", "Search older jobs")
    };
    let go_on = view! {
        <a class="btn" href=next rel="next">
            {label}
        </a>
    };
    empty(title, text, go_on.into_any())
}

/// Elements below the rows.
fn below(jobs: &Jobs) -> AnyView {
    let mut filter = jobs.list_filter.filter.clone();
    // The page shows only roots unless the filter says otherwise, so the bulk action must do the same.
    if !jobs.list_filter.is_within() {
        filter = filter.with(Term::is("root", "yes"));
    }
    let selection = Selection {
        actions: &[("cancel jobs", "Cancel selected…"), ("delete jobs", "Delete selected…")],
        matching: (!jobs.list_filter.filter.is_empty()).then(|| filter.to_string()),
        exact: None,
    };
    view! {
        {next_page(jobs.next.as_ref(), "More")}
        {form(selection)}
    }
    .into_any()
}

/// The list; live if all its rows are roots, because the stream reports only roots.
fn list(jobs: &Jobs) -> AnyView {
    let content = if jobs.jobs.is_empty() {
        nothing(jobs)
    } else {
        view! { <div class="card">{table(&jobs.jobs)}</div> {below(jobs)} }.into_any()
    };
    let Some(live_query) = &jobs.live_query else { return content };
    let last = jobs.jobs.last().map_or(live_query.as_of, |job| job.created_at);
    let q = jobs.list_filter.filter.to_string();
    let cursor = live_query.cursor.as_deref().unwrap_or_default();
    let sort = jobs.list_filter.sort.as_deref().unwrap_or_default();
    let refresh_url =
        address(jobs.list_filter.path, &[("q", &q), ("sort", sort), ("cursor", cursor), ("refresh", "10")]);
    let newest = jobs.list_filter.link(&jobs.list_filter.filter);
    // `live::job_row` reads the query from here.
    let parameters: Vec<&String> = live_query.parameters.iter().flat_map(|(name, value)| [name, value]).collect();
    let parameters = serde_json::to_string(&parameters).unwrap_or_default();
    let after = jobs.next.is_some().then(|| last.to_rfc3339());
    let as_of = jobs.first.then(|| live_query.as_of.to_rfc3339());
    view! {
        <LiveJobs>
            <p class="new-jobs">
                <a class="btn" id="new-jobs" href=newest data-query=parameters data-after=after data-as-of=as_of hidden></a>
                <a class="only-still" href=refresh_url>
                    "Refresh every 10 s"
                </a>
            </p>
            <div class="vh" role="status" id="new-jobs-status"></div>
            {content}
        </LiveJobs>
    }
    .into_any()
}

fn table(jobs: &[Job]) -> impl IntoView + use<> {
    let rows = jobs.iter().map(row).collect_view();
    let heads =
        [Picks, Words("Job"), Words("Status"), Words("Progress"), Number("Failed"), Words("Owner"), Number("Created")];
    table::frame("Jobs", "jobs", heads, rows)
}

/// A row. On a live page, `live::job_row` finds its parts by class and label.
fn row(job: &Job) -> impl IntoView + use<> {
    let name = crate::pages::import::progress::name(job);
    let meter = Meter::of_tree(job);
    let state = (job.tree.status, job.tree.outcome);
    let counts = meter.counts;
    view! {
        <tr role="row" data-job=job.id.to_string() data-version=job.version.to_string()>
            {pick(job.id.to_string(), &name)}
            <th scope="row" role="rowheader" class="name">
                <span class="two">
                    <a href=format!("/jobs/{}", job.id)>{name.clone()}</a>
                    <span>{job.job_type.clone()}</span>
                </span>
            </th>
            <td role="cell" class="fit jobs-state">{job_badge(Signal::stored(state))}</td>
            <td role="cell" class="bar-cell">
                <span class="stack-1">
                    <span class="meter row">
                        {still_bar(meter, Size::Thin, format!("Progress of {name}"))}
                        <span class="num meter-number">{meter.number()}</span>
                    </span>
                    <span class="xs faint">
                        <span data-label="Done">{grouped(counts.succeeded)}</span>
                        " of "
                        <span data-label="All">{grouped(meter.whole)}</span>
                        " succeeded"
                    </span>
                </span>
            </td>
            <td role="cell" class="num" data-label="Failed">{grouped(counts.dead)}</td>
            <td role="cell" class="who" data-label="Owner" title=job.owner.name.clone()>{job.owner.name.clone()}</td>
            <td role="cell" class="num" data-label="Created">{ago(job.created_at)}</td>
        </tr>
    }
}
