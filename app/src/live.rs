//! Live parts of pages: one island per page, fed by one event stream.
//!
//! The server renders the first state, so the page is complete before any of this runs. The island then keeps the job
//! as the stream reports it (absolute, versioned state), and once per animation frame writes the changes into the
//! signals that the views read. It decides nothing; if the connection is lost, it says so.

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
