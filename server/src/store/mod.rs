//! All SQL of the server, divided by table family.
//!
//! Functions take connections or transactions and rows of data; they make no decisions. A guarded write returns what
//! it changed, and the caller checks it. Row types stay private to their file.
//!
//! Statements of the hot path must leave the planner no choice, because their tables are empty when plans are made:
//! arrays are passed as `key = any($1)` with `$1` sorted, values are read by `($2)[width_bucket(key, $1)]`, single
//! rows by scalar subquery; never a join between an array and a hot table.

#[cfg(feature = "failpoints")]
pub mod broken; // statements without their guards, for fault tests
mod commit; // commits of all transactions
mod pools;

pub mod alerts; // alerts and their checks
pub mod audit; // the audit log
pub mod bulk; // bulk operations
pub mod carry; // propagation of decisions to rows
pub mod claim_requests; // claims with a claim_id
pub mod contracts; // definitions of job types and jobs for the engine
pub mod corrections; // corrected rows and the rows that they replace
pub mod credentials; // tokens, sessions and links by id
pub mod dedupe; // dedupe keys of items
pub mod deliveries; // callbacks of complete trees
pub mod endings; // outcomes, attempts and error groups
pub mod exports; // every item of a job, for a file
pub mod factors; // second factors of people
pub mod federation; // external identities
pub mod feeds; // remainders of feeds
pub mod figures; // statistics for monitoring
pub mod finding; // scans of jobs for lists of items
pub mod gates; // one row per job: lock, counters, completion
pub mod hints; // NOTIFY between servers
pub mod history; // activity of job types over time
pub mod idempotency; // Idempotency-Keys and stored responses
pub mod identity; // owners, sessions, tokens, links
pub mod identity_lists; // lists of services and tokens
pub mod import_mappings; // last used column mappings
pub mod items; // items and the tables that hold pending ones
pub mod job_list; // lists of jobs
pub mod job_types; // job types for editing
pub mod jobs; // job definitions
pub mod keys; // keys of items in the order of lists
pub mod lanes; // queues of serialize keys
pub mod leases; // open assignments
pub mod logs; // log lines of attempts
pub mod migrations; // the schema
pub mod outbox; // messages for the broker
pub mod part; // pages of lists
pub mod partials; // resumable uploads
pub mod patch; // small edits by people
pub mod people; // accounts and their sessions
pub mod posted; // push assignments
pub mod posts; // messages to configured URLs
pub mod quotas; // usage of an owner
pub mod reading; // views of items
pub mod replaying; // replays of trees
pub mod results; // pages of results and failures
pub mod retention; // deletion and purge of trees
pub mod retrying; // items retried or canceled by people
pub mod schedules; // schedules and their runs
pub mod sealed_rows; // rows that are sealed again
pub mod sealing_keys; // keys that seal secrets
pub mod searching; // queries of the search
pub mod settle; // completion and reopening of trees
pub mod shares; // links to a tree
pub mod sign_in; // failed sign-ins of all servers
pub mod signing; // the key that signs outgoing requests
pub mod slots; // slots of a claim
pub mod tended; // due checks of trees
pub mod totals; // daily totals of deleted trees
pub mod trees; // views of jobs
pub mod uploads; // stored files
pub mod uptime; // last time at which the service was up
pub mod waiting; // rows of pending items
pub mod workers; // workers and last claims

pub use commit::commit;
pub use pools::{Pools, owner_pool};

/// A transaction on PostgreSQL.
pub type Tx = sqlx::Transaction<'static, sqlx::Postgres>;
