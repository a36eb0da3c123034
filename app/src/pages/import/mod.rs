//! Pages of files: the list of imports, the steps that start one, and corrections.

pub mod correct;
pub mod imports;
pub mod new_import;
pub mod progress;

/// Reason of an error such as `Line 51, column 2 (amount): expected a number` or `Column amount: expected a number`, for the
/// cell that has the place already.
fn without_place(error: &str) -> Option<String> {
    let (place, reason) = error.split_once(": expected ")?;
    let is_cell = place.starts_with("Column ") || place.starts_with("Line ") && place.contains(", column ");
    is_cell.then(|| format!("Expected {reason}"))
}
