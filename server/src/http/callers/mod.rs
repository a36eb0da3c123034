//! Extractors of handlers: who calls, and whether the request comes from our own pages.
//!
//! `auth` decides which credentials are valid; here they are read from requests.

mod extract;
pub mod origin; // hosts and cross-site requests
mod viewer; // callers or share links
mod worker; // callers with the scope work

pub use extract::{CallerSlot, KnownCaller, MaybeCaller, SeenCaller};
pub use viewer::{Viewer, record_share_use};
pub use worker::Worker;
