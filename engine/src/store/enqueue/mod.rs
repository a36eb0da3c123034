//! Statements that add items, and the tables of pending items.

pub mod debounces; // items with debounce keys
pub mod dedupe; // dedupe keys of items
pub mod fair_groups; // fair turns of groups
pub mod idempotency; // Idempotency-Keys and stored responses
pub mod items; // items and the tables that hold pending ones
pub mod parked_items; // items parked by the limit of a key
pub mod pending_rows; // rows of pending items
pub mod serialize_queues; // queues of serialize keys
