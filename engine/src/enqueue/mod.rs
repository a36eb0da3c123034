//! Items on their way into jobs: checks, placement (ready, deferred, blocked), dedupe keys, serialize queues, and
//! Idempotency-Keys.
//!
//! Items that arrive together are added by one transaction (`add`). Nothing here hands out work.

pub mod add; // adding items from requests and files
pub mod debounce; // items merged into waiting ones
pub mod fair_groups; // fair turns of owners and keys
pub mod idempotency_keys; // Idempotency-Keys of adding items
pub mod item_intake; // items on their way into jobs
pub mod item_validation; // items checked before they are added
pub mod key_locks; // requests with the same Idempotency-Key, one after the other
pub mod limit_keys; // keys of limits, and the items that they park
pub mod low_water_marks; // low-water marks of claims
pub mod serialize_queues; // serialize keys
pub mod turn_counters; // fair turns that no row stores
