//! The filter language of lists: `state:dead,expired type:import created:>2026-11-01 "no such user"`.
//!
//! Separate from the lists, so that pages, bulk operations, and links parse a filter in the same way. Terms are joined
//! by spaces and all must hold; a comma is "or", a leading `-` is "not", `>`, `<` and `..` are ranges,
//! quotes hold what would otherwise end a word. [`Filter::parse`] and printing are each other's inverse.
//! [`lists`] has the names of each list; nothing here knows a column or a clock.

pub mod job_match;
pub mod lists;

use std::fmt::{self, Display, Write as _};

/// A filter as it was typed: every term must hold.
#[derive(Clone, Debug, Default)]
pub struct Filter {
    pub terms: Vec<Term>,
    /// Position of each term in the text, in characters from 1; empty if the filter was not typed.
    positions: Vec<usize>,
}

/// One condition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Term {
    pub not: bool,
    /// Name of the compared field; `None` for free text, which has one value.
    pub name: Option<String>,
    pub test: Test,
}

/// Comparison of a term.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Test {
    /// Any of them; at least one.
    Any(Vec<String>),
    Above(String),
    Below(String),
    Between(String, String),
}

/// Error in a filter: its position, and what was expected there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// In characters, from 1; 0 where the filter as a whole is meant.
    pub at: usize,
    pub detail: String,
}

impl Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.at > 0 {
            write!(f, "At character {}: {}.", self.at, self.detail)
        } else {
            write!(f, "{}.", self.detail)
        }
    }
}

impl Fault {
    fn new(at: usize, detail: impl Into<String>) -> Self {
        Self { at, detail: detail.into() }
    }
}

impl PartialEq for Filter {
    /// Ignores the positions of the terms.
    fn eq(&self, other: &Self) -> bool {
        self.terms == other.terms
    }
}

impl Eq for Filter {}

impl From<Vec<Term>> for Filter {
    fn from(terms: Vec<Term>) -> Self {
        Self { terms, positions: Vec::new() }
    }
}

impl Term {
    /// `name:value`.
    pub fn is(name: &str, value: &str) -> Self {
        Self { not: false, name: Some(name.to_owned()), test: Test::Any(vec![value.to_owned()]) }
    }

    /// Free text.
    pub fn text(text: &str) -> Self {
        Self { not: false, name: None, test: Test::Any(vec![text.to_owned()]) }
    }
}

impl Filter {
    /// Reads a filter. Nothing typed is the empty filter, which holds for everything.
    pub fn parse(text: &str) -> Result<Self, Fault> {
        Reader { chars: text.chars().collect(), at: 0 }.filter()
    }

    pub fn is_empty(&self) -> bool {
        self.terms.is_empty()
    }

    /// Position of a term, in characters from 1; 0 if it was not typed.
    pub fn position(&self, term: usize) -> usize {
        self.positions.get(term).copied().unwrap_or(0)
    }

    /// The same without one term.
    #[must_use]
    pub fn without(&self, term: usize) -> Self {
        let others = self.terms.iter().enumerate().filter(|&(at, _)| at != term);
        others.map(|(_, term)| term.clone()).collect::<Vec<_>>().into()
    }

    /// The same with this term in the place of all others of its name.
    #[must_use]
    pub fn with(&self, term: Term) -> Self {
        let mut terms: Vec<Term> = self.terms.iter().filter(|it| it.name != term.name).cloned().collect();
        terms.push(term);
        terms.into()
    }

    /// True if the filter has exactly this term for its name.
    pub fn has(&self, term: &Term) -> bool {
        self.terms.contains(term)
    }
}

impl Display for Filter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, term) in self.terms.iter().enumerate() {
            if at > 0 {
                f.write_char(' ')?;
            }
            term.fmt(f)?;
        }
        Ok(())
    }
}

impl Display for Term {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.not {
            f.write_char('-')?;
        }
        let named = self.name.is_some();
        if let Some(name) = &self.name {
            write!(f, "{name}:")?;
        }
        match &self.test {
            Test::Any(words) => {
                for (at, text) in words.iter().enumerate() {
                    if at > 0 {
                        f.write_char(',')?;
                    }
                    word(f, text, named)?;
                }
                Ok(())
            }
            Test::Above(from) => {
                f.write_char('>')?;
                word(f, from, named)
            }
            Test::Below(to) => {
                f.write_char('<')?;
                word(f, to, named)
            }
            Test::Between(from, to) => {
                word(f, from, named)?;
                f.write_str("..")?;
                word(f, to, named)
            }
        }
    }
}

/// A word, in quotes where it would not be read as one otherwise.
fn word(f: &mut fmt::Formatter<'_>, text: &str, named: bool) -> fmt::Result {
    let special = |c: char| c.is_whitespace() || matches!(c, '"' | ',');
    let bare = !text.is_empty()
        && !text.contains(special)
        && !text.contains("..")
        && !text.starts_with(['>', '<', '-', '.'])
        && !text.ends_with('.')
        && (named || !text.contains(':'));
    if bare {
        return f.write_str(text);
    }
    f.write_char('"')?;
    for c in text.chars() {
        if matches!(c, '"' | '\\') {
            f.write_char('\\')?;
        }
        f.write_char(c)?;
    }
    f.write_char('"')
}

struct Reader {
    chars: Vec<char>,
    at: usize,
}

impl Reader {
    fn filter(mut self) -> Result<Filter, Fault> {
        let mut filter = Filter::default();
        loop {
            while self.peek().is_some_and(char::is_whitespace) {
                self.at += 1;
            }
            if self.peek().is_none() {
                return Ok(filter);
            }
            filter.positions.push(self.at + 1);
            filter.terms.push(self.term()?);
            if self.peek().is_some_and(|c| !c.is_whitespace()) {
                return Err(self.fault("expected a space between two conditions"));
            }
        }
    }

    fn term(&mut self) -> Result<Term, Fault> {
        let not = self.eat('-');
        let Some(name) = self.name() else {
            let text = self.word(false)?;
            return Ok(Term { not, name: None, test: Test::Any(vec![text]) });
        };
        let test = if self.eat('>') {
            Test::Above(self.word(true)?)
        } else if self.eat('<') {
            Test::Below(self.word(true)?)
        } else {
            let first = self.word(true)?;
            if self.eat_range() {
                Test::Between(first, self.word(true)?)
            } else {
                let mut words = vec![first];
                while self.eat(',') {
                    words.push(self.word(true)?);
                }
                Test::Any(words)
            }
        };
        Ok(Term { not, name: Some(name), test })
    }

    /// A name with its colon, if one stands here.
    fn name(&mut self) -> Option<String> {
        let rest = &self.chars[self.at..];
        let length = rest.iter().take_while(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '-')).count();
        let begins_well = rest.first().is_some_and(char::is_ascii_alphanumeric);
        if !begins_well || rest.get(length) != Some(&':') {
            return None;
        }
        let name = rest[..length].iter().collect();
        self.at += length + 1;
        Some(name)
    }

    fn word(&mut self, named: bool) -> Result<String, Fault> {
        if self.peek() == Some('"') {
            return self.quoted();
        }
        let from = self.at;
        while let Some(c) = self.peek() {
            let ends = c.is_whitespace() || c == '"' || (named && (c == ',' || self.range_here()));
            if ends {
                break;
            }
            self.at += 1;
        }
        if self.at == from {
            Err(self.fault("expected a value"))
        } else {
            Ok(self.chars[from..self.at].iter().collect())
        }
    }

    fn quoted(&mut self) -> Result<String, Fault> {
        let opened = self.at;
        self.at += 1;
        let mut text = String::new();
        while let Some(c) = self.peek() {
            self.at += 1;
            match c {
                '"' => return Ok(text),
                '\\' => {
                    let Some(escaped) = self.peek() else { break };
                    text.push(escaped);
                    self.at += 1;
                }
                c => text.push(c),
            }
        }
        Err(Fault::new(opened + 1, "this quotation mark is never closed"))
    }

    fn range_here(&self) -> bool {
        self.chars.get(self.at) == Some(&'.') && self.chars.get(self.at + 1) == Some(&'.')
    }

    fn eat_range(&mut self) -> bool {
        let here = self.range_here();
        if here {
            self.at += 2;
        }
        here
    }

    fn peek(&self) -> Option<char> {
        self.chars.get(self.at).copied()
    }

    fn eat(&mut self, wanted: char) -> bool {
        let there = self.peek() == Some(wanted);
        if there {
            self.at += 1;
        }
        there
    }

    fn fault(&self, detail: &str) -> Fault {
        Fault::new(self.at + 1, detail)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn words() -> impl Strategy<Value = String> {
        prop_oneof!["[a-z0-9:._,<>\" \\\\-]{0,8}", "\\PC{0,6}", "[\\s\\x{0}-\\x{20}]{0,3}"]
    }

    fn terms() -> impl Strategy<Value = Term> {
        let tests = prop_oneof![
            prop::collection::vec(words(), 1..4).prop_map(Test::Any),
            words().prop_map(Test::Above),
            words().prop_map(Test::Below),
            (words(), words()).prop_map(|(from, to)| Test::Between(from, to)),
        ];
        let named = (any::<bool>(), "[a-z0-9][a-z0-9_.-]{0,8}", tests).prop_map(|(not, name, test)| Term {
            not,
            name: Some(name),
            test,
        });
        let free = (any::<bool>(), words()).prop_map(|(not, text)| Term { not, ..Term::text(&text) });
        prop_oneof![named, free]
    }

    proptest! {
        #[test]
        fn filter_text_round_trips(terms in prop::collection::vec(terms(), 0..6)) {
            let filter = Filter::from(terms);
            let text = filter.to_string();
            prop_assert_eq!(Filter::parse(&text), Ok(filter), "{}", text);
        }

        #[test]
        fn filter_parser_error_position_is_within_text(text in "\\PC{0,40}") {
            match Filter::parse(&text) {
                Ok(filter) => prop_assert_eq!(Filter::parse(&filter.to_string()), Ok(filter)),
                Err(fault) => prop_assert!((1..=text.chars().count() + 1).contains(&fault.at)),
            }
        }
    }

    #[test]
    fn filter_syntax_examples() {
        let text = r#"state:dead,expired -type:import  created:2026-11-01..2026-11-08 row:>3 "no such user" 12"#;
        let filter = Filter::parse(text).expect("a filter");
        assert_eq!(
            filter.to_string(),
            r#"state:dead,expired -type:import created:2026-11-01..2026-11-08 row:>3 "no such user" 12"#
        );
        assert_eq!(filter.position(1), 20);
        assert_eq!(filter.without(0).terms.len(), 5);
        assert_eq!(filter.with(Term::is("state", "running")).terms.len(), 6);
    }

    #[test]
    fn filter_error_has_position() {
        for (text, at) in [("state:", 7), ("state:dead,", 12), ("a \"b", 3), ("-", 2), ("state:\"a\"b", 10), ("n:>", 4)]
        {
            assert_eq!(Filter::parse(text).expect_err(text).at, at, "{text}");
        }
    }
}
