//! All SQL of Treeline, divided by subject like the use cases.
//!
//! Functions take connections or transactions and rows of data; they make no decisions. A guarded write returns what
//! it changed, and the caller checks it. Row types stay private to their file.
//!
//! Statements of the hot path must leave the planner no choice, because their tables are empty when plans are made:
//! arrays are passed as `key = any($1)` with `$1` sorted, values are read by `($2)[width_bucket(key, $1)]`, single
//! rows by scalar subquery; never a join between an array and a hot table.

mod pools;
mod reachability; // waits for a connection, and their end
mod standby; // reads from a hot standby
mod transactions; // beginning and commit of all transactions

pub mod access;
pub mod dispatch;
pub mod enqueue;
pub mod hints; // NOTIFY between servers
pub mod import;
pub mod migrations; // the schema
pub mod notify;
pub mod operator;
pub mod page_range; // pages of lists
pub mod query;
pub mod retention;
pub mod tree;

pub use pools::{Pools, WAIT, batches_at_once, owner_pool};
pub use standby::Standby;
pub use transactions::{begin, commit, deduct_lock_wait, roll_back};

/// A transaction on PostgreSQL.
pub type Tx = sqlx::Transaction<'static, sqlx::Postgres>;
