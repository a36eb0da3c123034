//! Faults of clients: disconnects, crowds, hanging and slow connections.

mod crowds; // slow connections
mod full; // no connection is free
mod receivers; // receivers of callbacks
mod storm; // disconnects
mod streams; // events through a proxy
mod watchers; // streams in thousands

use anyhow::Result;
use futures::{FutureExt as _, future::BoxFuture};
use tokio::{runtime::Handle, task::block_in_place};

use super::{Scenario, ScenarioOutcome, scaled};
use crate::{findings::Findings, fixture::RunContext};

const FEW: watchers::Size = watchers::Size { streams: 1_000, items: 1_000, at_once: 5 };
/// The maximum of one server.
const MANY: watchers::Size = watchers::Size { streams: 10_000, items: 1_500, at_once: 5 };

pub(super) const FAULTS: &[(&str, Scenario)] = &[
    ("F13", |context| with_findings(context, |context| storm::run(context, scaled(context, 4_000, 50_000)))),
    ("F14", |context| with_findings(context, |context| full::run(context, 500))),
    ("F33", |context| with_findings(context, |context| watchers::run(context, scaled(context, FEW, MANY)))),
    ("F34", |context| with_findings(context, |context| streams::run(context, scaled(context, 200, 1_000)))),
    ("F35", |context| with_findings(context, |context| crowds::slow(context, scaled(context, 400, 5_000)))),
    ("F40", |context| with_findings(context, |context| receivers::run(context, scaled(context, 20, 200)))),
];

/// Runs a scenario on the current thread: its parts share its stack, so it need not be `Send`.
pub(super) fn on_this_thread<'a, F: Future<Output = Result<ScenarioOutcome>> + 'a>(
    context: &'a RunContext,
    scenario: impl FnOnce(&'a RunContext) -> F + Send + 'a,
) -> BoxFuture<'a, Result<ScenarioOutcome>> {
    async move { block_in_place(|| Handle::current().block_on(scenario(context))) }.boxed()
}

/// Runs a scenario that returns findings, on the current thread.
pub(super) fn with_findings<'a, F: Future<Output = Result<Findings>> + 'a>(
    context: &'a RunContext,
    scenario: impl FnOnce(&'a RunContext) -> F + Send + 'a,
) -> BoxFuture<'a, Result<ScenarioOutcome>> {
    async move { block_in_place(|| Handle::current().block_on(scenario(context))).map(Findings::into_outcome) }.boxed()
}
