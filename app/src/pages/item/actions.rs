//! Actions on an item: retry (with the stored or an edited payload), cancel, replay as a new job.
//!
//! The field contains the stored payload, one member per line. An unedited payload is not sent, so no number is ever
//! rewritten. Errors against the schema of the type are shown below the field, with their position.

use domain::{Document, Item, ItemState, api::LogTail};
use leptos::prelude::*;

use crate::components::{
    action_form::{RefusedAction, field_fault, key_field, problem_notice, reason},
    json,
    state::icon,
    text_area::text_area,
};

/// Rights of the reader, the state of the forms, and facts about the item's job.
#[derive(Clone, Debug, Default)]
pub struct Actions {
    /// The item is the reader's own.
    pub own: bool,
    /// The reader sees everybody's work, job types and workers.
    pub staff: bool,
    /// The item's job, or one above it, is canceled: it takes nothing back.
    pub job_canceled: bool,
    /// Names of the job, the root of its tree, and their owner.
    pub job: Option<String>,
    pub root: Option<String>,
    pub owner: Option<String>,
    /// Name of the form to open.
    pub open: Option<String>,
    pub refused: Option<RefusedAction>,
    /// Fields as typed, if a retry or a replay was refused.
    pub edit: Edit,
    /// Last action.
    pub flash: Option<String>,
    /// Attempt whose log is requested.
    pub attempt: Option<i32>,
    /// Last lines of a log; `None` if the item has no log.
    pub log: Option<LogTail>,
    /// Idempotency-Key of the form that runs the item again.
    pub key: String,
}

/// Input in the fields of a retry or a replay.
#[derive(Clone, Debug, Default)]
pub struct Edit {
    pub payload: Option<String>,
    pub expires_at: String,
    pub restart: bool,
    /// Answers to the form of a wait, by the name of the field.
    pub answers: Vec<(String, String)>,
}

/// Available actions: the label of retry, and whether cancel and replay are available.
fn available_actions(item: &Item, actions: &Actions) -> (Option<&'static str>, bool, bool) {
    let state = item.state;
    let retry = match state {
        _ if actions.job_canceled || item.superseded_by.is_some() => None,
        ItemState::Dead | ItemState::Expired | ItemState::Cancelled => Some("Retry"),
        ItemState::Retryable | ItemState::Scheduled => Some("Run now"),
        _ => None,
    };
    (retry, !state.is_final(), state.is_final())
}

/// Buttons of the header. An action that needs no reason is performed at once.
pub(super) fn buttons(item: &Item, actions: &Actions) -> AnyView {
    let (retry, cancel, replay) = available_actions(item, actions);
    let at = |open: &str| format!("/items/{}?open={open}", item.id);
    // What was never handed out could not be used: it needs another payload.
    let unusable = item.state == ItemState::Dead && item.attempts == 0;
    // Without a later time it would expire again.
    let needs_edit = unusable || item.state == ItemState::Expired;
    let without_retry = retry.is_none() && item.state != ItemState::Succeeded;
    let retry = retry.map(|word| {
        let at_once = if needs_edit {
            ().into_any()
        } else if actions.own {
            view! {
                <form method="post" action=format!("/items/{}/retry", item.id)>
                    {version(item)}
                    <button class="btn btn-primary" type="submit">
                        {icon("rotate-cw")}
                        {word}
                    </button>
                </form>
            }
            .into_any()
        } else {
            view! {
                <a class="btn btn-primary" href=format!("{}#retry", at("retry"))>
                    {icon("rotate-cw")}
                    {format!("{word}…")}
                </a>
            }
            .into_any()
        };
        view! {
            {at_once}
            <a class=if needs_edit { "btn btn-primary" } else { "btn" } href=format!("{}#retry-payload", at("retry"))>
                {icon("pencil")}
                "Edit and retry…"
            </a>
        }
    });
    let cancel = cancel.then(|| {
        view! {
            <a class="btn btn-danger" href=at("cancel")>
                {icon("ban")}
                "Cancel item…"
            </a>
        }
    });
    let replay = replay.then(|| {
        view! {
            <a class=if without_retry { "btn btn-primary" } else { "btn" } href=at("replay")>
                {icon("copy")}
                "Run again as a new job…"
            </a>
        }
    });
    view! { {retry} {cancel} {replay} }.into_any()
}

/// The requested or refused form.
pub(super) fn form_of(item: &Item, actions: &Actions) -> Option<AnyView> {
    let (retry, cancel, replay) = available_actions(item, actions);
    let refused_action = actions.refused.as_ref().map(|refused| refused.action);
    match refused_action.or(actions.open.as_deref())? {
        "retry" if retry.is_some() || refused_action.is_some() => Some(edited(item, actions, &retried(item))),
        "replay" if replay || refused_action.is_some() => Some(edited(item, actions, &replayed())),
        "cancel" if cancel || refused_action.is_some() => Some(cancelled(item, actions)),
        _ => None,
    }
}

/// Texts of a form with a payload.
struct FormWords {
    action: &'static str,
    heading: &'static str,
    text: &'static str,
    button: &'static str,
    shape: &'static str,
}

fn retried(item: &Item) -> FormWords {
    if matches!(item.state, ItemState::Retryable | ItemState::Scheduled) {
        let text = "It is due at once, and starts as soon as a worker is free.";
        return FormWords { action: "retry", heading: "Run now", text, button: "Run now", shape: "rotate-cw" };
    }
    let text = "Attempts start again at 0. The job reopens until this item is done. The history and the original payload stay.";
    FormWords { action: "retry", heading: "Retry", text, button: "Retry item", shape: "rotate-cw" }
}

fn replayed() -> FormWords {
    let text = "A new job with this one item, of the same type, keys, and priority. This item stays as it is.";
    FormWords { action: "replay", heading: "Run again as a new job", text, button: "Run again", shape: "copy" }
}

fn edited(item: &Item, actions: &Actions, words: &FormWords) -> AnyView {
    let here = actions.refused.as_ref().filter(|refused| refused.action == words.action);
    let typed = here.and(actions.edit.payload.as_deref());
    let changes = typed
        .zip(item.payload.as_ref())
        .and_then(|(typed, stored)| json::changes(stored, &Document::parse(typed.trim().to_owned()).ok()?));
    let changes = changes.map(|changes| {
        view! {
            <section class="card" aria-labelledby="changes-heading">
                <div class="card-head">
                    <h2 id="changes-heading">"Changes"</h2>
                    <span class="sub">"not saved yet"</span>
                </div>
                {changes}
            </section>
        }
    });
    let restart = item.step.as_ref().filter(|_| words.action == "retry").map(|step| {
        let help = format!("Otherwise it continues after \u{201c}{}\u{201d}.", step.name);
        view! {
            <label class="check">
                <input type="checkbox" name="restart" value="yes" checked=actions.edit.restart />
                <span>"Start over" <span class="help">{help}</span></span>
            </label>
        }
    });
    let typed_reason = here.map(|refused| refused.reason.clone()).unwrap_or_default();
    let now = matches!(item.state, ItemState::Retryable | ItemState::Scheduled) && words.action == "retry";
    view! {
        <form class="grid" method="post" action=format!("/items/{}/{}", item.id, words.action) id=words.action>
            <div class="c8 stack gap-4">
                {here.map(|refused| problem_notice(&refused.problem))}
                {version(item)}
                {key_field(&actions.key)}
                <section class="card" aria-labelledby="payload-heading">
                    <div class="card-head">
                        <h2 id="payload-heading">"Payload"</h2>
                    </div>
                    <div class="card-body">{payload(item, actions, words.action)}</div>
                </section>
                {changes}
            </div>
            <div class="c4 stack gap-4">
                <section class="card" aria-labelledby="do-heading">
                    <div class="card-head">
                        <h2 id="do-heading">{words.heading}</h2>
                    </div>
                    <div class="card-body">
                        <div class="stack">
                            <p class="small soft">{words.text}</p>
                            {reason(words.action, &typed_reason, !actions.own)}
                            {(!now).then(|| expires(item, actions, words.action))}
                            {restart}
                        </div>
                    </div>
                    <div class="card-foot">
                        <button class="btn btn-primary" type="submit">
                            {icon(words.shape)}
                            {words.button}
                        </button>
                        <a class="btn btn-quiet" href=format!("/items/{}", item.id)>"Cancel"</a>
                    </div>
                </section>
            </div>
        </form>
    }
    .into_any()
}

/// Field with the version that the form shows, so that nobody's change is overwritten unseen.
fn version(item: &Item) -> AnyView {
    view! { <input type="hidden" name="version" value=item.version.to_string() /> }.into_any()
}

fn cancelled(item: &Item, actions: &Actions) -> AnyView {
    let here = actions.refused.as_ref().filter(|refused| refused.action == "cancel");
    let text = if item.state == ItemState::Running {
        "Its worker is told to stop, and its result is not used. You can retry the item later."
    } else {
        "It will not run. You can retry it later."
    };
    let typed = here.map(|refused| refused.reason.clone()).unwrap_or_default();
    view! {
        <form class="narrow stack gap-4" method="post" action=format!("/items/{}/cancel", item.id) id="cancel" data-refresh="">
            {here.map(|refused| problem_notice(&refused.problem))}
            <section class="card" aria-labelledby="do-heading">
                <div class="card-head">
                    <h2 id="do-heading">"Cancel this item?"</h2>
                </div>
                <div class="card-body">
                    <div class="stack">
                        <p class="small soft">{text}</p>
                        {reason("cancel", &typed, !actions.own)}
                    </div>
                </div>
                <div class="card-foot">
                    <button class="btn btn-danger-solid" type="submit">
                        "Cancel 1 item"
                    </button>
                    <a class="btn btn-quiet" href=format!("/items/{}", item.id)>"Keep it"</a>
                </div>
            </section>
        </form>
    }
    .into_any()
}

fn payload(item: &Item, actions: &Actions, form: &str) -> AnyView {
    let (id, help, fault) =
        (format!("{form}-payload"), format!("{form}-payload-help"), format!("{form}-payload-fault"));
    let here = actions.refused.as_ref().filter(|refused| refused.action == form);
    let stored = item.payload.as_ref().map_or_else(|| "null".to_owned(), json::pretty);
    let typed = here.and(actions.edit.payload.clone()).unwrap_or(stored);
    let faults = field_fault(here.map(|refused| &refused.problem), "/payload", &fault);
    let describes = if faults.is_some() { format!("{help} {fault}") } else { help.clone() };
    view! {
        <div class="field">
            <label class="vh" for=id.clone()>"Payload, JSON"</label>
            {text_area(&id, "payload", &typed, &describes, faults.is_some())}
            {faults}
            <p class="help" id=help>
                "Numbers are kept exactly as you write them. The original payload stays in the history."
            </p>
        </div>
    }
    .into_any()
}

fn expires(item: &Item, actions: &Actions, form: &str) -> Option<AnyView> {
    item.expires_at?;
    let here = actions.refused.as_ref().filter(|refused| refused.action == form);
    let fault = format!("{form}-expires-fault");
    let faults = field_fault(here.map(|refused| &refused.problem), "/expires_at", &fault);
    let typed = here.map(|_| actions.edit.expires_at.clone()).unwrap_or_default();
    let required = item.state == ItemState::Expired && form == "retry";
    let (label, help) = if required {
        ("New expiry", "Its expiry has passed: enter a later one, such as 2026-12-01T12:00:00Z.")
    } else {
        ("Expires ", "Such as 2026-12-01T12:00:00Z. Empty: as before.")
    };
    Some(
        view! {
            <label class="field">
                <span class="label">{label} {(!required).then(|| view! { <em>"optional"</em> })}</span>
                <input
                    type="text"
                    name="expires_at"
                    class="mono"
                    value=typed
                    required=required
                    aria-invalid=faults.is_some().then_some("true")
                    aria-describedby=faults.is_some().then(|| fault.clone())
                />
                <span class="help">{help}</span>
            </label>
            {faults}
        }
        .into_any(),
    )
}
