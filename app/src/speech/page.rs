//! Language of the page that is being rendered. A page is rendered on one thread without pauses, so it is kept there.

use std::cell::Cell;

use super::{Languages, Speech, form::NumberFormat};

thread_local! {
    static SPEECH: Cell<Option<Speech>> = const { Cell::new(None) };
}

/// Renders in a language.
pub fn speaking<R>(speech: Speech, render: impl FnOnce() -> R) -> R {
    struct Restore(Option<Speech>);
    impl Drop for Restore {
        fn drop(&mut self) {
            SPEECH.set(self.0);
        }
    }
    let _restore = Restore(SPEECH.replace(Some(speech)));
    render()
}

/// The language of the page; English outside of one.
pub(crate) fn current() -> Speech {
    SPEECH.get().unwrap_or_else(Languages::english)
}

pub(super) fn raw(key: &'static str) -> Option<&'static str> {
    current().catalog.raw(key)
}

pub(super) fn with_number_format<R>(run: impl FnOnce(&NumberFormat) -> R) -> R {
    run(&current().notation.number_format)
}

pub(super) fn plural(n: i64) -> &'static str {
    current().catalog.plural(n)
}
