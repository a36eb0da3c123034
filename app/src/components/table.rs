//! Tables: a frame that scrolls sideways if it is too wide, and column headings.
//!
//! Every element has an explicit role, because CSS turns rows into cards on narrow screens and browsers then drop
//! the table semantics. Each page renders its own rows.

use leptos::prelude::*;

use super::selection::pick_page;

/// Heading of a column.
#[derive(Clone, Copy, Debug)]
pub enum Head {
    Words(&'static str),
    /// Heading of a numeric column, aligned right.
    Number(&'static str),
    /// For screen readers only: a column of buttons needs no visible heading.
    Unseen(&'static str),
    /// Column of checkboxes.
    Picks,
}

/// Headings of text columns.
pub fn words<const N: usize>(heads: [&'static str; N]) -> [Head; N] {
    heads.map(Head::Words)
}

/// `label` names the table for screen readers; `class` sets its style.
pub fn frame(
    label: &'static str,
    class: &'static str,
    heads: impl IntoIterator<Item = Head>,
    rows: impl IntoView,
) -> AnyView {
    let heads = heads.into_iter().map(Head::view).collect_view();
    view! {
        <div class="table-wrap" tabindex="0" role="region" aria-label=label>
            <table class=format!("table cards {class}") role="table">
                <thead role="rowgroup">
                    <tr role="row">{heads}</tr>
                </thead>
                <tbody role="rowgroup">{rows.into_any()}</tbody>
            </table>
        </div>
    }
    .into_any()
}

impl Head {
    fn view(self) -> AnyView {
        match self {
            Self::Words(word) => view! { <th scope="col" role="columnheader">{word}</th> }.into_any(),
            Self::Number(word) => view! { <th scope="col" role="columnheader" class="num">{word}</th> }.into_any(),
            Self::Unseen(word) => view! {
                <th scope="col" role="columnheader">
                    <span class="vh">{word}</span>
                </th>
            }
            .into_any(),
            Self::Picks => pick_page().into_any(),
        }
    }
}
