//! Files that become jobs: uploads, how their columns are read, what is wrong in them, and files that go out again.

pub mod export;
pub mod file_check;
pub mod mapping;
pub mod remembered_mapping;
pub mod row_edit;
pub mod settings;
pub mod upload;
