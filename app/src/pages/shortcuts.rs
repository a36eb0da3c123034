//! The keys that do something: in a dialog on every page, and as a page of its own.

use leptos::prelude::*;

use crate::frame::{Page, Place};

/// Keys and what they do. The script `keys.js` acts on them; a test holds the two together.
pub const KEYS: [(&str, &str); 15] = [
    ("?", "show these keys"),
    ("/", "go to the filter"),
    ("j", "next row"),
    ("k", "previous row"),
    ("Enter", "open the row"),
    ("x", "select the row"),
    ("Shift x", "select from the last one to this row"),
    ("g o", "go to the overview"),
    ("g i", "go to the imports"),
    ("g j", "go to the jobs"),
    ("g d", "go to the failures"),
    ("g b", "go to the operations"),
    ("g w", "go to the workers"),
    ("g t", "go to the job types"),
    ("Esc", "close, leave a field, or select nothing"),
];

/// `/shortcuts`.
pub fn page() -> Page {
    let content = view! {
        <div class="narrow">
            <h1>"Keyboard shortcuts"</h1>
            {table()}
            <p class="sub">"They do nothing while you type in a field. Press ? on any page to switch single keys off in this browser."</p>
        </div>
    }
    .into_any();
    Page { title: "Keyboard shortcuts".to_owned(), place: Place::Elsewhere, content, lives: false }
}

/// The dialog of every page. Closed, and empty of meaning, where scripts are off.
pub fn dialog() -> AnyView {
    view! {
        <dialog id="keys" aria-labelledby="keys-heading">
            <h2 id="keys-heading">"Keyboard shortcuts"</h2>
            {table()}
            <label class="check">
                <input type="checkbox" id="keys-off" />
                <span>"Switch single-key shortcuts off in this browser"</span>
            </label>
            <form method="dialog" class="actions">
                <button class="btn" type="submit">"Close"</button>
            </form>
        </dialog>
    }
    .into_any()
}

fn table() -> AnyView {
    let rows = KEYS
        .into_iter()
        .map(|(keys, what)| {
            let keys = keys.split(' ').map(|key| view! { <kbd>{key}</kbd> " " }).collect_view();
            view! {
                <div>
                    <dt>{keys}</dt>
                    <dd>{what}</dd>
                </div>
            }
        })
        .collect_view();
    view! { <dl class="keys">{rows}</dl> }.into_any()
}

#[cfg(test)]
mod tests {
    use super::KEYS;

    #[test]
    fn the_script_acts_on_every_key_that_is_told() {
        let script = include_str!("../scripts/keys.js");
        for (keys, _) in KEYS {
            let acted = match keys.strip_prefix("g ") {
                Some(place) => script.contains(&format!(" {place}: \"/")),
                None if keys == "Shift x" => script.contains("event.key === \"X\""),
                // The browser's own.
                None if matches!(keys, "Enter" | "Esc") => true,
                None => script.contains(&format!("event.key === \"{keys}\"")),
            };
            assert!(acted, "{keys}");
        }
    }
}
