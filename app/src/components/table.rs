//! Tables of pages: a frame that scrolls sideways by itself where it is too wide, and the heads of columns.
//!
//! Every part says its role, as style turns rows into cards on narrow screens and browsers then forget that it
//! was a table. Apart from the rows, which each page draws by itself.

use leptos::prelude::*;

use super::selection::pick_page;

/// Heading of a column.
#[derive(Clone, Copy, Debug)]
pub enum Head {
    Words(&'static str),
    /// Above figures, which stand at the right.
    Number(&'static str),
    /// For those who hear the table: buttons need no word above them.
    Unseen(&'static str),
    /// Boxes to tick.
    Picks,
}

/// The head of columns of words.
pub fn words<const N: usize>(heads: [&'static str; N]) -> [Head; N] {
    heads.map(Head::Words)
}

/// `label` says of what it is; `class` how it looks.
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
