//! Live page of a job for staff: its head, its tree, its active items.

use domain::id::Uuid;
use leptos::prelude::*;

use super::{
    active_items::active_items,
    import::{facts, wake},
    liveness::{pill, warning},
    signals::LiveSignals,
    tree::tree,
};
use crate::{
    components::{
        bar::{Size, bar},
        state::{job_badge, legend},
    },
    job_view::{ActiveItem, Head, Line},
};

/// State of the job when the page is rendered. It is sent with the page, so it is reduced and limited.
#[derive(Clone, Debug, serde::Serialize, serde::Deserialize)]
pub struct InitialState {
    pub head: Head,
    pub lines: Vec<Line>,
    pub left_out: usize,
    pub active_items: Vec<ActiveItem>,
}

/// Live part of `/jobs/{id}`. `label` names the bar, `list` is the URL of the items that its head counts; `children` is rendered by
/// the server between the head and the tree. A view of the job other than its summary has `children` only.
#[island]
pub fn LiveJob(
    id: Uuid,
    label: String,
    list: Option<String>,
    initial: InitialState,
    summary: bool,
    children: Children,
) -> impl IntoView {
    let several = summary && initial.lines.len() > 1;
    let signals = LiveSignals::new(initial.head, initial.lines, initial.left_out, initial.active_items);
    wake(id, signals);
    let head = signals.head;
    let meter = Signal::derive(move || head.with(|head| head.meter));
    let status = Signal::derive(move || head.with(|head| (head.status, head.outcome)));
    view! {
        <div class="live" data-live=move || signals.liveness.get().as_str()>
            <div class="job-top stack gap-3">
                <div class="live-top">
                    <p class="stage">{job_badge(status)} <span class="message">{move || head.with(Head::message)}</span></p>
                    {pill(signals.liveness)}
                </div>
                <div class="row hero-bar">
                    {bar(meter, Size::Tall, label)}
                    <span class="num meter-number">{move || meter.with(crate::meter::Meter::number)}</span>
                </div>
                {legend(Signal::derive(move || meter.with(|meter| meter.counts)), false, list.as_deref())}
                {warning(signals.liveness)}
                <p class="small soft" hidden=move || head.with(|head| head.waits.is_none())>
                    {move || head.with(|head| head.waits.clone())}
                </p>
                {facts(signals)}
                <div class="vh" role="status">
                    {move || signals.announcement.get()}
                </div>
            </div>
            <div class="job-main stack gap-4">
                {children()}
                {several
                    .then(|| {
                        view! {
                            <section class="card" id="tree" aria-labelledby="tree-heading">
                                <div class="card-head">
                                    <h2 id="tree-heading">"Tree"</h2>
                                </div>
                                {tree(signals)}
                            </section>
                        }
                    })}
                {summary
                    .then(|| {
                        view! {
                            <section class="card" id="active-items" aria-labelledby="active-items-heading">
                                <div class="card-head">
                                    <h2 id="active-items-heading">"Items in progress"</h2>
                                    {list.map(|list| view! { <div class="end"><a href=list>"All items"</a></div> })}
                                </div>
                                {active_items(signals)}
                            </section>
                        }
                    })}
            </div>
        </div>
    }
}
