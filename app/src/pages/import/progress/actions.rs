//! Actions on an import from its own page: share, cancel, delete.
//!
//! Forms that work without JavaScript, behind a button of the header. They check nothing; the server checks the
//! request again.

use domain::{Job, JobStatus};
use leptos::prelude::*;

use super::name;
use crate::{
    components::{
        action_form::RefusedAction,
        confirm::{Confirm, canceling},
        state::icon,
    },
    t,
};

/// Rights of the reader, and the state of the forms.
#[derive(Clone, Debug, Default)]
pub struct Actions {
    /// May delete it.
    pub may_delete: bool,
    /// True for someone else's import: a reason is required.
    pub needs_reason: bool,
    /// Name of the form to open.
    pub open: Option<String>,
    /// Name of the refused form, and its problem.
    pub refused: Option<RefusedAction>,
    /// Last action.
    pub flash: Option<String>,
}

impl Actions {
    /// Flash message after the last action, shown once.
    pub(crate) fn flash(&self) -> Option<AnyView> {
        let text = match self.flash.as_deref()? {
            "canceled" => t!("progress-canceled-text"),
            _ => return None,
        };
        Some(
            view! {
                <div class="notice notice-ok" role="status">
                    {icon("succeeded")}
                    <div>
                        <strong>{t!("progress-canceled")}</strong>
                        <p>{text}</p>
                    </div>
                </div>
            }
            .into_any(),
        )
    }
}

/// Buttons of the header. `shared`: the page has a panel of share links.
pub(crate) fn header(job: &Job, actions: &Actions, may_change: bool, shared: bool) -> Option<AnyView> {
    let root = job.parent_id.is_none();
    let file = job.upload_id.is_some();
    let share = shared.then(|| {
        view! {
            <a class="btn" href="#share">
                {icon("share-2")}
                {t!("share-button")}
            </a>
        }
    });
    let confirm = |id, icon, verb: &'static str, text: String, button: &str, way_out| Confirm {
        id,
        action: String::new(),
        icon,
        verb,
        question: String::new(),
        text,
        button: button.to_owned(),
        dangerous: true,
        way_out,
        back: format!("/imports/{}", job.id),
        others: actions.needs_reason.then(|| job.owner.name.clone()),
        key: None,
    };
    let form = match job.tree.status {
        JobStatus::Completed => (root && actions.may_delete).then(|| Confirm {
            action: format!("/imports/{}/delete", job.id),
            question: t!("progress-delete-question", name = &name(job)),
            ..confirm(
                "delete",
                "trash-2",
                if file { t!("progress-delete") } else { t!("progress-delete-job") },
                t!("progress-delete-text").to_owned(),
                if file { t!("progress-delete-import-button") } else { t!("progress-delete-job-button") },
                t!("progress-keep"),
            )
        }),
        JobStatus::Cancelling => None,
        JobStatus::Waiting | JobStatus::Running => may_change.then(|| Confirm {
            action: format!("/imports/{}/cancel", job.id),
            question: t!("progress-cancel-question", name = &name(job)),
            ..confirm(
                "cancel",
                "ban",
                if file { t!("progress-cancel") } else { t!("progress-cancel-job") },
                canceling(&job.tree.counts, file),
                if file { t!("progress-cancel-button") } else { t!("progress-cancel-job-button") },
                t!("progress-keep-running"),
            )
        }),
    };
    if share.is_none() && form.is_none() {
        return None;
    }
    Some(view! { <div class="actions">{share} {form.map(|form| form.view(actions.open.as_deref(), actions.refused.as_ref()))}</div> }.into_any())
}
