//! Deliveries, of jobs and of alerts: the list for staff, the page of one with all its attempts, and the section on the page of a job.
//!
//! The response of a receiver is outside text: it is escaped, and truncated in lists.

use domain::{
    JobStatus, Outcome,
    notify::{
        alert_channel::AlertEvent,
        delivery::{CallbackDelivery, DeliveryState, DeliveryTry},
    },
};
use leptos::prelude::*;

use crate::{
    components::{
        action_form::{ActionForm, RefusedAction, action_form_open, flash},
        breadcrumbs::breadcrumbs,
        panel::{empty, next_page, note, refusal, section},
        state::icon,
        table::{self, Head::Words, words},
        timestamp::{ago, clock},
    },
    frame::{NavSection, Page},
    job_view::{job_shape, job_word},
};

/// Content of the list.
#[derive(Clone, Debug, Default)]
pub struct Deliveries {
    /// State in the URL; empty: all.
    pub state: String,
    pub all: Vec<CallbackDelivery>,
    /// Address of the next page.
    pub next: Option<String>,
    pub first: bool,
    /// Error in the query.
    pub problem: Option<String>,
}

/// `/deliveries`.
pub fn list_page(page_data: &Deliveries) -> Page {
    let list = match (&page_data.problem, page_data.all.is_empty()) {
        (Some(problem), _) => refusal("There is no such list", problem),
        (None, false) => {
            let next = next_page(page_data.next.as_ref(), "Older");
            view! { <div class="card">{table(&page_data.all, true)}</div> {next} }.into_any()
        }
        (None, true) if !page_data.state.is_empty() || !page_data.first => empty(
            "No webhooks match",
            "No webhook is in this state.",
            view! {
                <a class="btn" href="/deliveries">
                    "See all"
                </a>
            }
            .into_any(),
        ),
        (None, true) => empty(
            "No webhooks yet",
            "A job that names an address tells it when the job completes. Every message and every try is listed here.",
            view! { <a href="/api/docs">"Set up a webhook with the API"</a> }.into_any(),
        ),
    };
    let content = view! {
        <div class="page-head">
            <h1>"Webhooks"</h1>
            <p class="sub">"Messages to your systems when jobs complete, to alert channels, and to people about the jobs that they watch. Retried until they arrive; every try is kept for 30 days after its job or alert."</p>
        </div>
        {filter(&page_data.state)}
        <div class="stack gap-4" id="callbacks" data-refresh="" data-topics="deliveries">
            {list}
        </div>
    }
    .into_any();
    Page {
        title: "Webhooks".to_owned(),
        nav_section: NavSection::Webhooks,
        content,
        is_live: false,
        is_translated: false,
    }
}

fn filter(selected: &str) -> AnyView {
    let link = |word: &'static str, state: &'static str| {
        let there = if state.is_empty() { "/deliveries".to_owned() } else { format!("/deliveries?state={state}") };
        view! {
            <a href=there aria-current=(state == selected).then_some("true")>
                {word}
            </a>
        }
    };
    let states = DeliveryState::ALL.map(|state| link(word(state), state.as_str()));
    view! {
        <nav class="tabs" aria-label="By state">
            {link("All", "")} {states.into_iter().collect_view()}
        </nav>
    }
    .into_any()
}

/// Table of deliveries; `trees`: with a column for the job.
fn table(all: &[CallbackDelivery], trees: bool) -> AnyView {
    let rows = all
        .iter()
        .map(|one| {
            let last = one.tries.last();
            let tree = trees.then(|| {
                view! {
                    <td role="cell" class="wrap" data-label="About">{about(one)}</td>
                }
            });
            view! {
                <tr role="row" data-key=one.id.to_string()>
                    <th scope="row" role="rowheader" class="name">
                        <a href=format!("/deliveries/{}", one.id)>{receiver(one)}</a>
                        {again(one).map(|words| view! { " " <span class="sub">{words}</span> })}
                    </th>
                    <td role="cell" class="fit">{badge(one.state)}</td>
                    {tree}
                    <td role="cell" class="wrap" data-label="Last response">{last.map_or_else(|| "None yet".to_owned(), answer)}</td>
                    <td role="cell" data-label="Last try">
                        {last.map_or_else(|| "Not yet".into_any(), |last| ago(last.at).into_any())}
                        {(one.tries.len() > 1).then(|| view! { " " <span class="sub">{format!("({}\u{a0}times)", one.tries.len())}</span> })}
                    </td>
                    <td role="cell" data-label="Next try">
                        {one.next_try_at.map_or_else(|| "\u{2013}".into_any(), |at| clock(at).into_any())}
                    </td>
                </tr>
            }
        })
        .collect_view();
    let mut heads = Vec::from(words(["Endpoint", "Status", "Last response", "Last try", "Next try"]));
    if trees {
        heads.insert(2, Words("About"));
    }
    table::frame("Webhooks", "operations", heads, rows)
}

/// Content of the page of one delivery.
#[derive(Clone, Debug)]
pub struct DeliveryPageData {
    pub one: CallbackDelivery,
    /// The tree is the reader's own.
    pub own: bool,
    /// The reader sees all deliveries.
    pub staff: bool,
    /// True if the form is open.
    pub open: bool,
    pub refused: Option<RefusedAction>,
    pub flash: Option<String>,
}

/// `/deliveries/{id}`.
pub fn page(page_data: &DeliveryPageData) -> Page {
    let one = &page_data.one;
    let fact = |term: &'static str, value: AnyView| view! { <div><dt>{term}</dt> <dd>{value}</dd></div> };
    let above = one.job_id.map_or_else(|| "/deliveries".to_owned(), |id| format!("/jobs/{id}"));
    if page_data.staff {
        breadcrumbs(&[("/deliveries", "Webhooks")], receiver(one));
    } else {
        breadcrumbs(&[(&above, one.job_name.as_deref().unwrap_or("Job"))], "Webhook");
    }
    let action = match one.state {
        DeliveryState::Superseded if one.alert.is_some() => note("The alert was over before this arrived."),
        DeliveryState::Superseded => {
            note("The job completed again since. Its newest webhook says how it ended, and that one can be sent again.")
        }
        _ if one.url.is_none() && one.alert.is_some() => note("The alert channel was deleted."),
        _ if one.url.is_none() && one.notice.is_some() => note("The job is gone, or the person wants no such notices."),
        _ if one.url.is_none() => note("The job names no address any more."),
        _ => resend(one, page_data.own, page_data.open, page_data.refused.as_ref()),
    };
    let content = view! {
        <div class="page-head">
            <h1 class="file-name">{receiver(one)}</h1>
            <span id="state" data-refresh="">
                {badge(one.state)}
            </span>
        </div>
        {flash(page_data.flash.as_deref())}
        <div id="tries-part" data-refresh="" data-topics="deliveries">
            {section("tries", "Tries", tries(one))}
        </div>
        <div class="bare" id="page-actions" data-refresh="">
            {section("actions", "Actions", view! { <div class="action-forms">{action}</div> }.into_any())}
        </div>
        {section(
            "details",
            "Details",
            view! {
                <dl class="facts">
                    {fact("ID, the same on every try", view! { <span class="mono">{one.id.to_string()}</span> }.into_any())}
                    {fact(if one.notice.is_some() { "About" } else if one.alert.is_some() { "Alert channel" } else { "Job" }, about(one))}
                    {one.outcome.map(|outcome| fact("Job ended", ended(outcome)))}
                    {one.completion.map(|completion| fact("Completion", completion.to_string().into_any()))}
                    {fact("Since", clock(one.created_at).into_any())}
                    {one.next_try_at.map(|at| fact("Next try", clock(at).into_any()))}
                </dl>
            }
            .into_any(),
        )}
    }
    .into_any();
    Page {
        title: format!("Webhook to {}", receiver(one)),
        nav_section: NavSection::Webhooks,
        content,
        is_live: false,
        is_translated: false,
    }
}

fn tries(one: &CallbackDelivery) -> AnyView {
    if one.tries.is_empty() {
        return note("Not tried yet.");
    }
    let rows = one
        .tries
        .iter()
        .enumerate()
        .rev()
        .map(|(at, one)| {
            let (shape, status_text) = match one.status {
                Some(status) if (200..300).contains(&status) => ("succeeded", status.to_string()),
                Some(status) => ("dead", status.to_string()),
                None => ("dead", "no answer".to_owned()),
            };
            view! {
                <tr role="row" data-key=(at + 1).to_string()>
                    <th scope="row" role="rowheader">{(at + 1).to_string()}</th>
                    <td role="cell" data-label="At">{clock(one.at)}</td>
                    <td role="cell"><span class=format!("state s-{shape} badge")>{icon(shape)} " " {status_text}</span></td>
                    <td role="cell" class="wrap" data-label="Error">{one.error.clone().unwrap_or_else(|| "\u{2013}".to_owned())}</td>
                </tr>
            }
        })
        .collect_view();
    let heads = words(["Try", "At", "Response", "Error"]);
    table::frame("Tries", "operations", heads, rows)
}

/// Section on the page of a job, with a place for it while its tree has no deliveries.
pub(super) fn of_job(all: &[CallbackDelivery], own: bool) -> impl IntoView + use<> {
    let card = all.first().map(|newest| {
        let can_resend = newest.state != DeliveryState::Superseded && newest.url.is_some();
        let form = can_resend.then(|| view! { <div class="action-forms">{resend(newest, own, false, None)}</div> });
        section("callbacks", "Webhooks", view! { {table(all, false)} {form} }.into_any())
    });
    let topics = card.is_some().then_some("deliveries");
    view! {
        <div id="deliveries" data-refresh="" data-topics=topics hidden=topics.is_none()>
            {card}
        </div>
    }
}

fn resend(one: &CallbackDelivery, own: bool, open: bool, refused: Option<&RefusedAction>) -> AnyView {
    let text = match one.state {
        DeliveryState::Pending => {
            "It is sent now instead of at its next try. If it fails, it is retried like a new one."
        }
        DeliveryState::Delivered => {
            "It has arrived. It is sent once more with the same ID, so that the receiver can tell that it has it already."
        }
        _ => "It is sent now with the same ID. If it fails, it is retried like a new one.",
    };
    let form = ActionForm {
        action: "resend",
        url: format!("/deliveries/{}/resend", one.id),
        verb: "Send again…",
        text: text.into_any(),
        fields: None,
        button: "Send again".to_owned(),
        dangerous: false,
        others: !own,
    };
    action_form_open(form, refused, open)
}

/// Link to the job, by its name if it has one, or to the alert channel.
fn about(one: &CallbackDelivery) -> AnyView {
    if let Some(alert) = &one.alert {
        let event = match alert.event {
            AlertEvent::Raised => "alert raised",
            AlertEvent::Cleared => "alert cleared",
            AlertEvent::Test => "test",
        };
        return match &alert.channel {
            Some(name) => {
                let to = format!("/alert-channels/{}", alert.channel_id);
                view! { <a class="plain" href=to>{name.clone()}</a> {format!(", {event}")} }.into_any()
            }
            None => format!("Deleted channel, {event}").into_any(),
        };
    }
    if let Some(notice) = &one.notice {
        let Some(id) = notice.job_id else { return "Notice about a deleted job".into_any() };
        return view! { <a class="plain" href=format!("/jobs/{id}")>"Notice to a person"</a> }.into_any();
    }
    let Some(id) = &one.job_id else { return "\u{2013}".into_any() };
    let to = format!("/jobs/{id}");
    match &one.job_name {
        Some(name) => view! { <a class="plain" href=to>{name.clone()}</a> }.into_any(),
        None => view! { <a class="mono" href=to>{short(id)}</a> }.into_any(),
    }
}

/// Number of a further completion.
fn again(one: &CallbackDelivery) -> Option<String> {
    one.completion.filter(|&completion| completion > 1).map(|completion| format!("completion {completion}"))
}

/// Receiver for display.
fn receiver(one: &CallbackDelivery) -> String {
    one.url.clone().unwrap_or_else(|| "no address any more".to_owned())
}

/// Result of an attempt, in one line.
fn answer(one: &DeliveryTry) -> String {
    const LONGEST: usize = 80;
    let text = match (one.status, &one.error) {
        (_, Some(error)) => error.clone(),
        (Some(status), None) => format!("{status}: accepted"),
        (None, None) => "no answer".to_owned(),
    };
    let short: String = text.chars().take(LONGEST).collect();
    if short.len() < text.len() { format!("{short}…") } else { text }
}

fn badge(state: DeliveryState) -> AnyView {
    let shape = match state {
        DeliveryState::Pending => "scheduled",
        DeliveryState::Delivered => "succeeded",
        DeliveryState::Failed | DeliveryState::Abandoned => "dead",
        DeliveryState::Superseded => "cancelled",
    };
    view! { <span class=format!("state s-{shape} badge")>{icon(shape)} " " {word(state)}</span> }.into_any()
}

const fn word(state: DeliveryState) -> &'static str {
    match state {
        DeliveryState::Pending => "Pending",
        DeliveryState::Delivered => "Delivered",
        DeliveryState::Failed => "Rejected",
        DeliveryState::Abandoned => "Gave up",
        DeliveryState::Superseded => "Replaced",
    }
}

fn ended(outcome: Outcome) -> AnyView {
    let (shape, word) = (job_shape(JobStatus::Completed, Some(outcome)), job_word(JobStatus::Completed, Some(outcome)));
    view! { <span class=format!("state s-{shape} badge")>{icon(shape)} " " {word}</span> }.into_any()
}

/// End of an id; its beginning is the time, which many ids share.
fn short(id: &domain::id::Uuid) -> String {
    let id = id.to_string();
    // A word joiner prevents a line break after the ellipsis.
    format!("…\u{2060}{}", &id[id.len().saturating_sub(8)..])
}
