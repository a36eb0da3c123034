//! Query parameters that say how to read a file.
//!
//! They are those of the `upload` in the body of a job, where an error names a field of the body.

use domain::{Code, Problem};
use engine::error::Error;

/// Converts an error about a field of `upload` to one about the query parameter of this name (400 `invalid_parameter`).
pub(super) fn of_query(error: Error) -> Error {
    let Error::Problem(problem) = &error else { return error };
    let field = problem.errors.first().filter(|_| problem.code == Code::InvalidBody);
    let named = field.and_then(|field| Some((field.pointer.strip_prefix("/upload/")?, field)));
    match named {
        Some((name @ ("delimiter" | "encoding" | "header_row" | "sheet"), field)) => {
            Problem::parameter(name, &field.detail).into()
        }
        _ => error,
    }
}
