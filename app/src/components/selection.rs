//! Selectable rows, and the form with the actions for the selected ones.
//!
//! Checkboxes and form are plain HTML: the form opens the preview of a bulk operation over exactly the selected
//! ids, or over all items that match the filter of the list. The script `select.js` adds selection by page, by range
//! and by key, and a count.

use crate::speech::grouped;
use leptos::prelude::*;

/// Id of the form, through which checkboxes anywhere on the page belong to it.
const FORM: &str = "selection";

/// Table cell with the checkbox of a row. `id` is submitted; `label` names the row.
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

/// Column heading with a checkbox for the whole page; works only with scripts.
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
    pub actions: &'static [(&'static str, &'static str)],
    /// Filter that matches all rows of the list, if there is one.
    pub matching: Option<String>,
    /// Exact number of them, if known.
    pub exact: Option<i64>,
}

/// The form, which stays visible below the list.
pub fn form(selection: Selection) -> AnyView {
    let Selection { actions, matching, exact } = selection;
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
    let buttons = actions
        .iter()
        .map(|(what, word)| view! { <button class="btn" type="submit" name="what" value=*what>{*word}</button> })
        .collect_view();
    view! {
        <p class="vh" role="status" id="selection-status"></p>
        <form class="action-bar selection" id=FORM method="post" action="/bulk" aria-label="The selected">
            <input type="hidden" name="selection" value="yes" />
            <p class="selection-count">"Select rows, then choose an action"</p>
            {all}
            <div class="actions">{buttons}</div>
        </form>
    }
    .into_any()
}
