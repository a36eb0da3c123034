//! Files that were not sent whole, remembered by name, size and time of change: whoever chooses the same
//! file again, today or after a crash of the browser, goes on where it stopped.
//!
//! Only addresses are kept, no bytes. What the server has forgotten is forgotten here, too; signing out forgets all of it
//! (`scripts/page.js`).

use leptos::prelude::window;
use web_sys::{File, Storage};

/// Before every key, with the name behind it.
const PREFIX: &str = "treeline-upload ";

fn storage() -> Option<Storage> {
    window().local_storage().ok().flatten()
}

/// Key by which a file is recognized.
pub(super) fn key(file: &File) -> String {
    // In whole numbers: printing a float brings in ten kilobytes of WASM.
    format!("{PREFIX}{} {} {}", file.size() as i64, file.last_modified() as i64, file.name())
}

/// Address to which a file was being sent.
pub(super) fn recall(key: &str) -> Option<String> {
    storage()?.get_item(key).ok()?
}

pub(super) fn remember(key: &str, place: &str) {
    storage().map(|storage| storage.set_item(key, place));
}

pub(super) fn forget(key: &str) {
    storage().map(|storage| storage.remove_item(key));
}

/// One that is remembered, if any: key, name and place.
pub(super) fn any() -> Option<(String, String, String)> {
    let storage = storage()?;
    (0..storage.length().ok()?).find_map(|at| {
        let key = storage.key(at).ok()??;
        let name = key.strip_prefix(PREFIX)?.splitn(3, ' ').nth(2)?.to_owned();
        let place = storage.get_item(&key).ok()??;
        Some((key, name, place))
    })
}
