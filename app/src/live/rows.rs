//! A list of jobs while it lives: rows change in place, and nothing else.
//!
//! No row is ever moved, put in or taken out: what is new waits behind a link that loads the page again, so that
//! nobody ticks a row that has just moved under their hand. A row that no longer fits the filter stays, in grey.

use domain::{Job, JobStatus, Outcome, Time, id::Uuid, progress::grouped};
use leptos::prelude::*;
use serde::{Deserialize, Serialize};

use super::{
    board::Kept,
    liveness::{Liveness, pill_of},
};
use crate::{
    components::{
        bar::{Size, bar},
        moment::ago,
        selection::{pick, pick_page},
        state::job_badge,
    },
    meter::Meter,
};

/// One row.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Row {
    pub id: Uuid,
    pub name: String,
    pub job_type: String,
    pub status: JobStatus,
    pub outcome: Option<Outcome>,
    pub meter: Meter,
    pub owner: String,
    pub created_at: Time,
    pub version: i64,
    #[serde(skip)]
    pub stay: Stay,
}

/// Whether a row would be shown if the page were loaded now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Stay {
    #[default]
    Fits,
    /// The filter does not meet it any more.
    Left,
    /// The job was removed.
    Gone,
}

impl Row {
    pub fn of(job: &Job) -> Self {
        Self {
            id: job.id,
            name: job.name.clone().unwrap_or_else(|| job.key.clone()),
            job_type: job.job_type.clone(),
            status: job.tree.status,
            outcome: job.tree.outcome,
            meter: Meter::of_tree(job),
            owner: job.owner.name.clone(),
            created_at: job.created_at,
            version: job.version,
            stay: Stay::Fits,
        }
    }
}

/// What the server knows when the page is drawn.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Listed {
    pub rows: Vec<Row>,
    /// Parameters of `GET /jobs`; ages are points in time.
    pub asked: Vec<(String, String)>,
    /// On the first page new ones are told of: those that fit and were created after this; always, where the list
    /// ends on this page.
    pub news: Option<News>,
    /// The first page with the same filter.
    pub first: String,
    /// This page, loaded every ten seconds.
    pub again: String,
}

/// Which jobs are new to a list.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct News {
    /// Of those that certainly fit: created after this; `None`: all.
    pub floor: Option<Time>,
    /// Of those of which it cannot be told: created after this, when the page was drawn.
    pub as_of: Time,
}

/// How many are new, and whether all of them are known to fit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Fresh {
    pub count: usize,
    pub unsure: bool,
}

/// New jobs that are counted; of more it is said that they are more.
pub const MOST_NEW: usize = 1_000;

impl Fresh {
    fn words(self) -> String {
        let more = if self.count >= MOST_NEW { "+" } else { "" };
        let n = format!("{}{more}", grouped(self.count as i64));
        match (self.unsure, self.count) {
            (false, _) => format!("Show {n} new"),
            (true, 1) => "1 new job: see whether it fits".to_owned(),
            (true, _) => format!("{n} new jobs: see which fit"),
        }
    }
}

/// Everything that a live list shows.
#[derive(Clone, Copy)]
pub struct RowBoard {
    pub liveness: RwSignal<Liveness>,
    pub rows: StoredValue<Vec<Kept<Row>>>,
    pub fresh: RwSignal<Fresh>,
}

impl RowBoard {
    pub fn new(rows: Vec<Row>) -> Self {
        let kept = rows.into_iter().map(|row| Kept { id: row.id, now: ArcRwSignal::new(row) }).collect();
        Self {
            liveness: RwSignal::new(Liveness::Off),
            rows: StoredValue::new(kept),
            fresh: RwSignal::new(Fresh::default()),
        }
    }
}

/// The live part of `/jobs`. `children` is what the server drew below the rows.
#[island]
pub fn LiveJobs(listed: Listed, children: Children) -> impl IntoView {
    let board = RowBoard::new(listed.rows.clone());
    let (first, again) = (listed.first.clone(), listed.again.clone());
    wake(listed, board);
    let fresh = board.fresh;
    let told = move || match board.liveness.get() {
        Liveness::Stale | Liveness::SignedOut => "Connection lost.",
        _ if fresh.with(|fresh| fresh.count > 0) => "There are new jobs. A link above the list shows them.",
        _ => "",
    };
    view! {
        <div class="live live-list" data-live=move || board.liveness.get().as_str()>
            <div class="live-top">
                <p class="fresh">
                    <a class="button" href=first hidden=move || fresh.with(|fresh| fresh.count == 0)>
                        {move || fresh.get().words()}
                    </a>
                </p>
                {pill_of(board.liveness, again)}
            </div>
            <div class="quiet-status" role="status">
                {told}
            </div>
            {table(board)}
            {children()}
        </div>
    }
}

/// The rows; nothing where there are none.
pub fn table(board: RowBoard) -> impl IntoView {
    let rows = board.rows.with_value(Clone::clone);
    (!rows.is_empty()).then(|| {
        view! {
            <div class="scroll" tabindex="0" role="region" aria-label="Jobs">
                <table class="table jobs" role="table">
                    <thead role="rowgroup">
                        <tr role="row">
                            {pick_page()}
                            <th scope="col" role="columnheader">"Job"</th>
                            <th scope="col" role="columnheader">"Status"</th>
                            <th scope="col" role="columnheader">"Progress"</th>
                            <th scope="col" role="columnheader" class="number">"Done"</th>
                            <th scope="col" role="columnheader" class="number">"Failed"</th>
                            <th scope="col" role="columnheader" class="number">"All"</th>
                            <th scope="col" role="columnheader">"Owner"</th>
                            <th scope="col" role="columnheader">"Created"</th>
                        </tr>
                    </thead>
                    <tbody role="rowgroup">{rows.into_iter().map(row).collect_view()}</tbody>
                </table>
            </div>
        }
    })
}

fn row(kept: Kept<Row>) -> impl IntoView {
    let id = kept.id;
    let row = RwSignal::from(kept.now);
    let first = row.get_untracked();
    let number = move |of: fn(&Row) -> i64| move || grouped(row.with(of));
    let stay = move || row.with(|row| row.stay);
    view! {
        <tr role="row" class:row-left=move || stay() != Stay::Fits>
            {pick(id.to_string(), &first.name)}
            <th scope="row" role="rowheader">
                <a href=format!("/jobs/{id}")>{first.name.clone()}</a>
                " "
                <span class="sub">{first.job_type.clone()}</span>
            </th>
            <td role="cell" class="jobs-state">
                <span hidden=move || stay() == Stay::Gone>
                    {job_badge(Signal::derive(move || row.with(|row| (row.status, row.outcome))))}
                </span>
                <span class="state state-cancelled" hidden=move || stay() != Stay::Gone>
                    "removed"
                </span>
            </td>
            <td role="cell" class="jobs-bar">
                <span class="meter">
                    {bar(Signal::derive(move || row.with(|row| row.meter)), Size::Thin, format!("Progress of {}", first.name))}
                    <span class="meter-number">{move || row.with(|row| row.meter.number())}</span>
                </span>
            </td>
            <td role="cell" class="number" data-label="Done">{number(|row| row.meter.counts.succeeded)}</td>
            <td role="cell" class="number" data-label="Failed">{number(|row| row.meter.counts.dead)}</td>
            <td role="cell" class="number" data-label="All">{number(|row| row.meter.whole)}</td>
            <td role="cell" data-label="Owner">{first.owner}</td>
            <td role="cell" data-label="Created">{ago(first.created_at)}</td>
        </tr>
    }
}

#[cfg(feature = "hydrate")]
fn wake(listed: Listed, board: RowBoard) {
    // Hydration takes the page for what the signals say; so they may change only when it is through.
    queue_microtask(move || super::roots::start(listed, board));
}

#[cfg(not(feature = "hydrate"))]
fn wake(_listed: Listed, _board: RowBoard) {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_known_to_fit_is_not_said_to() {
        assert_eq!(Fresh { count: 37, unsure: false }.words(), "Show 37 new");
        assert_eq!(Fresh { count: 1_000, unsure: false }.words(), "Show 1,000+ new");
        assert_eq!(Fresh { count: 1, unsure: true }.words(), "1 new job: see whether it fits");
        assert_eq!(Fresh { count: 2, unsure: true }.words(), "2 new jobs: see which fit");
    }
}
