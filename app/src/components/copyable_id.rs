//! An id as text that is selected as a whole, with a copy button if the browser has a clipboard.

use leptos::prelude::*;

use super::state::icon;

/// The field and its button. `id` names the field, `label` says what it holds, such as `item ID`.
pub fn copyable_id(id: &'static str, label: &'static str, value: String) -> AnyView {
    view! {
        <span class="row nowrap">
            <input class="mono plain-id" id=id value=value readonly=true aria-label=label />
            <button
                type="button"
                class="btn btn-quiet btn-icon btn-sm only-scripted"
                data-copy=id
                aria-label=format!("Copy {label}")
            >
                {icon("copy")}
            </button>
        </span>
    }
    .into_any()
}
