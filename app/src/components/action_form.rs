//! Action forms: a button that opens a form with the effect in numbers, a reason, and the submit button.
//!
//! Each form is a plain POST. A refusal is shown in the same form with the typed values; success is shown once,
//! as a flash message on the next page. The forms check nothing; the server checks the request again.

use domain::{Code, Problem};
use leptos::prelude::*;

use crate::{speech::in_words, t};

use super::{form::detail, state::icon};

/// Refused action: the name of its form, and the problem.
#[derive(Clone, Debug)]
pub struct RefusedAction {
    pub action: &'static str,
    pub problem: Problem,
    /// Reason as typed.
    pub reason: String,
}

/// Action form. `action` is its name in URLs and ids.
pub struct ActionForm {
    pub action: &'static str,
    /// URL that the form is posted to.
    pub url: String,
    /// Label of the closed form.
    pub verb: &'static str,
    /// Exact effect of the action.
    pub text: AnyView,
    /// More fields.
    pub fields: Option<AnyView>,
    /// Label of the submit button: the verb, with its number if the action is dangerous.
    pub button: String,
    pub dangerous: bool,
    /// True for someone else's work: a reason is required.
    pub others: bool,
}

/// Renders the form; open if it was refused.
pub fn action_form(form: ActionForm, refused: Option<&RefusedAction>) -> AnyView {
    action_form_open(form, refused, false)
}

/// Renders the form; open if `open` is set or if it was refused.
pub fn action_form_open(form: ActionForm, refused: Option<&RefusedAction>, open: bool) -> AnyView {
    let here = refused.filter(|refused| refused.action == form.action);
    let problem_notice = here.map(|refused| problem_notice(&refused.problem));
    let typed = here.map(|refused| refused.reason.clone()).unwrap_or_default();
    let id = form.action;
    view! {
        <details class="action-form" id=id open=open || here.is_some()>
            <summary class="btn">{form.verb}</summary>
            <form class="form action-form-body" method="post" action=form.url>
                {problem_notice}
                <p>{form.text}</p>
                {form.fields}
                {reason(id, &typed, form.others)}
                <div class="actions">
                    <button class=if form.dangerous { "btn btn-danger-solid" } else { "btn btn-primary" } type="submit">
                        {form.button}
                    </button>
                </div>
            </form>
        </details>
    }
    .into_any()
}

/// Field with the Idempotency-Key of the form: a repeated click does once what the form says.
pub fn key_field(key: &str) -> AnyView {
    view! { <input type="hidden" name="key" value=key.to_owned() /> }.into_any()
}

/// Field for the reason.
pub fn reason(form: &str, typed: &str, required: bool) -> AnyView {
    let label = if required { t!("form-reason-others") } else { t!("form-reason-optional") };
    view! {
        <label class="field">
            <span class="label">{label}</span>
            <input type="text" name="reason" id=format!("{form}-reason") value=typed.to_owned() maxlength="1000" required=required />
        </label>
    }
    .into_any()
}

/// Field for the reason of an operation on many items, which may be anybody's.
pub fn reason_of_operation(form: &str, typed: &str, required: bool) -> AnyView {
    if !required {
        return reason(form, typed, false);
    }
    view! {
        <label class="field">
            <span class="label">{t!("form-reason")}</span>
            <input type="text" name="reason" id=format!("{form}-reason") value=typed.to_owned() maxlength="1000" required />
            <span class="help">"Kept in the audit log with every item."</span>
        </label>
    }
    .into_any()
}

/// Reason for a refusal, above its form.
pub fn problem_notice(problem: &Problem) -> AnyView {
    let detail = detail(problem);
    let (title, detail) = match problem.code {
        Code::InvalidBody => (t!("form-nothing-saved"), in_words(&detail)),
        Code::ReasonRequired => (t!("form-reason-required"), t!("form-reason-required-text").to_owned()),
        _ => match in_words(&detail) {
            text if text == detail => (problem.title.as_str(), text),
            // The title is not translated.
            text => (t!("form-nothing-saved"), text),
        },
    };
    // The detail already contains the only error.
    let more = problem.errors.len() > 1;
    let faults = more.then(|| {
        let lines = problem
            .errors
            .iter()
            .map(
                |fault| view! { <li><span class="mono">{fault.pointer.clone()}</span> " " {fault.detail.clone()}</li> },
            )
            .collect_view();
        view! { <ul>{lines}</ul> }
    });
    view! {
        <div class="notice notice-bad" role="alert" tabindex="-1" id="refusal">
            {icon("dead")}
            <div>
                <strong>{title.to_owned()}</strong>
                <p>{detail}</p>
                {faults}
            </div>
        </div>
    }
    .into_any()
}

/// Flash message after an action, shown once. Unknown words show nothing.
pub fn flash(word: Option<&str>) -> Option<AnyView> {
    let text = match word? {
        "answered" => "Answered. The item continues as soon as a worker is free.",
        "retried" => "Item queued for retry.",
        "item-cancelled" => "Item canceled.",
        "cancelled" => "Canceled. Items in progress are told to stop; nothing else starts.",
        "replayed" => "This is the new job. The one it was created from stays as it is.",
        "watched" => "You watch this job: you are told when it finishes or needs attention.",
        "unwatched" => "You do not watch this job any more.",
        "pinned" => "Kept forever, until someone deletes it.",
        "unpinned" => "Deleted automatically again, when its retention is over.",
        "deleted" => "Deleted, with all its items and results.",
        "paused" => "Paused. Nothing new starts; items in progress finish.",
        "resumed" => "Resumed.",
        "created" => "Created.",
        "started" => "Started. The run appears below.",
        "job-started" => "Started. This page follows the job.",
        "view-saved" => "Saved. The view is in the menu Views.",
        "changed-view" => "Saved.",
        "resent" => "Sending again. The result appears here.",
        "changed" => "Saved. Applies within a second.",
        "tested" => "The test is being sent. The result appears here.",
        "channel-deleted" => "Deleted. Alerts are not sent there any more.",
        "muted" => "Ignored. It raises no alerts; its items stay as they are.",
        "resolved" => "Resolved. It comes back here if it happens again.",
        "reopened" => "Open again.",
        "type-deleted" | "view-deleted" | "schedule-deleted" => "Deleted.",
        "stopped" => "Stopping: nothing more is done. What was done stays done.",
        _ => return None,
    };
    Some(
        view! {
            <div class="notice notice-ok" role="status">
                {icon("succeeded")}
                <p>{text}</p>
            </div>
        }
        .into_any(),
    )
}

/// Error message under a field.
pub fn field_fault(problem: Option<&Problem>, pointer: &str, id: &str) -> Option<AnyView> {
    let faults: Vec<_> = problem?
        .errors
        .iter()
        .filter(|fault| fault.pointer == pointer || fault.pointer.starts_with(&format!("{pointer}/")))
        .map(|fault| (fault.pointer[pointer.len()..].to_owned(), fault.detail.clone()))
        .collect();
    if faults.is_empty() {
        return None;
    }
    let lines = faults
        .into_iter()
        .map(|(place, detail)| {
            let place = (!place.is_empty()).then(|| view! { <span class="mono">{place}</span> " " });
            view! { <li>{place} {detail}</li> }
        })
        .collect_view();
    Some(view! { <ul class="field-error" id=id.to_owned()>{lines}</ul> }.into_any())
}
