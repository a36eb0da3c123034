//! The rules of Treeline and the contract it shares with its clients and pages.
//!
//! Everything here is pure: no I/O, no clock, no randomness. Functions that decide take `now` as an
//! argument. The crate builds for the browser too, so that server, worker, command line and page
//! compile against one set of types.
//!
//! # Words
//!
//! - **owner**: whose work it is; a user or a service.
//! - **job type**: the contract shared by all jobs of a kind ([`JobType`]).
//! - **job**: a node of a tree and a container of items ([`Job`]).
//! - **tree**: a root job and everything below it; its shape is fixed when it is created.
//! - **item**: one unit of work: a payload, its state, and its result ([`Item`]).
//! - **assignment**: one item given to one worker under a lease; its id guards every write of the worker.
//! - **attempt**: the ordinal of an assignment within its item; only grows.
//! - **failure**: an attempt that ended failed or lost; what the retry budget counts.
//! - **step**: a named recovery point inside an item.
//! - **dead letter**: an item in state [`ItemState::Dead`], waiting for a person.
//! - **seal**: the promise that a job gets no more items.
//! - **executor**: who does the work of a type: workers that pull, a URL, or Treeline itself.

mod time;

pub mod api;
pub mod bounded;
pub mod debounce;
pub mod dispatch;
pub mod document;
pub mod event_wait;
pub mod fair_by;
pub mod fingerprint;
pub mod id;
pub mod identity;
pub mod import;
pub mod item;
pub mod job;
pub mod job_type;
pub mod limits;
pub mod notice;
pub mod notify;
pub mod problem;
pub mod query;
pub mod saved_view;
pub mod strict_json;
pub mod tree;

pub use document::Document;
pub use item::{Item, ItemState};
pub use job::{Counts, Job, JobStatus, Outcome};
pub use job_type::JobType;
pub use problem::{Code, Problem};
pub use time::Time;
