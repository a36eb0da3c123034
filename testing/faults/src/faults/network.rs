//! Faults of the network: cut connections, lost responses, wrong clocks.

mod callbacks; // cuts on the connection to the callback receiver
mod clock_jumps; // clocks that jump
mod cuts; // a cut after every byte
mod replies; // lost responses

use super::{Scenario, clients::with_findings, scaled};

pub(super) const FAULTS: &[(&str, Scenario)] = &[
    ("F28a", |context| {
        with_findings(context, |context| cuts::run(context, cuts::CutConnection::Worker, scaled(context, 41, 1)))
    }),
    ("F28b", |context| {
        with_findings(context, |context| cuts::run(context, cuts::CutConnection::Database, scaled(context, 601, 3)))
    }),
    ("F28c", |context| with_findings(context, |context| callbacks::run(context, scaled(context, 41, 1)))),
    ("F29", |context| with_findings(context, |context| replies::run(context, scaled(context, 60, 1_000)))),
    ("F30", |context| with_findings(context, |context| clock_jumps::run(context, scaled(context, 30, 300)))),
];
