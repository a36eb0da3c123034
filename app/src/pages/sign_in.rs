//! `/sign-in`: how to get in, and the button behind a one-time link.
//!
//! A link only opens a page: programs that look at links before people do (mail scanners, previews)
//! must not use it up. The press of the button does.

use leptos::prelude::*;

use crate::{
    components::mark::treeline,
    frame::{Page, Place},
};

/// `/sign-in` without a link, and every place that needs one.
pub fn page(ended: bool) -> Page {
    let content = view! {
        {treeline(4, "treeline")}
        <h1>"Sign in"</h1>
        {ended.then(|| view! { <p class="note">"You are signed out."</p> })}
        <p>
            "Treeline has no passwords. You sign in with a link that works once."
        </p>
        <p>
            "On the very first start, the terminal that runs Treeline prints the link. After that, whoever runs Treeline for you can make one."
        </p>
        <p class="sub">"Services use a bearer token instead: see " <a href="/api/docs">"the API"</a> "."</p>
    };
    framed("Sign in", content.into_any())
}

/// `/sign-in/{token}`: the button.
pub fn confirm(token: &str) -> Page {
    let content = view! {
        {treeline(5, "treeline")}
        <h1>"Sign in to Treeline"</h1>
        <p>"This link works once, and only for a while. Press the button to use it in this browser."</p>
        <form method="post" action=format!("/sign-in/{token}") class="actions">
            <button class="primary" type="submit">
                "Sign in"
            </button>
        </form>
    };
    framed("Sign in", content.into_any())
}

/// `/sign-in/{token}` when the link opens nothing.
pub fn refused() -> Page {
    let content = view! {
        {treeline(2, "treeline")}
        <h1>"This link does not work any more"</h1>
        <p>"It was used already, or it is too old: a link works once, and only for a while. Ask for a new one."</p>
        <p>"If you have used it in this browser, you are probably signed in."</p>
        <p class="actions">
            <a class="button" href="/">
                "Go to the start"
            </a>
        </p>
    };
    framed("Link not valid", content.into_any())
}

fn framed(title: &str, content: AnyView) -> Page {
    let content = view! { <div class="gate">{content}</div> }.into_any();
    Page { title: title.to_owned(), place: Place::Elsewhere, content, lives: false }
}
