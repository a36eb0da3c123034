//! `/imports/new`: the form that starts an import, also after a refusal.

use domain::Problem;
use leptos::prelude::*;

use crate::{
    components::panel::refusal,
    frame::{Page, Place},
    upload::{ImportForm, UploadForm, size},
};

pub fn page(form: ImportForm, problem: Option<&Problem>) -> Page {
    let refused = problem.map(|problem| refusal(title(problem), &detail(problem, form.limit_bytes)));
    let content = view! {
        <div class="narrow">
            <h1>"Upload a file"</h1>
            <p class="lede">
                "Each row becomes one item of work. Rows that cannot be read are set aside with the reason; the others go on."
            </p>
            {refused}
            <UploadForm form />
            <p class="quiet-text">
                "No file at hand? "
                <a href="/sample.csv" download="treeline-sample.csv">
                    "Download a sample CSV"
                </a> " and upload that."
            </p>
        </div>
    }
    .into_any();
    let title = if problem.is_some() { "Not started: upload a file" } else { "Upload a file" };
    Page { title: title.to_owned(), place: Place::Imports, content, lives: true }
}

/// What happened, for the owner of the file.
fn title(problem: &Problem) -> &'static str {
    use domain::Code;
    match problem.code {
        Code::NoRows => "This file has no data rows",
        Code::BadHeader => "The first row does not name the columns",
        Code::TooLarge => "This file is too large",
        Code::UnsupportedMediaType => "This kind of file cannot be read",
        _ => "The import was not started",
    }
}

/// What to do now.
fn detail(problem: &Problem, limit: i64) -> String {
    match problem.code {
        domain::Code::TooLarge => format!("A file may have up to {}. Divide it, and upload the parts.", size(limit)),
        _ => problem.detail.clone(),
    }
}
