//! Rows of a file against the schema of their type.

use domain::import::upload::UploadFormat;

use engine::{
    import::split::{Fault, FaultKind, Head, Row},
    schema::Schema,
};

/// Returns the schema error of a row, if any. `head`: of its file.
pub(crate) fn misfit(schema: &Schema, row: &Row, head: &Head) -> Option<Fault> {
    let (pointer, expected) = schema.faults(&row.payload).into_iter().next()?;
    let (format, columns) = (head.format, head.payload_columns());
    let first = pointer.split('/').nth(1).unwrap_or_default().replace("~1", "/").replace("~0", "~");
    let place = match (format, &columns) {
        (UploadFormat::Csv | UploadFormat::Xlsx, Some(columns)) => columns.iter().position(|name| *name == first),
        (UploadFormat::Csv | UploadFormat::Xlsx, None) => first.parse().ok(),
        _ => None,
    };
    let found = engine::schema::display_value(&row.payload, &pointer);
    Some(Fault {
        kind: FaultKind::InvalidRow,
        line: row.line,
        column: place.and_then(|place| head.source_column(place)).map_or(1, |column| column + 1),
        name: (columns.is_some() || !format.is_table()).then_some(if pointer.is_empty() {
            "the whole row".to_owned()
        } else if place.is_some() {
            first
        } else {
            pointer
        }),
        expected: expected.strip_prefix("expected ").map_or(expected.clone(), str::to_owned),
        found,
        extra: Vec::new(),
    })
}
