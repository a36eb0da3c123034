//! `/audit`: the audit log. The filter is part of the URL.

mod verbs; // actions in words

use std::collections::HashMap;

use domain::{
    id::Uuid,
    identity::audit::{ActorKind, AuditEntry},
    job::{Owner, OwnerKind},
};
use leptos::prelude::*;

use crate::{
    components::{
        panel::{empty, next_page, refusal},
        table::{self, words},
        timestamp::second,
    },
    frame::{NavSection, Page},
};

use crate::pages::identity::people::encoded;

/// Fields of the filter as in the URL, not validated.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filter {
    pub actor: String,
    pub action: String,
    /// A date, or a date and a time.
    pub since: String,
    /// A job, by its id.
    pub job: String,
}

/// Content of the page.
#[derive(Clone, Debug, Default)]
pub struct Audit {
    pub filter: Filter,
    pub entries: Vec<AuditEntry>,
    /// Names of the root jobs of the entries that are still stored.
    pub roots: HashMap<Uuid, String>,
    /// Address of the next page.
    pub next: Option<String>,
    /// Error in the filter.
    pub problem: Option<String>,
}

pub fn page(audit: &Audit) -> Page {
    let filtered = audit.filter != Filter::default();
    let list = match (&audit.problem, audit.entries.is_empty()) {
        (Some(problem), _) => refusal("This filter is not valid", problem),
        (None, true) if filtered => empty(
            "No entries match",
            "Remove a filter to see more.",
            view! {
                <a class="btn" href="/audit">
                    "Clear filter"
                </a>
            }
            .into_any(),
        ),
        (None, true) => empty(
            "No entries yet",
            "What people and services do to jobs, items, and accounts is recorded here.",
            view! { <a class="btn" href="/jobs">"Jobs"</a> }.into_any(),
        ),
        (None, false) => table(audit),
    };
    let content = view! {
        <div class="page-head">
            <h1>"Audit log"</h1>
            <p class="sub">"What people and services did to work and to accounts, and why. Kept after the work itself is gone."</p>
        </div>
        {filter_form(&audit.filter)}
        {list}
    }
    .into_any();
    Page {
        title: "Audit log".to_owned(),
        nav_section: NavSection::Audit,
        content,
        is_live: false,
        is_translated: false,
    }
}

fn filter_form(filter: &Filter) -> impl IntoView + use<> {
    let clear = (*filter != Filter::default()).then(|| view! { <a class="btn btn-quiet" href="/audit">"Clear"</a> });
    let input = |name: &'static str, label: &'static str, value: &str, placeholder: &'static str| {
        view! {
            <label class="field">
                <span class="label">{label}</span>
                <input type="search" name=name value=value.to_owned() placeholder=placeholder maxlength="200" />
            </label>
        }
    };
    view! {
        <form class="filters audit-filter" method="get" action="/audit" role="search" aria-label="Filter the log">
            {input("actor", "Person", &filter.actor, "Name")}
            {input("action", "Action", &filter.action, "job.delete")}
            {input("since", "Since", &filter.since, "2026-11-20")}
            {input("job", "Job", &filter.job, "Job ID")}
            <div class="actions">
                <button class="btn" type="submit">"Filter"</button>
                {clear}
            </div>
        </form>
    }
}

/// Entries as a table. Jobs that are not among the root jobs are shown by their ids. `staff`: the reader may open the
/// audit log, so people and actions are links to their entries.
pub(super) fn entries(entries: &[AuditEntry], roots: &HashMap<Uuid, String>, staff: bool) -> AnyView {
    let rows = entries
        .iter()
        .map(|entry| row(entry, entry.root_id.and_then(|id| roots.get_key_value(&id)), staff))
        .collect_view();
    let heads = words(["When", "Person", "Action", "Target", "Reason"]);
    table::frame("Audit log", "audit", heads, rows)
}

fn table(audit: &Audit) -> AnyView {
    view! {
        <div class="card">{entries(&audit.entries, &audit.roots, true)}</div>
        {next_page(audit.next.as_ref(), "Older")}
    }
    .into_any()
}

fn row(entry: &AuditEntry, root: Option<(&Uuid, &String)>, staff: bool) -> impl IntoView + use<> {
    let is_root = entry.item_id.is_none() && entry.job_id == entry.root_id;
    let target = match (entry.item_id, entry.job_id) {
        (None, None) if entry.operation_id.is_some() => {
            let id = entry.operation_id.unwrap_or_default();
            view! { <a class="mono" href=format!("/bulk/{id}")>{short("operation", &id)}</a> }.into_any()
        }
        (Some(item), _) => {
            view! { <a class="mono" href=format!("/items/{item}")>{short("item", &item)}</a> }.into_any()
        }
        (None, Some(_)) if is_root && root.is_some() => ().into_any(),
        (None, Some(job)) => view! { <a class="mono" href=format!("/jobs/{job}")>{short("job", &job)}</a> }.into_any(),
        (None, None) => ().into_any(),
    };
    let job = root.map(|(id, name)| {
        let before = if is_root { "" } else { " in " };
        view! { {before} <a href=format!("/jobs/{id}")>{name.clone()}</a> }
    });
    let owner = entry.owner.as_ref().map(|owner| {
        let of = if entry.job_id.is_some() { "of " } else { "" };
        view! { " " <span class="sub">{of} {name(owner)}</span> }
    });
    let detail = entry.detail.clone().map(|detail| view! { <span class="small soft detail">{detail}</span> });
    let verb = verbs::in_words(&entry.action).to_owned();
    let action = if staff {
        let there = format!("/audit?action={}", encoded(&entry.action));
        view! { <a class="plain" href=there title=entry.action.clone()>{verb}</a> }.into_any()
    } else {
        verb.into_any()
    };
    let actor = match entry.actor.kind {
        ActorKind::Nobody => view! { "Not signed in" }.into_any(),
        ActorKind::Operator => format!("{} (command line)", entry.actor.name).into_any(),
        ActorKind::User | ActorKind::Service => {
            let service = if entry.actor.kind == ActorKind::Service { " (service)" } else { "" };
            let actor_name = format!("{}{service}", entry.actor.name);
            if staff {
                view! { <a href=format!("/audit?actor={}", encoded(&entry.actor.name))>{actor_name}</a> }.into_any()
            } else {
                actor_name.into_any()
            }
        }
    };
    let credential = entry.credential_id.map(|id| {
        let what = if entry.actor.kind == ActorKind::Service { "token" } else { "session" };
        short(what, &id)
    });
    let from = [entry.address.clone(), credential].into_iter().flatten().collect::<Vec<_>>().join(", ");
    let from = (!from.is_empty()).then(|| view! { <span class="mono">{from}</span> });
    view! {
        <tr role="row">
            <td role="cell" class="nowrap soft" data-label="When">{second(entry.at)}</td>
            <th scope="row" role="rowheader" class="name">
                <span class="two">
                    <span>{actor}</span>
                    {from}
                </span>
            </th>
            <td role="cell" class="wrap" data-label="Action">
                {action}
                {detail}
            </td>
            <td role="cell" class="wrap" data-label="Target">{target} {job} {owner}</td>
            <td role="cell" class="wrap" data-label="Reason">{entry.reason.clone().map_or_else(
                    || view! { <span class="faint">"–"</span> }.into_any(),
                    |reason| view! { <span class="soft">{reason}</span> }.into_any(),
                )}</td>
        </tr>
    }
}

fn name(owner: &Owner) -> String {
    match owner.kind {
        OwnerKind::User => owner.name.clone(),
        OwnerKind::Service => format!("{} (service)", owner.name),
    }
}

/// End of an id; its beginning is the time, which many ids share.
fn short(what: &str, id: &Uuid) -> String {
    let id = id.to_string();
    // The joiner keeps the line from breaking after the ellipsis.
    format!("{what} …\u{2060}{}", &id[id.len().saturating_sub(8)..])
}
