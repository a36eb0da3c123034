//! Work in progress: assignments, retries, limits, and the reasons why an item waits.

pub mod assignment;
pub mod progress;
pub mod rate_window;
pub mod retry;
pub mod traceparent;
pub mod transition;
pub mod type_limits;
pub mod waiting_reason;
