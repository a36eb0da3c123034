//! Notation of the values of a column, guessed from its first values.

use domain::import::mapping::{Conversion, DateFormat, NumberFormat, ValueKind};

use super::{convert::convert, row::CellKind};

/// Notations that the values seen so far allow.
#[derive(Clone, Debug)]
pub struct Notation {
    candidates: Vec<Candidate>,
}

/// Notation that may be the one of the column.
#[derive(Clone, Debug)]
struct Candidate {
    conversion: Conversion,
    format: &'static str,
    /// True if all values are in this notation.
    fits: bool,
    /// Candidates that read a value differently, by index.
    contradicts: Vec<usize>,
}

impl Notation {
    /// Starts with all notations of a kind. Kinds without notations have no format.
    pub fn of(kind: ValueKind) -> Self {
        let candidate = |conversion, format| Candidate { conversion, format, fits: true, contradicts: Vec::new() };
        let numbers = NumberFormat::ALL.into_iter();
        let candidates = match kind {
            ValueKind::Text | ValueKind::Boolean => Vec::new(),
            ValueKind::Number => numbers.map(|it| candidate(Conversion::Number(it), it.as_str())).collect(),
            ValueKind::Integer => numbers.map(|it| candidate(Conversion::Integer(it), it.as_str())).collect(),
            ValueKind::Date => {
                DateFormat::ALL.into_iter().map(|it| candidate(Conversion::Date(it), it.as_str())).collect()
            }
        };
        Self { candidates }
    }

    /// Returns true if no value can change the format.
    pub fn is_known(&self) -> bool {
        !self.candidates.iter().any(|candidate| candidate.fits)
    }

    /// Takes one more value into account. Empty values are in every notation.
    pub fn look(&mut self, text: &str) {
        let text = text.trim();
        if text.is_empty() || self.is_known() {
            return;
        }
        let values: Vec<Option<String>> =
            self.candidates.iter().map(|it| convert(text, it.conversion, CellKind::Text)).collect();
        for (place, candidate) in self.candidates.iter_mut().enumerate() {
            candidate.fits &= values[place].is_some();
            let differs = |other: &usize| values[*other].is_some() && values[*other] != values[place];
            candidate.contradicts.extend((0..values.len()).filter(differs));
            candidate.contradicts.sort_unstable();
            candidate.contradicts.dedup();
        }
    }

    /// Format of all values; `None` for the default of the kind, or if several notations give different values.
    pub fn format(&self) -> Option<&'static str> {
        let fits = |place: &usize| self.candidates[*place].fits;
        let first = (0..self.candidates.len()).find(fits).filter(|place| *place > 0)?;
        let candidate = &self.candidates[first];
        // Only a day after the 12th proves which part is the month, also where all days equal their months.
        let is_open = candidate.conversion == Conversion::Date(DateFormat::MonthFirst)
            && self.fits(Conversion::Date(DateFormat::DayFirstSlashes));
        (!is_open && !candidate.contradicts.iter().any(fits)).then_some(candidate.format)
    }

    /// Returns true if all values are in this notation.
    fn fits(&self, conversion: Conversion) -> bool {
        self.candidates.iter().any(|candidate| candidate.fits && candidate.conversion == conversion)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn format(kind: ValueKind, values: &[&str]) -> Option<&'static str> {
        let mut notation = Notation::of(kind);
        for value in values {
            notation.look(value);
        }
        notation.format()
    }

    #[test]
    fn numbers_have_a_notation_only_if_it_is_the_only_one() {
        for (values, expected) in [
            (&["1.234,56", "7"][..], Some("1.234,56")),
            (&["12,5", ""], Some("1.234,56")),
            (&["1,234.50"], Some("1,234.56")),
            (&["1 234,5", "1"], Some("1 234,56")),
            (&["1,234"], None),
            (&["1,234", "5,25"], Some("1.234,56")),
            (&["1.234"], None),
            (&["1.234", "1.234.567"], Some("1.234,56")),
            (&["12.5", "12"], None),
            (&["12,5", "12.5"], None),
            (&["n/a", "12,5"], None),
            (&["", " "], None),
            (&[], None),
        ] {
            assert_eq!(format(ValueKind::Number, values), expected, "{values:?}");
        }
        assert_eq!(format(ValueKind::Integer, &["1.234"]), Some("1.234,56"));
        assert_eq!(format(ValueKind::Text, &["1.234,56"]), None);
        assert_eq!(format(ValueKind::Boolean, &["yes"]), None);
    }

    #[test]
    fn dates_have_a_notation_only_if_it_is_the_only_one() {
        for (values, expected) in [
            (&["31.12.2026", "1.2.2027"][..], Some("DD.MM.YYYY")),
            (&["1.2.2026"], Some("DD.MM.YYYY")),
            (&["12/31/2026", "1/2/2026"], Some("MM/DD/YYYY")),
            (&["31/12/2026", "1/2/2026"], Some("DD/MM/YYYY")),
            (&["1/2/2026"], None),
            (&["2/2/2026", "12/12/2026"], None),
            (&["31/12/2026", "12/31/2026"], None),
            (&["31/12/2026", "31.12.2026"], None),
            (&["45943"], Some("excel")),
            (&["2026-12-31"], None),
            (&["2026-12-31", "31.12.2026"], None),
        ] {
            assert_eq!(format(ValueKind::Date, values), expected, "{values:?}");
        }
    }
}
