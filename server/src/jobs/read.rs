//! Views: what pages and the API show of jobs and items. No SQL, no counting: gates are added up.

mod items;
mod jobs;

pub use items::ItemFilter;
pub use jobs::JobFilter;
