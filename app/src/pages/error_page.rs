//! Error pages: each kind of problem has its own text and next step.

use domain::{Code, Problem};
use leptos::prelude::*;

use crate::{
    frame::{NavSection, Page},
    t,
};

pub fn page(problem: &Problem) -> Page {
    let (title, text) = words(problem);
    let (next_url, word) = match problem.code {
        Code::DatabaseUnavailable | Code::ShuttingDown | Code::Internal | Code::TooManyRequests | Code::Busy => {
            ("", t!("error-try-again"))
        }
        Code::Unauthenticated => ("/sign-in", t!("signin-title")),
        _ => ("/", t!("error-open")),
    };
    // The page script fills and shows it if the page is the answer to a form.
    let resend = next_url.is_empty().then(|| {
        view! {
            <form method="post" id="send-again" hidden=true>
                <p>{t!("error-still-here")}</p>
                <div class="actions">
                    <button class="btn btn-primary" type="submit">
                        {t!("error-send-again")}
                    </button>
                </div>
            </form>
        }
    });
    let jobs = matches!(problem.code, Code::NotFound | Code::JobRemoved)
        .then(|| view! { <a class="btn" href="/jobs">{t!("error-jobs")}</a> });
    let id = problem
        .request_id
        .clone()
        .map(|id| view! { <p class="small">{t!("error-request-id")} " " <code>{id}</code></p> });
    let content = view! {
        <div class="standalone">
            <h1>{title}</h1>
            <p>{text}</p>
            {resend}
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
    Page { title: title.to_owned(), nav_section: NavSection::Standalone, content, is_live: false, is_translated: true }
}

fn words(problem: &Problem) -> (&'static str, String) {
    match problem.code {
        Code::NotFound => (t!("error-not-found"), t!("error-not-found-text").to_owned()),
        Code::Forbidden => (t!("error-forbidden"), problem.detail.clone()),
        Code::Unauthenticated => (t!("error-unauthenticated"), t!("error-unauthenticated-text").to_owned()),
        Code::JobRemoved => (t!("error-removed"), t!("error-removed-text").to_owned()),
        Code::DatabaseUnavailable => (t!("error-database"), t!("error-database-text").to_owned()),
        Code::ShuttingDown => (t!("error-restarting"), t!("error-restarting-text").to_owned()),
        Code::Internal => (t!("error-internal"), t!("error-internal-text").to_owned()),
        _ => (t!("error-not-possible"), problem.detail.clone()),
    }
}
