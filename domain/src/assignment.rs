//! Leases: how long an assignment lives without a sign of life (rule 7).

/// A lease is lost after this many missed heartbeats.
pub const MISSED_HEARTBEATS: f64 = 3.0;

/// Seconds without a heartbeat after which an assignment is lost.
pub fn lease_seconds(heartbeat_seconds: f64) -> f64 {
    heartbeat_seconds * MISSED_HEARTBEATS
}
