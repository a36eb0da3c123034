//! Texts that would fit in a cell where the one in the file does not: trimmed, in the expected notation, without a
//! currency, in the spelling of the schema.
//!
//! A text is proposed only if the property accepts it. Nothing ambiguous is proposed: `1,234` may be either number.

use std::collections::BTreeMap;

use domain::{
    Document,
    import::mapping::{Conversion, DateFormat, NumberFormat},
};
use serde_json::value::RawValue;

use engine::{
    import::split::{CellKind, ColumnRule, FaultKind, Head, Row, convert},
    schema::Schema,
};

/// Longest text that is looked at, in bytes.
const LONGEST: usize = 200;

/// Words for yes and no.
const YES: [&str; 9] = ["true", "yes", "y", "1", "wahr", "ja", "vrai", "oui", "x"];
const NO: [&str; 8] = ["false", "no", "n", "0", "falsch", "nein", "faux", "non"];

/// Rules by which cells are proposed.
#[derive(Debug)]
pub(super) struct Fixes<'a> {
    head: &'a Head,
    schema: Option<&'a Schema>,
    /// Expectations of the values of a payload, in order.
    column_rules: &'a [ColumnRule],
    /// Names of the properties of a payload.
    names: &'a [String],
}

/// Column whose cell does not fit.
struct Place<'a> {
    property: &'a str,
    conversion: Conversion,
    rule: ColumnRule,
}

impl<'a> Fixes<'a> {
    pub(super) const fn new(
        head: &'a Head,
        schema: Option<&'a Schema>,
        column_rules: &'a [ColumnRule],
        names: &'a [String],
    ) -> Self {
        Self { head, schema, column_rules, names }
    }

    /// Text for the cell with the fault of a row.
    pub(super) fn of(&self, row: &Row) -> Option<String> {
        let fault = row.fault.as_ref().filter(|fault| fault.kind == FaultKind::InvalidRow)?;
        let source = fault.column.checked_sub(1)?;
        let text = row.cells.get(source).filter(|text| !text.is_empty() && text.len() <= LONGEST)?;
        let place = self.place(source)?;
        // The fault is another one, such as text behind a quote.
        if self.fits(row, &place, text) {
            return None;
        }
        self.candidates(text, &place).into_iter().find(|fixed| fixed != text && self.fits(row, &place, fixed))
    }

    fn place(&self, source: usize) -> Option<Place<'a>> {
        let at = (0..self.names.len()).find(|&at| self.head.source_column(at) == Some(source))?;
        let mapped = self.head.mapping.as_ref().and_then(|mapping| mapping.columns.get(at));
        Some(Place {
            property: self.names.get(at)?,
            conversion: mapped.and_then(|column| column.conversion().ok()).unwrap_or(Conversion::Text),
            rule: self.column_rules.get(at).copied().unwrap_or_default(),
        })
    }

    /// Returns true if the property accepts the text in this row.
    fn fits(&self, row: &Row, place: &Place<'_>, text: &str) -> bool {
        let Some(value) = convert(text, place.conversion, place.rule.kind) else { return false };
        let Some(schema) = self.schema.filter(|_| !place.rule.omits(&value)) else { return true };
        let (Ok(mut fields), Ok(value)) =
            (serde_json::from_str::<BTreeMap<String, Box<RawValue>>>(row.payload.text()), RawValue::from_string(value))
        else {
            return false;
        };
        fields.insert(place.property.to_owned(), value);
        let pointer = format!("/{}", place.property.replace('~', "~0").replace('/', "~1"));
        let faults = schema.faults(&Document::of(&fields));
        !faults.iter().any(|(found, _)| *found == pointer || found.starts_with(&format!("{pointer}/")))
    }

    /// Texts that may be meant, the likeliest first.
    fn candidates(&self, text: &str, place: &Place<'_>) -> Vec<String> {
        let trimmed = trim(text);
        let mut found = vec![trimmed.to_owned()];
        let schema = self.schema.map(|schema| schema.of_property(place.property));
        let listed = schema.and_then(|schema| schema["enum"].as_array()).into_iter().flatten();
        let same = |known: &&str| known.to_lowercase() == trimmed.to_lowercase();
        found.extend(listed.filter_map(serde_json::Value::as_str).filter(same).map(str::to_owned));
        match (place.conversion, place.rule.kind) {
            (Conversion::Number(format) | Conversion::Integer(format), _) => found.extend(number(trimmed, format)),
            (Conversion::Date(format), _) => found.extend(date(trimmed, format)),
            (Conversion::Boolean, _) | (Conversion::Text, CellKind::Boolean) => found.extend(boolean(trimmed)),
            (Conversion::Text, CellKind::Number) => found.extend(number(trimmed, NumberFormat::Plain)),
            (Conversion::Text, CellKind::NumberOrBoolean) => {
                found.extend(number(trimmed, NumberFormat::Plain).or_else(|| boolean(trimmed)));
            }
            (Conversion::Text, CellKind::Text | CellKind::OnlyText) => {}
        }
        found
    }
}

/// Text without spaces and invisible characters at both ends.
fn trim(text: &str) -> &str {
    text.trim_matches(|c: char| c.is_whitespace() || matches!(c, '\u{feff}' | '\u{200b}' | '\u{200e}' | '\u{200f}'))
}

/// Number in this notation, without a currency. `None` if it may be several numbers, or a share of something.
fn number(text: &str, format: NumberFormat) -> Option<String> {
    let is_currency = |c: char| c.is_alphabetic() || c.is_whitespace() || "$€£¥₣₹".contains(c);
    let start = text.trim_start_matches(is_currency);
    // `Fr. 12`, but not `.5`
    let start = start.strip_prefix(". ").filter(|_| start.len() < text.len()).unwrap_or(start);
    let bare = start.trim_end_matches(is_currency);
    // Swiss groups.
    let bare = bare.replace(['\'', '’'], "");
    let read = |format| convert(&bare, Conversion::Number(format), CellKind::Text).filter(|value| value != "null");
    let values: Vec<String> = match read(format) {
        Some(value) => vec![value],
        None => NumberFormat::ALL.into_iter().filter_map(read).collect(),
    };
    let value = values.first()?;
    let is_same = |other: &String| other.parse::<f64>().ok() == value.parse::<f64>().ok();
    if !values.iter().all(is_same) {
        return None;
    }
    Some(match format {
        NumberFormat::Plain | NumberFormat::CommaGroups => value.clone(),
        NumberFormat::PointGroups | NumberFormat::SpaceGroups => value.replace('.', ","),
    })
}

/// Date in this notation. `None` if it may be several days.
fn date(text: &str, format: DateFormat) -> Option<String> {
    let read = |format| convert(text, Conversion::Date(format), CellKind::Text).filter(|value| value != "null");
    let days: Vec<String> = match read(format) {
        Some(day) => vec![day],
        None => DateFormat::ALL.into_iter().filter(|other| *other != DateFormat::Excel).filter_map(read).collect(),
    };
    let day = days.first().filter(|first| days.iter().all(|other| other == *first))?;
    let iso: String = serde_json::from_str(day).ok()?;
    let (year, rest) = iso.split_once('-')?;
    let (month, day) = rest.split_once('-')?;
    match format {
        DateFormat::Iso => Some(iso),
        DateFormat::DayFirst => Some(format!("{day}.{month}.{year}")),
        DateFormat::MonthFirst => Some(format!("{month}/{day}/{year}")),
        DateFormat::DayFirstSlashes => Some(format!("{day}/{month}/{year}")),
        DateFormat::Excel => None,
    }
}

fn boolean(text: &str) -> Option<String> {
    let is = |words: &[&str]| words.iter().any(|word| text.eq_ignore_ascii_case(word));
    if is(&YES) {
        return Some("true".to_owned());
    }
    is(&NO).then(|| "false".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_written_in_the_expected_notation() {
        use NumberFormat::{CommaGroups, Plain, PointGroups};
        for (text, format, fixed) in [
            ("12,5", Plain, Some("12.5")),
            ("51 CHF", PointGroups, Some("51")),
            ("CHF 1'234.50", Plain, Some("1234.50")),
            ("Fr. 12.50", Plain, Some("12.50")),
            ("12.--", Plain, None),
            (".5", Plain, None),
            ("a.5", Plain, None),
            ("€ 1.234,50", Plain, Some("1234.50")),
            ("12.5", PointGroups, Some("12,5")),
            ("8.25", PointGroups, Some("8,25")),
            ("1,234.50", PointGroups, Some("1234,50")),
            ("1.234,5", CommaGroups, Some("1234.5")),
            ("1,234", Plain, None),
            ("12 %", Plain, None),
            ("twelve", Plain, None),
            ("12 or 13", Plain, None),
            ("-7 EUR", Plain, Some("-7")),
        ] {
            assert_eq!(number(text, format).as_deref(), fixed, "{text}");
        }
    }

    #[test]
    fn a_date_is_written_in_the_expected_notation() {
        for (text, format, fixed) in [
            ("31.12.2026", DateFormat::Iso, Some("2026-12-31")),
            ("2026-12-31", DateFormat::DayFirst, Some("31.12.2026")),
            ("12/31/2026", DateFormat::Iso, Some("2026-12-31")),
            ("1.2.2026", DateFormat::MonthFirst, Some("02/01/2026")),
            ("31/12/2026", DateFormat::Iso, Some("2026-12-31")),
            ("31/12/2026", DateFormat::MonthFirst, Some("12/31/2026")),
            ("12/31/2026", DateFormat::DayFirstSlashes, Some("31/12/2026")),
            ("1.2.2026", DateFormat::DayFirstSlashes, Some("01/02/2026")),
            ("5/5/2026", DateFormat::Iso, Some("2026-05-05")),
            ("1/2/2026", DateFormat::Iso, None),
            ("1/2/2026", DateFormat::DayFirst, None),
            ("soon", DateFormat::Iso, None),
        ] {
            assert_eq!(date(text, format).as_deref(), fixed, "{text}");
        }
        assert_eq!(
            (boolean("Ja").as_deref(), boolean("NO").as_deref(), boolean("?")),
            (Some("true"), Some("false"), None)
        );
        assert_eq!(trim(" \u{a0}Bern\u{200b}\n"), "Bern");
    }
}
