//! Error groups as rows: message, code, type, count, first and last occurrence.

use crate::speech::grouped;
use domain::{
    api::{ErrorGroup, GroupState},
    query::filter::{Filter, Term},
};
use leptos::prelude::*;

use super::{Items, preview};
use crate::{
    address::address,
    components::{
        chart::sparkline,
        panel::note,
        timestamp::{ago, clock},
    },
};

/// Groups on a page.
const MOST: usize = 20;

/// Groups by the decision about them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum GroupTab {
    /// Open, or back after they were resolved.
    #[default]
    Open,
    Resolved,
    Muted,
}

impl GroupTab {
    const ALL: [Self; 3] = [Self::Open, Self::Resolved, Self::Muted];

    /// Value of the query parameter `groups`; an unknown one is `Open`.
    pub fn read(word: &str) -> Self {
        Self::ALL.into_iter().find(|tab| tab.word() == word).unwrap_or_default()
    }

    const fn word(self) -> &'static str {
        match self {
            Self::Open => "",
            Self::Resolved => "resolved",
            Self::Muted => "muted",
        }
    }

    const fn title(self) -> &'static str {
        match self {
            Self::Open => "Open",
            Self::Resolved => "Resolved",
            Self::Muted => "Ignored",
        }
    }

    const fn nothing(self) -> &'static str {
        match self {
            Self::Open => "No open errors. What is resolved or ignored is on the other tabs.",
            Self::Resolved => {
                "No resolved errors. Resolve an error when its fix is deployed; it comes back if it happens again."
            }
            Self::Muted => "No ignored errors.",
        }
    }

    const fn has(self, state: GroupState) -> bool {
        match self {
            Self::Open => state.needs_attention(),
            Self::Resolved => matches!(state, GroupState::Resolved),
            Self::Muted => matches!(state, GroupState::Muted),
        }
    }
}

/// Order of the groups, the highest first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum GroupOrder {
    #[default]
    LastSeen,
    Items,
    FirstSeen,
}

impl GroupOrder {
    const ALL: [Self; 3] = [Self::LastSeen, Self::Items, Self::FirstSeen];

    /// Value of the query parameter `order`; an unknown one is `LastSeen`.
    pub fn read(word: &str) -> Self {
        Self::ALL.into_iter().find(|order| order.word() == word).unwrap_or_default()
    }

    const fn word(self) -> &'static str {
        match self {
            Self::LastSeen => "",
            Self::Items => "items",
            Self::FirstSeen => "first-seen",
        }
    }

    const fn title(self) -> &'static str {
        match self {
            Self::LastSeen => "Last seen",
            Self::Items => "Most items",
            Self::FirstSeen => "First seen",
        }
    }
}

/// Groups of the chosen tab, as many as a page shows.
pub(super) fn listed(page_data: &Items) -> Vec<&ErrorGroup> {
    let groups = page_data.groups.iter().flatten();
    groups.filter(|group| page_data.tab.has(group.state)).take(MOST).collect()
}

/// Returns true if there are resolved or ignored groups.
pub(super) fn has_decided(page_data: &Items) -> bool {
    page_data.first && page_data.groups.iter().flatten().any(|group| !GroupTab::Open.has(group.state))
}

/// URL of the page with the same filter, and this tab and order.
fn link(page_data: &Items, tab: GroupTab, order: GroupOrder) -> String {
    let q = page_data.list_filter.filter.to_string();
    let to = address(page_data.list_filter.path, &[("q", &q), ("groups", tab.word()), ("order", order.word())]);
    if to == page_data.list_filter.path { page_data.list_filter.everything() } else { to }
}

fn orders(page_data: &Items) -> AnyView {
    let links = GroupOrder::ALL.map(|order| {
        let current = (order == page_data.order).then_some("true");
        view! { <a href=link(page_data, page_data.tab, order) aria-current=current>{order.title()}</a> }
    });
    view! { <nav class="seg-control" aria-label="Order of the errors">{links.collect_view()}</nav> }.into_any()
}

fn tabs(page_data: &Items) -> AnyView {
    let links = GroupTab::ALL.map(|tab| {
        let n = page_data.groups.iter().flatten().filter(|group| tab.has(group.state)).count();
        view! {
            <a href=link(page_data, tab, page_data.order) aria-current=(tab == page_data.tab).then_some("page")>
                {tab.title()}
                <span class="count">{grouped(n as i64)}</span>
            </a>
        }
    });
    view! { <nav class="tabs group-tabs" aria-label="Errors by state">{links.collect_view()}</nav> }.into_any()
}

/// Badge of a state; an open group has none.
pub(super) fn badge(group: &ErrorGroup) -> Option<AnyView> {
    let (class, word) = match group.state {
        GroupState::Open => return None,
        GroupState::Regressed => ("badge s-retryable", "Came back"),
        GroupState::Resolved => ("badge s-succeeded", "Resolved"),
        GroupState::Muted => ("badge s-cancelled", "Ignored"),
    };
    Some(view! { <span class=class data-group-state=group.state.as_str()>{word}</span> }.into_any())
}

/// End of a mute: `until 20 Nov, 14:03, or for 5 more failures`.
pub(super) fn mute_end(group: &ErrorGroup) -> Option<AnyView> {
    let failures = group.muted_failures.map(|n| match n {
        1 => "for 1 more failure".to_owned(),
        n => format!("for {} more failures", grouped(n)),
    });
    match (group.muted_until, failures) {
        (None, None) => None,
        (None, Some(failures)) => Some(failures.into_any()),
        (Some(until), None) => Some(view! { "until " {clock(until)} }.into_any()),
        (Some(until), Some(failures)) => Some(view! { "until " {clock(until)} ", or " {failures} }.into_any()),
    }
}

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
    let n = groups.iter().filter(|group| page_data.tab.has(group.state)).count();
    let lines = listed(page_data).into_iter().map(|group| one(page_data, group)).collect_view();
    let nothing = (n == 0).then(|| note(page_data.tab.nothing()));
    let more = n.saturating_sub(MOST);
    let more = (more > 0).then(|| {
        let text = match more {
            1 => "1 more is not shown. Narrow the filter to see it.".to_owned(),
            n => format!("{} more are not shown. Narrow the filter to see them.", grouped(n as i64)),
        };
        view! { <div class="card-foot"><span class="sub">{text}</span></div> }
    });
    let count = match n {
        1 => "1 kind of error".to_owned(),
        n => format!("{} kinds of errors", grouped(n as i64)),
    };
    view! {
        <section class="card" id="groups" aria-labelledby="groups-heading">
            <div class="card-head">
                <h2 id="groups-heading">"Errors"</h2>
                <span class="sub">{count}</span>
                {(n > 1).then(|| orders(page_data))}
            </div>
            {tabs(page_data)}
            {nothing}
            <div class="issue issue-head issue-retry" aria-hidden="true" hidden=n == 0>
                <span>"Error"</span>
                <span>"Last 24 h"</span>
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
    let spark = page_data.sparklines.get(&(group.job_type.clone(), group.fingerprint.clone()));
    let spark = spark.map(|counts| sparkline(counts));
    let retry = (group.count > 0).then(|| preview(&this, format!("Retry {count}")));
    view! {
        <li class="issue issue-retry" data-key=key.clone() data-group=is_whole.then_some(key)>
            <div class="issue-text">
                <a class="clip issue-message" href=list_filter.link(&this)>
                    {group.message.clone()}
                </a>
                <p class="issue-meta">
                    {group.kind.clone().map(|kind| view! { <span class="tag">{kind}</span> " " })}
                    <span>{group.job_type.clone()}</span>
                    {badge(group)}
                    {mute_end(group).map(|end| view! { <span>{end}</span> })}
                    " · "
                    <a class="hit" href=format!("/items/{}", group.sample_item_id)>"Example"</a>
                </p>
            </div>
            <div class="issue-spark">{spark}</div>
            <span class="num">
                <strong data-count="">{count.clone()}</strong>
                <span class="vh">{if group.count == 1 { " item" } else { " items" }}</span>
            </span>
            <span class="num soft"><span class="vh">"first seen "</span>{ago(group.first_seen_at)}</span>
            <span class="num soft" data-last=""><span class="vh">"last seen "</span>{ago(group.last_seen_at)}</span>
            <div class="issue-act">{retry}</div>
        </li>
    }
}
