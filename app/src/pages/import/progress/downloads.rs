//! Downloads of a job: its results, and its failures with their reasons.

use domain::Job;
use leptos::prelude::*;

use super::{counted, file_of};
use crate::components::{form::choice, state::icon};

/// Card of downloads. While the job runs, they contain what is finished so far, and say so.
pub(crate) fn card(job: &Job, file: bool, completed: bool) -> AnyView {
    let id = job.id;
    let counts = job.tree.counts;
    let so_far = if completed { "" } else { " so far" };
    let link = |address: &str, what: &str, word: &'static str, label: String, present: bool| {
        if present {
            view! {
                <a
                    class="btn btn-sm"
                    href=format!("/api/v1/jobs/{id}/{address}")
                    download=file_of(job, what)
                    aria-label=label
                >
                    {icon("download")}
                    {word}
                </a>
            }
            .into_any()
        } else {
            view! { <span class="btn btn-sm" aria-disabled="true">{icon("download")} {word}</span> }.into_any()
        }
    };
    let line = |shape: &'static str, heading: String, text: String, links: AnyView| {
        view! {
            <li class="row small">
                <span class="soft">{icon(shape)}</span>
                <span class="two grow">
                    <span class="strong">{heading}</span>
                    <span>{text}</span>
                </span>
                {links}
            </li>
        }
    };
    let (results, failed) = (counts.succeeded > 0, counts.dead > 0);
    let result_links = view! {
        {link("results?format=csv", "results.csv", "CSV", "Results, CSV".to_owned(), results)}
        {link("results?format=xlsx", "results.xlsx", "XLSX", "Results, XLSX".to_owned(), results)}
        {link("results?format=ndjson", "results.ndjson", "NDJSON", "Results, NDJSON".to_owned(), results)}
    };
    let failed_words = if file { "Failed rows" } else { "Failed items" };
    let failed_links = view! {
        {link("failures?format=csv", "failed.csv", "CSV", format!("{failed_words}, CSV"), failed)}
        {link("failures?format=xlsx", "failed.xlsx", "XLSX", format!("{failed_words}, XLSX"), failed)}
    };
    view! {
        <section class="card" id="downloads" aria-labelledby="downloads-heading">
            <div class="card-head">
                <h2 id="downloads-heading">"Downloads"</h2>
            </div>
            <div class="card-body">
                <ul class="stack">
                    {line("file-text", format!("Results{so_far}"), counted(file, counts.succeeded), result_links.into_any())}
                    {line(
                        "triangle-alert",
                        format!("{failed_words}{so_far}"),
                        if failed { format!("{}, each with its reason", counted(file, counts.dead)) } else { counted(file, 0) },
                        failed_links.into_any(),
                    )}
                </ul>
                {(results || failed).then(|| csv_options(job, failed_words, results, failed))}
            </div>
        </section>
    }
    .into_any()
}

/// Form for a CSV file that another program reads: its separator, and a byte order mark for Excel.
fn csv_options(job: &Job, failed_words: &'static str, results: bool, failed: bool) -> AnyView {
    let address = |what: &str| format!("/api/v1/jobs/{}/{what}", job.id);
    let button = |what: &str, word: &'static str| {
        view! { <button class="btn btn-sm" formaction=address(what)>{icon("download")} {word}</button> }
    };
    let separators = [(",", "Comma"), (";", "Semicolon (Excel in most of Europe)"), ("\t", "Tab")];
    view! {
        <details class="help" id="csv-options">
            <summary class="small">"CSV for another program"</summary>
            <form method="get" action=address("results") class="stack gap-3">
                <input type="hidden" name="format" value="csv" />
                {choice("Separator", "delimiter", &separators, ";")}
                {choice("Encoding", "bom", &[("true", "UTF-8 for Excel"), ("false", "UTF-8")], "true")}
                <div class="row">
                    {results.then(|| button("results", "Results"))} {failed.then(|| button("failures", failed_words))}
                </div>
            </form>
        </details>
    }
    .into_any()
}
