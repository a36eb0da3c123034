//! Routes of trees: creating, reading, sharing, scheduling, and deleting them.

pub mod jobs; // creating, reading and sealing jobs
pub mod remove; // deleting and pinning trees
pub mod schedules; // schedules and their ticks
pub mod share_links; // share links of a tree
