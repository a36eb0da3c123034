//! Jobs and their trees: creation, dependencies, feeds, completion, cancellation, schedules, and share links.
//!
//! A decision about a tree that touches many rows is recorded in the transaction and propagated in batches
//! (`propagation`).

pub mod bulk_tally; // members of a bulk operation that are counted with their change
pub mod cancel; // canceling items, and jobs with their descendants
pub mod cancelled_jobs; // canceled jobs that are not swept yet
pub mod completion; // completion of trees of several jobs
pub mod create; // new trees
pub mod dependency_graph; // dependency graph of a tree
pub mod feed; // items of a parent become items of its children
pub mod finish_batch; // last statements of a batch that moves items
pub mod propagation; // propagation of decisions to rows
pub mod schedules; // trees created by cron expressions
pub mod share_links; // links that show one tree
