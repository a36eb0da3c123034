//! What lives on a page: one island per page, fed by one event stream.
//!
//! The server draws the first state, so the page is right and whole before any of this runs. The island
//! then holds the job as the stream tells it (absolute, versioned state), and once per animation frame
//! writes what changed into the signals that the views read. It decides nothing; when it cannot know,
//! it says so.

pub mod announce;
pub mod board;
pub mod flights;
pub mod import;
pub mod job;
#[cfg(feature = "hydrate")]
mod link;
pub mod liveness;
#[cfg(feature = "hydrate")]
mod paint;
#[cfg(feature = "hydrate")]
mod roots;
pub mod rows;
#[cfg(feature = "hydrate")]
mod session;
pub mod tree;
#[cfg(feature = "hydrate")]
mod watched;
