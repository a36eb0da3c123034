//! Amounts of work for the quick and the full run.

use clap::ValueEnum;

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Length {
    /// Within ten minutes.
    Quick,
    /// As long as it needs.
    Full,
}

/// Amounts of work of a run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sizes {
    pub(crate) name: &'static str,
    /// Items of one drain.
    pub(crate) items: u64,
    /// Number of rounds; the figures are medians.
    pub(crate) rounds: usize,
    /// Size of the backlog for claims.
    pub(crate) backlog: u64,
    /// Number of requests for each page.
    pub(crate) pages: usize,
    /// Number of items added one by one to an idle server.
    pub(crate) idle: usize,
    /// Seconds of each steady load.
    pub(crate) load_seconds: u64,
    /// Numbers of watchers of one job.
    pub(crate) watchers: &'static [usize],
    /// Number of waiting claims.
    pub(crate) waiting: usize,
    /// Numbers of workers with one item per request.
    pub(crate) workers: &'static [usize],
}

pub(crate) const QUICK: Sizes = Sizes {
    name: "quick",
    items: 50_000,
    rounds: 3,
    backlog: 1_000_000,
    pages: 150,
    idle: 300,
    load_seconds: 4,
    watchers: &[0, 1, 100, 1_000],
    waiting: 1_000,
    workers: &[1, 4, 16, 64, 256],
};

pub(crate) const FULL: Sizes = Sizes {
    name: "full",
    items: 200_000,
    rounds: 5,
    backlog: 1_000_000,
    pages: 500,
    idle: 1_000,
    load_seconds: 60,
    watchers: &[0, 1, 100, 1_000, 10_000],
    waiting: 2_000,
    workers: &[1, 2, 4, 8, 16, 32, 64, 128, 256],
};
