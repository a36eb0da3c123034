//! Routes of files: uploads in one request or in parts, their check, mappings, and templates.

pub(super) mod byte_range; // range requests
pub mod file_check; // all rows of an upload
pub mod import_template; // template files of job types
pub(super) mod multipart; // forms with a file
pub(super) mod reading_parameters; // how to read a file
pub mod resumable; // resumable uploads
pub mod suggestion; // suggested column mappings
pub mod uploads; // file upload and download
