//! Routes of workers: claims, heartbeats, outcomes, waits, and logs of attempts.

pub mod assignments; // claims, heartbeats and outcomes of workers
pub mod event_waits; // waits of items for events, and the events
pub mod logs; // log lines of attempts
pub mod workers; // workers seen within a day
