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

use super::{Played, Story, scaled};
use crate::{stage::House, told::Told};

const FEW: watchers::Size = watchers::Size { streams: 1_000, items: 1_000, at_once: 5 };
/// The maximum of one server.
const MANY: watchers::Size = watchers::Size { streams: 10_000, items: 1_500, at_once: 5 };

pub(super) const FAULTS: &[(&str, Story)] = &[
    ("F13", |house| told(house, |house| storm::play(house, scaled(house, 4_000, 50_000)))),
    ("F14", |house| told(house, |house| full::play(house, 500))),
    ("F33", |house| told(house, |house| watchers::play(house, scaled(house, FEW, MANY)))),
    ("F34", |house| told(house, |house| streams::play(house, scaled(house, 200, 1_000)))),
    ("F35", |house| told(house, |house| crowds::slow(house, scaled(house, 400, 5_000)))),
    ("F40", |house| told(house, |house| receivers::play(house, scaled(house, 20, 200)))),
];

/// Runs a scenario on the current thread: its parts share its stack, so it need not be `Send`.
pub(super) fn here<'a, F: Future<Output = Result<Played>> + 'a>(
    house: &'a House,
    story: impl FnOnce(&'a House) -> F + Send + 'a,
) -> BoxFuture<'a, Result<Played>> {
    async move { block_in_place(|| Handle::current().block_on(story(house))) }.boxed()
}

/// Runs a scenario that returns findings, on the current thread.
pub(super) fn told<'a, F: Future<Output = Result<Told>> + 'a>(
    house: &'a House,
    story: impl FnOnce(&'a House) -> F + Send + 'a,
) -> BoxFuture<'a, Result<Played>> {
    async move { block_in_place(|| Handle::current().block_on(story(house))).map(Told::played) }.boxed()
}
