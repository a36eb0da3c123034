//! Routes that only read: lists with filters, results, statistics, and search.

pub mod cursor; // cursors of lists
pub mod items; // items and dead letters
pub(super) mod plain_list; // parameters of lists without filters
pub mod results; // results and failures as streams
pub mod search; // search over all kinds of objects
pub mod series; // activity of job types over time
pub(super) mod sort; // sort orders of lists
pub mod stats; // statistics of every job type
pub mod views; // saved views
