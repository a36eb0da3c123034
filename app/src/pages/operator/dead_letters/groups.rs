//! Error groups as rows: message, code, type, count, first and last occurrence.

use domain::{
    api::ErrorGroup,
    dispatch::progress::grouped,
    query::filter::{Filter, Term},
};
use leptos::prelude::*;

use super::{Items, preview};
use crate::components::{panel::note, timestamp::ago};

/// Groups on a page.
const MOST: usize = 20;

pub(super) fn card(page_data: &Items) -> AnyView {
    let Some(groups) = &page_data.groups else {
        // Later pages show only the items.
        return if page_data.first {
            let text = "Errors are grouped by job, type, error and message. This filter asks for more, so it shows only the items.";
            note(text)
        } else {
            ().into_any()
        };
    };
    if groups.is_empty() {
        let text: String = page_data
            .list_filter
            .filter
            .terms
            .iter()
            .filter(|term| term.name.is_none())
            .map(ToString::to_string)
            .collect();
        return note(format!("No error contains \u{201c}{text}\u{201d}. These items have it in their payload."));
    }
    let lines = groups.iter().take(MOST).map(|group| one(page_data, group)).collect_view();
    let more = groups.len().saturating_sub(MOST);
    let more = (more > 0).then(|| {
        let text = match more {
            1 => "1 smaller group is not shown. Narrow the filter to see it.".to_owned(),
            n => format!("{} smaller groups are not shown. Narrow the filter to see them.", grouped(n as i64)),
        };
        view! { <div class="card-foot"><span class="sub">{text}</span></div> }
    });
    let count = match groups.len() {
        1 => "1 kind of error".to_owned(),
        n => format!("{} kinds of errors", grouped(n as i64)),
    };
    view! {
        <section class="card" id="groups" aria-labelledby="groups-heading">
            <div class="card-head">
                <h2 id="groups-heading">"Errors"</h2>
                <span class="sub">{count}</span>
            </div>
            <div class="issue issue-head issue-retry" aria-hidden="true">
                <span>"Error"</span>
                <span class="num">"Items"</span>
                <span class="num">"First seen"</span>
                <span class="num">"Last seen"</span>
                <span></span>
            </div>
            <ul class="lined error-groups">{lines}</ul>
            {more}
        </section>
    }
    .into_any()
}

/// Filter for this group within the current filter.
pub(super) fn filter_of(page_data: &Items, group: &ErrorGroup) -> Filter {
    page_data.list_filter.filter.with(Term::is("error", &group.fingerprint)).with(Term::is("type", &group.job_type))
}

fn one(page_data: &Items, group: &ErrorGroup) -> impl IntoView + use<> {
    let list_filter = &page_data.list_filter;
    let this = filter_of(page_data, group);
    // Within a job or a tree the count differs from the one in the event.
    let is_whole = list_filter.filter.terms.iter().all(|term| matches!(term.name.as_deref(), Some("type" | "error")));
    let key = format!("{} {}", group.job_type, group.fingerprint);
    let count = grouped(group.count);
    view! {
        <li class="issue issue-retry" data-key=key.clone() data-group=is_whole.then_some(key)>
            <div class="issue-text">
                <a class="clip issue-message" href=list_filter.link(&this)>
                    {group.message.clone()}
                </a>
                <p class="issue-meta">
                    {group.kind.clone().map(|kind| view! { <span class="tag">{kind}</span> " " })}
                    <span>{group.job_type.clone()}</span>
                    " · "
                    <a class="hit" href=format!("/items/{}", group.sample_item_id)>"Example"</a>
                </p>
            </div>
            <span class="num">
                <strong data-count="">{count.clone()}</strong>
                <span class="vh">{if group.count == 1 { " item" } else { " items" }}</span>
            </span>
            <span class="num soft"><span class="vh">"first seen "</span>{ago(group.first_seen_at)}</span>
            <span class="num soft" data-last=""><span class="vh">"last seen "</span>{ago(group.last_seen_at)}</span>
            <div class="issue-act">{preview(&this, format!("Retry {count}"))}</div>
        </li>
    }
}
