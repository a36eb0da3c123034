//! Views of jobs and items for pages and the API. No SQL and no counting of rows: job state rows are summed up.

mod brief; // summaries of watched trees
mod figures; // statistics for monitoring and /stats
mod items; // single items and those in flight
mod jobs; // jobs and trees
mod listing; // lists of items
mod search; // one search over everything
mod series; // activity over time
mod shape; // tree view built from job state rows
mod topics; // states of event stream topics
mod view; // item view built from its row
mod waiting; // reason why an item is not running

pub use jobs::{GroupFilter, JobFilter};
pub use listing::ItemFilter;
pub use series::Span;

pub(in crate::jobs) use jobs::gone;
pub(in crate::jobs) use shape::version as job_version;
pub(in crate::jobs) use view::{state as item_state, version as item_version};
