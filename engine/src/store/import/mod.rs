//! Statements of uploads, mappings, and exports.

pub mod exports; // every item of a job, for a file
pub mod import_mappings; // last used column mappings
pub mod partial_uploads; // resumable uploads
pub mod results; // pages of results and failures
pub mod uploads; // stored files
