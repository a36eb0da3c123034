//! `/jobs/{id}`: a job for staff: progress and actions; errors, tree and active items; downloads and details beside
//! them.

mod actions;
mod activity;
mod gantt;
mod graph;
pub mod holds;
mod results;
mod timeline;
mod view;

use crate::speech::grouped;
use domain::{
    Item, Job, JobStatus,
    api::ErrorGroup,
    dispatch::waiting_reason::WaitingItems,
    item::StepCount,
    notify::delivery::CallbackDelivery,
    query::filter::{Term, lists::List},
};
use leptos::prelude::*;

pub use actions::Actions;
pub use activity::Activity;
pub use gantt::Window;
pub use results::Results;
pub use view::JobView;

use super::deliveries;
use crate::pages::operator::{dead_letters, error_groups};
use crate::{
    components::{
        action_form::flash,
        breadcrumbs::breadcrumbs,
        chart::{self, History},
        copyable_id::copyable_id,
        timestamp::clock,
    },
    frame::{NavSection, Page},
    job_view::{ActiveItem, Head, Line},
    live::job::{InitialState, LiveJob},
};

/// Content of the summary.
#[derive(Clone, Debug, Default)]
pub struct Summary {
    pub groups: Vec<ErrorGroup>,
    pub in_flight: Vec<Item>,
    pub waiting: Vec<WaitingItems>,
    /// First items that wait for an event.
    pub event_waits: Vec<Item>,
    /// Items by their last step; empty if the type declares none.
    pub steps: Vec<StepCount>,
    pub callbacks: Vec<CallbackDelivery>,
    /// Activity over the life of the job; `None` if it is too small to have any.
    pub history: Option<History>,
}

/// Content of one view.
#[derive(Clone, Debug)]
pub enum Content {
    Summary(Box<Summary>),
    Graph,
    Timeline(Window),
    Results(Results),
    Activity(Activity),
}

impl Content {
    const fn view(&self) -> JobView {
        match self {
            Self::Summary(_) => JobView::Summary,
            Self::Graph => JobView::Graph,
            Self::Timeline(_) => JobView::Timeline,
            Self::Results(_) => JobView::Results,
            Self::Activity(_) => JobView::Activity,
        }
    }
}

/// Renders the page.
pub fn page(job: &Job, content: &Content, actions: &Actions) -> Page {
    let name = crate::pages::import::progress::name(job);
    let (term, _) = actions::reach(job);
    let tree = format!("/jobs/{}", job.root_id);
    let root = job.parent_id.map(|_| (tree.as_str(), actions.root.as_deref().unwrap_or("Root job")));
    let above: Vec<_> = [("/jobs", "Jobs")].into_iter().chain(root).collect();
    breadcrumbs(&above, name.as_str());
    let tabs = view::tabs(job, content.view(), &term);
    let below = match content {
        Content::Summary(content) => summary(job, content, actions),
        Content::Graph => one_view(job, graph::graph(job)),
        Content::Timeline(window) => one_view(job, gantt::gantt(job, *window)),
        Content::Results(content) => one_view(job, results::results(job, content)),
        Content::Activity(content) => one_view(job, activity::activity(content)),
    };
    let content = view! {
        {flash(actions.flash.as_deref())}
        <div class="job-head">
            <div class="job-title" id="page-actions" data-refresh="">
                <h1 class="file-name">{name.clone()}</h1>
                {actions::actions(job, actions)}
            </div>
            {tabs}
        </div>
        {below}
    }
    .into_any();
    Page { title: name, nav_section: NavSection::Jobs, content, is_live: true, is_translated: false }
}

/// URL of the job's items; `None` if the head counts more than these.
fn list(job: &Job) -> Option<String> {
    let is_counted = job.parent_id.is_none() || job.subtree().len() == 1;
    is_counted.then(|| dead_letters::rows_of("/items", List::Items, vec![actions::reach(job).0]))
}

/// The live head above one view.
fn one_view(job: &Job, content: AnyView) -> AnyView {
    let label = format!("Progress of {}", crate::pages::import::progress::name(job));
    let initial = InitialState { head: Head::of(job), lines: Vec::new(), left_out: 0, active_items: Vec::new() };
    view! {
        <div class="job-page job-one">
            <LiveJob id=job.id label list=list(job) initial summary=false>
                {content}
            </LiveJob>
        </div>
    }
    .into_any()
}

fn summary(job: &Job, content: &Summary, actions: &Actions) -> AnyView {
    let completed = job.tree.status == JobStatus::Completed;
    let (lines, left_out) = Line::of_tree(job);
    let active_items = ActiveItem::of_items(job, &content.in_flight);
    let initial = InitialState { head: Head::of(job), lines, left_out, active_items };
    let label = format!("Progress of {}", crate::pages::import::progress::name(job));
    let holds = holds::holds(&content.waiting, actions.staff);
    let event_waits = holds::event_waits(job, &content.event_waits);
    let errors = errors(job, &content.groups, !completed);
    let history = content.history.as_ref().map(chart::throughput);
    view! {
        <div class="job-page">
            <LiveJob id=job.id label list=list(job) initial summary=true>
                // A reason to wait, such as a paused type, may change without an event of the job.
                <div class="stack gap-4" id="around" data-refresh="" data-topics="types">
                    {holds}
                    {event_waits}
                    {errors}
                    {history}
                </div>
            </LiveJob>
            <div class="job-side stack gap-4">
                <div id="downloads-part" data-refresh="">{crate::pages::import::progress::downloads_card(job, job.upload_id.is_some(), completed)}</div>
                <div id="facts" class="stack gap-4" data-refresh="">{steps(job, &content.steps)} {details(job)}</div>
            </div>
            <div class="job-when stack gap-4">
                {deliveries::of_job(&content.callbacks, actions.own)} <div id="when" data-refresh="">{timeline::timeline(job)}</div>
            </div>
        </div>
    }
    .into_any()
}

/// Error groups, each with a link to its items and a button that retries all of them.
fn errors(job: &Job, groups: &[ErrorGroup], running: bool) -> Option<AnyView> {
    let (term, dead) = actions::reach(job);
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
    let below = job.tree.counts.dead - dead;
    let note = if below > 0 { format!("{note}, {} in the jobs below", grouped(below)) } else { note };
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

/// Number of items at each step, with a link to them.
fn steps(job: &Job, steps: &[StepCount]) -> Option<AnyView> {
    let step = |step: &StepCount| {
        let terms = vec![Term::is("job", &job.id.to_string()), Term::is("step", &step.name)];
        let number = format!("{}{}", if step.more { "more than " } else { "" }, grouped(step.items));
        let number = match step.items {
            0 => number.into_any(),
            _ => view! { <a href=dead_letters::rows_of("/items", List::Items, terms)>{number}</a> }.into_any(),
        };
        view! {
            <dt class="mono">{step.name.clone()}</dt>
            <dd>{number}</dd>
        }
    };
    (!steps.is_empty()).then(|| {
        view! {
            <section class="card" id="steps" aria-labelledby="steps-heading">
                <div class="card-head">
                    <h2 id="steps-heading">"Steps"</h2>
                    <span class="sub">"Items by the last step that they reached"</span>
                </div>
                <div class="card-body">
                    <dl class="kv">{steps.iter().map(step).collect_view()}</dl>
                </div>
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
