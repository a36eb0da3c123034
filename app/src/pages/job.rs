//! `/jobs/{id}`: a job for staff: progress and actions; errors, tree and active items; downloads and details beside
//! them.

mod actions;
pub mod holds;
mod timeline;

use domain::{
    Item, Job, JobStatus,
    api::ErrorGroup,
    dispatch::{progress::grouped, waiting_reason::WaitingItems},
    notify::delivery::CallbackDelivery,
    query::filter::lists::List,
};
use leptos::prelude::*;

pub use actions::Actions;

use super::deliveries;
use crate::pages::operator::{dead_letters, error_groups};
use crate::{
    components::{action_form::flash, breadcrumbs::breadcrumbs, copyable_id::copyable_id, timestamp::clock},
    frame::{NavSection, Page},
    job_view::{ActiveItem, Head, Line},
    live::job::{InitialState, LiveJob},
};

/// Renders the page.
pub fn page(
    job: &Job,
    groups: &[ErrorGroup],
    in_flight: &[Item],
    waiting: &[WaitingItems],
    callbacks: &[CallbackDelivery],
    actions: &Actions,
) -> Page {
    let name = crate::pages::import::progress::name(job);
    let completed = job.tree.status == JobStatus::Completed;
    let file = job.upload_id.is_some();
    let (lines, left_out) = Line::of_tree(job);
    let initial =
        InitialState { head: Head::of(job), lines, left_out, active_items: ActiveItem::of_items(job, in_flight) };
    let holds = holds::holds(waiting);
    let errors = errors(job, groups, !completed);
    let (term, _) = actions::reach(job);
    let list = dead_letters::rows_of("/items", List::Items, vec![term]);
    let tree = format!("/jobs/{}", job.root_id);
    match job.parent_id {
        None => breadcrumbs(&[("/jobs", "Jobs")], name.as_str()),
        Some(_) => breadcrumbs(&[("/jobs", "Jobs"), (&tree, "Whole tree")], name.as_str()),
    }
    let content = view! {
        {flash(actions.flash.as_deref())}
        <div class="job-title" id="page-actions" data-refresh="">
            <h1 class="file-name">{name.clone()}</h1>
            {actions::actions(job, actions)}
        </div>
        <div class="job-page">
            <LiveJob id=job.id label=format!("Progress of {name}") list initial>
                // A reason to wait, such as a paused type, may change without an event of the job.
                <div class="stack gap-4" id="around" data-refresh="" data-topics="types">
                    {holds}
                    {errors}
                </div>
            </LiveJob>
            <div class="job-side stack gap-4">
                <div id="downloads-part" data-refresh="">{crate::pages::import::progress::downloads_card(job, file, completed)}</div>
                <div id="facts" data-refresh="">{details(job)}</div>
            </div>
            <div class="job-when stack gap-4">
                {deliveries::of_job(callbacks, actions.own)} <div id="when" data-refresh="">{timeline::timeline(job)}</div>
            </div>
        </div>
    }
    .into_any();
    Page { title: name, nav_section: NavSection::Jobs, content, is_live: true }
}

/// Error groups, each with a link to its items and a button that retries all of them.
fn errors(job: &Job, groups: &[ErrorGroup], running: bool) -> Option<AnyView> {
    let dead = job.tree.counts.dead;
    let (term, _) = actions::reach(job);
    let all = dead_letters::rows_of("/dead", List::Dead, vec![term.clone()]);
    let first = groups.iter().min_by_key(|group| group.first_seen_at).filter(|_| dead > 1);
    let first = first.map(|group| {
        view! { <a href=format!("/items/{}", group.sample_item_id)>"First failure"</a> }
    });
    let items = if dead == 1 { "1 failed item".to_owned() } else { format!("{} failed items", grouped(dead)) };
    let note = match groups.len() {
        0 => items,
        1 => format!("{items} in 1 group"),
        n => format!("{items} in {} groups", grouped(n as i64)),
    };
    (dead > 0).then(|| {
        view! {
            <section class="card" id="problems" aria-labelledby="problems-heading">
                <div class="card-head">
                    <h2 id="problems-heading">"Errors"</h2>
                    <span class="sub">{note}</span>
                    <div class="end">{first} <a href=all>"See all"</a></div>
                </div>
                {error_groups::groups_of(groups, dead, running, &term)}
            </section>
        }
        .into_any()
    })
}

fn details(job: &Job) -> AnyView {
    let fact = |term: &'static str, value: AnyView| view! { <dt>{term}</dt> <dd>{value}</dd> };
    let text = |value: String| value.into_any();
    let mono = |value: String| view! { <span class="mono">{value}</span> }.into_any();
    let empty_metadata = matches!(job.metadata.text(), "{}" | "null");
    let accepts = if job.sealed { "No, it is sealed" } else { "Yes" };
    view! {
        <section class="card" id="details" aria-labelledby="details-heading">
            <div class="card-head">
                <h2 id="details-heading">"Details"</h2>
            </div>
            <div class="card-body stack gap-4">
                <dl class="kv">
                    {fact("Owner", text(job.owner.name.clone()))}
                    {job.initiated_by.clone().map(|by| fact("Started by", text(by)))}
                    {fact("Job ID", copyable_id("job-id", "job ID", job.id.to_string()))}
                    {fact("Job type", mono(job.job_type.clone()))} {fact("Key", mono(job.key.clone()))}
                    {job.dedupe_key.clone().map(|key| fact("Dedupe key", mono(key)))}
                    {job.idempotency_key.clone().map(|key| fact("Idempotency key", mono(key)))}
                    {fact("Created", clock(job.created_at).into_any())}
                    {job.started_at.map(|at| fact("Started", clock(at).into_any()))}
                    {job.completed_at.map(|at| fact("Completed", clock(at).into_any()))}
                    {job.run_after.map(|at| fact("Starts after", clock(at).into_any()))}
                    {job.expires_at.map(|at| fact("Expires", clock(at).into_any()))}
                    {fact("Accepts items", text(accepts.to_owned()))}
                    {job.pinned.then(|| fact("Kept", text("Forever".to_owned())))}
                    {job.replay_of.map(|id| {
                        fact("Run again from", view! { <a href=format!("/jobs/{id}")>"an earlier job"</a> }.into_any())
                    })}
                    {job.superseded_by.map(|id| {
                        fact("Run again as", view! { <a href=format!("/jobs/{id}")>"a newer job"</a> }.into_any())
                    })}
                    {job.upload_id.map(|id| {
                        let link = view! { <a href=format!("/api/v1/uploads/{id}/content") download="">"The uploaded file"</a> };
                        fact("File", link.into_any())
                    })}
                </dl>
                {(!empty_metadata)
                    .then(|| {
                        view! {
                            <div class="stack">
                                <h3 class="small strong">"Metadata"</h3>
                                <pre class="document" tabindex="0">{job.metadata.text().to_owned()}</pre>
                            </div>
                        }
                    })}
            </div>
        </section>
    }
    .into_any()
}
