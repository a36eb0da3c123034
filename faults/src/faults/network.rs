//! Faults of the network: cut connections, lost responses, wrong clocks.

mod callbacks; // cuts on the connection to the callback receiver
mod clock; // clocks that jump
mod cuts; // a cut after every byte
mod replies; // lost responses

use super::{Story, clients::told, scaled};

pub(super) const FAULTS: &[(&str, Story)] = &[
    ("F28a", |house| told(house, |house| cuts::play(house, cuts::Wire::Worker, scaled(house, 41, 1)))),
    ("F28b", |house| told(house, |house| cuts::play(house, cuts::Wire::Database, scaled(house, 601, 3)))),
    ("F28c", |house| told(house, |house| callbacks::play(house, scaled(house, 41, 1)))),
    ("F29", |house| told(house, |house| replies::play(house, scaled(house, 60, 1_000)))),
    ("F30", |house| told(house, |house| clock::play(house, scaled(house, 30, 300)))),
];
