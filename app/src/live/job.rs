//! The staff page of a job while it lives: its head, its tree, its items in flight.

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
        state::legend,
    },
    reading::{Flight, Head, Line, job_shape},
};

/// What the server knows when the page is drawn. Travels with the page, so it is cut down and capped.
#[derive(Clone, Debug, serde::Serialize, serde::Deserialize)]
pub struct First {
    pub head: Head,
    pub lines: Vec<Line>,
    pub left_out: usize,
    pub flights: Vec<Flight>,
}

/// The live part of `/jobs/{id}`. `label` names the bar; `children` is what the server drew between head and tree.
#[island]
pub fn LiveJob(id: Uuid, label: String, first: First, children: Children) -> impl IntoView {
    let several = first.lines.len() > 1;
    let board = Board::new(first.head, first.lines, first.left_out, first.flights);
    wake(id, board);
    let head = board.head;
    let meter = Signal::derive(move || head.with(|head| head.meter));
    let shape = move || head.with(|head| job_shape(head.status, head.outcome));
    view! {
        <div class="live" data-live=move || board.liveness.get().as_str()>
            <div class="live-top">
                <p class="stage">
                    <span class=move || format!("message state-{}", shape())>
                        <svg class="icon" aria-hidden="true" focusable="false">
                            <use href=move || format!("#i-{}", shape()) />
                        </svg>
                    </span>
                    <span class="message">{move || head.with(Head::message)}</span>
                </p>
                {pill(board.liveness)}
            </div>
            <div class="meter meter-tall">
                {bar(meter, Size::Tall, label)}
                <span class="meter-number">{move || meter.with(crate::meter::Meter::number)}</span>
            </div>
            {legend(Signal::derive(move || meter.with(|meter| meter.counts)), false)}
            {warning(board.liveness)}
            <p class="quiet-text" hidden=move || head.with(|head| head.waits.is_none())>
                {move || head.with(|head| head.waits.clone())}
            </p>
            {facts(board)}
            <div class="quiet-status" role="status">
                {move || board.announcement.get()}
            </div>
            {children()}
            {several
                .then(|| {
                    view! {
                        <section class="panel" id="tree" aria-labelledby="tree-heading">
                            <h2 id="tree-heading">"Tree"</h2>
                            {tree(board)}
                        </section>
                    }
                })}
            <section class="panel" id="flights" aria-labelledby="flights-heading">
                <h2 id="flights-heading">"In work now"</h2>
                {flights(board)}
            </section>
        </div>
    }
}
