//! Timeline of the jobs of a tree on one axis: wait, run and end. A table whose third column is drawn.
//!
//! The server renders it from timestamps that every job has; it needs no query and no WASM. An unfinished job
//! extends to the render time.

use domain::{Job, Time};
use leptos::prelude::*;

use super::view::JobView;
use crate::{
    components::timestamp::{Clock, clock},
    exact_duration::length,
    job_view::display_name,
};

/// Maximum number of jobs on one axis; deeper ones have their own pages.
const MOST: usize = 40;

/// Times at which a job waited and worked, in seconds from the start of the axis.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Span {
    created: f64,
    started: Option<f64>,
    ended: f64,
    open: bool,
}

/// The axis with a line per job. `None` if nothing has started.
pub(super) fn timeline(job: &Job) -> Option<AnyView> {
    let now = use_context::<Clock>().map_or(job.updated_at, |clock| clock.now);
    let jobs = job.subtree();
    job.started_at?;
    let begin = jobs.iter().map(|job| job.created_at).min()?;
    let span = |job: &Job| {
        let end = job.completed_at.unwrap_or(now);
        Span {
            created: job.created_at.seconds_since(begin),
            started: job.started_at.map(|at| at.seconds_since(begin)),
            ended: end.seconds_since(begin).max(0.0),
            open: job.completed_at.is_none(),
        }
    };
    let whole = jobs.iter().map(|job| span(job).ended).fold(0.001, f64::max);
    let left_out = jobs.len().saturating_sub(MOST);
    let rows = jobs.iter().take(MOST).map(|job| row(job, span(job), whole)).collect_view();
    let head = |word: &'static str| view! { <th scope="col" role="columnheader">{word}</th> };
    Some(
        view! {
            <section class="card" id="timeline" aria-labelledby="timeline-heading">
            <div class="card-head">
                <h2 id="timeline-heading">"Timeline"</h2>
                <div class="end">
                    <a href=JobView::Timeline.address(job)>"Zoom"</a>
                </div>
            </div>
            <div class="table-wrap" tabindex="0" role="region" aria-label="Timeline">
                <table class="table cards timeline" role="table">
                    <thead role="rowgroup">
                        <tr role="row">
                            {head("Job")} {head("Started")}
                            <th scope="col" role="columnheader" class="timeline-axis">
                                <span>{clock(begin)}</span>
                                " "
                                <span>{end_of(job, now)}</span>
                            </th> {head("Waiting")} {head("Duration")}
                        </tr>
                    </thead>
                    <tbody role="rowgroup">{rows}</tbody>
                </table>
            </div>
            {(left_out > 0).then(|| view! { <p class="card-foot">{more(left_out)}</p> })}
            {(job.completion > 1).then(|| view! { <p class="card-foot">"Durations include later retries."</p> })}
            </section>
        }
        .into_any(),
    )
}

pub(super) fn more(jobs: usize) -> String {
    match jobs {
        1 => "1 more job is not shown. Open the job above it to see it.".to_owned(),
        n => format!("{n} more jobs are not shown. Open a job above them to see them."),
    }
}

fn end_of(job: &Job, now: Time) -> AnyView {
    match job.completed_at.filter(|_| job.tree.status == domain::JobStatus::Completed) {
        Some(at) => clock(at).into_any(),
        None => view! { "now, " {clock(now)} }.into_any(),
    }
}

fn row(job: &Job, span: Span, whole: f64) -> impl IntoView + use<> {
    let percent = |seconds: f64| format!("{:.2}%", (seconds / whole * 100.0).clamp(0.0, 100.0));
    let waited = span.started.unwrap_or(span.ended) - span.created;
    let worked = span.started.map(|started| span.ended - started);
    let tail = if span.open { " so far" } else { "" };
    let long = |seconds: f64| length((seconds * 1_000.0).round().max(0.0) as u64);
    let at_work = span.started.map(|started| {
        let class = if span.open { "seg seg-running" } else { "seg seg-succeeded" };
        // Even a short run stays visible.
        let width = percent((span.ended - started).max(whole / 200.0));
        view! { <rect class=class x=percent(started) width=width height="100%" rx="2" /> }
    });
    view! {
        <tr role="row">
            <th scope="row" role="rowheader" class="name">
                <a href=format!("/jobs/{}", job.id)>{display_name(job)}</a>
            </th>
            <td role="cell" data-label="Started">
                {job.started_at.map_or_else(|| "Not started".into_any(), |at| clock(at).into_any())}
            </td>
            <td role="cell" class="timeline-axis bar-cell">
                <svg class="bar bar-2" aria-hidden="true" focusable="false">
                    <rect class="track" width="100%" height="100%" />
                    <rect class="timeline-wait" x=percent(span.created) width=percent(waited) y="40%" height="20%" />
                    {at_work}
                </svg>
            </td>
            <td role="cell" data-label="Waiting">
                {long(waited)}
                {span.started.is_none().then_some(tail)}
            </td>
            <td role="cell" data-label="Duration">
                {worked.map_or_else(|| "\u{2013}".to_owned(), |worked| format!("{}{tail}", long(worked)))}
            </td>
        </tr>
    }
}
