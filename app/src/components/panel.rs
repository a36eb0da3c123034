//! Small parts of pages: sections with a heading, notices, and empty states.

use leptos::prelude::*;

use super::{logo::treeline, state::icon};

/// A section with a heading. Links and refreshes find it by `id`.
pub fn section(id: &'static str, heading: &'static str, content: AnyView) -> AnyView {
    view! {
        <section class="card" id=id aria-labelledby=format!("{id}-heading")>
            <div class="card-head">
                <h2 id=format!("{id}-heading")>{heading}</h2>
            </div>
            <div class="card-body">{content}</div>
        </section>
    }
    .into_any()
}

/// Empty state: what will appear here, and the one action that starts it.
pub fn empty(title: &'static str, text: &'static str, action: AnyView) -> AnyView {
    view! {
        <div class="empty">
            {treeline(0, "treeline")} <h2>{title}</h2> <p>{text}</p> <div class="actions">{action}</div>
        </div>
    }
    .into_any()
}

/// Error message above a form. Takes the focus when the page opens.
pub fn refusal(title: &str, detail: &str) -> AnyView {
    view! {
        <div class="notice notice-bad" role="alert" tabindex="-1" id="refusal">
            {icon("dead")}
            <div>
                <strong>{title.to_owned()}</strong>
                <p>{detail.to_owned()}</p>
            </div>
        </div>
    }
    .into_any()
}

/// Neutral note.
pub fn note(text: impl IntoView + 'static) -> AnyView {
    view! { <p class="note">{text}</p> }.into_any()
}

/// Link to the next page of a list, if there is one; `word` is its label.
pub fn next_page(next: Option<&String>, word: &'static str) -> AnyView {
    next.cloned()
        .map(|next| {
            view! {
                <nav class="pages" aria-label="Pages">
                    <a class="btn" href=next rel="next">
                        {word}
                    </a>
                </nav>
            }
        })
        .into_any()
}
