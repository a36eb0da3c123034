//! `/jobs/{id}?view=results`: the newest succeeded items with their results, beside the downloads of all of them.

use domain::{Item, Job, JobStatus};
use leptos::prelude::*;

use crate::pages::import::progress;
use crate::{
    components::{
        json,
        panel::{empty, next_page},
        table::{
            self,
            Head::{Number, Words},
        },
        timestamp::second,
    },
    job_view::ActiveItem,
};

/// Maximum number of characters of a result in a row.
const MOST: usize = 160;

/// Items that have succeeded, newest first, and the URL of the next page.
#[derive(Clone, Debug, Default)]
pub struct Results {
    pub items: Vec<Item>,
    pub next: Option<String>,
}

pub(super) fn results(job: &Job, results: &Results) -> AnyView {
    let completed = job.tree.status == JobStatus::Completed;
    let list = if results.items.is_empty() && results.next.is_none() {
        let link = view! { <a class="btn" href=format!("/jobs/{}", job.id)>"Summary"</a> }.into_any();
        empty("No results yet", "Items appear here as they succeed, with what their workers returned.", link)
    } else {
        let items = ActiveItem::of_items(job, &results.items);
        let rows = results.items.iter().zip(items).map(|(item, labels)| row(item, labels)).collect_view();
        let heads = [Words("Item"), Words("Result"), Number("Attempts"), Words("Finished")];
        view! {
            {table::frame("Results", "results", heads, rows)}
            {next_page(results.next.as_ref(), "More results")}
        }
        .into_any()
    };
    view! {
        <div class="stack gap-4" id="results" data-refresh="">
            {progress::downloads_card(job, job.upload_id.is_some(), completed)}
            <section class="card" aria-labelledby="results-heading">
                <div class="card-head">
                    <h2 id="results-heading">"Results"</h2>
                    <span class="sub">"newest first"</span>
                </div>
                {list}
            </section>
        </div>
    }
    .into_any()
}

fn row(item: &Item, labels: ActiveItem) -> impl IntoView + use<> {
    let result = item.result.as_ref().map(|result| json::summary(result.text(), MOST)).unwrap_or_default();
    view! {
        <tr role="row" data-key=item.id.to_string()>
            <th scope="row" role="rowheader" class="name">
                <span class="two">
                    <a href=format!("/items/{}", item.id)>{labels.label}</a>
                    <span>{labels.job}</span>
                </span>
            </th>
            <td role="cell" class="wide" data-label="Result">
                <span class="clamp soft xs item-payload">{if result.is_empty() { "–".to_owned() } else { result }}</span>
            </td>
            <td role="cell" class="num" data-label="Attempts">{item.attempts}</td>
            <td role="cell" class="nowrap" data-label="Finished">{second(item.finished_at.unwrap_or(item.updated_at))}</td>
        </tr>
    }
}
