//! The way to a page, for the top bar: the pages above it as links, then its own name.
//!
//! A page says it while it is drawn, and the document, which draws the bar afterwards, finds it in the context.

use leptos::prelude::*;

/// Pages above this one, each its address and its name, and the name of this one.
#[derive(Clone, Debug)]
pub(crate) struct Crumbs {
    above: Vec<(String, String)>,
    here: String,
}

/// Says the way to the page that is being drawn.
pub fn crumbs(above: &[(&str, &str)], here: impl Into<String>) {
    let above = above.iter().map(|(address, name)| ((*address).to_owned(), (*name).to_owned())).collect();
    provide_context(Crumbs { above, here: here.into() });
}

/// Draws the way.
pub(crate) fn way(crumbs: Crumbs) -> impl IntoView {
    let above = crumbs
        .above
        .into_iter()
        .map(|(address, name)| {
            view! {
                <a href=address>{name}</a>
                <span class="sep" aria-hidden="true">
                    "/"
                </span>
            }
        })
        .collect_view();
    view! {
        <nav class="crumbs" aria-label="Breadcrumb">
            {above}
            <span aria-current="page">{crumbs.here}</span>
        </nav>
    }
}
