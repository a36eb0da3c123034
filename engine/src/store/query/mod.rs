//! Statements of lists, views, search, and statistics.

pub mod daily_totals; // daily totals of deleted trees
pub mod error_groups; // one error group with its jobs and owners
pub mod error_history; // failures of error groups over time
pub mod history; // activity of job types over time
pub mod item_list_jobs; // scans of jobs for lists of items
pub mod item_list_keys; // keys of items in the order of lists
pub mod item_views; // views of items
pub mod job_history; // activity of jobs over time
pub mod job_list; // lists of jobs
pub mod job_views; // views of jobs
pub mod saved_views; // saved views
pub mod search; // queries of the search
pub mod search_keys; // jobs and items by the beginning of a key
pub mod search_names; // operations, schedules, people, and services by id and name
pub mod statistics; // statistics for monitoring
