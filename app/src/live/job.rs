//! Live page of a job for staff: its head, its tree, its active items.

use domain::id::Uuid;
use leptos::prelude::*;

use super::{
    board::Board,
    flights::flights,
    import::{facts, wake},
    liveness::{pill, warning},
    tree::tree,
};
use crate::{
    components::{
        bar::{Size, bar},
        state::{job_badge, legend},
    },
    reading::{Flight, Head, Line},
};

/// State of the job when the page is rendered. It is sent with the page, so it is reduced and limited.
#[derive(Clone, Debug, serde::Serialize, serde::Deserialize)]
pub struct First {
    pub head: Head,
    pub lines: Vec<Line>,
    pub left_out: usize,
    pub flights: Vec<Flight>,
}

/// Live part of `/jobs/{id}`. `label` names the bar, `list` is the URL of the job's items; `children` is rendered by
/// the server between the head and the tree.
#[island]
pub fn LiveJob(id: Uuid, label: String, list: String, first: First, children: Children) -> impl IntoView {
    let several = first.lines.len() > 1;
    let board = Board::new(first.head, first.lines, first.left_out, first.flights);
    wake(id, board);
    let head = board.head;
    let meter = Signal::derive(move || head.with(|head| head.meter));
    let status = Signal::derive(move || head.with(|head| (head.status, head.outcome)));
    view! {
        <div class="live" data-live=move || board.liveness.get().as_str()>
            <div class="job-top stack gap-3">
                <div class="live-top">
                    <p class="stage">{job_badge(status)} <span class="message">{move || head.with(Head::message)}</span></p>
                    {pill(board.liveness)}
                </div>
                <div class="row hero-bar">
                    {bar(meter, Size::Tall, label)}
                    <span class="num meter-number">{move || meter.with(crate::meter::Meter::number)}</span>
                </div>
                {legend(Signal::derive(move || meter.with(|meter| meter.counts)), false, Some(&list))}
                {warning(board.liveness)}
                <p class="small soft" hidden=move || head.with(|head| head.waits.is_none())>
                    {move || head.with(|head| head.waits.clone())}
                </p>
                {facts(board)}
                <div class="vh" role="status">
                    {move || board.announcement.get()}
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
                                {tree(board)}
                            </section>
                        }
                    })} <section class="card" id="flights" aria-labelledby="flights-heading">
                    <div class="card-head">
                        <h2 id="flights-heading">"Items in progress"</h2>
                        <div class="end">
                            <a href=list>"All items"</a>
                        </div>
                    </div>
                    {flights(board)}
                </section>
            </div>
        </div>
    }
}
