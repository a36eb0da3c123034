//! Views of jobs and items for pages and the API. No SQL and no counting of rows: job state rows are summed up.

mod error_group; // one error group and its failures over time
mod item_list; // lists of items
mod item_view; // item view built from its row
mod items; // single items and those in flight
mod jobs; // jobs and trees
mod limit_use; // what counts under limits on starts
mod saved_views; // filters of lists under a name
mod search; // one search over everything
mod series; // activity over time
mod statistics; // statistics for monitoring and /stats
mod topics; // states of event stream topics
mod tree_summaries; // summaries of watched trees
mod tree_view; // tree view built from job state rows
mod waiting; // reason why an item is not running

pub use item_list::ItemFilter;
pub use jobs::{GroupFilter, JobFilter};
pub use series::Span;
pub use tree_summaries::TreeSummary;

pub(crate) use error_group::{no_group, require_staff};
pub(crate) use item_view::{state as item_state, version as item_version};
pub(crate) use jobs::job_deleted;
pub(crate) use tree_view::version as job_version;
