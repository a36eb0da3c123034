//! Check of a column mapping and of edited rows against the header of the file and the schema of the type.

use std::collections::HashSet;

use domain::{
    Code, Problem,
    import::{mapping::Mapping, row_edit::RowEdit},
    problem::FieldProblem,
};

use crate::{
    import::split::{Head, MappingError},
    schema::compiled,
};

/// Returns the head with the mapping and the edits. Refuses columns that the file does not have (`invalid_body`), and a
/// mapping, or without one a header, that leaves out properties that the schema requires (`mapping_incomplete`).
/// `pointer`: the job in the body.
pub fn fit_head(
    head: Head,
    mapping: Option<Mapping>,
    edits: &[RowEdit],
    schema: Option<&str>,
    pointer: &str,
) -> Result<Head, Problem> {
    let wrong = |(inner, expected)| (format!("{pointer}/edits{inner}"), expected);
    let head = head.with_edits(edits).map_err(|found| Problem::invalid_body(found.into_iter().map(wrong)))?;
    match mapping {
        Some(mapping) => apply(head, mapping, schema, pointer),
        None => match head.data_columns() {
            Some(columns) => {
                let missing = missing(schema, &columns.iter().map(String::as_str).collect());
                if missing.is_empty() { Ok(head) } else { Err(without_columns(&missing, pointer)) }
            }
            None => Ok(head),
        },
    }
}

/// Properties that the schema requires and that no column fills.
fn missing(schema: Option<&str>, filled: &HashSet<&str>) -> Vec<String> {
    let required = schema.and_then(|text| compiled(text).ok()).map(|schema| schema.names().1).unwrap_or_default();
    required.into_iter().filter(|name| !filled.contains(name.as_str())).collect()
}

fn without_columns(missing: &[String], pointer: &str) -> Problem {
    let detail = format!(
        "The type requires columns that the file does not have: {}. Add them, or name columns of the file for them in \
         a mapping.",
        missing.join(", ")
    );
    let error = |name: &String| FieldProblem {
        pointer: format!("{pointer}/upload"),
        detail: format!("expected a file with a column {name:?}"),
    };
    Problem { errors: missing.iter().map(error).collect(), ..Problem::new(Code::MappingIncomplete, detail) }
}

fn apply(head: Head, mapping: Mapping, schema: Option<&str>, pointer: &str) -> Result<Head, Problem> {
    let missing = missing(schema, &mapping.columns.iter().map(|column| column.to.as_str()).collect());
    let head = head.with_mapping(mapping).map_err(|error| match error {
        MappingError::NoNames => {
            let expected = "expected only for CSV or a workbook, with a header";
            Problem::invalid_body([(format!("{pointer}/mapping"), expected.to_owned())])
        }
        MappingError::Unknown(places) => Problem::invalid_body(places.into_iter().map(|place| {
            (format!("{pointer}/mapping/columns/{place}/from"), "expected the name of a column of the file".to_owned())
        })),
    })?;
    if missing.is_empty() {
        return Ok(head);
    }
    let detail = format!("The type requires columns that the mapping does not fill: {}.", missing.join(", "));
    let error = |name: String| FieldProblem {
        pointer: format!("{pointer}/mapping/columns"),
        detail: format!("expected a column with \"to\": {name:?}"),
    };
    let errors = missing.into_iter().map(error).collect();
    Err(Problem { errors, ..Problem::new(Code::MappingIncomplete, detail) })
}
