//! Error pages: each kind of problem has its own text and next step.

use domain::{Code, Problem};
use leptos::prelude::*;

use crate::frame::{NavSection, Page};

pub fn page(problem: &Problem) -> Page {
    let (title, text) = words(problem);
    let (next_url, word) = match problem.code {
        Code::DatabaseUnavailable | Code::ShuttingDown | Code::Internal | Code::TooManyRequests | Code::Busy => {
            ("", "Try again")
        }
        Code::Unauthenticated => ("/sign-in", "Sign in"),
        _ => ("/", "Open Treeline"),
    };
    let jobs = matches!(problem.code, Code::NotFound | Code::JobRemoved)
        .then(|| view! { <a class="btn" href="/jobs">"See your jobs"</a> });
    let id = problem.request_id.clone().map(|id| view! { <p class="small">"Request ID: " <code>{id}</code></p> });
    let content = view! {
        <div class="standalone">
            <h1>{title}</h1>
            <p>{text}</p>
            <div class="actions">
                <a class="btn btn-primary" href=next_url>
                    {word}
                </a>
                {jobs}
            </div>
            {id}
        </div>
    }
    .into_any();
    Page { title: title.to_owned(), nav_section: NavSection::Standalone, content, is_live: false }
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
