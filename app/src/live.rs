//! Live parts of pages: one island per page, fed by one event stream.
//!
//! The server renders the first state, so the page is complete before any of this runs. The island then keeps the job
//! as the stream reports it (absolute, versioned state), and once per animation frame writes the changes into the
//! signals that the views read. It decides nothing; if the connection is lost, it says so.

pub mod active_items;
pub mod announce;
#[cfg(feature = "hydrate")]
mod connection;
pub mod import;
pub mod job;
pub mod job_list;
#[cfg(feature = "hydrate")]
mod job_list_session;
#[cfg(feature = "hydrate")]
mod job_row;
pub mod liveness;
#[cfg(feature = "hydrate")]
mod session;
pub mod signals;
#[cfg(feature = "hydrate")]
mod subscription;
pub mod tree;
