//! Faults of the database: crashes, latency, a full disk, crowds, and terminated sessions.

mod churn; // old snapshots, and random concurrent calls
mod crashes; // crashes, restarts, terminated sessions, rejected writes
mod disk; // a full disk
mod herd; // simultaneous reconnects
mod migrations; // servers that start next to others
mod slow; // latency

use std::time::Duration;

use super::{
    Scenario,
    clients::{on_this_thread, with_findings},
    scaled,
};
use crate::fixture::RunContext;

pub(super) const FAULTS: &[(&str, Scenario)] = &[
    ("F10", |context| on_this_thread(context, crashes::crashes)),
    ("F11", |context| on_this_thread(context, crashes::restarts)),
    ("F12", |context| on_this_thread(context, slow::run)),
    ("F15", |context| with_findings(context, |context| churn::bloat(context, seconds(context, 10, 600)))),
    ("F16", |context| with_findings(context, |context| churn::crowd(context, seconds(context, 8, 600)))),
    ("F17a", |context| with_findings(context, |context| disk::run(context, seconds(context, 8, 60)))),
    ("F19", |context| with_findings(context, |context| migrations::run(context, scaled(context, 4, 20)))),
    ("F20", |context| on_this_thread(context, crashes::sessions)),
    ("F41", |context| with_findings(context, |context| herd::run(context, context.items))),
    ("F44", |context| on_this_thread(context, crashes::read_only)),
];

fn seconds(context: &RunContext, quick: u64, full: u64) -> Duration {
    Duration::from_secs(scaled(context, quick, full))
}
