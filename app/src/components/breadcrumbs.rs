//! Breadcrumbs for the top bar: the parent pages as links, then the name of this page.
//!
//! A page sets them while it renders. The document renders the top bar afterwards and reads them from the context.

use leptos::prelude::*;

/// Parent pages, each with its URL and name, and the name of this page.
#[derive(Clone, Debug)]
pub(crate) struct Breadcrumbs {
    above: Vec<(String, String)>,
    here: String,
}

/// Sets the breadcrumbs of the page that is being rendered.
pub fn breadcrumbs(above: &[(&str, &str)], here: impl Into<String>) {
    let above = above.iter().map(|(address, name)| ((*address).to_owned(), (*name).to_owned())).collect();
    provide_context(Breadcrumbs { above, here: here.into() });
}

/// Renders the breadcrumbs.
pub(crate) fn trail(breadcrumbs: Breadcrumbs) -> impl IntoView {
    let above = breadcrumbs
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
        <nav class="crumbs" aria-label=crate::t!("shell-breadcrumb")>
            {above}
            <span aria-current="page">{breadcrumbs.here}</span>
        </nav>
    }
}
