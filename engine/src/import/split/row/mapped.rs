//! Payloads by a column mapping: only the mapped columns, under their new names, with converted values.

use std::collections::HashMap;

use domain::{Document, import::mapping::Conversion};

use super::{
    super::{convert, record_cutter::Cut},
    ColumnRule, Fault, FaultKind, Head, RowMaker, shorten, workbook_row,
};

/// Mapped column of a row.
#[derive(Debug)]
pub(super) struct MappedCell {
    /// Index of the column in the file.
    source: usize,
    /// Name of the property as a JSON string.
    key: String,
    conversion: Conversion,
    /// Expectations by schema; the kind is for text.
    rule: ColumnRule,
}

/// Mapped columns of a file, in the order of the payload; `None` without a mapping. `rules` are in the same order.
pub(super) fn mapped_cells(head: &Head, rules: &[ColumnRule]) -> Option<Vec<MappedCell>> {
    let mapping = head.mapping.as_ref()?;
    let names = head.data_columns().unwrap_or_default().iter().enumerate();
    let sources: HashMap<&str, usize> = names.map(|(at, name)| (name.as_str(), at)).collect();
    let cell = |(place, column): (usize, &domain::import::mapping::MappedColumn)| {
        Some(MappedCell {
            source: *sources.get(column.from.as_str())?,
            key: Document::of(&column.to).text().to_owned(),
            // Checked when the job was created.
            conversion: column.conversion().unwrap_or(Conversion::Text),
            rule: rules.get(place).copied().unwrap_or_default(),
        })
    };
    Some(mapping.columns.iter().enumerate().filter_map(cell).collect())
}

/// Cell before the conversion.
#[derive(Clone, Copy)]
pub(super) enum Raw<'a> {
    Text(&'a str),
    /// Of a workbook.
    Json(&'a str),
}

impl Raw<'_> {
    fn convert(self, cell: &MappedCell) -> Option<String> {
        match self {
            Self::Text(text) => convert::convert(text, cell.conversion, cell.rule.kind),
            Self::Json(json) => convert::convert_json(json, cell.conversion, cell.rule.kind),
        }
    }

    /// The cell as it is, as JSON.
    fn unconverted(self) -> String {
        match self {
            Self::Text(text) => Document::of(&text).text().to_owned(),
            Self::Json(json) => json.to_owned(),
        }
    }
}

/// Object of the mapped cells. A cell that cannot be converted stays as it is, and a missing one is left out,
/// like an empty one that the schema refuses.
pub(super) fn mapped_object<'a>(mapped: &[MappedCell], raw: impl Fn(usize) -> Option<Raw<'a>>) -> String {
    let mut json = String::from("{");
    for cell in mapped {
        let Some(raw) = raw(cell.source) else { continue };
        let value = raw.convert(cell).unwrap_or_else(|| raw.unconverted());
        if cell.rule.omits(&value) {
            continue;
        }
        if json.len() > 1 {
            json.push(',');
        }
        json.push_str(&cell.key);
        json.push(':');
        json.push_str(&value);
    }
    json.push('}');
    json
}

impl RowMaker {
    /// Returns true if a column becomes a part of the payload.
    pub(super) fn is_used(&self, column: usize) -> bool {
        self.mapped.as_ref().is_none_or(|mapped| mapped.iter().any(|cell| cell.source == column))
    }

    /// Writes cells of a workbook as text that the mapping reads in the same way: numbers and dates in the notations of
    /// their columns.
    pub(super) fn write_notations(&self, values: &[String], texts: &mut [String]) {
        for cell in self.mapped.iter().flatten() {
            let (Some(json), Some(text)) = (values.get(cell.source), texts.get_mut(cell.source)) else { continue };
            let converted = Raw::Json(json).convert(cell);
            // Text that was refused stays as it is.
            if converted.is_some() || !json.starts_with('"') {
                let value = converted.as_ref().unwrap_or(json);
                let value = workbook_row::text_of(value);
                *text = convert::in_file_notation(&value, cell.conversion).into_owned();
            }
        }
    }

    /// Fault of the first mapped cell that cannot be converted.
    pub(super) fn conversion_fault<'a>(&self, cut: &Cut, raw: impl Fn(usize) -> Option<Raw<'a>>) -> Option<Fault> {
        self.mapped.iter().flatten().find_map(|cell| {
            let raw = raw(cell.source)?;
            if raw.convert(cell).is_some() {
                return None;
            }
            let found = shorten(&raw.unconverted(), 100);
            Some(self.fault(cut, FaultKind::InvalidRow, cell.source, cell.conversion.expected(), found))
        })
    }
}
