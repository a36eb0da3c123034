//! Pairs of figures to compare, and Treeline's own thresholds.

use crate::peers;

/// A comparison: figures, limits of the same run, and a threshold. The best figure and the best limit count.
pub(crate) type Pair = (&'static [&'static str], &'static [&'static str], Option<f64>);

pub(crate) const RATIOS: &[Pair] = &[
    (&["add in process, 5,000 per call, 2 callers"], BARE_ADD, Some(0.60)),
    (&["add over HTTP, 5,000 per request, 2 callers"], BARE_ADD, Some(0.60)),
    (&["add in process, 1,000,000 items"], BARE_ADD, None),
    (APART, BARE_DRAINS, Some(0.70)),
    (FUSED, BARE_DRAINS, Some(0.85)),
    (&[APART[0]], &[BARE_DRAINS[1]], None),
    (&[APART[1]], &[BARE_DRAINS[3]], None),
    (&[APART[2]], &[BARE_DRAINS[4]], None),
    (&[FUSED[0]], &[BARE_DRAINS[1]], None),
    (&[FUSED[1]], &[BARE_DRAINS[3]], None),
    (&[FUSED[2]], &[BARE_DRAINS[4]], None),
    (&[HTTP_DRAIN], BARE_DRAINS, None),
    (FUSED, &peers::KEEPS_HISTORY, Some(2.0)),
    (APART, &peers::KEEPS_HISTORY, Some(2.0)),
    (&[HTTP_DRAIN], &peers::KEEPS_HISTORY, Some(1.0)),
    (FUSED, &peers::DELETING, None),
    (&[HTTP_DRAIN], &peers::DELETING, None),
    (&["add in process, 5,000 per call, 2 callers"], &peers::ADDING, None),
    (&["drain over HTTP, 1 per request, fused, 64 workers"], SINGLES, Some(0.60)),
    (&["drain over HTTP, 1 per request, fused, 64 workers"], EMPTY_HTTP, None),
    (&[FUSED[0]], &["drain in process, items in 1,000 jobs, fused"], Some(0.90)),
    (
        &["drain in process, items in one tree of 1,000 jobs, fused"],
        &["drain in process, items in 1,000 jobs, fused"],
        Some(0.85),
    ),
    (&["push, one POST per item, 100 in flight"], &["limit: bare HTTP client, 100 POSTs in flight"], Some(0.50)),
    (
        &["create and drain in process, trees of one item, fused"],
        &["add and drain in process, one job, fused"],
        Some(0.40),
    ),
];

const BARE_ADD: &[&str] = &["limit: bare INSERT, 5,000 per statement, 2 connections"];
/// Bare claims and ends of a hundred items, by number of connections.
pub(crate) const BARE_DRAINS: &[&str] = &[
    "limit: bare claim and end of 100, 1 connection",
    "limit: bare claim and end of 100, 2 connections",
    "limit: bare claim and end of 100, 4 connections",
    "limit: bare claim and end of 100, 8 connections",
    "limit: bare claim and end of 100, 16 connections",
];
pub(crate) const APART: &[&str] = &[
    "drain in process, 100 per call, separate claim and end, 2 workers",
    "drain in process, 100 per call, separate claim and end, 8 workers",
    "drain in process, 100 per call, separate claim and end, 16 workers",
];
pub(crate) const FUSED: &[&str] = &[
    "drain in process, 100 per call, fused, 2 workers",
    "drain in process, 100 per call, fused, 8 workers",
    "drain in process, 100 per call, fused, 16 workers",
];
pub(crate) const HTTP_DRAIN: &str = "drain over HTTP, 100 per request, fused, 8 workers";
const SINGLES: &[&str] = &["limit: one row a commit, 64 connections"];
const EMPTY_HTTP: &[&str] = &["limit: HTTP with an empty handler, 64 connections"];
