//! Event streams: one job, all trees, or any topics over one connection.

pub mod all_trees_events;
pub mod job_events; // live events of a job
pub(super) mod topics; // topics over one connection // live events of all trees
