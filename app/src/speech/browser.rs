//! Texts in the browser: those that the page carries in `data-words`, one per line, after a line with the notation of
//! numbers.

use std::collections::HashMap;

use super::form::NumberFormat;

struct Words {
    texts: HashMap<&'static str, &'static str>,
    number_format: NumberFormat,
}

thread_local! {
    static WORDS: Words = read();
}

fn read() -> Words {
    // Lives as long as the page.
    let text: &'static str = Box::leak(page_words().into_boxed_str());
    let mut lines = text.lines();
    let mut number_format = lines.next().unwrap_or_default().split('\t');
    let mut field = || number_format.next().unwrap_or_default();
    let (group, decimal) = (field().to_owned(), field().to_owned());
    let mut size = || field().parse().unwrap_or(3);
    let number_format = NumberFormat { group, decimal, sizes: (size(), size()), least: size() };
    Words { texts: lines.filter_map(|line| line.split_once('=')).collect(), number_format }
}

pub(super) fn raw(key: &'static str) -> Option<&'static str> {
    WORDS.with(|words| words.texts.get(key).copied())
}

pub(super) fn with_number_format<R>(run: impl FnOnce(&NumberFormat) -> R) -> R {
    WORDS.with(|words| run(&words.number_format))
}

#[cfg(feature = "hydrate")]
fn page_words() -> String {
    let root = leptos::prelude::document().document_element();
    root.and_then(|root| root.get_attribute("data-words")).unwrap_or_default()
}

#[cfg(not(feature = "hydrate"))]
const fn page_words() -> String {
    String::new()
}

/// Plural category of a number in the language of the page.
#[cfg(feature = "hydrate")]
pub(super) fn plural(n: i64) -> &'static str {
    thread_local! {
        static RULES: js_sys::Intl::PluralRules = {
            let root = leptos::prelude::document().document_element();
            let language = root.and_then(|root| root.get_attribute("lang")).unwrap_or_default();
            js_sys::Intl::PluralRules::new(&js_sys::Array::of1(&language.into()), &js_sys::Object::new())
        };
    }
    let category = String::from(RULES.with(|rules| rules.select(n as f64)));
    ["zero", "one", "two", "few", "many"].into_iter().find(|word| *word == category).unwrap_or("other")
}

#[cfg(not(feature = "hydrate"))]
pub(super) const fn plural(_n: i64) -> &'static str {
    "other"
}
