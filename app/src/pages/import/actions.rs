//! What may be done to an import from its own page: share it, cancel it, delete it.
//!
//! Forms that work without JavaScript, behind a button of the header. They decide nothing: the server asks again.

use domain::{Job, JobStatus, Problem};
use leptos::prelude::*;

use super::name;
use crate::components::state::icon;

/// Who looks, and what they tried.
#[derive(Clone, Debug, Default)]
pub struct Actions {
    /// May delete it.
    pub may_delete: bool,
    /// Somebody else's: a reason is required.
    pub needs_reason: bool,
    /// The form that is to be open.
    pub open: Option<String>,
    /// Why the form was refused, and the reason that was typed.
    pub problem: Option<Problem>,
    pub reason: String,
    /// What was just done.
    pub did: Option<String>,
}

impl Actions {
    /// What was just done, said once.
    pub(super) fn told(&self) -> Option<AnyView> {
        let text = match self.did.as_deref()? {
            "canceled" => "Rows that had not started will not run. What is done stays done.",
            _ => return None,
        };
        Some(
            view! {
                <div class="notice notice-ok" role="status">
                    {icon("succeeded")}
                    <div>
                        <strong>"The import is canceled"</strong>
                        <p>{text}</p>
                    </div>
                </div>
            }
            .into_any(),
        )
    }
}

/// The buttons of the header. `shared`: the page has a panel of links.
pub(super) fn header(job: &Job, actions: &Actions, may_change: bool, shared: bool) -> Option<AnyView> {
    let root = job.parent_id.is_none();
    let file = job.upload_id.is_some();
    let share = shared.then(|| {
        view! {
            <a class="btn" href="#share">
                {icon("share-2")}
                "Share"
            </a>
        }
    });
    let form = match job.tree.status {
        JobStatus::Completed => (root && actions.may_delete).then(|| Form {
            id: "delete",
            action: format!("/jobs/{}/delete", job.id),
            shape: "trash-2",
            verb: if file { "Delete…" } else { "Delete job…" },
            question: format!("Delete “{}”?", name(job)),
            text: "Its rows, their results and all downloads are deleted at once. This cannot be undone.",
            button: if file { "Delete import" } else { "Delete job" },
            way_out: "Keep it",
        }),
        JobStatus::Cancelling => None,
        JobStatus::Waiting | JobStatus::Running => may_change.then(|| Form {
            id: "cancel",
            action: format!("/imports/{}/cancel", job.id),
            shape: "ban",
            verb: if file { "Cancel import…" } else { "Cancel job…" },
            question: format!("Cancel “{}”?", name(job)),
            text: "What has not started will not run, and what is in progress is told to stop. Finished results stay. This cannot be undone.",
            button: if file { "Cancel import" } else { "Cancel job" },
            way_out: "Keep running",
        }),
    };
    if share.is_none() && form.is_none() {
        return None;
    }
    Some(view! { <div class="actions">{share} {form.map(|form| form.view(job, actions))}</div> }.into_any())
}

/// A form behind its button.
struct Form {
    id: &'static str,
    action: String,
    shape: &'static str,
    verb: &'static str,
    question: String,
    text: &'static str,
    button: &'static str,
    way_out: &'static str,
}

impl Form {
    fn view(self, job: &Job, actions: &Actions) -> AnyView {
        let refused = actions.problem.as_ref().map(|problem| {
            view! {
                <p class="field-error" role="alert" id="refusal" tabindex="-1">
                    {icon("dead")}
                    {problem.detail.clone()}
                </p>
            }
        });
        let open = actions.open.as_deref() == Some(self.id);
        let reason = actions.needs_reason.then(|| {
            view! {
                <div class="field">
                    <label class="label" for="action-reason">
                        "Reason"
                    </label>
                    <input
                        type="text"
                        id="action-reason"
                        name="reason"
                        value=actions.reason.clone()
                        maxlength="1000"
                        autocomplete="off"
                        required
                    />
                    <span class="help">
                        {format!("This is the work of {}. The reason is kept in the audit log.", job.owner.name)}
                    </span>
                </div>
            }
        });
        view! {
            <details class="menu" id=self.id open=open>
                <summary class="btn btn-danger">{icon(self.shape)} {self.verb}</summary>
                <form class="menu-list confirm" method="post" action=self.action>
                    {refused}
                    <strong>{self.question}</strong>
                    <p class="small soft">{self.text}</p>
                    {reason}
                    <div class="actions">
                        <button class="btn btn-danger-solid" type="submit">
                            {self.button}
                        </button>
                        <a class="btn btn-quiet" href=format!("/imports/{}", job.id)>
                            {self.way_out}
                        </a>
                    </div>
                </form>
            </details>
        }
        .into_any()
    }
}
