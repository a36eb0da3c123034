//! What an error group affects, when it failed, and what was decided about it.

use crate::speech::grouped;
use domain::{
    Time,
    api::{AffectedJob, AffectedOwner, ErrorGroupDetail, GroupChange, GroupState, SeriesStep},
    query::filter::{Term, lists::List},
};
use leptos::prelude::*;

use super::rows_of;
use crate::components::{
    chart::failures,
    panel::{note, section},
    timestamp::{ago, clock},
};

/// Failures per minute and per hour.
pub(super) fn charts(detail: &ErrorGroupDetail) -> AnyView {
    let points = |step: SeriesStep, from: Time, counts: &[i64]| -> Vec<(Time, i64)> {
        let starts = (0_i64..).map(|n| Time(step.after(from.0, n)));
        starts.zip(counts.iter().copied()).collect()
    };
    let minutes = points(SeriesStep::Minute, detail.minutes_from, &detail.minutes);
    let hours = points(SeriesStep::Hour, detail.hours_from, &detail.hours);
    view! {
        <div class="grid">
            <div class="c6">{failures("minutes", "Last hour", "per minute", &minutes)}</div>
            <div class="c6">{failures("hours", "Last 7 days", "per hour", &hours)}</div>
        </div>
    }
    .into_any()
}

/// Jobs and owners with dead items of the group.
pub(super) fn jobs_and_owners(detail: &ErrorGroupDetail) -> AnyView {
    let group = &detail.group;
    let jobs = if detail.jobs.is_empty() {
        note("No job has failed items with this error.")
    } else {
        let rows = detail.jobs.iter().map(|job| job_row(job, &group.fingerprint, &group.job_type)).collect_view();
        view! { <ul class="lined affected">{rows}</ul> }.into_any()
    };
    let owners = if detail.owners.is_empty() {
        note("Nobody has failed items with this error.")
    } else {
        let rows = detail.owners.iter().map(owner_row).collect_view();
        let more = (detail.owner_count - detail.owners.len() as i64).max(0);
        let more = (more > 0).then(|| {
            note(match more {
                1 => "1 more owner has fewer failed items.".to_owned(),
                n => format!("{} more owners have fewer failed items.", grouped(n)),
            })
        });
        view! {
            <ul class="lined affected">{rows}</ul>
            {more}
        }
        .into_any()
    };
    view! {
        <div class="grid">
            <div class="c6">{section("affected-jobs", "Newest affected jobs", jobs)}</div>
            <div class="c6">{section("affected-owners", "Affected owners", owners)}</div>
        </div>
    }
    .into_any()
}

fn job_row(job: &AffectedJob, fingerprint: &str, job_type: &str) -> AnyView {
    let id = job.job_id.to_string();
    let name = job.name.clone().unwrap_or_else(|| id.chars().take(8).collect());
    let terms = vec![Term::is("job", &id), Term::is("error", fingerprint), Term::is("type", job_type)];
    view! {
        <li class="affected-row" data-key=id.clone()>
            <span class="affected-name">
                <a href=format!("/jobs/{id}")>{name}</a>
                <span class="soft small">{format!(" {}", job.owner.name)}</span>
            </span>
            <a class="num" href=rows_of("/dead", List::Dead, terms)>
                {items(job.count)}
            </a>
            <span class="soft small">{ago(job.last_seen_at)}</span>
        </li>
    }
    .into_any()
}

fn owner_row(affected: &AffectedOwner) -> AnyView {
    view! {
        <li class="affected-row" data-key=affected.owner.name.clone()>
            <span class="affected-name">{affected.owner.name.clone()}</span>
            <span class="num">{items(affected.count)}</span>
            <span class="soft small">{ago(affected.last_seen_at)}</span>
        </li>
    }
    .into_any()
}

fn items(count: i64) -> String {
    if count == 1 { "1 item".to_owned() } else { format!("{} items", grouped(count)) }
}

/// Changes of the group's state, newest first.
pub(super) fn history(changes: &[GroupChange]) -> AnyView {
    let content = if changes.is_empty() {
        note("Open since it was first seen.")
    } else {
        let rows = changes.iter().map(change).collect_view();
        view! { <ol class="lined affected">{rows}</ol> }.into_any()
    };
    section("history", "History", content)
}

fn change(change: &GroupChange) -> AnyView {
    let word = match (change.state, &change.by) {
        (GroupState::Muted, _) => "Ignored",
        (GroupState::Resolved, _) => "Resolved",
        (GroupState::Regressed, _) => "Came back",
        (GroupState::Open, Some(_)) => "Reopened",
        (GroupState::Open, None) => "Open again: its time or number of failures was reached",
    };
    let by = change.by.as_ref().map(|by| format!(" by {by}"));
    let until = change.until.map(|until| view! { " until " {clock(until)} });
    let failures = change.failures.map(|n| match n {
        1 => ", for at most 1 failure".to_owned(),
        n => format!(", for at most {} failures", grouped(n)),
    });
    view! {
        <li class="affected-row" data-key=change.at.to_rfc3339()>
            <span class="affected-name">
                <strong>{word}</strong> {by} {until} {failures}
                {change.note.clone().map(|note| view! { <q class="decision-note">{note}</q> })}
            </span>
            <span class="soft small">{ago(change.at)}</span>
        </li>
    }
    .into_any()
}
