//! Rows that can be ticked, and the form that does something to those that are.
//!
//! Boxes and form are plain HTML: the form leads to the preview of an operation over exactly the ticked ids, or over
//! all that match the list's filter. The script `select.js` adds what is quicker than ticking one by one: the page at
//! once, ranges, keys, a count. Apart from the tables, as each of them has it.

use domain::progress::grouped;
use leptos::prelude::*;

/// The form's id, by which boxes anywhere on the page belong to it.
const FORM: &str = "selection";

/// The cell of a row with its box. `id` is sent; `label` says which row it is.
pub fn pick(id: String, label: &str) -> impl IntoView + use<> {
    view! {
        <td role="cell" class="pick">
            <label>
                <input type="checkbox" name="id" value=id form=FORM autocomplete="off" />
                <span class="vh">{format!("Select {label}")}</span>
            </label>
        </td>
    }
}

/// The head of that column: a box for the whole page, which only a script can act on.
pub fn pick_page() -> impl IntoView {
    view! {
        <th scope="col" role="columnheader" class="pick">
            <label class="only-scripted">
                <input type="checkbox" data-select-page="" autocomplete="off" />
                <span class="vh pick-word">"Select all on this page"</span>
            </label>
        </th>
    }
}

/// Actions for selected rows.
#[derive(Clone, Debug)]
pub struct Selection {
    /// Value of the form and text of the button: `("retry items", "Retry selected…")`.
    pub deeds: &'static [(&'static str, &'static str)],
    /// The filter that means all rows of the list, where there is one.
    pub matching: Option<String>,
    /// Exact number of them, if known.
    pub exact: Option<i64>,
}

/// The form. It stays in sight below the list.
pub fn form(selection: Selection) -> AnyView {
    let Selection { deeds, matching, exact } = selection;
    let all = matching.filter(|_| exact != Some(0)).map(|matching| {
        let words = exact
            .map_or_else(|| "Select all that match".to_owned(), |n| format!("Select all {} that match", grouped(n)));
        view! {
            <label class="check">
                <input type="checkbox" name="all" value="yes" autocomplete="off" />
                <span>{words}</span>
            </label>
            <input type="hidden" name="matching" value=matching />
        }
    });
    let buttons = deeds
        .iter()
        .map(|(what, word)| view! { <button class="btn" type="submit" name="what" value=*what>{*word}</button> })
        .collect_view();
    view! {
        <p class="vh" role="status" id="selection-told"></p>
        <form class="action-bar selection" id=FORM method="post" action="/bulk" aria-label="The selected">
            <input type="hidden" name="selection" value="yes" />
            <p class="selection-count">"Select rows, then choose an action"</p>
            {all}
            <div class="actions">{buttons}</div>
        </form>
    }
    .into_any()
}
