//! `/imports/new`: the form that starts an import, also after a refusal.

use domain::Problem;
use leptos::prelude::*;

use crate::{
    components::panel::refusal,
    frame::{Page, Place},
    upload::{ImportForm, UploadForm, size},
};

pub fn page(form: ImportForm, problem: Option<&Problem>) -> Page {
    let unseen = form.preview.is_some();
    let corrects = form.corrects.as_ref().map(|first| {
        view! {
            <p class="note">
                "These rows correct "
                <a href=format!("/imports/{}", first.id)>{first.name.clone()}</a>
                ". The list of failed rows is taken as it was downloaded: the columns that begin with _ are left out, and each row keeps its line."
            </p>
        }
    });
    let heading = if form.corrects.is_some() { "Upload corrected rows" } else { "Upload a file" };
    let refused = problem.map(|problem| refusal(title(problem), &detail(problem, form.limit_bytes)));
    let content = view! {
        <div class="narrow">
            <h1>{heading}</h1>
            <p class="lede">
                "Each row becomes one item of work. Rows that cannot be read are set aside with the reason; the others go on."
            </p>
            {refused} {corrects}
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
    let title = if problem.is_some() || unseen { format!("Not started: {heading}") } else { heading.to_owned() };
    Page { title, place: Place::Imports, content, lives: true }
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
