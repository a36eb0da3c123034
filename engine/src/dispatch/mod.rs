//! Work handed to workers: claims, heartbeats, endings of attempts, leases, and the state after a failure.
//!
//! Endings and claims that arrive together run as one batch in one transaction (`work_batch`). An item leaves `running`
//! only here. The clock is the database's.

pub mod already_closed; // assignments that are closed
pub mod assignment_endings; // ending half of a work batch
pub mod builtin_executors; // built-in executors
pub mod claim; // claiming half of a work batch
pub mod ending_validation; // validation of requested endings
pub mod event_waits; // events for items that wait for one
pub mod failure_outcome; // outcome of an item without a result
pub mod heartbeat_batch; // heartbeats and steps
pub mod logs; // log lines of attempts
pub mod rate_limit_wakeups; // claims woken when a rate limit allows more
pub mod sweep; // sweeps of background tasks: lost leases, due items, expiry
pub mod waiting_claims; // waiting claims
#[cfg(feature = "failpoints")]
pub mod without_lease_check; // endings without a lease check, in fault-injection builds
pub mod work_batch; // endings and claims in one transaction
pub mod workers; // workers that sent claims
