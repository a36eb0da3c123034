//! Keyboard shortcuts: a dialog on every page, and a page.

use leptos::prelude::*;

use crate::frame::{NavSection, Page};

/// Keys and their actions, by group. The script `keys.js` handles them; a test keeps the two consistent.
pub const KEYS: [(&str, &[(&str, &str)]); 3] = [
    (
        "Go to",
        &[
            ("g o", "Overview"),
            ("g j", "Jobs"),
            ("g d", "Failures"),
            ("g b", "Operations"),
            ("g i", "Imports"),
            ("g s", "Schedules"),
            ("g w", "Workers"),
            ("g t", "Job types"),
        ],
    ),
    (
        "Lists",
        &[
            ("j", "Next row"),
            ("k", "Previous row"),
            ("Enter", "Open the row"),
            ("x", "Select the row"),
            ("Shift x", "Select from the last one to this row"),
            ("/", "Go to the filter"),
        ],
    ),
    ("Everywhere", &[("?", "Show these keys"), ("Esc", "Close, leave a field, or select nothing")]),
];

/// `/shortcuts`.
pub fn page() -> Page {
    let content = view! {
        <div class="narrow">
            <div class="page-head">
                <h1>"Keyboard shortcuts"</h1>
                <p class="sub">"Single keys do nothing while you type. Press ? on any page to switch them off in this browser."</p>
            </div>
            <div class="grid">{groups(true)}</div>
        </div>
    }
    .into_any();
    Page { title: "Keyboard shortcuts".to_owned(), nav_section: NavSection::Elsewhere, content, is_live: false }
}

/// The dialog. It stays closed without scripts.
pub fn dialog() -> AnyView {
    view! {
        <dialog id="keys" aria-labelledby="keys-heading">
            <h2 id="keys-heading">"Keyboard shortcuts"</h2>
            {groups(false)}
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

/// Groups of shortcuts, as cards of the page or as a list in the dialog.
fn groups(cards: bool) -> AnyView {
    let group = |(name, keys): (&'static str, &'static [(&str, &str)])| {
        let id = format!("{}keys-{}", if cards { "page-" } else { "" }, name.to_ascii_lowercase().replace(' ', "-"));
        let rows = keys.iter().map(|(keys, what)| {
            let keys = keys.split(' ').map(|key| view! { <kbd>{key}</kbd> " " }).collect_view();
            view! {
                <div>
                    <dt>{*what}</dt>
                    <dd>{keys}</dd>
                </div>
            }
        });
        let rows = rows.collect_view();
        let heading = if cards {
            view! { <div class="card-head"><h2 id=id.clone()>{name}</h2></div> }.into_any()
        } else {
            view! { <h3 id=id.clone()>{name}</h3> }.into_any()
        };
        view! {
            <section class=if cards { "card c4" } else { "" } aria-labelledby=id>
                {heading}
                <dl class="keys">{rows}</dl>
            </section>
        }
    };
    KEYS.into_iter().map(group).collect_view().into_any()
}

#[cfg(test)]
mod tests {
    use super::KEYS;

    #[test]
    fn every_documented_key_is_handled() {
        let script = include_str!("../scripts/keys.js");
        for (keys, _) in KEYS.iter().flat_map(|(_, keys)| *keys) {
            let acted = match keys.strip_prefix("g ") {
                Some(place) => script.contains(&format!(" {place}: \"/")),
                None if *keys == "Shift x" => script.contains("event.key === \"X\""),
                // Handled by the browser.
                None if matches!(*keys, "Enter" | "Esc") => true,
                None => script.contains(&format!("event.key === \"{keys}\"")),
            };
            assert!(acted, "{keys}");
        }
    }
}
