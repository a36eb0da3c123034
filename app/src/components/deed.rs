//! What people do to work, as forms: a verb that opens, what will happen in numbers, why, and the button.
//!
//! Every one is a plain POST. A refusal comes back in the same place with what was typed; what succeeded
//! is told once on the page that follows. They decide nothing: the server asks for the reason again.

use domain::{Code, Problem};
use leptos::prelude::*;

use super::state::icon;

/// What the reader was trying to do, where that was refused: the form's own name, and why.
#[derive(Clone, Debug)]
pub struct Refused {
    pub deed: &'static str,
    pub problem: Problem,
    /// As typed, for every form.
    pub reason: String,
}

/// A form behind its verb. `deed` names it in addresses and ids.
pub struct Deed {
    pub deed: &'static str,
    /// Where it is posted.
    pub action: String,
    /// On the closed form.
    pub verb: &'static str,
    /// What will happen, exactly.
    pub text: AnyView,
    /// More fields.
    pub fields: Option<AnyView>,
    /// On the button: the verb, with its number where it is dangerous.
    pub button: String,
    pub dangerous: bool,
    /// Somebody else's work: a reason is required.
    pub others: bool,
}

/// Draws a form; open where it was refused.
pub fn deed(form: Deed, refused: Option<&Refused>) -> AnyView {
    deed_open(form, refused, false)
}

/// The same, open where `open` says so.
pub fn deed_open(form: Deed, refused: Option<&Refused>, open: bool) -> AnyView {
    let here = refused.filter(|refused| refused.deed == form.deed);
    let trouble = here.map(|refused| trouble(&refused.problem));
    let typed = here.map(|refused| refused.reason.clone()).unwrap_or_default();
    let id = form.deed;
    view! {
        <details class="deed" id=id open=open || here.is_some()>
            <summary>{form.verb}</summary>
            <form class="form deed-form" method="post" action=form.action>
                {trouble}
                <p>{form.text}</p>
                {form.fields}
                {reason(id, &typed, form.others)}
                <div class="actions">
                    <button class=if form.dangerous { "danger" } else { "primary" } type="submit">
                        {form.button}
                    </button>
                </div>
            </form>
        </details>
    }
    .into_any()
}

/// The field for the reason.
pub fn reason(form: &str, typed: &str, required: bool) -> AnyView {
    let label = if required {
        "Reason (this is somebody else's work; it is kept in the audit log)"
    } else {
        "Reason (optional)"
    };
    view! {
        <label class="field">
            <span>{label}</span>
            <input type="text" name="reason" id=format!("{form}-reason") value=typed.to_owned() maxlength="1000" required=required />
        </label>
    }
    .into_any()
}

/// Why something was refused, above its form.
pub fn trouble(problem: &Problem) -> AnyView {
    let (title, detail) = match problem.code {
        Code::InvalidBody => ("Something in the form does not fit", problem.detail.clone()),
        Code::ReasonRequired => {
            ("A reason is required", "This is somebody else's work: say why. It is kept in the audit log.".to_owned())
        }
        _ => (problem.title.as_str(), problem.detail.clone()),
    };
    // The first fault is in the sentence already.
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

/// What has just been done, said once. Only words that are known here.
pub fn told(word: Option<&str>) -> Option<AnyView> {
    let text = match word? {
        "retried" => "Given back: a worker will take it when its turn comes.",
        "cancelled" => "Cancelled. What is in work is told to stop; nothing else of it will start.",
        "replayed" => "This is the new tree. The one it was made from stays as it is.",
        "pinned" => "Kept forever: it stays until somebody deletes it.",
        "unpinned" => "It is deleted automatically again, when its retention is over.",
        "deleted" => "Deleted, with everything below it.",
        "paused" => "Paused: nothing of this type is handed out any more. What is in work goes on.",
        "resumed" => "Resumed.",
        "resent" => "It is being sent again. This page shows what comes of it.",
        "changed" => "Changed. It holds from now on, within a second on every server.",
        "stopped" => "Stopping: nothing more is done. What was done stays done.",
        _ => return None,
    };
    Some(
        view! {
            <div class="notice notice-good" role="status">
                {icon("succeeded")}
                <p>{text}</p>
            </div>
        }
        .into_any(),
    )
}

/// What is wrong with one field, under it.
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
    Some(view! { <ul class="field-fault" id=id.to_owned()>{lines}</ul> }.into_any())
}
