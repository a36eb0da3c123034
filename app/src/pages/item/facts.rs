//! Facts about an item: its job, type, owner, and keys, each with a link.

use crate::speech::grouped;
use domain::{
    Item,
    debounce::ItemDebounce,
    query::filter::{Term, lists::List},
};
use leptos::prelude::*;

use super::Actions;
use crate::{
    components::{copyable_id::copyable_id, json, timestamp::clock},
    pages::operator::dead_letters::rows_of,
};

pub(super) fn card(item: &Item, actions: &Actions) -> AnyView {
    let fact = |term: &'static str, value: AnyView| view! { <dt>{term}</dt> <dd>{value}</dd> };
    let job = actions.job.clone().unwrap_or_else(|| "Open job".to_owned());
    let found = |name: &'static str, key: &str| {
        let there = rows_of("/items", List::Items, vec![Term::is(name, key)]);
        view! { <a class="mono" href=there>{key.to_owned()}</a> }.into_any()
    };
    let kind = if actions.staff {
        view! { <a href=format!("/types/{}", item.job_type)>{item.job_type.clone()}</a> }.into_any()
    } else {
        item.job_type.clone().into_any()
    };
    let owner = actions.owner.clone().map(|owner| {
        let there = rows_of("/jobs", List::Jobs, vec![Term::is("owner", &owner)]);
        let name = if actions.staff { view! { <a href=there>{owner}</a> }.into_any() } else { owner.into_any() };
        fact("Owner", name)
    });
    let fed = item.fed_by.map(|id| {
        fact("Created by", view! { <a href=format!("/items/{id}")>"an item of the job above"</a> }.into_any())
    });
    view! {
        <section class="card" id="details" aria-labelledby="details-heading">
            <div class="card-head">
                <h2 id="details-heading">"Details"</h2>
            </div>
            <div class="card-body">
                <dl class="kv">
                    {fact("Item ID", copyable_id("item-id", "item ID", item.id.to_string()))} {fact("Job", view! { <a href=format!("/jobs/{}", item.job_id)>{job}</a> }.into_any())}
                    {fact("Job type", kind)} {owner} {item.row.map(|row| fact("File row", grouped(row).into_any()))}
                    {fact("Position", grouped(item.seq).into_any())}
                    {item.run_after.map(|at| fact("Starts after", clock(at).into_any()))}
                    {item.expires_at.map(|at| fact("Expires", clock(at).into_any()))}
                    {item.finished_at.map(|at| fact("Ended", clock(at).into_any()))}
                    {fact("Priority", item.priority.to_string().into_any())}
                    {item.serialize_key.as_ref().map(|key| fact("Serialize key", found("serialize_key", key)))}
                    {item.debounce.as_ref().map(|debounce| fact("Debounce key", debounced(debounce).into_any()))}
                    {item.dedupe_key.as_ref().map(|key| fact("Dedupe key", found("dedupe_key", key)))} {fed}
                    {fact("Raw", view! { <a href=format!("/api/v1/items/{}", item.id)>"View raw JSON"</a> }.into_any())}
                </dl>
            </div>
        </section>
    }
    .into_any()
}

/// Debounce key, and how many later items were merged.
fn debounced(debounce: &ItemDebounce) -> String {
    let merged = match debounce.merged {
        0 => String::new(),
        n => format!(" ({} merged)", grouped(n)),
    };
    format!("{}{merged}", debounce.key)
}

/// Link to a worker, for readers who may see workers.
pub(super) fn worker(name: &str, actions: &Actions) -> AnyView {
    if actions.staff {
        view! { <a class="mono" href="/workers">{name.to_owned()}</a> }.into_any()
    } else {
        view! { <span class="mono">{name.to_owned()}</span> }.into_any()
    }
}

pub(super) fn metadata(item: &Item) -> Option<AnyView> {
    (!matches!(item.metadata.text(), "{}" | "null")).then(|| {
        view! {
            <section class="card" id="metadata" aria-labelledby="metadata-heading">
                <div class="card-head">
                    <h2 id="metadata-heading">"Metadata"</h2>
                </div>
                {json::viewer("metadata-doc", "Metadata", &item.metadata, None)}
            </section>
        }
        .into_any()
    })
}
