//! Event streams: one job, all trees, or any topics over one connection.

pub mod events; // live events of a job
pub(super) mod topics; // topics over one connection
pub mod tree_events; // live events of all trees
