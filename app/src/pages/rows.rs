//! Items as rows of a table: the same on `/dead` and on `/items`. Nothing here holds a payload, so that a page
//! of the largest items is as small as any.

use domain::{Item, ItemState};
use leptos::prelude::*;

use crate::{
    components::{
        moment::ago,
        panel::next_page,
        selection::{Selection, form, pick},
        state::item_badge,
        table::{
            self,
            Head::{Number, Picks, Unseen, Words},
        },
    },
    reading::Flight,
};

/// The rows, the way to the next page, and what can be done to those that are ticked.
pub(super) fn table(items: &[Item], next: Option<&String>, selection: Selection) -> AnyView {
    let rows = items.iter().map(row).collect_view();
    let next = next_page(next, "More items");
    let heads = [
        Picks,
        Words("Item"),
        Words("State"),
        Words("Last error"),
        Number("Attempts"),
        Words("Changed"),
        Unseen("What to do"),
    ];
    let table = table::frame("Items", "items", heads, rows);
    view! {
        {table}
        {next}
        {form(selection)}
    }
    .into_any()
}

fn row(item: &Item) -> impl IntoView + use<> {
    let label = Flight::of(item, |_| None).label;
    let retryable = matches!(item.state, ItemState::Dead | ItemState::Expired | ItemState::Cancelled);
    let error = item.last_error.as_ref().filter(|_| item.state != ItemState::Succeeded).map(|error| {
        let kind = error.kind.clone().map(|kind| view! { <span class="sub mono">{kind}</span> });
        view! {
            <span class="clamp">{error.message.clone()}</span>
            {kind}
        }
    });
    let address = format!("/items/{}", item.id);
    let retry = retryable.then(|| {
        view! {
            <a href=format!("{address}?open=retry#retry")>"Retry…" <span class="quiet-status">" " {label.clone()}</span></a>
        }
    });
    view! {
        <tr role="row" data-key=item.id.to_string()>
            {pick(item.id.to_string(), &label)}
            <th scope="row" role="rowheader">
                <a href=address>{label.clone()}</a>
                " "
                <span class="sub">{item.job_type.clone()}</span>
            </th>
            <td role="cell">{item_badge(item.state)}</td>
            <td role="cell" class="items-error">
                {error}
            </td>
            <td role="cell" class="number" data-label="Attempts">
                {item.attempts}
            </td>
            <td role="cell" data-label="Changed">
                {ago(item.updated_at)}
            </td>
            <td role="cell">{retry}</td>
        </tr>
    }
}
