//! Routes that add items, and requests that are safe to repeat.

pub mod add_items; // adding items, as an array or as a stream
pub mod idempotency; // idempotent requests
