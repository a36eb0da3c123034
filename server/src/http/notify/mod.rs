//! Routes of what Treeline tells others: alerts, their channels, deliveries, and the audit log.

pub mod alert_channels; // receivers of alerts
pub mod alerts; // alerts, listed and raised
pub mod audit; // listing and export of the audit log
pub mod deliveries; // callbacks of complete trees
