//! Trees of jobs: their shape, feeds between jobs, changes, and links that share one.

pub mod change;
pub mod feed;
pub mod shape;
pub mod share_link;
