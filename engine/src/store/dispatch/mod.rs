//! Statements of claims, leases, and endings: the hot path.

pub mod claim_requests; // claims with a claim_id
pub mod claim_slots; // slots of a claim
pub mod endings; // outcomes, attempts and error groups
pub mod event_waits; // waits of items for events
pub mod leases; // open assignments
pub mod logs; // log lines of attempts
pub mod push_assignments; // push assignments
pub mod rate_windows; // recent starts under rate limits
pub mod traces; // items of spans
#[cfg(feature = "failpoints")]
pub mod unguarded_statements; // statements without their guards, for fault tests
pub mod uptime; // last time at which the service was up
pub mod worker_history; // ended attempts and last errors of workers
pub mod workers; // workers and last claims
