//! Views: what pages and the API show of jobs and items. No SQL, no counting: gates are added up.

mod brief; // trees in brief, for who watches them all
mod figures; // what monitoring and /stats show
mod items; // single items and those in flight
mod jobs; // jobs and trees
mod listing; // lists of items
mod search; // one search over everything
mod shape; // a tree from its gates
mod topics; // what topics show
mod view; // an item from its row
mod waiting; // why an item is not being worked on

pub use jobs::{GroupFilter, JobFilter};
pub use listing::ItemFilter;

pub(in crate::jobs) use jobs::gone;
pub(in crate::jobs) use shape::version as job_version;
pub(in crate::jobs) use view::{state as item_state, version as item_version};
