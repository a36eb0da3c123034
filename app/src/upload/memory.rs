//! Incomplete uploads, remembered by name, size and modification time: choosing the same file again, even after a
//! crash of the browser, resumes the upload.
//!
//! Only URLs are stored, no bytes. URLs that the server no longer knows are dropped; signing out drops all of them
//! (`scripts/page.js`).

use leptos::prelude::window;
use web_sys::{File, Storage};

/// Prefix of every key, followed by the name.
const PREFIX: &str = "treeline-upload ";

fn storage() -> Option<Storage> {
    window().local_storage().ok().flatten()
}

/// Key by which a file is recognized.
pub(super) fn key(file: &File) -> String {
    // In whole numbers: printing a float brings in ten kilobytes of WASM.
    format!("{PREFIX}{} {} {}", file.size() as i64, file.last_modified() as i64, file.name())
}

/// URL of the upload of a file.
pub(super) fn recall(key: &str) -> Option<String> {
    storage()?.get_item(key).ok()?
}

pub(super) fn remember(key: &str, upload_url: &str) {
    storage().map(|storage| storage.set_item(key, upload_url));
}

pub(super) fn forget(key: &str) {
    storage().map(|storage| storage.remove_item(key));
}

/// Any remembered upload: key, name and URL.
pub(super) fn any() -> Option<(String, String, String)> {
    let storage = storage()?;
    (0..storage.length().ok()?).find_map(|at| {
        let key = storage.key(at).ok()??;
        let name = key.strip_prefix(PREFIX)?.splitn(3, ' ').nth(2)?.to_owned();
        let upload_url = storage.get_item(&key).ok()??;
        Some((key, name, upload_url))
    })
}
