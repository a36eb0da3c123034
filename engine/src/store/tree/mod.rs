//! Statements of jobs, their state rows, definitions, and schedules.

pub mod completion; // completion and reopening of trees
pub mod definitions; // definitions of job types and jobs for the engine
pub mod feeds; // remainders of feeds
pub mod job_states; // one row per job: lock, counters, completion
pub mod job_types; // job types for editing
pub mod jobs; // job definitions
pub mod propagation; // propagation of decisions to rows
pub mod schedules; // schedules and their runs
pub mod share_links; // links that show one tree
