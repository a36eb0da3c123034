//! All SQL of the server, divided by table family.
//!
//! Functions take connections or transactions and rows of data; they make no decisions. A guarded write returns what
//! it changed, and the caller checks it. Row types stay private to their file.
//!
//! Statements of the hot path must leave the planner no choice, because their tables are empty when plans are made:
//! arrays are passed as `key = any($1)` with `$1` sorted, values are read by `($2)[width_bucket(key, $1)]`, single
//! rows by scalar subquery; never a join between an array and a hot table.

mod commit; // commits of all transactions
#[cfg(feature = "failpoints")]
pub mod fault_injection; // statements without their guards, for fault tests
mod pools;

pub mod alerts; // alerts and their checks
pub mod audit; // the audit log
pub mod bulk; // bulk operations
pub mod claim_requests; // claims with a claim_id
pub mod claim_slots; // slots of a claim
pub mod corrections; // corrected rows and the rows that they replace
pub mod credentials; // tokens, sessions and links by id
pub mod daily_totals; // daily totals of deleted trees
pub mod dedupe; // dedupe keys of items
pub mod definitions; // definitions of job types and jobs for the engine
pub mod deliveries; // callbacks of complete trees
pub mod endings; // outcomes, attempts and error groups
pub mod exports; // every item of a job, for a file
pub mod factors; // second factors of people
pub mod federated_accounts; // external identities
pub mod feeds; // remainders of feeds
pub mod hints; // NOTIFY between servers
pub mod history; // activity of job types over time
pub mod idempotency; // Idempotency-Keys and stored responses
pub mod identity; // owners, sessions, tokens, links
pub mod identity_lists; // lists of services and tokens
pub mod import_mappings; // last used column mappings
pub mod item_list_keys; // keys of items in the order of lists
pub mod item_list_scan; // scans of jobs for lists of items
pub mod item_retries; // items retried or canceled by people
pub mod item_views; // views of items
pub mod items; // items and the tables that hold pending ones
pub mod job_list; // lists of jobs
pub mod job_states; // one row per job: lock, counters, completion
pub mod job_types; // job types for editing
pub mod job_views; // views of jobs
pub mod jobs; // job definitions
pub mod leases; // open assignments
pub mod logs; // log lines of attempts
pub mod maintenance_checks; // due checks of trees
pub mod migrations; // the schema
pub mod outbound_posts; // messages to configured URLs
pub mod outbox; // messages for the broker
pub mod pagination; // pages of lists
pub mod partial_uploads; // resumable uploads
pub mod patch; // small edits by people
pub mod pending_rows; // rows of pending items
pub mod people; // accounts and their sessions
pub mod propagation; // propagation of decisions to rows
pub mod push_assignments; // push assignments
pub mod quotas; // usage of an owner
pub mod replays; // replays of trees
pub mod results; // pages of results and failures
pub mod retention; // deletion and purge of trees
pub mod schedules; // schedules and their runs
pub mod sealed_rows; // rows that are sealed again
pub mod sealing_keys; // keys that seal secrets
pub mod search; // queries of the search
pub mod serialize_queues; // queues of serialize keys
pub mod shares; // links to a tree
pub mod sign_in; // failed sign-ins of all servers
pub mod signing; // the key that signs outgoing requests
pub mod statistics; // statistics for monitoring
pub mod tree_completion; // completion and reopening of trees
pub mod uploads; // stored files
pub mod uptime; // last time at which the service was up
pub mod workers; // workers and last claims

pub use commit::commit;
pub use pools::{Pools, owner_pool};

/// A transaction on PostgreSQL.
pub type Tx = sqlx::Transaction<'static, sqlx::Postgres>;
