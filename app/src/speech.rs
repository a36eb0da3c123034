//! The reader's language: texts by key, numbers and dates in the reader's notation.
//!
//! [`t!`](crate::t) finds a text of the catalog (`app/languages/*.ftl`) in the language of the page. The server has
//! whole catalogs; the browser has only the texts of islands and scripts, which the page carries in `data-words` as the
//! server compiled them. Both fill them in with the same functions, so they cannot differ.

#[cfg(not(feature = "ssr"))]
mod browser; // texts and notation that the page carries
#[cfg(feature = "ssr")]
mod catalog; // Fluent files, checked and compiled
mod form; // compiled texts
#[cfg(feature = "ssr")]
mod languages; // all languages, and which one a reader gets
#[cfg(feature = "ssr")]
mod notation; // numbers and dates in a locale
#[cfg(feature = "ssr")]
mod page; // language of the page that is being rendered
#[cfg(feature = "ssr")]
mod problem; // sentences about rows and columns
#[cfg(all(test, feature = "ssr"))]
mod tests;

use leptos::prelude::*;

#[cfg(not(feature = "ssr"))]
use browser as source;
#[cfg(feature = "ssr")]
use page as source;

#[cfg(feature = "ssr")]
pub use catalog::{Catalog, CatalogError};
pub use form::Arg;
#[cfg(feature = "ssr")]
pub use languages::{Languages, Speech};
#[cfg(feature = "ssr")]
pub use notation::Notation;
#[cfg(feature = "ssr")]
pub(crate) use page::current;
#[cfg(feature = "ssr")]
pub use page::speaking;
#[cfg(feature = "ssr")]
pub(crate) use problem::{in_words, upload_refusals};

use form::{Piece, filled, pieces};

/// Text of a key without placeholders.
pub fn text(key: &'static str) -> &'static str {
    source::raw(key).unwrap_or(key)
}

/// Text of a key with its placeholders filled in. A whole number chooses the plural form.
pub fn filled_text(key: &'static str, args: &[(&str, Arg)]) -> String {
    source::raw(key).map_or_else(
        || key.to_owned(),
        |raw| source::with_number_format(|number_format| filled(raw, args, number_format, source::plural)),
    )
}

/// Text of a key whose placeholders are views, such as links.
pub fn views(key: &'static str, args: &[(&str, Arg)], mut views: Vec<(&'static str, AnyView)>) -> Vec<AnyView> {
    let Some(raw) = source::raw(key) else { return Vec::new() };
    let pieces = source::with_number_format(|number_format| pieces(raw, args, number_format, source::plural));
    let view = |piece| match piece {
        Piece::Text(text) => Some(text.into_any()),
        Piece::Slot(name) => {
            let place = views.iter().position(|(slot, _)| *slot == name)?;
            Some(views.swap_remove(place).1)
        }
    };
    pieces.into_iter().filter_map(view).collect()
}

/// A whole number in the reader's notation: `1,204` or `1.204`.
pub fn grouped(n: i64) -> String {
    source::with_number_format(|number_format| number_format.grouped(n))
}

/// A number with one decimal in the reader's notation, from its tenths: `3.2` or `3,2`.
pub fn tenths(tenths: u64) -> String {
    source::with_number_format(|number_format| number_format.tenths(tenths))
}

/// A number with a decimal point in the reader's notation: `1.903` or `1,903`.
pub fn with_decimal_separator(number: &str) -> String {
    source::with_number_format(|number_format| number.replace('.', &number_format.decimal))
}

/// Text of a key: `t!("nav-jobs")`, or with placeholders `t!("live-rows", n = 3)`.
#[macro_export]
macro_rules! t {
    ($key:literal) => {
        $crate::speech::text($key)
    };
    ($key:literal, $($name:ident = $value:expr),+ $(,)?) => {
        $crate::speech::filled_text($key, &[$((stringify!($name), $crate::speech::Arg::from($value))),+])
    };
}

/// Text of a key with views in it: `t_view!("import-corrects", link = view! { … })`, and after a semicolon numbers and
/// texts: `t_view!("a", link = …; n = 3)`.
#[macro_export]
macro_rules! t_view {
    ($key:literal, $($slot:ident = $view:expr),+ $(; $($name:ident = $value:expr),+)? $(,)?) => {
        $crate::speech::views(
            $key,
            &[$($((stringify!($name), $crate::speech::Arg::from($value))),+)?],
            vec![$((stringify!($slot), leptos::prelude::IntoAny::into_any($view))),+],
        )
    };
}
