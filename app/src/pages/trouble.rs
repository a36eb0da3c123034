//! Pages for what cannot be shown: each kind of trouble has its own words and its own next step.

use domain::{Code, Problem};
use leptos::prelude::*;

use crate::{
    components::mark::treeline,
    frame::{Page, Place},
};

pub fn page(problem: &Problem) -> Page {
    let (title, text) = words(problem);
    let next = match problem.code {
        Code::DatabaseUnavailable | Code::ShuttingDown | Code::Internal | Code::TooManyRequests | Code::Busy => {
            ("", "Try again")
        }
        Code::Unauthenticated => ("/sign-in", "Sign in"),
        _ => ("/", "Go to the start"),
    };
    let id = problem.request_id.clone().map(|id| {
        view! {
            <p class="sub">
                "If you report this, name the request: " <span class="mono">{id}</span>
            </p>
        }
    });
    let content = view! {
        <div class="gate">
            {treeline(0, "treeline")} <h1>{title}</h1> <p>{text}</p> {id}
            <p class="actions">
                <a class="button" href=next.0>
                    {next.1}
                </a>
            </p>
        </div>
    }
    .into_any();
    Page { title: title.to_owned(), place: Place::Elsewhere, content, lives: false }
}

fn words(problem: &Problem) -> (&'static str, String) {
    match problem.code {
        Code::NotFound => (
            "Nothing here",
            "There is no such page, or it belongs to somebody else. Check the address.".to_owned(),
        ),
        Code::Forbidden => ("Not for your role", problem.detail.clone()),
        Code::Unauthenticated => ("Please sign in", "This page is only for people who are signed in.".to_owned()),
        Code::JobRemoved => (
            "It was removed",
            "This job and its rows are gone: it was deleted, or the time for which it is kept has passed. Downloads are gone with it.".to_owned(),
        ),
        Code::DatabaseUnavailable | Code::ShuttingDown => (
            "Back in a moment",
            "Treeline cannot reach its database just now. Nothing is lost, and work goes on by itself when it returns. Try again in a few seconds.".to_owned(),
        ),
        Code::Internal => ("Something broke on our side", "It was logged. Trying again may help.".to_owned()),
        _ => ("That did not work", problem.detail.clone()),
    }
}
