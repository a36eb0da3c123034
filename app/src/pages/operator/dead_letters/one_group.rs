//! One error group: its message, count and first occurrence, and its items.

use crate::speech::grouped;
use domain::{
    api::ErrorGroup,
    query::filter::{Filter, Term},
};
use leptos::prelude::*;

use super::{
    Items, affected, failed,
    groups::{badge, filter_of, mute_end},
    preview,
    state_forms::forms,
};
use crate::{
    components::{action_form::flash, breadcrumbs::breadcrumbs, filter_bar::bar, panel::empty, timestamp::ago},
    frame::{NavSection, Page},
};

/// Group that the filter selects, if it selects exactly one. Without details, it must have items.
pub(super) fn of(page_data: &Items) -> Option<&ErrorGroup> {
    let named = page_data.list_filter.filter.terms.iter().any(|term| term.name.as_deref() == Some("error"));
    let detail = page_data.detail.as_ref().filter(|_| named);
    let one = page_data.groups.as_ref().filter(|groups| named && groups.len() == 1).and_then(|groups| groups.first());
    match (one, detail) {
        (Some(one), Some(_)) => Some(one),
        (None, Some(detail)) => Some(&detail.group),
        (one, None) => one.filter(|_| !page_data.items.is_empty()),
    }
}

pub(super) fn page(page_data: &Items, group: &ErrorGroup) -> Page {
    let whole = filter_of(page_data, group);
    let rest: Vec<Term> = page_data
        .list_filter
        .filter
        .terms
        .iter()
        .filter(|term| term.name.as_deref() != Some("error"))
        .cloned()
        .collect();
    let back = page_data.list_filter.link(&Filter::from(rest));
    let count = if group.count == 1 { "1 item".to_owned() } else { format!("{} items", grouped(group.count)) };
    let key = format!("{} {}", group.job_type, group.fingerprint);
    let is_whole = whole.terms.iter().all(|term| matches!(term.name.as_deref(), Some("type" | "error")));
    let kind = if page_data.staff {
        view! { <a href=format!("/types/{}", group.job_type)>{group.job_type.clone()}</a> }.into_any()
    } else {
        group.job_type.clone().into_any()
    };
    let list = if page_data.items.is_empty() {
        empty("No failed items match", "Someone may have retried them.", ().into_any())
    } else {
        failed(page_data)
    };
    let retry = (group.count > 0).then(|| preview(&whole, format!("Retry {count}…")));
    let (forms, charts, affected, history) = match &page_data.detail {
        None => (None, None, None, None),
        Some(detail) => (
            Some(forms(&detail.group, &page_data.list_filter.filter, page_data.refused.as_ref())),
            Some(affected::charts(detail)),
            Some(affected::jobs_and_owners(detail)),
            Some(affected::history(&detail.history)),
        ),
    };
    breadcrumbs(&[(&back, "Failures")], group.message.as_str());
    let content = view! {
        <div class="stack gap-4" id="failures" data-refresh="" data-topics="failures">
            <div class="job-title">
                <h1 class="issue-title">{group.message.clone()}</h1>
                <span id="group-state">{badge(group)}</span>
                <div class="actions group-actions">{retry} {forms}</div>
            </div>
            {flash(page_data.flash.as_deref())}
            <section class="card" aria-label="About this error" data-group=is_whole.then_some(key)>
                <div class="card-body pad">
                    <dl class="facts">
                        <div>
                            <dt>"Failed items"</dt>
                            <dd><strong class="num" data-count="">{grouped(group.count)}</strong></dd>
                        </div>
                        <div><dt>"Job type"</dt><dd>{kind}</dd></div>
                        {mute_end(group).map(|end| view! { <div><dt>"Ignored"</dt><dd>{end}</dd></div> })}
                        {group.kind.clone().map(|kind| view! { <div><dt>"Code"</dt><dd><span class="tag">{kind}</span></dd></div> })}
                        <div><dt>"First seen"</dt><dd>{ago(group.first_seen_at)}</dd></div>
                        <div><dt>"Last seen"</dt><dd data-last="">{ago(group.last_seen_at)}</dd></div>
                        <div>
                            <dt>"Example"</dt>
                            <dd><a href=format!("/items/{}", group.sample_item_id)>"Open item"</a></dd>
                        </div>
                    </dl>
                </div>
            </section>
            {charts}
            {affected}
            {history}
            {list}
        </div>
        <div class="group-filter">{bar(&page_data.list_filter, "Filter failures", &[], &page_data.types)}</div>
    }
    .into_any();
    let title: String = group.message.chars().take(80).collect();
    Page { title, nav_section: NavSection::Dead, content, is_live: false, is_translated: false }
}
