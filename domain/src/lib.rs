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
//! - **item**: one unit of work: an immutable payload and what became of it ([`Item`]).
//! - **assignment**: one item given to one worker under a lease; its id guards every write of the worker.
//! - **attempt**: the ordinal of an assignment within its item; only grows.
//! - **failure**: an attempt that ended failed or lost; what the retry budget counts.
//! - **step**: a named recovery point inside an item.
//! - **dead letter**: an item in state [`ItemState::Dead`], waiting for a person.
//! - **seal**: the promise that a job gets no more items.
//! - **executor**: who does the work of a type: workers that pull, a URL, or Treeline itself.

mod time;

pub mod access;
pub mod account;
pub mod alert;
pub mod alert_channel;
pub mod api;
pub mod assignment;
pub mod audit;
pub mod bounded;
pub mod broker_messages;
pub mod change;
pub mod delivery;
pub mod document;
pub mod event_wait;
pub mod export;
pub mod factors;
pub mod feed;
pub mod file_check;
pub mod filter;
pub mod fingerprint;
pub mod histogram;
pub mod id;
pub mod import;
pub mod item;
pub mod job;
pub mod job_type;
pub mod limits;
pub mod mapping;
pub mod owner;
pub mod problem;
pub mod progress;
pub mod rate_window;
pub mod remembered_mapping;
pub mod retry;
pub mod row_edit;
pub mod share;
pub mod strict_json;
pub mod topic;
pub mod traceparent;
pub mod transition;
pub mod tree;
pub mod type_limits;
pub mod upload;
pub mod waiting_reason;

pub use document::Document;
pub use item::{Item, ItemState};
pub use job::{Counts, Job, JobStatus, Outcome};
pub use job_type::JobType;
pub use problem::{Code, Problem};
pub use time::Time;
