//! Pages and forms of operators: the overview, workers, items, edits of payloads, and
//! operations on many rows.

pub(super) mod activity_charts; // data of charts
pub(super) mod bulk; // bulk operations
pub(super) mod edits; // payload edits as typed
pub(super) mod items; // items, failures first
pub(super) mod overview; // current activity, for staff
pub(super) mod workers; // workers, for staff
