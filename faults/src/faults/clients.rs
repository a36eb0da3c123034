//! Clients that go away, crowd in, hang and dawdle.

mod crowds; // slow connections
mod full; // no connection is free
mod receivers; // who is called back
mod storm; // disconnects
mod streams; // events through a proxy
mod watchers; // streams in thousands

use anyhow::Result;
use futures::{FutureExt as _, future::BoxFuture};
use tokio::{runtime::Handle, task::block_in_place};

use super::{Played, Story, scaled};
use crate::{stage::House, told::Told};

const FEW: watchers::Size = watchers::Size { streams: 1_000, items: 1_000, at_once: 5 };
/// As many as one server keeps open.
const MANY: watchers::Size = watchers::Size { streams: 10_000, items: 1_500, at_once: 5 };

pub(super) const FAULTS: &[(&str, Story)] = &[
    ("F13", |house| told(house, |house| storm::play(house, scaled(house, 4_000, 50_000)))),
    ("F14", |house| told(house, |house| full::play(house, 500))),
    ("F33", |house| told(house, |house| watchers::play(house, scaled(house, FEW, MANY)))),
    ("F34", |house| told(house, |house| streams::play(house, scaled(house, 200, 1_000)))),
    ("F35", |house| told(house, |house| crowds::slow(house, scaled(house, 400, 5_000)))),
    ("F40", |house| told(house, |house| receivers::play(house, scaled(house, 20, 200)))),
];

/// Plays a story on the thread that asks for it: its parts share what is on its stack, and need not be able to move.
pub(super) fn here<'a, F: Future<Output = Result<Played>> + 'a>(
    house: &'a House,
    story: impl FnOnce(&'a House) -> F + Send + 'a,
) -> BoxFuture<'a, Result<Played>> {
    async move { block_in_place(|| Handle::current().block_on(story(house))) }.boxed()
}

/// The same, told as scenes are.
pub(super) fn told<'a, F: Future<Output = Result<Told>> + 'a>(
    house: &'a House,
    story: impl FnOnce(&'a House) -> F + Send + 'a,
) -> BoxFuture<'a, Result<Played>> {
    async move { block_in_place(|| Handle::current().block_on(story(house))).map(Told::played) }.boxed()
}
