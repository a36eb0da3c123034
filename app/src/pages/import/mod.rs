//! Pages of files: the list of imports, the steps that start one, and corrections.

pub mod correct;
pub mod imports;
pub mod new_import;
pub mod progress;
