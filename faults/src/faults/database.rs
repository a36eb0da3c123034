//! Faults of the database: crashes, latency, a full disk, crowds, and terminated sessions.

mod churn; // old snapshots, and random concurrent calls
mod crashes; // crashes, restarts, terminated sessions
mod disk; // a full disk
mod herd; // simultaneous reconnects
mod migrations; // servers that start next to others
mod slow; // latency

use std::time::Duration;

use super::{
    Story,
    clients::{here, told},
    scaled,
};
use crate::stage::House;

pub(super) const FAULTS: &[(&str, Story)] = &[
    ("F10", |house| here(house, crashes::crashes)),
    ("F11", |house| here(house, crashes::restarts)),
    ("F12", |house| here(house, slow::play)),
    ("F15", |house| told(house, |house| churn::bloat(house, seconds(house, 10, 600)))),
    ("F16", |house| told(house, |house| churn::crowd(house, seconds(house, 8, 600)))),
    ("F17a", |house| told(house, |house| disk::play(house, seconds(house, 8, 60)))),
    ("F19", |house| told(house, |house| migrations::play(house, scaled(house, 4, 20)))),
    ("F20", |house| here(house, crashes::sessions)),
    ("F41", |house| told(house, |house| herd::play(house, house.items))),
];

fn seconds(house: &House, quick: u64, full: u64) -> Duration {
    Duration::from_secs(scaled(house, quick, full))
}
