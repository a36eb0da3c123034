//! Pages of files: the list of imports, the steps that start one, and corrections.

pub(super) mod correct; // correction of failed rows
pub(super) mod imports; // uploads and their jobs
pub(super) mod new_import; // the steps that start an import
