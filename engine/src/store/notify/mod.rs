//! Statements of outgoing messages, alerts, and the audit log.

pub mod alert_channels; // receivers of alerts, and their messages
pub mod alerts; // alerts and their checks
pub mod audit; // the audit log
pub mod deliveries; // callbacks of complete trees
pub mod notices; // notices to people, and watches
pub mod outbound_posts; // messages to configured URLs
pub mod outbox; // messages for the broker
pub mod signing; // the key that signs outgoing requests
