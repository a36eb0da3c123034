//! Compiled texts, and how they are filled in.
//!
//! A text is `{n} of {whole}`; with plural forms it is `?n\tone\t1 row\tother\t{n} rows`: the arguments that choose, then
//! pairs of choices and texts, the most specific first. The page script reads the same form (`scripts/words.js`).

/// Value of a placeholder.
#[derive(Clone, Copy, Debug)]
pub enum Arg<'a> {
    Number(i64),
    Text(&'a str),
}

macro_rules! small_numbers {
    ($($number:ty),+) => {
        $(impl From<$number> for Arg<'_> {
            fn from(n: $number) -> Self {
                Self::Number(n.into())
            }
        })+
    };
}

small_numbers!(i64, i32, u32, u8);

impl From<u64> for Arg<'_> {
    fn from(n: u64) -> Self {
        Self::Number(n as i64)
    }
}

impl From<usize> for Arg<'_> {
    fn from(n: usize) -> Self {
        Self::Number(n as i64)
    }
}

impl<'a> From<&'a str> for Arg<'a> {
    fn from(text: &'a str) -> Self {
        Self::Text(text)
    }
}

impl<'a> From<&'a String> for Arg<'a> {
    fn from(text: &'a String) -> Self {
        Self::Text(text)
    }
}

/// Notation of numbers in a locale, without its dates.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct NumberFormat {
    pub(super) group: String,
    pub(super) decimal: String,
    /// Digits of the last group, and of the groups before it.
    pub(super) sizes: (u8, u8),
    /// Least digits before the first separator.
    pub(super) least: u8,
}

impl Default for NumberFormat {
    fn default() -> Self {
        Self { group: ",".to_owned(), decimal: ".".to_owned(), sizes: (3, 3), least: 1 }
    }
}

impl NumberFormat {
    /// A whole number with separators between the groups of digits.
    pub(super) fn grouped(&self, n: i64) -> String {
        let digits = n.unsigned_abs().to_string();
        let (last, other) = (usize::from(self.sizes.0), usize::from(self.sizes.1).max(1));
        let mut text = String::with_capacity(digits.len() * 2);
        if n < 0 {
            text.push('-');
        }
        let is_grouped = last > 0 && digits.len() >= last + usize::from(self.least);
        for (place, digit) in digits.chars().enumerate() {
            let left = digits.len() - place;
            if is_grouped && place > 0 && left >= last && (left - last).is_multiple_of(other) {
                text.push_str(&self.group);
            }
            text.push(digit);
        }
        text
    }

    /// A number with one decimal, from its tenths.
    pub(super) fn tenths(&self, tenths: u64) -> String {
        let whole = self.grouped((tenths / 10) as i64);
        format!("{whole}{}{}", self.decimal, tenths % 10)
    }
}

/// Part of a text that is filled in.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Piece<'a> {
    Text(String),
    /// A placeholder that is a view.
    Slot(&'a str),
}

/// The form of a text for its arguments.
fn chosen<'a>(raw: &'a str, args: &[(&str, Arg)], plural: fn(i64) -> &'static str) -> &'a str {
    let Some(forms) = raw.strip_prefix('?') else { return raw };
    let mut fields = forms.split('\t');
    let by = fields.next().unwrap_or_default();
    let mut last = "";
    while let (Some(choices), Some(text)) = (fields.next(), fields.next()) {
        last = text;
        let mut pairs = by.split(',').zip(choices.split(','));
        if pairs.all(|(name, choice)| fits(choice, argument(args, name), plural)) {
            break;
        }
    }
    last
}

fn fits(choice: &str, arg: Option<Arg>, plural: fn(i64) -> &'static str) -> bool {
    match arg {
        _ if choice == "other" => true,
        Some(Arg::Number(n)) => choice.parse() == Ok(n) || choice == plural(n),
        Some(Arg::Text(text)) => choice == text,
        None => false,
    }
}

fn argument<'a>(args: &[(&str, Arg<'a>)], wanted: &str) -> Option<Arg<'a>> {
    args.iter().find(|(name, _)| *name == wanted).map(|(_, arg)| *arg)
}

/// Parts of a text. A placeholder without an argument is a slot.
pub(super) fn pieces<'a>(
    raw: &'a str,
    args: &[(&str, Arg)],
    number_format: &NumberFormat,
    plural: fn(i64) -> &'static str,
) -> Vec<Piece<'a>> {
    let mut pieces = Vec::new();
    let mut text = String::new();
    for (place, part) in chosen(raw, args, plural).split('{').enumerate() {
        let Some((name, rest)) = part.split_once('}').filter(|_| place > 0) else {
            text.push_str(part);
            continue;
        };
        match argument(args, name) {
            Some(Arg::Number(n)) => text.push_str(&number_format.grouped(n)),
            Some(Arg::Text(value)) => text.push_str(value),
            None => {
                if !text.is_empty() {
                    pieces.push(Piece::Text(std::mem::take(&mut text)));
                }
                pieces.push(Piece::Slot(name));
            }
        }
        text.push_str(rest);
    }
    if !text.is_empty() {
        pieces.push(Piece::Text(text));
    }
    pieces
}

/// A text with its placeholders filled in.
pub(super) fn filled(
    raw: &str,
    args: &[(&str, Arg)],
    number_format: &NumberFormat,
    plural: fn(i64) -> &'static str,
) -> String {
    let mut text = String::new();
    for piece in pieces(raw, args, number_format, plural) {
        if let Piece::Text(part) = piece {
            text.push_str(&part);
        }
    }
    text
}
