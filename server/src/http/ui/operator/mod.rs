//! Pages and forms of operators: items, edits of payloads, and operations on many rows.

pub(super) mod bulk; // bulk operations
pub(super) mod edits; // payload edits as typed
pub(super) mod items; // items, failures first
pub(super) mod operations; // overview and workers, for staff
