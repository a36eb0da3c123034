//! Conversion of cells by a column mapping: from a person's notation to JSON.
//!
//! Strict: a value in another notation is refused, never guessed. Digits are kept, so that no number loses precision.

use std::borrow::Cow;

use domain::{
    Document,
    import::mapping::{Conversion, DateFormat, NumberFormat},
};
use jiff::{Span, civil::Date};

use super::row::{CellKind, is_json_number, json_of};

/// Last day that Excel knows: 9999-12-31.
const LAST_SERIAL: i64 = 2_958_465;

/// The day that Excel counts and no calendar has: 1900-02-29.
const LEAP_DAY_OF_1900: i64 = 60;

/// Converts a cell of text to JSON; `None` if it is not in the expected notation. `kind`: kind by schema, for text.
pub fn convert(text: &str, conversion: Conversion, kind: CellKind) -> Option<String> {
    if conversion == Conversion::Text {
        return Some(json_of(text, kind));
    }
    let text = text.trim();
    if text.is_empty() {
        return Some("null".to_owned());
    }
    match conversion {
        Conversion::Text => None,
        Conversion::Number(format) => number(text, format),
        Conversion::Integer(format) => number(text, format).filter(|number| !number.contains('.')),
        Conversion::Boolean => boolean(text).map(|value| value.to_string()),
        Conversion::Date(format) => date(text, format).map(json_date),
    }
}

/// Converts a cell of a workbook, which is JSON already. Numbers are accepted in any number format, and in a column of
/// dates as serial numbers; dates are accepted in any date format. `kind`: kind by schema, for text: a cell that the sheet
/// stores as text is read like one of CSV.
pub(super) fn convert_json(cell: &str, conversion: Conversion, kind: CellKind) -> Option<String> {
    if conversion == Conversion::Text {
        return Some(match kind {
            CellKind::OnlyText if cell != "null" && !cell.starts_with('"') => Document::of(&cell).text().to_owned(),
            CellKind::Number | CellKind::Boolean | CellKind::NumberOrBoolean if cell.starts_with('"') => {
                json_of(&serde_json::from_str::<String>(cell).ok()?, kind)
            }
            _ => cell.to_owned(),
        });
    }
    if cell == "null" {
        return Some("null".to_owned());
    }
    if cell.starts_with('"') {
        let text: String = serde_json::from_str(cell).ok()?;
        let iso = || match conversion {
            Conversion::Date(_) => date(&text, DateFormat::Iso).map(json_date),
            _ => None,
        };
        return convert(&text, conversion, CellKind::Text).or_else(iso);
    }
    match conversion {
        Conversion::Number(_) => is_json_number(cell).then(|| cell.to_owned()),
        Conversion::Integer(_) => whole(cell).map(str::to_owned),
        Conversion::Boolean => boolean(cell).map(|value| value.to_string()),
        Conversion::Date(_) => date(cell, DateFormat::Excel).map(json_date),
        Conversion::Text => None,
    }
}

/// Writes a converted value as a cell of text, in the notation that [`convert`] reads. Values that were not converted
/// stay as they are.
pub fn in_file_notation(value: &str, conversion: Conversion) -> Cow<'_, str> {
    match conversion {
        Conversion::Number(format) | Conversion::Integer(format)
            if is_json_number(value) && decimal_separator(format) == ',' =>
        {
            value.replace('.', ",").into()
        }
        Conversion::Date(format) => date(value, DateFormat::Iso)
            .and_then(|date| {
                let (year, month, day) = (date.year(), date.month(), date.day());
                match format {
                    DateFormat::Iso => None,
                    DateFormat::DayFirst => Some(format!("{day:02}.{month:02}.{year:04}")),
                    DateFormat::MonthFirst => Some(format!("{month:02}/{day:02}/{year:04}")),
                    DateFormat::DayFirstSlashes => Some(format!("{day:02}/{month:02}/{year:04}")),
                    DateFormat::Excel => serial(date).map(|serial| serial.to_string()),
                }
            })
            .map_or(Cow::Borrowed(value), Cow::Owned),
        _ => value.into(),
    }
}

const fn decimal_separator(format: NumberFormat) -> char {
    match format {
        NumberFormat::Plain | NumberFormat::CommaGroups => '.',
        NumberFormat::PointGroups | NumberFormat::SpaceGroups => ',',
    }
}

fn json_date(date: Date) -> String {
    Document::of(&date.to_string()).text().to_owned()
}

fn boolean(text: &str) -> Option<bool> {
    let is = |words: [&str; 3]| words.iter().any(|word| text.eq_ignore_ascii_case(word));
    if is(["true", "yes", "1"]) {
        return Some(true);
    }
    is(["false", "no", "0"]).then_some(false)
}

/// Whole JSON number, without a fraction of zeros.
fn whole(number: &str) -> Option<&str> {
    let (digits, fraction) = number.split_once('.').unwrap_or((number, ""));
    (is_json_number(digits) && !digits.contains(['e', 'E']) && fraction.bytes().all(|digit| digit == b'0'))
        .then_some(digits)
}

/// JSON number of a text in this notation. Groups are optional, but then complete.
fn number(text: &str, format: NumberFormat) -> Option<String> {
    let (is_negative, digits) = match text.strip_prefix(['-', '\u{2212}']) {
        Some(rest) => (true, rest),
        // SAP writes the minus behind the number.
        None => match text.strip_suffix('-') {
            Some(rest) => (true, rest),
            None => (false, text.strip_prefix('+').unwrap_or(text)),
        },
    };
    let (grouped, fraction) = match digits.split_once(decimal_separator(format)) {
        Some((grouped, fraction)) => (grouped, Some(fraction)),
        None => (digits, None),
    };
    if fraction.is_some_and(|fraction| !is_digits(fraction)) {
        return None;
    }
    let digits = ungrouped(grouped, format)?;
    let significant = digits.trim_start_matches('0');
    let significant = if significant.is_empty() { "0" } else { significant };
    let sign = if is_negative { "-" } else { "" };
    Some(match fraction {
        Some(fraction) => format!("{sign}{significant}.{fraction}"),
        None => format!("{sign}{significant}"),
    })
}

fn is_digits(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

/// Digits of the whole part, without the separators of groups.
fn ungrouped(text: &str, format: NumberFormat) -> Option<String> {
    let is_separator = |c: char| match format {
        NumberFormat::Plain => false,
        NumberFormat::PointGroups => c == '.',
        NumberFormat::CommaGroups => c == ',',
        NumberFormat::SpaceGroups => matches!(c, ' ' | '\u{a0}' | '\u{202f}'),
    };
    let groups: Vec<&str> = text.split(is_separator).collect();
    let is_grouped = groups.len() > 1;
    let fits = groups.iter().enumerate().all(|(place, group)| {
        is_digits(group) && (!is_grouped || if place == 0 { group.len() <= 3 } else { group.len() == 3 })
    });
    fits.then(|| groups.concat())
}

/// Date of a text in this notation. Days and months may have one digit, except in ISO 8601; years have four.
fn date(text: &str, format: DateFormat) -> Option<Date> {
    let parts = |separator: char, shortest: usize, year_at: usize| -> Option<[i16; 3]> {
        let mut found = [0; 3];
        let mut parts = text.split(separator);
        for (place, part) in found.iter_mut().enumerate() {
            let text = parts.next().filter(|text| is_digits(text))?;
            let (least, most) = if place == year_at { (4, 4) } else { (shortest, 2) };
            if !(least..=most).contains(&text.len()) {
                return None;
            }
            *part = text.parse().ok()?;
        }
        parts.next().is_none().then_some(found)
    };
    let [year, month, day] = match format {
        DateFormat::Iso => parts('-', 2, 0)?,
        DateFormat::DayFirst => parts('.', 1, 2).map(|[day, month, year]| [year, month, day])?,
        DateFormat::MonthFirst => parts('/', 1, 2).map(|[month, day, year]| [year, month, day])?,
        DateFormat::DayFirstSlashes => parts('/', 1, 2).map(|[day, month, year]| [year, month, day])?,
        DateFormat::Excel => return from_serial(whole(text)?.parse().ok()?),
    };
    Date::new(year, i8::try_from(month).ok()?, i8::try_from(day).ok()?).ok()
}

/// Date of a serial number in the 1900 date system.
fn from_serial(serial: i64) -> Option<Date> {
    if !(1..=LAST_SERIAL).contains(&serial) || serial == LEAP_DAY_OF_1900 {
        return None;
    }
    let days = if serial < LEAP_DAY_OF_1900 { serial + 1 } else { serial };
    let start = Date::new(1899, 12, 30).ok()?;
    start.checked_add(Span::new().try_days(days).ok()?).ok()
}

/// Serial number of a date in the 1900 date system.
fn serial(date: Date) -> Option<i64> {
    let days = i64::from((date - Date::new(1899, 12, 30).ok()?).get_days());
    let serial = if days > LEAP_DAY_OF_1900 { days } else { days - 1 };
    (from_serial(serial) == Some(date)).then_some(serial)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_converted_value_is_written_as_it_was_read() {
        use DateFormat::{DayFirst, DayFirstSlashes, Excel, Iso, MonthFirst};
        for (text, conversion) in [
            ("1234,56", Conversion::Number(NumberFormat::PointGroups)),
            ("-7", Conversion::Integer(NumberFormat::SpaceGroups)),
            ("1234.56", Conversion::Number(NumberFormat::CommaGroups)),
            ("31.12.2026", Conversion::Date(DayFirst)),
            ("02/29/2028", Conversion::Date(MonthFirst)),
            ("29/02/2028", Conversion::Date(DayFirstSlashes)),
            ("2026-12-31", Conversion::Date(Iso)),
            ("1", Conversion::Date(Excel)),
            ("59", Conversion::Date(Excel)),
            ("61", Conversion::Date(Excel)),
            ("46387", Conversion::Date(Excel)),
            ("2958465", Conversion::Date(Excel)),
        ] {
            let json = of(text, conversion).expect(text);
            let value = serde_json::from_str::<String>(&json).unwrap_or(json);
            assert_eq!(in_file_notation(&value, conversion), text);
        }
        for (text, conversion) in [
            ("12,5 CHF", Conversion::Number(NumberFormat::PointGroups)),
            ("31.2.2027", Conversion::Date(DayFirst)),
            ("1.5", Conversion::Text),
        ] {
            assert_eq!(in_file_notation(text, conversion), text, "not converted");
        }
    }

    fn of(text: &str, conversion: Conversion) -> Option<String> {
        convert(text, conversion, CellKind::Text)
    }

    #[test]
    fn numbers_are_read_in_their_notation_only() {
        use NumberFormat::{CommaGroups, Plain, PointGroups, SpaceGroups};
        for (text, format, number) in [
            ("1.234,56", PointGroups, "1234.56"),
            ("1234,50", PointGroups, "1234.50"),
            ("-12.345.678", PointGroups, "-12345678"),
            ("1,234.56", CommaGroups, "1234.56"),
            ("1 234,56", SpaceGroups, "1234.56"),
            ("1\u{a0}234\u{202f}567,8", SpaceGroups, "1234567.8"),
            (" 1234.56 ", Plain, "1234.56"),
            ("+007", Plain, "7"),
            ("\u{2212}0,5", PointGroups, "-0.5"),
            ("1.234,56-", PointGroups, "-1234.56"),
            ("00", Plain, "0"),
            ("123456789012345678901234567890", Plain, "123456789012345678901234567890"),
            ("", Plain, "null"),
        ] {
            assert_eq!(of(text, Conversion::Number(format)).as_deref(), Some(number), "{text}");
        }
        for (text, format) in [
            ("1,234.56", PointGroups),
            ("1.23", PointGroups),
            ("1234.567,8", PointGroups),
            ("1.234.56", CommaGroups),
            ("12 34", SpaceGroups),
            ("1,5", Plain),
            ("1.", Plain),
            (".5", Plain),
            ("--1", Plain),
            ("-1-", Plain),
            ("+1-", Plain),
            ("1e5", Plain),
            ("12 CHF", PointGroups),
            ("\u{663}", Plain),
            ("-", Plain),
        ] {
            assert_eq!(of(text, Conversion::Number(format)), None, "{text}");
        }
        assert_eq!(of("1.234", Conversion::Integer(PointGroups)).as_deref(), Some("1234"));
        assert_eq!(of("1,0", Conversion::Integer(PointGroups)), None);
    }

    #[test]
    fn dates_are_days_of_the_calendar() {
        use DateFormat::{DayFirst, DayFirstSlashes, Excel, Iso, MonthFirst};
        for (text, format, day) in [
            ("31.12.2026", DayFirst, "\"2026-12-31\""),
            ("1.2.2026", DayFirst, "\"2026-02-01\""),
            ("12/31/2026", MonthFirst, "\"2026-12-31\""),
            ("31/12/2026", DayFirstSlashes, "\"2026-12-31\""),
            ("1/2/2026", DayFirstSlashes, "\"2026-02-01\""),
            ("2024-02-29", Iso, "\"2024-02-29\""),
            ("45943", Excel, "\"2025-10-13\""),
            ("59", Excel, "\"1900-02-28\""),
            ("61.0", Excel, "\"1900-03-01\""),
            ("2958465", Excel, "\"9999-12-31\""),
        ] {
            assert_eq!(of(text, Conversion::Date(format)).as_deref(), Some(day), "{text}");
        }
        for (text, format) in [
            ("12.31.2026", DayFirst),
            ("31.12.26", DayFirst),
            ("29.02.2026", DayFirst),
            ("31.12.2026.", DayFirst),
            ("31/12/2026", MonthFirst),
            ("12/31/2026", DayFirstSlashes),
            ("31/12/26", DayFirstSlashes),
            ("31.12.2026", DayFirstSlashes),
            ("2026-1-1", Iso),
            ("2026-12-31T00:00:00", Iso),
            ("0", Excel),
            ("60", Excel),
            ("45943.5", Excel),
            ("2958466", Excel),
        ] {
            assert_eq!(of(text, Conversion::Date(format)), None, "{text}");
        }
    }

    #[test]
    fn cells_of_a_workbook_have_kinds_already() {
        let number = Conversion::Number(NumberFormat::PointGroups);
        let date = Conversion::Date(DateFormat::DayFirst);
        for (cell, conversion, json) in [
            ("12.5", number, Some("12.5")),
            ("\"1.234,5\"", number, Some("1234.5")),
            ("true", number, None),
            ("12.0", Conversion::Integer(NumberFormat::Plain), Some("12")),
            ("12.5", Conversion::Integer(NumberFormat::Plain), None),
            ("45943", date, Some("\"2025-10-13\"")),
            ("\"2025-10-13\"", date, Some("\"2025-10-13\"")),
            ("\"13.10.2025\"", date, Some("\"2025-10-13\"")),
            ("null", date, Some("null")),
            ("12", Conversion::Text, Some("12")),
            ("\"Yes\"", Conversion::Boolean, Some("true")),
        ] {
            assert_eq!(convert_json(cell, conversion, CellKind::Text).as_deref(), json, "{cell}");
        }
        for (cell, json) in [("8001", "\"8001\""), ("true", "\"true\""), ("\"a\"", "\"a\""), ("null", "null")] {
            assert_eq!(convert_json(cell, Conversion::Text, CellKind::OnlyText).as_deref(), Some(json), "{cell}");
        }
        // Text of a sheet is read like that of CSV.
        for (cell, kind, json) in [
            ("\"1200\"", CellKind::Number, "1200"),
            ("\"007\"", CellKind::Number, "\"007\""),
            ("\"true\"", CellKind::Boolean, "true"),
            ("\"12\"", CellKind::NumberOrBoolean, "12"),
            ("\"12\"", CellKind::Text, "\"12\""),
            ("12", CellKind::Boolean, "12"),
        ] {
            assert_eq!(convert_json(cell, Conversion::Text, kind).as_deref(), Some(json), "{cell}");
        }
    }
}
