//! The browser's entry: what the WASM module does when it is loaded.
//!
//! Everything that lives is an island of `app`; the boot script of each page finds them and calls them
//! by name once [`hydrate`] has run. Apart from `app` because only this crate is linked into a module
//! of its own. Nothing else belongs here.

use app as _;
use wasm_bindgen::prelude::wasm_bindgen;

/// Makes panics readable in the console and readies the reactive runtime.
#[wasm_bindgen]
pub fn hydrate() {
    console_error_panic_hook::set_once();
    leptos::mount::hydrate_islands();
}
