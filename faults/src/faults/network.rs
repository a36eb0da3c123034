//! Wires that break, answers that are lost, clocks that are wrong.

mod callbacks; // a cut on the way to who is called back
mod clock; // clocks that jump
mod cuts; // a cut at every place
mod replies; // answers that are lost

use super::{Story, clients::told, scaled};

pub(super) const FAULTS: &[(&str, Story)] = &[
    ("F28a", |house| told(house, |house| cuts::play(house, cuts::Wire::Worker, scaled(house, 41, 1)))),
    ("F28b", |house| told(house, |house| cuts::play(house, cuts::Wire::Database, scaled(house, 601, 3)))),
    ("F28c", |house| told(house, |house| callbacks::play(house, scaled(house, 41, 1)))),
    ("F29", |house| told(house, |house| replies::play(house, scaled(house, 60, 1_000)))),
    ("F30", |house| told(house, |house| clock::play(house, scaled(house, 30, 300)))),
];
