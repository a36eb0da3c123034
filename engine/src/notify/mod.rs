//! Everything that tells others about work: broker messages, callbacks, alerts, error groups, and the audit log.
//!
//! Messages are rows of the transaction that they report; maintenance tasks of the server send them.

pub mod alerts; // conditions and events that need attention
pub mod audit; // audit log: actor, action, reason
pub mod audit_entry; // entries: actor, object, details
pub mod broker_messages; // messages to the broker
pub mod deliveries; // callbacks of complete trees
pub mod error_groups; // groups of similar errors
pub mod notices; // notices to people about watched trees
