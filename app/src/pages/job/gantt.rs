//! `/jobs/{id}?view=timeline`: when the jobs of a tree waited and worked, on an axis that links zoom and move. Drawn by
//! the server from the times that every job has; durations below a minute are exact to the millisecond.

use domain::{Job, JobStatus, Outcome, Time};
use leptos::prelude::*;
use std::time::Duration;

use super::view::JobView;
use crate::{
    address::address,
    components::timestamp::{Clock, clock, exact},
    exact_duration::{length, precise, took},
    job_view::{MOST_LINES, display_name, job_word},
};

/// Shortest axis, in milliseconds.
const SHORTEST: i64 = 20;
/// Parts of the axis between its labels.
const PARTS: i64 = 5;

/// Part of the timeline that is asked for, in the query parameters `from` and `to`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Window {
    pub from: Option<Time>,
    pub to: Option<Time>,
}

/// Times of one job, in milliseconds from the start of the whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Span {
    created: i64,
    started: Option<i64>,
    ended: i64,
    open: bool,
}

/// Axis from one time to another, in milliseconds from the start of the whole, and the length of the whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Axis {
    from: i64,
    to: i64,
    whole: i64,
}

impl Axis {
    /// Axis for a window. One that is empty, or outside of the whole, is the whole.
    fn new(window: (Option<i64>, Option<i64>), whole: i64) -> Self {
        let whole = whole.max(SHORTEST);
        let from = window.0.unwrap_or(0).clamp(0, whole - SHORTEST);
        let to = window.1.unwrap_or(whole).clamp(0, whole);
        if to - from < SHORTEST { Self { from: 0, to: whole, whole } } else { Self { from, to, whole } }
    }

    const fn length(self) -> i64 {
        self.to - self.from
    }

    /// Axis of this length around the same middle, within the whole.
    fn resized(self, length: i64) -> Self {
        let length = length.clamp(SHORTEST, self.whole);
        let from = (self.from.midpoint(self.to) - length / 2).clamp(0, self.whole - length);
        Self { from, to: from + length, ..self }
    }

    /// Axis moved by a part of its length, within the whole.
    fn moved(self, by: i64) -> Self {
        let from = (self.from + by).clamp(0, self.whole - self.length());
        Self { from, to: from + self.length(), ..self }
    }

    const fn is_whole(self) -> bool {
        self.from == 0 && self.to == self.whole
    }

    /// Place of a time in percent, within the axis.
    fn percent(self, at: i64) -> f64 {
        (at.clamp(self.from, self.to) - self.from) as f64 / self.length() as f64 * 100.0
    }
}

/// Times of the shown jobs, from the first to the last.
struct Timeline<'a> {
    job: &'a Job,
    begin: Time,
    axis: Axis,
}

impl Timeline<'_> {
    fn address(&self, axis: Axis) -> String {
        let whole = JobView::Timeline.address(self.job);
        if axis.is_whole() {
            return whole;
        }
        let text = |at: i64| self.time(at).to_rfc3339();
        let (path, _) = whole.split_once('?').unwrap_or((&whole, ""));
        address(path, &[("view", "timeline"), ("from", &text(axis.from)), ("to", &text(axis.to))])
    }

    fn time(&self, at: i64) -> Time {
        Time(self.begin.0 + Duration::from_millis(at.unsigned_abs()))
    }

    /// Links that zoom and move the axis. Those that would change nothing are not links.
    fn controls(&self) -> AnyView {
        let axis = self.axis;
        let step = |word: &'static str, to: Axis| {
            if to == axis {
                view! { <span class="btn btn-sm" aria-disabled="true">{word}</span> }.into_any()
            } else {
                view! { <a class="btn btn-sm" href=self.address(to)>{word}</a> }.into_any()
            }
        };
        let half = axis.length() / 2;
        view! {
            <nav class="row-wrap gantt-zoom" aria-label="Part of the timeline">
                {step("Zoom in", axis.resized(half))} {step("Zoom out", axis.resized(axis.length() * 2))}
                {step("Earlier", axis.moved(-half))} {step("Later", axis.moved(half))}
                {step("Whole timeline", axis.resized(axis.whole))}
            </nav>
        }
        .into_any()
    }
}

/// The section; a note if nothing has started.
pub(super) fn gantt(job: &Job, window: Window) -> AnyView {
    let now = use_context::<Clock>().map_or(job.updated_at, |clock| clock.now);
    let jobs = job.subtree();
    let begin = jobs.iter().map(|job| job.created_at).min().unwrap_or(job.created_at);
    let since = |at: Time| (at.seconds_since(begin) * 1_000.0).round() as i64;
    let spans: Vec<Span> = jobs
        .iter()
        .map(|job| Span {
            created: since(job.created_at),
            started: job.started_at.map(since),
            ended: since(job.completed_at.unwrap_or(now)).max(0),
            open: job.completed_at.is_none(),
        })
        .collect();
    let whole = spans.iter().map(|span| span.ended).max().unwrap_or(0);
    let axis = Axis::new((window.from.map(since), window.to.map(since)), whole);
    let timeline = Timeline { job, begin, axis };
    let rows = jobs.iter().zip(spans).take(MOST_LINES).map(|(job, span)| row(&timeline, job, span)).collect_view();
    let left_out = jobs.len().saturating_sub(MOST_LINES);
    let head = |word: &'static str| view! { <th scope="col" role="columnheader">{word}</th> };
    view! {
        <section class="card" id="gantt" data-refresh="" aria-labelledby="gantt-heading">
            <div class="card-head">
                <h2 id="gantt-heading">"Timeline"</h2>
                <span class="sub">{exact(timeline.time(axis.from))} " to " {exact(timeline.time(axis.to))} ", " {length(axis.length().unsigned_abs())}</span>
            </div>
            <div class="card-body">{timeline.controls()}</div>
            <div class="table-wrap" tabindex="0" role="region" aria-label="Timeline">
                <table class="table cards timeline gantt-table" role="table">
                    <thead role="rowgroup">
                        <tr role="row">
                            {head("Job")} {head("Status")}
                            <th scope="col" role="columnheader" class="timeline-axis">
                                <span class="vh">"Waiting and work"</span>
                                <span class="gantt-labels" aria-hidden="true">
                                    {labels(axis).into_iter().map(|text| view! { <span>{text}</span> }).collect_view()}
                                </span>
                            </th> {head("Started")} {head("Waiting")} {head("Duration")}
                        </tr>
                    </thead>
                    <tbody role="rowgroup">{rows}</tbody>
                </table>
            </div>
            {(left_out > 0).then(|| view! { <p class="card-foot">{super::timeline::more(left_out)}</p> })}
            <div class="card-foot">
                <p>
                    "A thin line is waiting, a bar is work. Labels count from the creation of the job, "{clock(begin)}
                    ". A job includes the jobs below it" {(job.completion > 1).then_some(", and later retries")} "."
                </p>
            </div>
        </section>
    }
    .into_any()
}

/// Labels of the axis: times since the start of the whole. Exact, unless what a short form leaves out is small beside the
/// distance of two labels.
fn labels(axis: Axis) -> Vec<String> {
    let smallest_unit = match axis.to {
        ..3_600_000 => 1_000,
        3_600_000..86_400_000 => 60_000,
        _ => 3_600_000,
    };
    let format = if axis.length() / PARTS >= 4 * smallest_unit { length } else { precise };
    let times = (0..=PARTS).map(|part| (axis.from + axis.length() * part / PARTS).unsigned_abs());
    times.map(|at| if at == 0 { "0".to_owned() } else { format!("+{}", format(at)) }).collect()
}

/// Class and word of a job's bar.
const fn bar_class(status: JobStatus, outcome: Option<Outcome>) -> &'static str {
    match (status, outcome) {
        (JobStatus::Completed, Some(Outcome::Failed)) => "seg seg-dead",
        (JobStatus::Completed, Some(Outcome::Partial)) => "seg seg-retryable",
        (JobStatus::Completed, Some(Outcome::Cancelled)) | (JobStatus::Cancelling, _) => "seg seg-cancelled",
        (JobStatus::Completed, _) => "seg seg-succeeded",
        (JobStatus::Waiting | JobStatus::Running, _) => "seg seg-running",
    }
}

fn row(timeline: &Timeline<'_>, job: &Job, span: Span) -> impl IntoView + use<> {
    let axis = timeline.axis;
    let percent = |at: i64| format!("{:.2}%", axis.percent(at));
    let wide = |from: i64, to: i64, least: f64| format!("{:.2}%", (axis.percent(to) - axis.percent(from)).max(least));
    let is_seen = |from: i64, to: i64| to >= axis.from && from <= axis.to;
    let waited = span.started.unwrap_or(span.ended);
    let wait = is_seen(span.created, waited).then(|| {
        let width = wide(span.created, waited, 0.0);
        view! { <rect class="timeline-wait" x=percent(span.created) width=width y="42%" height="16%" /> }
    });
    let work = span.started.filter(|&started| is_seen(started, span.ended)).map(|started| {
        let class = bar_class(job.tree.status, job.tree.outcome);
        // Even a short run stays visible.
        view! { <rect class=class x=percent(started) width=wide(started, span.ended, 0.4) height="100%" rx="2" /> }
    });
    let ticks = (1..PARTS).map(|part| {
        let x = format!("{}%", part * 100 / PARTS);
        view! { <line class="g-tick" x1=x.clone() x2=x y1="0" y2="100%" /> }
    });
    let place = match (wait.is_some() || work.is_some(), span.created > axis.to) {
        (true, _) => None,
        (false, true) => Some("Later than this part"),
        (false, false) => Some("Earlier than this part"),
    };
    // A little more than the job, so that its ends are seen.
    let margin = ((span.ended - span.created) / 20).max(1);
    let zoomed = Axis::new((Some(span.created - margin), Some(span.ended + margin)), axis.whole);
    let name = display_name(job);
    let label = format!("Zoom to {name}");
    let long = |from: i64, to: i64| length((to - from).max(0).unsigned_abs());
    let tail = if span.open { " so far" } else { "" };
    let indent = level(timeline.job, job);
    view! {
        <tr role="row">
            <th scope="row" role="rowheader" class="name">
                <span class="lv row">
                    {(0..indent).map(|_| view! { <i></i> }).collect_view()}
                    <a href=format!("/jobs/{}", job.id)>{name}</a>
                </span>
            </th>
            <td role="cell" data-label="Status">{job_word(job.tree.status, job.tree.outcome)}</td>
            <td role="cell" class="timeline-axis bar-cell">
                <a class="gantt-bar" href=timeline.address(zoomed) aria-label=label>
                    <svg class="bar bar-2" aria-hidden="true" focusable="false">
                        <rect class="track" width="100%" height="100%" />
                        {ticks.collect_view()}
                        {wait}
                        {work}
                    </svg>
                </a>
                {place.map(|place| view! { <span class="xs faint">{place}</span> })}
            </td>
            <td role="cell" data-label="Started">
                {job.started_at.map_or_else(|| "Not started".into_any(), |at| exact(at).into_any())}
            </td>
            <td role="cell" data-label="Waiting">
                {job.started_at.map_or_else(|| format!("{}{tail}", long(span.created, span.ended)), |at| took(job.created_at, at))}
            </td>
            <td role="cell" data-label="Duration">
                {span.started.map_or_else(|| "\u{2013}".to_owned(), |started| format!("{}{tail}", long(started, span.ended)))}
            </td>
        </tr>
    }
}

/// Number of jobs between a job and the top one, at most seven.
fn level(top: &Job, job: &Job) -> usize {
    fn find(top: &Job, job: &Job, level: usize) -> Option<usize> {
        if top.id == job.id {
            return Some(level);
        }
        top.children.iter().flatten().find_map(|child| find(child, job, level + 1))
    }
    find(top, job, 0).unwrap_or(0).min(7)
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn axis(from: i64, to: i64) -> Axis {
        Axis { from, to, whole: 1_000 }
    }

    #[test]
    fn a_window_stays_within_the_whole() {
        assert_eq!(Axis::new((None, None), 1_000), axis(0, 1_000));
        assert_eq!(Axis::new((Some(100), Some(200)), 1_000), axis(100, 200));
        assert_eq!(Axis::new((Some(-50), Some(5_000)), 1_000), axis(0, 1_000));
        assert_eq!(Axis::new((Some(300), Some(200)), 1_000), axis(0, 1_000), "an empty window is the whole");
        assert_eq!(Axis::new((Some(i64::MIN), Some(i64::MAX)), 0).whole, SHORTEST, "nothing divides by zero");
    }

    #[test]
    fn zoom_and_moves_keep_the_middle_and_the_length() {
        assert_eq!(axis(0, 1_000).resized(500), axis(250, 750));
        assert_eq!(axis(250, 750).resized(1_000), axis(0, 1_000));
        assert_eq!(axis(0, 100).resized(200), axis(0, 200), "at the start there is nothing before");
        assert_eq!(axis(100, 120).resized(10), axis(100, 120), "no shorter than the shortest");
        assert_eq!(axis(100, 300).moved(100), axis(200, 400));
        assert_eq!(axis(100, 300).moved(-500), axis(0, 200));
        assert_eq!(axis(800, 1_000).moved(500), axis(800, 1_000));
    }

    #[test]
    fn labels_are_exact_only_if_they_are_close_together() {
        let labels = |from, to| labels(Axis { from, to, whole: 7_200_000 });
        assert_eq!(labels(0, 600_000), ["0", "+2 min", "+4 min", "+6 min", "+8 min", "+10 min"]);
        let close = labels(180_000, 180_020);
        assert_eq!((close[0].as_str(), close[5].as_str()), ("+3 min 0.000 s", "+3 min 0.020 s"));
        assert_eq!(labels(3_600_000, 3_605_000)[1], "+1 h 0 min 1.000 s");
    }

    #[test]
    fn places_are_percent_of_the_axis() {
        assert!((axis(200, 400).percent(250) - 25.0).abs() < 1e-9);
        assert!(axis(200, 400).percent(100).abs() < 1e-9);
        assert!((axis(200, 400).percent(900) - 100.0).abs() < 1e-9);
    }
}
