//! `/jobs/{id}`: a job for those who run it. Errors first, then the tree, then what is in work, then what can be
//! done to it.

mod deeds;
pub mod holds;
mod timeline;

use domain::{
    Item, ItemState, Job, JobStatus,
    api::ErrorGroup,
    delivery::CallbackDelivery,
    filter::{Term, lists::List},
    hold::Held,
    progress::grouped,
};
use leptos::prelude::*;

pub use deeds::Deeds;

use super::{dead, deliveries, problems};
use crate::{
    components::{
        deed::told,
        moment::clock,
        panel::section,
        state::{icon, word},
    },
    frame::{Page, Place},
    live::job::{First, LiveJob},
    reading::{Flight, Head, Line},
};

pub fn page(
    job: &Job,
    groups: &[ErrorGroup],
    in_flight: &[Item],
    held: &[Held],
    callbacks: &[CallbackDelivery],
    deeds: &Deeds,
) -> Page {
    let name = super::import::name(job);
    let completed = job.tree.status == JobStatus::Completed;
    let dead = job.tree.counts.dead;
    let (lines, left_out) = Line::of_tree(job);
    let first = First { head: Head::of(job), lines, left_out, flights: Flight::of_items(job, in_flight) };
    let above = job.parent_id.map(|_| {
        view! {
            " / "
            <a href=format!("/jobs/{}", job.root_id)>"its tree"</a>
        }
    });
    let problems = (dead > 0).then(|| section("problems", "What went wrong", wrong(job, groups, dead, !completed)));
    let holds = holds::holds(held);
    let content = view! {
        <p class="crumbs">
            <a href="/jobs">"Jobs"</a>
            {above}
        </p>
        <h1 class="file-name">{name.clone()}</h1>
        {told(deeds.did.as_deref())}
        <LiveJob id=job.id label=format!("Progress of {name}") first>
            // A reason to wait, such as a paused type, may change without an event of its own.
            <div id="around" data-refresh="" data-topics="types">
                {holds}
                {problems}
            </div>
        </LiveJob>
        <div id="take-home" data-refresh="">
            {section("downloads", "Take home", super::import::downloads(job, completed))}
        </div>
        <div id="ways" data-refresh="">{ways(job)}</div>
        <div id="when" data-refresh="">{timeline::timeline(job).map(|drawn| section("timeline", "Timeline", drawn))}</div>
        {deliveries::of_job(callbacks, deeds.own)}
        <div class="bare" id="ways-on" data-refresh="">
            {deeds::section_of(job, deeds)}
        </div>
        <div class="bare" id="facts" data-refresh="">
            {section("details", "Details", details(job))}
        </div>
    }
    .into_any();
    Page { title: name, place: Place::Jobs, content, lives: true }
}

/// Groups of errors with the ways from them: to the rows, and to all of them at once.
fn wrong(job: &Job, groups: &[ErrorGroup], dead: i64, running: bool) -> AnyView {
    // A root stands for its tree; of a job below, an operation meets its own items.
    let (term, met) = match job.parent_id {
        None => (Term::is("root", &job.id.to_string()), dead),
        Some(_) => (Term::is("job", &job.id.to_string()), job.counts.dead),
    };
    let all = dead::rows_of("/dead", List::Dead, vec![term.clone()]);
    let list = problems::groups_of(groups, dead, running, &term);
    let retry = (met > 0).then(|| {
        let button = if met == 1 { "Retry it…".to_owned() } else { format!("Retry all {}…", grouped(met)) };
        dead::preview(&vec![term].into(), button)
    });
    let first = groups.iter().min_by_key(|group| group.first_seen_at).filter(|_| dead > 1);
    let first = first.map(|group| {
        view! { <a href=format!("/items/{}", group.sample_item_id)>"Jump to the first failure"</a> }
    });
    view! {
        {list}
        <div class="actions">{retry} <a href=all>"See the failed items"</a> {first}</div>
    }
    .into_any()
}

/// Exact counts as links to the items behind them.
fn ways(job: &Job) -> Option<AnyView> {
    let of_job = Term::is("job", &job.id.to_string());
    let links = ItemState::ALL
        .into_iter()
        .filter(|&state| job.counts.get(state) > 0)
        .map(|state| {
            let there = dead::rows_of("/items", List::Items, vec![of_job.clone(), Term::is("state", state.as_str())]);
            view! {
                <li>
                    <a href=there>{icon(state.as_str())} " " {grouped(job.counts.get(state))} " " {word(state)}</a>
                </li>
            }
        })
        .collect_view();
    let own = if job.tree.item_count == job.item_count { "Items" } else { "Items of this job itself" };
    (job.item_count > 0).then(|| section("items", own, view! { <ul class="shortcuts">{links}</ul> }.into_any()))
}

fn details(job: &Job) -> AnyView {
    let fact = |term: &'static str, value: AnyView| view! { <div class="fact"><dt>{term}</dt> <dd>{value}</dd></div> };
    let text = |value: String| value.into_any();
    let mono = |value: String| view! { <span class="mono">{value}</span> }.into_any();
    let empty_metadata = matches!(job.metadata.text(), "{}" | "null");
    view! {
        <dl class="details">
            {fact("Id", mono(job.id.to_string()))} {fact("Key", mono(job.key.clone()))} {fact("Type", mono(job.job_type.clone()))}
            {fact("Owner", text(job.owner.name.clone()))}
            {job.initiated_by.clone().map(|by| fact("Initiated by", text(by)))}
            {fact("Created", clock(job.created_at).into_any())}
            {job.started_at.map(|at| fact("Started", clock(at).into_any()))}
            {job.completed_at.map(|at| fact("Completed", clock(at).into_any()))}
            {job.run_after.map(|at| fact("Not before", clock(at).into_any()))}
            {job.expires_at.map(|at| fact("Not after", clock(at).into_any()))}
            {job.replay_of.map(|id| {
                fact("Made again from", view! { <a href=format!("/jobs/{id}")>"an earlier tree"</a> }.into_any())
            })}
            {job.superseded_by.map(|id| {
                fact("Made again as", view! { <a href=format!("/jobs/{id}")>"a newer tree"</a> }.into_any())
            })}
            {fact("Sealed", text(if job.sealed { "yes" } else { "no: more items may come" }.to_owned()))}
            {job.dedupe_key.clone().map(|key| fact("Dedupe key", mono(key)))}
            {job.idempotency_key.clone().map(|key| fact("Idempotency key", mono(key)))}
            {job.upload_id.map(|id| {
                let link = view! { <a href=format!("/api/v1/uploads/{id}/content") download="">"the uploaded file"</a> };
                fact("File", link.into_any())
            })}
        </dl>
        {(!empty_metadata).then(|| view! { <pre class="document" tabindex="0">{job.metadata.text().to_owned()}</pre> })}
    }
    .into_any()
}
