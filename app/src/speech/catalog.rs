//! Catalogs: Fluent files, checked against the English one and compiled.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
};

use fluent_syntax::{
    ast::{Entry, Expression, InlineExpression, Pattern, PatternElement, Resource, Variant, VariantKey},
    parser,
    unicode::unescape_unicode_to_string,
};
use icu_locale_core::Locale;
use icu_plurals::{PluralCategory, PluralRules};

/// Most forms of one text: it may choose by two counts.
const MOST_FORMS: usize = 36;
/// Key of the language's own name.
const NAME: &str = "language-name";

/// Texts of a language.
#[derive(Debug)]
pub struct Catalog {
    /// BCP 47 tag: `de`.
    pub tag: String,
    /// Its name in itself: `Deutsch`.
    pub name: String,
    /// Compiled texts by key; those that it lacks are English.
    texts: BTreeMap<String, String>,
    rules: PluralRules,
}

/// Fault of a file.
#[derive(Debug, PartialEq, Eq)]
pub struct CatalogError {
    /// From 1.
    pub line: usize,
    pub expected: String,
}

impl fmt::Display for CatalogError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {}", self.line, self.expected)
    }
}

/// A message as it was read.
#[derive(Debug)]
pub(super) struct Message {
    /// Compiled text.
    pub(super) text: String,
    pub(super) placeholders: BTreeSet<String>,
    line: usize,
}

impl Catalog {
    /// Reads a file. `english` has the keys and placeholders that it may use, and the texts that it lacks.
    ///
    /// # Errors
    /// The first fault: not Fluent, a construct that is not supported, or another placeholder than in English.
    pub fn read(tag: &str, source: &str, english: Option<&str>) -> Result<(Self, Vec<String>), CatalogError> {
        let at_start = |expected: String| CatalogError { line: 1, expected };
        let locale: Locale = tag.parse().map_err(|_| {
            at_start(format!("expected a language tag such as fr or pt-BR as file name, found {tag:?}"))
        })?;
        if tag.len() > 35 {
            return Err(at_start(format!("expected a language tag of at most 35 characters, found {tag:?}")));
        }
        let rules = PluralRules::try_new_cardinal(locale.into())
            .map_err(|_| at_start(format!("expected a language with known plural rules, found {tag:?}")))?;
        let messages = messages(source)?;
        let mut texts = BTreeMap::new();
        let mut unknown = Vec::new();
        let model = english.map(self::messages).transpose()?;
        for (key, message) in messages {
            if let Some(model) = &model {
                let Some(first) = model.get(&key) else {
                    unknown.push(key);
                    continue;
                };
                check(&key, &message, first)?;
            }
            texts.insert(key, message.text);
        }
        for (key, message) in model.into_iter().flatten() {
            // The name of a language is its own.
            if key != NAME {
                texts.entry(key).or_insert(message.text);
            }
        }
        let name = texts.get(NAME).cloned().unwrap_or_else(|| tag.to_owned());
        Ok((Self { tag: tag.to_owned(), name, texts, rules }, unknown))
    }

    pub(super) fn raw(&self, key: &str) -> Option<&str> {
        self.texts.get(key).map(String::as_str)
    }

    /// Plural category of a number.
    pub(super) fn plural(&self, n: i64) -> &'static str {
        match self.rules.category_for(n.unsigned_abs()) {
            PluralCategory::Zero => "zero",
            PluralCategory::One => "one",
            PluralCategory::Two => "two",
            PluralCategory::Few => "few",
            PluralCategory::Many => "many",
            PluralCategory::Other => "other",
        }
    }

    /// Texts whose keys start with one of the prefixes, as lines for the browser.
    pub(super) fn lines(&self, prefixes: &[&str]) -> String {
        let of_browser = |key: &str| prefixes.iter().any(|prefix| key.starts_with(prefix));
        let mut lines = String::new();
        for (key, text) in self.texts.iter().filter(|(key, _)| of_browser(key)) {
            lines.extend(["\n", key, "=", text]);
        }
        lines
    }
}

/// A translation has exactly the placeholders of the English text.
fn check(key: &str, message: &Message, english: &Message) -> Result<(), CatalogError> {
    if message.placeholders == english.placeholders {
        return Ok(());
    }
    let list = |names: &BTreeSet<String>| match names.len() {
        0 => "none".to_owned(),
        _ => names.iter().map(|name| format!("${name}")).collect::<Vec<_>>().join(", "),
    };
    let (wanted, found) = (list(&english.placeholders), list(&message.placeholders));
    let expected = format!("expected these placeholders in {key}: {wanted}; found {found}");
    Err(CatalogError { line: message.line, expected })
}

/// Messages of a file by key.
pub(super) fn messages(source: &str) -> Result<BTreeMap<String, Message>, CatalogError> {
    let resource = parser::parse(source).map_err(|(_, errors)| {
        let first = errors.into_iter().next();
        let (line, what) =
            first.map_or((1, String::new()), |error| (line_at(source, error.pos.start), error.to_string()));
        CatalogError { line, expected: format!("expected a text as key = text, in Fluent syntax: {what}") }
    })?;
    let terms = terms(source, &resource)?;
    let mut messages = BTreeMap::new();
    for entry in &resource.body {
        let Entry::Message(message) = entry else { continue };
        let key = message.id.name;
        let line = line_of(source, key);
        let fail = |expected: String| CatalogError { line, expected };
        let pattern = message.value.as_ref().ok_or_else(|| fail(format!("expected a text behind {key} =")))?;
        if !message.attributes.is_empty() {
            return Err(fail(format!("expected only a text in {key}, found attributes")));
        }
        let (text, placeholders) = compiled(pattern, &terms).map_err(|why| fail(format!("{why} in {key}")))?;
        if messages.insert(key.to_owned(), Message { text, placeholders, line }).is_some() {
            return Err(fail(format!("expected {key} once, found it twice")));
        }
    }
    Ok(messages)
}

/// Terms (`-treeline = Treeline`) by name: plain texts.
fn terms<'a>(source: &str, resource: &'a Resource<&'a str>) -> Result<BTreeMap<&'a str, String>, CatalogError> {
    let mut terms = BTreeMap::new();
    for entry in &resource.body {
        let Entry::Term(term) = entry else { continue };
        let [PatternElement::TextElement { value }] = &term.value.elements[..] else {
            let name = term.id.name;
            let line = line_of(source, &format!("-{name}"));
            return Err(CatalogError { line, expected: format!("expected a plain text in the term -{name}") });
        };
        terms.insert(term.id.name, (*value).to_owned());
    }
    Ok(terms)
}

fn line_at(source: &str, position: usize) -> usize {
    source.bytes().take(position).fold(1, |line, byte| if byte == b'\n' { line + 1 } else { line })
}

fn line_of(source: &str, key: &str) -> usize {
    let is_here = |line: &str| line.strip_prefix(key).is_some_and(|rest| rest.trim_start().starts_with('='));
    // The last one: a key that is there twice is refused at its second place.
    source.lines().enumerate().filter(|(_, line)| is_here(line)).last().map_or(1, |(place, _)| place + 1)
}

/// One way through the choices of a text: the chosen words by argument, and the text.
type Form = (BTreeMap<String, String>, String);

/// The compiled text, and its placeholders.
fn compiled(pattern: &Pattern<&str>, terms: &BTreeMap<&str, String>) -> Result<(String, BTreeSet<String>), String> {
    let mut placeholders = BTreeSet::new();
    let forms = forms(pattern, terms, &mut placeholders)?;
    let by: BTreeSet<String> = forms.iter().flat_map(|(choices, _)| choices.keys().cloned()).collect();
    if by.is_empty() {
        return Ok((forms.into_iter().map(|(_, text)| text).collect(), placeholders));
    }
    let by: Vec<String> = by.into_iter().collect();
    let mut compiled = format!("?{}", by.join(","));
    let mut lines: Vec<(usize, String, String)> = Vec::new();
    for (choices, text) in forms {
        let words: Vec<&str> = by.iter().map(|name| choices.get(name).map_or("other", String::as_str)).collect();
        // Exact numbers before plural categories before "other".
        let rank = |word: &&str| match *word {
            "other" => 2,
            word if word.parse::<i64>().is_ok() => 0,
            _ => 1,
        };
        lines.push((words.iter().map(rank).sum(), words.join(","), text));
    }
    lines.sort_by_key(|(rank, ..)| *rank);
    for (_, words, text) in lines {
        compiled.push('\t');
        compiled.push_str(&words);
        compiled.push('\t');
        compiled.push_str(&text);
    }
    Ok((compiled, placeholders))
}

fn forms(
    pattern: &Pattern<&str>,
    terms: &BTreeMap<&str, String>,
    placeholders: &mut BTreeSet<String>,
) -> Result<Vec<Form>, String> {
    let mut forms: Vec<Form> = vec![Form::default()];
    let add = |forms: &mut Vec<Form>, text: &str| forms.iter_mut().for_each(|(_, form)| form.push_str(text));
    for element in &pattern.elements {
        match element {
            PatternElement::TextElement { value } => {
                if value.contains(['\t', '{', '}']) {
                    return Err("expected a text without tabs".to_owned());
                }
                add(&mut forms, &value.replace('\n', " "));
            }
            PatternElement::Placeable { expression: Expression::Inline(inline) } => {
                add(&mut forms, &placed(inline, terms, placeholders)?);
            }
            PatternElement::Placeable { expression: Expression::Select { selector, variants } } => {
                forms = chosen(&forms, (selector, variants), terms, placeholders)?;
            }
        }
    }
    Ok(forms)
}

/// Text of a placeable.
fn placed(
    inline: &InlineExpression<&str>,
    terms: &BTreeMap<&str, String>,
    placeholders: &mut BTreeSet<String>,
) -> Result<String, String> {
    match inline {
        InlineExpression::StringLiteral { value } => {
            let text = unescape_unicode_to_string(value);
            if text.contains(['\t', '\n', '{', '}']) {
                return Err("expected a literal without braces, tabs, and line breaks".to_owned());
            }
            Ok(text.into_owned())
        }
        InlineExpression::VariableReference { id } => {
            placeholders.insert(id.name.to_owned());
            Ok(format!("{{{}}}", id.name))
        }
        InlineExpression::TermReference { id, attribute: None, arguments: None } => {
            terms.get(id.name).cloned().ok_or_else(|| format!("expected a term -{} in the file", id.name))
        }
        _ => Err("expected a placeholder { $name }, a literal { \"…\" }, or a term { -name }".to_owned()),
    }
}

/// Each form so far with each variant.
fn chosen(
    forms: &[Form],
    (selector, variants): (&InlineExpression<&str>, &[Variant<&str>]),
    terms: &BTreeMap<&str, String>,
    placeholders: &mut BTreeSet<String>,
) -> Result<Vec<Form>, String> {
    let InlineExpression::VariableReference { id } = selector else {
        return Err("expected a choice by a placeholder, { $n -> … }".to_owned());
    };
    placeholders.insert(id.name.to_owned());
    let mut next = Vec::new();
    for variant in variants {
        let word = match variant.key {
            VariantKey::Identifier { name } => name,
            VariantKey::NumberLiteral { value } => value,
        };
        // The default fits everything.
        let word = if variant.default { "other" } else { word };
        for (choices, text) in self::forms(&variant.value, terms, placeholders)? {
            for (before, start) in forms {
                let mut choices_of_both = before.clone();
                choices_of_both.extend(choices.clone());
                // Two choices by the same placeholder are one: only forms in which they agree are kept.
                let agrees = before.get(id.name).is_none_or(|chosen| chosen == word);
                choices_of_both.insert(id.name.to_owned(), word.to_owned());
                if agrees {
                    next.push((choices_of_both, format!("{start}{text}")));
                }
            }
        }
    }
    if next.len() > MOST_FORMS {
        return Err(format!("expected at most {MOST_FORMS} forms"));
    }
    Ok(next)
}
