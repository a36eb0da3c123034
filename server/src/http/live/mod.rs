//! Event streams: one job, all trees, or any topics over one connection.

pub mod all_trees_events; // live events of all trees
pub mod job_events; // live events of a job
mod stream; // opening, sending and end of every stream
mod topics; // topics over one connection
