//! Statements of actions on existing work.

pub mod bulk; // bulk operations
pub mod corrections; // corrected rows and the rows that they replace
pub mod error_group_states; // states of error groups
pub mod item_changes; // items retried or canceled by people
pub mod job_edits; // edits of jobs that their items still follow
pub mod patch; // small edits by people
pub mod replays; // replays of trees
