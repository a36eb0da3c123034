//! Items as rows of a table, for failures and for item lists. A row shows only a summary of the payload, so that a page
//! of the largest items is as small as any other.

use domain::{Item, ItemState};
use leptos::prelude::*;

use crate::pages::operator::dead_letters::Items;
use crate::{
    components::{
        json,
        panel::next_page,
        selection::{Selection, form, pick},
        state::item_badge,
        table::{
            self,
            Head::{Number, Picks, Unseen, Words},
        },
        timestamp::ago,
    },
    job_view::ActiveItem,
};

/// Maximum characters of a payload in a row.
const MOST: usize = 90;

/// Kind of items in a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// All of them failed, so the state is not shown.
    Failed,
    Any,
}

/// Rows, link to the next page, and actions for the selected rows.
pub(super) fn table(page_data: &Items, kind: Kind, selection: Selection) -> AnyView {
    let rows = page_data.items.iter().map(|item| row(item, page_data.summaries.get(&item.id), kind)).collect_view();
    let next = next_page(page_data.next.as_ref(), "More items");
    let mut heads = vec![Picks, Words("Item")];
    heads.extend((kind == Kind::Any).then_some(Words("State")));
    heads.extend([
        Words("Key"),
        Words("Payload"),
        Words("Error"),
        Number("Attempts"),
        Number(if kind == Kind::Failed { "Failed" } else { "Changed" }),
        Unseen("Actions"),
    ]);
    let table = table::frame("Items", "cards items", heads, rows);
    view! {
        {table}
        {next}
        {form(selection)}
    }
    .into_any()
}

/// Business key, if there is one.
fn key(item: &Item) -> Option<String> {
    item.dedupe_key.clone().or_else(|| item.serialize_key.clone())
}

fn row(item: &Item, payload: Option<&String>, kind: Kind) -> impl IntoView + use<> {
    let label = ActiveItem::of(item, |_| None).label;
    // Most canceled items were canceled with their job, which takes nothing back.
    let retryable = matches!(item.state, ItemState::Dead | ItemState::Expired);
    let error = item.last_error.as_ref().filter(|_| item.state != ItemState::Succeeded).map(|error| {
        let kind = error.kind.clone().map(|kind| view! { " " <span class="tag">{kind}</span> });
        view! {
            <span class="clamp soft">{error.message.clone()}</span>
            {kind}
        }
    });
    let summary = payload.map(|text| json::summary(text, MOST)).filter(|text| !text.is_empty());
    let address = format!("/items/{}", item.id);
    let retry = retryable.then(|| {
        view! {
            <a class="btn btn-sm" href=format!("{address}?open=retry#retry")>
                "Retry…" <span class="vh">" " {label.clone()}</span>
            </a>
        }
    });
    let state = (kind == Kind::Any).then(|| view! { <td role="cell" class="fit">{item_badge(item.state)}</td> });
    view! {
        <tr role="row" data-key=item.id.to_string()>
            {pick(item.id.to_string(), &label)}
            <th scope="row" role="rowheader" class="name">
                <span class="two">
                    <a href=address>{label.clone()}</a>
                    <span>{item.job_type.clone()}</span>
                </span>
            </th>
            {state}
            <td role="cell" data-label="Key">
                {key(item).map(|key| view! { <span class="mono clip item-key">{key}</span> })}
            </td>
            <td role="cell" class="wide" data-label="Payload">
                {summary.map(|summary| view! { <span class="clamp soft xs item-payload">{summary}</span> })}
            </td>
            <td role="cell" class="wide items-error" data-label="Error">
                {error}
            </td>
            <td role="cell" class="num" data-label="Attempts">
                {item.attempts}
            </td>
            <td role="cell" class="num" data-label=if kind == Kind::Failed { "Failed" } else { "Changed" }>
                {ago(item.updated_at)}
            </td>
            <td role="cell" class="fit">{retry}</td>
        </tr>
    }
}
