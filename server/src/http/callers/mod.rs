//! Extractors of handlers: who calls, and whether the request comes from our own pages.
//!
//! `auth` decides which credentials are valid; here they are read from requests.

mod extract;
pub mod origin; // hosts and cross-site requests
mod permitted; // callers with a permission
mod viewer; // callers or share links

pub use extract::{CallerSlot, KnownCaller, MaybeCaller, SeenCaller, is_known};
pub use permitted::{Admin, BulkWriter, Person, Reader, ReaderOrWorker, Staff, Worker, Writer};
pub use viewer::{Viewer, record_share_use};
