//! `/audit`: who did what, to whose work, why and when. The filter is the address.

use domain::{
    audit::{ActorKind, AuditEntry},
    job::{Owner, OwnerKind},
};
use leptos::prelude::*;

use crate::{
    components::{
        moment::clock,
        panel::{empty, next_page, refusal},
        table::{self, words},
    },
    frame::{Page, Place},
};

use super::people::encoded;

/// The filter as it stands in the address: unchecked words.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filter {
    pub actor: String,
    pub action: String,
    /// A date, or a date and a time.
    pub since: String,
    /// A job, by its id.
    pub job: String,
}

/// What the page shows.
#[derive(Clone, Debug, Default)]
pub struct Audit {
    pub filter: Filter,
    pub entries: Vec<AuditEntry>,
    /// Address of the next page.
    pub next: Option<String>,
    /// What is wrong with the filter.
    pub problem: Option<String>,
}

pub fn page(audit: &Audit) -> Page {
    let filtered = audit.filter != Filter::default();
    let list = match (&audit.problem, audit.entries.is_empty()) {
        (Some(problem), _) => refusal("This filter cannot be used", problem),
        (None, true) if filtered => empty(
            "Nothing matches",
            "Nothing in the log fits this filter. Take something out of it, or clear it.",
            view! {
                <a class="button" href="/audit">
                    "Clear the filter"
                </a>
            }
            .into_any(),
        ),
        (None, true) => empty(
            "Nothing yet",
            "Whatever people do to work, and to each other's accounts, is written down here and stays.",
            view! { <a href="/jobs">"To the jobs"</a> }.into_any(),
        ),
        (None, false) => table(audit),
    };
    let content = view! {
        <h1>"Audit log"</h1>
        {filter_form(&audit.filter)}
        {list}
    }
    .into_any();
    Page { title: "Audit log".to_owned(), place: Place::Audit, content, lives: false }
}

fn filter_form(filter: &Filter) -> impl IntoView + use<> {
    let clear = (*filter != Filter::default()).then(|| view! { <a href="/audit">"Clear"</a> });
    let input = |name: &'static str, label: &'static str, value: &str, placeholder: &'static str| {
        view! {
            <label class="field">
                <span>{label}</span>
                <input type="search" name=name value=value.to_owned() placeholder=placeholder maxlength="200" />
            </label>
        }
    };
    view! {
        <form class="filter" method="get" action="/audit" role="search" aria-label="Filter the log">
            {input("actor", "Who", &filter.actor, "a name")}
            {input("action", "What", &filter.action, "job.delete")}
            {input("since", "Not before", &filter.since, "2026-11-20")}
            {input("job", "Job", &filter.job, "its id")}
            <div class="filter-actions">
                <button type="submit">"Filter"</button>
                {clear}
            </div>
        </form>
    }
}

fn table(audit: &Audit) -> AnyView {
    let rows = audit.entries.iter().map(row).collect_view();
    let heads = words(["When", "Who", "Did", "To", "Why"]);
    let table = table::frame("Audit log", "stack audit", heads, rows);
    view! {
        {table}
        {next_page(audit.next.as_ref(), "Older entries")}
    }
    .into_any()
}

fn row(entry: &AuditEntry) -> impl IntoView + use<> {
    let target = match (entry.item_id, entry.job_id) {
        (None, None) if entry.operation_id.is_some() => {
            let id = entry.operation_id.unwrap_or_default();
            view! { <a class="mono" href=format!("/bulk/{id}")>{short("operation", &id)}</a> }.into_any()
        }
        (Some(item), _) => {
            view! { <a class="mono" href=format!("/items/{item}")>{short("item", &item)}</a> }.into_any()
        }
        (None, Some(job)) => view! { <a class="mono" href=format!("/jobs/{job}")>{short("job", &job)}</a> }.into_any(),
        (None, None) => ().into_any(),
    };
    let owner = entry.owner.as_ref().map(|owner| {
        let of = if entry.job_id.is_some() { "of " } else { "" };
        view! { " " <span class="sub">{of} {name(owner)}</span> }
    });
    let detail = entry.detail.clone().map(|detail| view! { " " <span class="sub">{detail}</span> });
    let action = entry.action.clone();
    let actor = match entry.actor.kind {
        ActorKind::Nobody => view! { "Somebody who is not signed in" }.into_any(),
        ActorKind::Operator => format!("{} (command line)", entry.actor.name).into_any(),
        ActorKind::User | ActorKind::Service => {
            let service = if entry.actor.kind == ActorKind::Service { " (service)" } else { "" };
            let shown = format!("{}{service}", entry.actor.name);
            view! { <a href=format!("/audit?actor={}", encoded(&entry.actor.name))>{shown}</a> }.into_any()
        }
    };
    let credential = entry.credential_id.map(|id| {
        let what = if entry.actor.kind == ActorKind::Service { "token" } else { "session" };
        short(what, &id)
    });
    let from = [entry.address.clone(), credential].into_iter().flatten().collect::<Vec<_>>().join(", ");
    let from = (!from.is_empty()).then(|| view! { " " <span class="sub mono">{from}</span> });
    view! {
        <tr role="row">
            <td role="cell" data-label="When">{clock(entry.at)}</td>
            <th scope="row" role="rowheader">
                {actor}
                {from}
            </th>
            <td role="cell" class="wrap" data-label="Did">
                <a class="mono" href=format!("/audit?action={}", encoded(&action))>{action.clone()}</a>
                {detail}
            </td>
            <td role="cell" class="wrap" data-label="To">{target} {owner}</td>
            <td role="cell" class="wrap" data-label="Why">{entry.reason.clone().unwrap_or_else(|| "–".to_owned())}</td>
        </tr>
    }
}

fn name(owner: &Owner) -> String {
    match owner.kind {
        OwnerKind::User => owner.name.clone(),
        OwnerKind::Service => format!("{} (service)", owner.name),
    }
}

/// The end of an id: the beginning is the time, which many share.
fn short(what: &str, id: &domain::id::Uuid) -> String {
    let id = id.to_string();
    format!("{what} …{}", &id[id.len().saturating_sub(8)..])
}
