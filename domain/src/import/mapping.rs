//! Column mapping of an import: the columns of a file that become properties of the payload, and their conversion.

use std::collections::HashSet;

use serde::{Deserialize, Serialize};

use crate::{bounded, limits::is_text};

/// Maximum number of mapped columns.
pub const MOST_MAPPED_COLUMNS: usize = 10_000;

/// Maximum characters of the name of a column or a property.
pub const LONGEST_COLUMN: usize = 1_000;

/// Columns of a table with a header and the properties that they become. Other columns are dropped.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Mapping {
    /// Mapped columns, in the order of the properties in the payload.
    #[serde(deserialize_with = "bounded::list")]
    pub columns: Vec<MappedColumn>,
}

/// Column of a file and the property that it becomes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct MappedColumn {
    /// Name in the header of the file.
    pub from: String,
    /// Name of the property in the payload.
    pub to: String,
    /// Kind of the values. Absent: `text`.
    #[serde(default, rename = "as")]
    pub kind: ValueKind,
    /// Notation of the values. Numbers: `1234.56` (default), `1.234,56`, `1,234.56` or `1 234,56`. Dates: `YYYY-MM-DD`
    /// (default), `DD.MM.YYYY`, `MM/DD/YYYY`, `DD/MM/YYYY`, or `excel` for serial numbers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub format: Option<String>,
}

/// Kind of the values of a mapped column. Empty cells of all kinds but `text` become `null`; an
/// optional property is left out where the schema refuses that.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub enum ValueKind {
    /// As without a mapping: text, unless the schema requires a number or a boolean.
    #[default]
    Text,
    Number,
    Integer,
    /// `true`, `yes`, `1` or `false`, `no`, `0`, in any case.
    Boolean,
    /// Becomes text `YYYY-MM-DD`.
    Date,
}

/// Notation of numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum NumberFormat {
    /// `1234.56`
    #[default]
    Plain,
    /// `1.234,56`
    PointGroups,
    /// `1,234.56`
    CommaGroups,
    /// `1 234,56`, also with no-break spaces.
    SpaceGroups,
}

impl NumberFormat {
    pub const ALL: [Self; 4] = [Self::Plain, Self::PointGroups, Self::CommaGroups, Self::SpaceGroups];

    /// Example that names the format.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Plain => "1234.56",
            Self::PointGroups => "1.234,56",
            Self::CommaGroups => "1,234.56",
            Self::SpaceGroups => "1 234,56",
        }
    }

    /// Whole number in this notation, as an example.
    pub const fn whole_example(self) -> &'static str {
        match self {
            Self::Plain => "1234",
            Self::PointGroups => "1.234",
            Self::CommaGroups => "1,234",
            Self::SpaceGroups => "1 234",
        }
    }
}

/// Notation of dates.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DateFormat {
    /// `YYYY-MM-DD`
    #[default]
    Iso,
    /// `DD.MM.YYYY`
    DayFirst,
    /// `MM/DD/YYYY`
    MonthFirst,
    /// `DD/MM/YYYY`
    DayFirstSlashes,
    /// Serial number of a day in the 1900 date system.
    Excel,
}

impl DateFormat {
    pub const ALL: [Self; 5] = [Self::Iso, Self::DayFirst, Self::MonthFirst, Self::DayFirstSlashes, Self::Excel];

    /// Pattern that names the format.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Iso => "YYYY-MM-DD",
            Self::DayFirst => "DD.MM.YYYY",
            Self::MonthFirst => "MM/DD/YYYY",
            Self::DayFirstSlashes => "DD/MM/YYYY",
            Self::Excel => "excel",
        }
    }
}

/// Conversion of the values of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Conversion {
    Text,
    Number(NumberFormat),
    Integer(NumberFormat),
    Boolean,
    Date(DateFormat),
}

impl Conversion {
    /// Description of a valid value, such as `a number such as 1.234,56`.
    pub fn expected(self) -> String {
        match self {
            Self::Text => "text".to_owned(),
            Self::Number(format) => format!("a number such as {}", format.as_str()),
            Self::Integer(format) => format!("a whole number such as {}", format.whole_example()),
            Self::Boolean => "true, false, yes, no, 1 or 0".to_owned(),
            Self::Date(DateFormat::Excel) => "the serial number of a day in Excel".to_owned(),
            Self::Date(format) => format!("a date in the format {}", format.as_str()),
        }
    }
}

impl MappedColumn {
    /// Conversion of the values.
    ///
    /// # Errors
    ///
    /// Returns the expectation if the kind does not have this format.
    pub fn conversion(&self) -> Result<Conversion, &'static str> {
        let format_name = self.format.as_deref();
        let number = || match format_name {
            None => Ok(NumberFormat::default()),
            Some(word) => NumberFormat::ALL
                .into_iter()
                .find(|format| format.as_str() == word)
                .ok_or("expected 1234.56, 1.234,56, 1,234.56 or 1 234,56"),
        };
        match self.kind {
            ValueKind::Text | ValueKind::Boolean if format_name.is_some() => Err("expected only for numbers and dates"),
            ValueKind::Text => Ok(Conversion::Text),
            ValueKind::Boolean => Ok(Conversion::Boolean),
            ValueKind::Number => number().map(Conversion::Number),
            ValueKind::Integer => number().map(Conversion::Integer),
            ValueKind::Date => match format_name {
                None => Ok(Conversion::Date(DateFormat::default())),
                Some(word) => DateFormat::ALL
                    .into_iter()
                    .find(|format| format.as_str() == word)
                    .map(Conversion::Date)
                    .ok_or("expected YYYY-MM-DD, DD.MM.YYYY, MM/DD/YYYY, DD/MM/YYYY or excel"),
            },
        }
    }
}

impl Mapping {
    /// Conversions of the columns, of a mapping without problems.
    pub fn conversions(&self) -> impl Iterator<Item = Conversion> {
        self.columns.iter().map(|column| column.conversion().unwrap_or(Conversion::Text))
    }

    /// Faults that do not depend on a file: JSON Pointer into the mapping, and expectation.
    pub fn problems(&self) -> Vec<(String, String)> {
        let mut problems_found = Vec::new();
        if self.columns.is_empty() || self.columns.len() > MOST_MAPPED_COLUMNS {
            problems_found.push(("/columns".to_owned(), format!("expected 1 to {MOST_MAPPED_COLUMNS} columns")));
            return problems_found;
        }
        let (mut sources, mut targets) = (HashSet::new(), HashSet::new());
        for (place, column) in self.columns.iter().enumerate() {
            let mut report = |field: &str, detail: &str| {
                problems_found.push((format!("/columns/{place}/{field}"), detail.to_owned()));
            };
            for (field, name, seen) in [("from", &column.from, &mut sources), ("to", &column.to, &mut targets)] {
                if !is_text(name, 1, LONGEST_COLUMN) {
                    report(field, "expected 1 to 1000 characters");
                } else if !seen.insert(name.as_str()) {
                    report(field, "expected a name that no other column of the mapping has");
                }
            }
            if let Err(expected) = column.conversion() {
                report("format", expected);
            }
        }
        problems_found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Mapping {
        serde_json::from_str(text).expect(text)
    }

    #[test]
    fn mapped_column_defaults_to_text() {
        let mapping = read(r#"{"columns":[{"from":"Name","to":"name"}]}"#);
        assert_eq!(mapping.problems(), []);
        assert_eq!(mapping.columns[0].conversion(), Ok(Conversion::Text));
        for text in ["{}", r#"{"columns":[],"more":1}"#, r#"{"columns":[{"from":"a","to":"b","as":"money"}]}"#] {
            serde_json::from_str::<Mapping>(text).expect_err(text);
        }
    }

    #[test]
    fn mapping_formats_parse_by_name() {
        let column = |kind: &str, format: &str| {
            read(&format!(r#"{{"columns":[{{"from":"a","to":"b","as":"{kind}","format":"{format}"}}]}}"#)).columns[0]
                .conversion()
        };
        for format in NumberFormat::ALL {
            assert_eq!(column("number", format.as_str()), Ok(Conversion::Number(format)));
            assert_eq!(column("integer", format.as_str()), Ok(Conversion::Integer(format)));
        }
        for format in DateFormat::ALL {
            assert_eq!(column("date", format.as_str()), Ok(Conversion::Date(format)));
        }
        for (kind, format) in [("text", "1234.56"), ("boolean", "yes"), ("number", "1'234.56"), ("date", "YY")] {
            column(kind, format).expect_err(format);
        }
    }

    #[test]
    fn every_problem_is_named() {
        let bad = read(
            r#"{"columns":[{"from":"a","to":"x"},{"from":"a","to":"x"},{"from":"","to":"y","as":"date","format":"D"}]}"#,
        );
        let pointers: Vec<String> = bad.problems().into_iter().map(|(pointer, _)| pointer).collect();
        assert_eq!(pointers, ["/columns/1/from", "/columns/1/to", "/columns/2/from", "/columns/2/format"]);
        assert_eq!(read(r#"{"columns":[]}"#).problems()[0].0, "/columns");
    }
}
