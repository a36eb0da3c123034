//! What Treeline tells others: alerts and their channels, deliveries, messages of the broker.

pub mod alert;
pub mod alert_channel;
pub mod broker_messages;
pub mod delivery;
