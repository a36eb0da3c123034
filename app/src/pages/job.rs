//! `/jobs/{id}`: a job for those who run it. Errors first, then the tree, then what is in work.

use domain::{Item, Job, JobStatus, api::ErrorGroup};
use leptos::prelude::*;

use super::problems;
use crate::{
    components::{moment::clock, panel::section},
    frame::{Page, Place},
    live::job::{First, LiveJob},
    reading::{Flight, Head, Line},
};

pub fn page(job: &Job, groups: &[ErrorGroup], in_flight: &[Item]) -> Page {
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
    let wrong =
        (dead > 0).then(|| section("problems", "What went wrong", problems::groups(groups, dead, !completed, false)));
    let content = view! {
        <p class="crumbs">
            <a href="/jobs">"Jobs"</a>
            {above}
        </p>
        <h1 class="file-name">{name.clone()}</h1>
        <LiveJob id=job.id label=format!("Progress of {name}") first>
            <div id="around" data-refresh="">
                {wrong}
            </div>
        </LiveJob>
        <div id="take-home" data-refresh="">
            {section("downloads", "Take home", super::import::downloads(job, completed))}
        </div>
        {section("details", "Details", details(job))}
    }
    .into_any();
    Page { title: name, place: Place::Jobs, content, lives: true }
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
            {fact("Sealed", text(if job.sealed { "yes" } else { "no: more items may come" }.to_owned()))}
            {job.dedupe_key.clone().map(|key| fact("Dedupe key", mono(key)))}
            {job.upload_id.map(|id| {
                let link = view! { <a href=format!("/api/v1/uploads/{id}/content") download="">"the uploaded file"</a> };
                fact("File", link.into_any())
            })}
        </dl>
        {(!empty_metadata).then(|| view! { <pre class="document" tabindex="0">{job.metadata.text().to_owned()}</pre> })}
    }
    .into_any()
}
