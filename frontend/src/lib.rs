//! Entry point in the browser: initialization of the WASM module.
//!
//! Everything live is an island of `app`; the boot script of each page finds the islands and calls them by name
//! after [`hydrate`]. A separate crate, because only this crate is linked into its own module. Nothing else
//! belongs here.

use app as _;
use wasm_bindgen::prelude::wasm_bindgen;

/// Makes panics readable in the console and initializes the reactive runtime.
#[wasm_bindgen]
pub fn hydrate() {
    console_error_panic_hook::set_once();
    leptos::mount::hydrate_islands();
}
