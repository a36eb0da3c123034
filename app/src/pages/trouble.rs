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
        _ => ("/", "Open Treeline"),
    };
    let id = problem.request_id.clone().map(|id| {
        view! {
            <p class="sub">
                "Request ID: " <span class="mono">{id}</span>
            </p>
        }
    });
    let content = view! {
        <div class="gate">
            {treeline(0, "treeline")} <h1>{title}</h1> <p>{text}</p> {id}
            <p class="actions">
                <a class="btn" href=next.0>
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
        Code::NotFound => {
            ("Page not found", "The address may be wrong, or the page belongs to someone else.".to_owned())
        }
        Code::Forbidden => ("You cannot see this page", problem.detail.clone()),
        Code::Unauthenticated => ("Sign in to continue", "This page is for people who are signed in.".to_owned()),
        Code::JobRemoved => (
            "This job was removed",
            "It was deleted, or its retention is over. Its items, results, and downloads are gone.".to_owned(),
        ),
        Code::DatabaseUnavailable | Code::ShuttingDown => (
            "Treeline cannot reach its database",
            "Nothing is lost, and work continues when it is back. Try again in a few seconds.".to_owned(),
        ),
        Code::Internal => (
            "Something went wrong on the server",
            "Try again. If it keeps happening, send the request ID to an admin.".to_owned(),
        ),
        _ => ("That is not possible", problem.detail.clone()),
    }
}
