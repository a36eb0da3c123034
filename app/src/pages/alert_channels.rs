//! Alert channels: the list, the form for a new one, and the page of one.
//!
//! Secrets are never written into a page: their fields are empty, and stay as they are if nothing is typed.

mod form; // the form of a channel

use domain::notify::alert_channel::{AlertChannel, ChannelKind};
use leptos::prelude::*;

use self::form::form;
use crate::{
    components::{
        action_form::{RefusedAction, flash, problem_notice},
        breadcrumbs::breadcrumbs,
        panel::{empty, section},
        state::icon,
        table::{self, words},
    },
    frame::{NavSection, Page},
};

pub use self::form::Typed;

/// Content of the list.
#[derive(Clone, Debug, Default)]
pub struct AlertChannels {
    pub all: Vec<AlertChannel>,
    /// The reader may change them.
    pub admin: bool,
    pub flash: Option<String>,
}

/// `/alert-channels`.
pub fn list_page(page_data: &AlertChannels) -> Page {
    let new_channel = || {
        page_data
            .admin
            .then(|| view! { <a class="btn btn-primary" href="/alert-channels/new">{icon("plus")} "New channel"</a> })
    };
    let list = if page_data.all.is_empty() {
        let text =
            "A channel sends alerts where you see them: by email, to Slack, to PagerDuty, or to a webhook of your own.";
        empty("No alert channels yet", text, new_channel().into_any())
    } else {
        view! { <div class="card">{table(&page_data.all)}</div> }.into_any()
    };
    let content = view! {
        <div class="page-head">
            <h1>"Alert channels"</h1>
            <div class="actions">{(!page_data.all.is_empty()).then(new_channel)}</div>
            <p class="sub">
                "Where alerts are sent. Every message and every try is under " <a href="/deliveries">"Webhooks"</a> "."
            </p>
        </div>
        {flash(page_data.flash.as_deref())}
        {list}
    }
    .into_any();
    Page {
        title: "Alert channels".to_owned(),
        nav_section: NavSection::Webhooks,
        content,
        is_live: false,
        is_translated: false,
    }
}

fn table(all: &[AlertChannel]) -> AnyView {
    let rows = all
        .iter()
        .map(|one| {
            view! {
                <tr role="row">
                    <th scope="row" role="rowheader" class="name">
                        <span class="two">
                            <a class="clip" href=format!("/alert-channels/{}", one.id)>{one.name.clone()}</a>
                            <span>{kind_word(one.kind)}</span>
                        </span>
                    </th>
                    <td role="cell" class="fit">{badge(one.paused)}</td>
                    <td role="cell" class="wrap wide" data-label="Receiver">{receiver(one)}</td>
                    <td role="cell" class="wrap wide" data-label="Alerts">{alerts(one)}</td>
                </tr>
            }
        })
        .collect_view();
    table::frame("Alert channels", "schedules", words(["Channel", "Status", "Receiver", "Alerts"]), rows)
}

/// Word for a kind.
pub(super) const fn kind_word(kind: ChannelKind) -> &'static str {
    match kind {
        ChannelKind::Email => "Email",
        ChannelKind::Slack => "Slack",
        ChannelKind::Pagerduty => "PagerDuty",
        ChannelKind::Webhook => "Webhook",
    }
}

fn badge(paused: bool) -> AnyView {
    let (shape, icon_name, word) =
        if paused { ("paused", "pause", "Paused") } else { ("succeeded", "succeeded", "Active") };
    view! { <span class=format!("state s-{shape} badge")>{icon(icon_name)} " " {word}</span> }.into_any()
}

fn receiver(one: &AlertChannel) -> String {
    one.url.clone().unwrap_or_else(|| one.to.join(", "))
}

fn alerts(one: &AlertChannel) -> String {
    let kinds: Vec<&str> = one.kinds.iter().map(|kind| kind.title()).collect();
    let kinds = if kinds.is_empty() { "All".to_owned() } else { kinds.join(", ") };
    if one.types.is_empty() { kinds } else { format!("{kinds}; of {}", one.types.join(", ")) }
}

/// `/alert-channels/new`.
pub fn new_page(typed: &Typed) -> Page {
    breadcrumbs(&[("/alert-channels", "Alert channels")], "New channel");
    let choices = ChannelKind::ALL
        .iter()
        .map(|kind| {
            let there = format!("/alert-channels/new?kind={}", kind.as_str());
            view! {
                <a href=there aria-current=(*kind == typed.kind).then_some("true")>
                    {kind_word(*kind)}
                </a>
            }
        })
        .collect_view();
    let content = view! {
        <div class="page-head">
            <h1>"New alert channel"</h1>
        </div>
        <nav class="tabs" aria-label="Kind of channel">
            {choices}
        </nav>
        {section("settings", kind_word(typed.kind), form(typed, "/alert-channels".to_owned(), "Create channel", true))}
    }
    .into_any();
    Page {
        title: "New alert channel".to_owned(),
        nav_section: NavSection::Webhooks,
        content,
        is_live: false,
        is_translated: false,
    }
}

/// One channel.
#[derive(Clone, Debug)]
pub struct AlertChannelPageData {
    pub one: AlertChannel,
    /// The reader may change it.
    pub admin: bool,
    pub typed: Typed,
    pub refused: Option<RefusedAction>,
    pub flash: Option<String>,
}

/// `/alert-channels/{id}`.
pub fn page(page_data: &AlertChannelPageData) -> Page {
    let one = &page_data.one;
    breadcrumbs(&[("/alert-channels", "Alert channels")], one.name.clone());
    let settings = page_data.admin.then(|| {
        let form = form(&page_data.typed, format!("/alert-channels/{}", one.id), "Save changes", false);
        view! {
            {section("actions", "Actions", actions(page_data))}
            {section("settings", "Settings", form)}
        }
    });
    let fact = |term: &'static str, value: AnyView| view! { <div><dt>{term}</dt> <dd>{value}</dd></div> };
    let quiet = one.quiet_hours.as_ref().map_or_else(
        || "None".to_owned(),
        |quiet| {
            let days: Vec<&str> = quiet.days.iter().map(|day| form::day_word(*day)).collect();
            let days = if days.is_empty() { "every day".to_owned() } else { days.join(", ") };
            format!("{} to {}, {days} ({})", quiet.from, quiet.to, quiet.time_zone)
        },
    );
    let content = view! {
        <div class="page-head">
            <h1>{one.name.clone()}</h1>
            {badge(one.paused)}
            <p class="sub">{kind_word(one.kind)}</p>
        </div>
        {flash(page_data.flash.as_deref())}
        {section(
            "details",
            "Details",
            view! {
                <dl class="facts">
                    {fact("Receiver", receiver(one).into_any())}
                    {fact("Alerts", alerts(one).into_any())}
                    {fact("Smallest count", one.min_count.to_string().into_any())}
                    {fact("Open for at least, seconds", one.after_seconds.to_string().into_any())}
                    {fact("Sent when they are over", if one.send_cleared { "Yes" } else { "No" }.into_any())}
                    {fact("Quiet hours", quiet.into_any())}
                </dl>
            }
            .into_any(),
        )}
        {settings}
    }
    .into_any();
    Page { title: one.name.clone(), nav_section: NavSection::Webhooks, content, is_live: false, is_translated: false }
}

fn actions(page_data: &AlertChannelPageData) -> AnyView {
    let id = page_data.one.id;
    let notice = page_data.refused.as_ref().map(|refused| problem_notice(&refused.problem));
    view! {
        {notice}
        <div class="action-forms">
            <form method="post" action=format!("/alert-channels/{id}/test")>
                <button class="btn" type="submit">
                    "Send a test"
                </button>
            </form>
            <details class="action-form" id="delete">
                <summary class="btn">"Delete…"</summary>
                <form class="form action-form-body" method="post" action=format!("/alert-channels/{id}/delete")>
                    <p>"Alerts are not sent here any more, nor are messages that have not arrived."</p>
                    <div class="actions">
                        <button class="btn btn-danger-solid" type="submit">
                            "Delete channel"
                        </button>
                    </div>
                </form>
            </details>
        </div>
    }
    .into_any()
}
