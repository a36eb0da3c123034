//! Keyboard shortcuts: a dialog on every page, and a page.

use leptos::prelude::*;

use crate::{
    frame::{NavSection, Page},
    t,
};

/// Keys by group. The script `keys.js` handles them; a test keeps the two consistent.
const KEYS: [(&str, &[&str]); 3] = [
    ("go-to", &["g o", "g j", "g d", "g b", "g i", "g s", "g w", "g t"]),
    ("lists", &["j", "k", "Enter", "x", "Shift x", "/"]),
    ("everywhere", &["?", "Esc"]),
];

fn heading(group: &str) -> &'static str {
    match group {
        "go-to" => t!("keys-go-to"),
        "lists" => t!("keys-lists"),
        _ => t!("keys-everywhere"),
    }
}

/// Effect of a shortcut.
fn action(keys: &str) -> &'static str {
    match keys {
        "g o" => t!("nav-overview"),
        "g j" => t!("nav-jobs"),
        "g d" => t!("nav-failures"),
        "g b" => t!("nav-operations"),
        "g i" => t!("nav-imports"),
        "g s" => t!("nav-schedules"),
        "g w" => t!("nav-workers"),
        "g t" => t!("nav-job-types"),
        "j" => t!("keys-next"),
        "k" => t!("keys-previous"),
        "Enter" => t!("keys-open"),
        "x" => t!("keys-select"),
        "Shift x" => t!("keys-select-range"),
        "/" => t!("keys-filter"),
        "?" => t!("keys-show"),
        _ => t!("keys-close"),
    }
}

/// `/shortcuts`.
pub fn page() -> Page {
    let content = view! {
        <div class="narrow">
            <div class="page-head">
                <h1>{t!("shell-shortcuts")}</h1>
                <p class="sub">{t!("keys-text")}</p>
            </div>
            <div class="grid">{groups(true)}</div>
        </div>
    }
    .into_any();
    Page {
        title: t!("shell-shortcuts").to_owned(),
        nav_section: NavSection::Elsewhere,
        content,
        is_live: false,
        is_translated: true,
    }
}

/// The dialog. It stays closed without scripts.
pub fn dialog() -> AnyView {
    view! {
        <dialog id="keys" aria-labelledby="keys-heading">
            <h2 id="keys-heading">{t!("shell-shortcuts")}</h2>
            {groups(false)}
            <label class="check">
                <input type="checkbox" id="keys-off" />
                <span>{t!("keys-off")}</span>
            </label>
            <form method="dialog" class="actions">
                <button class="btn" type="submit">{t!("keys-close-dialog")}</button>
            </form>
        </dialog>
    }
    .into_any()
}

/// Groups of shortcuts, as cards of the page or as a list in the dialog.
fn groups(cards: bool) -> AnyView {
    let group = |(name, keys): (&'static str, &'static [&str])| {
        let id = format!("{}keys-{}", if cards { "page-" } else { "" }, name);
        let rows = keys.iter().map(|keys| {
            let what = action(keys);
            let keys = keys.split(' ').map(|key| view! { <kbd>{key}</kbd> " " }).collect_view();
            view! {
                <div>
                    <dt>{what}</dt>
                    <dd>{keys}</dd>
                </div>
            }
        });
        let rows = rows.collect_view();
        let title = if cards {
            view! { <div class="card-head"><h2 id=id.clone()>{heading(name)}</h2></div> }.into_any()
        } else {
            view! { <h3 id=id.clone()>{heading(name)}</h3> }.into_any()
        };
        view! {
            <section class=if cards { "card c4" } else { "" } aria-labelledby=id>
                {title}
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
        for keys in KEYS.iter().flat_map(|(_, keys)| *keys) {
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
