//! The only SQL of the server, divided by table family.
//!
//! Functions here take connections or transactions and rows of data; they decide nothing. A guarded
//! write returns what it changed, and the caller looks. Row types stay private to their file.
//!
//! Statements of the hot path must not be able to choose a bad plan, because their tables are empty
//! when plans are made: arrays go in as `key = any($1)` with `$1` sorted, values come out by
//! `($2)[width_bucket(key, $1)]`, single rows by scalar subquery; never a join between an array and a
//! hot table.

#[cfg(feature = "failpoints")]
pub mod broken; // statements without their guards, in builds made to fail
mod commit; // the end of every transaction
mod pools;

pub mod alerts; // what somebody should look at
pub mod audit; // who did what
pub mod bulk; // deeds over many
pub mod carry; // rows that follow a decision
pub mod claim_requests; // claims that named themselves
pub mod contracts; // what the engine needs to know of every job type
pub mod corrections; // rows of a corrected file, and those that they replace
pub mod credentials; // tokens, sessions and links by id
pub mod dedupe; // dedupe keys of items
pub mod deliveries; // callbacks of complete trees
pub mod endings; // outcomes, attempts, and what an ended assignment ended as
pub mod exports; // every item of a job, for a file
pub mod factors; // second factors of people
pub mod federation; // accounts that others vouch for
pub mod feeds; // what feeds still owe
pub mod figures; // what monitoring reads
pub mod finding; // where lists of items look
pub mod gates; // one row a job: lock, counters, completion
pub mod hints; // NOTIFY between servers
pub mod history; // activity of job types over time
pub mod idempotency; // requests that are sent again
pub mod identity; // owners, sessions, tokens, links
pub mod identity_lists; // services and tokens as lists show them
pub mod import_mappings; // column mappings that owners used last
pub mod items; // items and the tables that hold pending ones
pub mod job_list; // lists of jobs
pub mod job_types; // job types as people edit them
pub mod jobs; // job definitions
pub mod keys; // keys of items in the order of lists
pub mod lanes; // serialize keys
pub mod leases; // open assignments
pub mod logs; // log lines of attempts
pub mod migrations; // the schema itself
pub mod outbox; // what is to be said on the broker
pub mod part; // parts of lists
pub mod partials; // files that come a piece at a time
pub mod patch; // small edits by people
pub mod people; // accounts and their sessions
pub mod posted; // assignments that were posted to a worker
pub mod posts; // messages to URLs of the configuration
pub mod quotas; // what an owner has
pub mod reading; // what pages and the API show of items
pub mod replaying; // trees made again
pub mod results; // results and failures, streamed
pub mod retention; // trees that go
pub mod retrying; // items that a person gives back
pub mod schedules; // schedules and their runs
pub mod sealed_rows; // rows that are sealed again
pub mod sealing_keys; // which key seals secrets
pub mod searching; // statements of the search
pub mod settle; // gates of trees, one by one
pub mod shares; // links to a tree
pub mod sign_in; // failed sign-ins, for all servers
pub mod signing; // the key that signs what goes out
pub mod slots; // places for what is claimed
pub mod tended; // when to look at which tree
pub mod totals; // what trees that are gone amounted to
pub mod trees; // what pages and the API show of jobs
pub mod uploads; // stored files
pub mod uptime; // when service was last known to be up
pub mod waiting; // items taken from where they wait
pub mod workers; // who asked for work

pub use commit::commit;
pub use pools::{Pools, owner_pool};

/// A transaction on PostgreSQL.
pub type Tx = sqlx::Transaction<'static, sqlx::Postgres>;
