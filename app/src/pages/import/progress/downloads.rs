//! Downloads of a job: its results, and its failures with their reasons.

use domain::Job;
use leptos::prelude::*;

use super::file_of;
use crate::{
    components::{form::choice, state::icon},
    job_view::{counted, kind},
    t,
};

/// Card of downloads. While the job runs, they contain what is finished so far, and say so.
pub(crate) fn card(job: &Job, file: bool, completed: bool) -> AnyView {
    let id = job.id;
    let counts = job.tree.counts;
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
            <li class="row row-wrap small">
                <span class="soft">{icon(shape)}</span>
                <span class="two grow">
                    <span class="strong">{heading}</span>
                    <span>{text}</span>
                </span>
                <span class="download-links">{links}</span>
            </li>
        }
    };
    let (results, failed) = (counts.succeeded > 0, counts.dead > 0);
    let result_links = view! {
        {link("results?format=csv", "results.csv", "CSV", t!("downloads-results-as", format = "CSV"), results)}
        {link("results?format=xlsx", "results.xlsx", "XLSX", t!("downloads-results-as", format = "XLSX"), results)}
        {link("results?format=ndjson", "results.ndjson", "NDJSON", t!("downloads-results-as", format = "NDJSON"), results)}
    };
    let kind = kind(file);
    let failed_links = view! {
        {link("failures?format=csv", "failed.csv", "CSV", t!("downloads-failed-as", kind = kind, format = "CSV"), failed)}
        {link("failures?format=xlsx", "failed.xlsx", "XLSX", t!("downloads-failed-as", kind = kind, format = "XLSX"), failed)}
        {link("failures?format=ndjson", "failed.ndjson", "NDJSON", t!("downloads-failed-as", kind = kind, format = "NDJSON"), failed)}
    };
    let (results_words, failed_words) = if completed {
        (t!("downloads-results"), t!("downloads-failed", kind = kind))
    } else {
        (t!("downloads-results-so-far"), t!("downloads-failed-so-far", kind = kind))
    };
    view! {
        <section class="card" id="downloads" aria-labelledby="downloads-heading">
            <div class="card-head">
                <h2 id="downloads-heading">{t!("downloads-title")}</h2>
            </div>
            <div class="card-body">
                <ul class="stack">
                    {line("file-text", results_words.to_owned(), counted(file, counts.succeeded), result_links.into_any())}
                    {line(
                        "triangle-alert",
                        failed_words,
                        if failed { t!("downloads-each-reason", rows = &counted(file, counts.dead)) } else { counted(file, 0) },
                        failed_links.into_any(),
                    )}
                </ul>
                {(results || failed).then(|| csv_options(job, kind, results, failed))}
            </div>
        </section>
    }
    .into_any()
}

/// Form for a CSV file that another program reads: its separator, and a byte order mark for Excel.
fn csv_options(job: &Job, kind: &str, results: bool, failed: bool) -> AnyView {
    let address = |what: &str| format!("/api/v1/jobs/{}/{what}", job.id);
    let button = |what: &str, word: String| {
        view! { <button class="btn btn-sm" formaction=address(what)>{icon("download")} {word}</button> }
    };
    let separators = [(",", t!("separator-comma")), (";", t!("downloads-semicolon")), ("\t", t!("separator-tab"))];
    view! {
        <details class="help" id="csv-options">
            <summary class="small">{t!("downloads-csv")}</summary>
            <form method="get" action=address("results") class="stack gap-3">
                <input type="hidden" name="format" value="csv" />
                {choice(t!("import-separator"), "delimiter", &separators, ";")}
                {choice(t!("import-encoding"), "bom", &[("true", t!("downloads-utf8-excel")), ("false", "UTF-8")], "true")}
                <div class="row">
                    {results.then(|| button("results", t!("downloads-results").to_owned()))} {failed.then(|| button("failures", t!("downloads-failed", kind = kind)))}
                </div>
            </form>
        </details>
    }
    .into_any()
}
