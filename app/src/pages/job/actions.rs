//! Actions on a job, in the header of its page: cancel, replay, pin, delete. Each form shows its effect in current
//! numbers.

use crate::speech::grouped;
use domain::{Job, JobStatus, query::filter::Term};
use leptos::prelude::*;

use crate::{
    components::{
        action_form::RefusedAction,
        confirm::{Confirm, canceling},
    },
    pages::{import::progress::name, operator::dead_letters::preview_as},
};

/// Rights of the reader, and the state of the forms.
#[derive(Clone, Debug, Default)]
pub struct Actions {
    /// The job is the reader's own.
    pub own: bool,
    /// The reader sees job types and workers.
    pub staff: bool,
    /// Name of the root of the tree, for a job below it.
    pub root: Option<String>,
    /// May delete jobs of others.
    pub admin: bool,
    /// Name of the form to open.
    pub open: Option<String>,
    pub refused: Option<RefusedAction>,
    /// The reader watches the tree; `None` if the reader cannot.
    pub watching: Option<bool>,
    /// Last action.
    pub flash: Option<String>,
    /// Idempotency-Key of the form that runs the job again.
    pub key: String,
}

/// Items that a retry of the job includes: those of its tree; below the root, only its own.
pub(super) fn reach(job: &Job) -> (Term, i64) {
    match job.parent_id {
        None => (Term::is("root", &job.id.to_string()), job.tree.counts.dead),
        Some(_) => (Term::is("job", &job.id.to_string()), job.counts.dead),
    }
}

/// Buttons of the actions that are available.
pub(super) fn actions(job: &Job, actions: &Actions) -> AnyView {
    let root = job.parent_id.is_none();
    let completed = job.tree.status == JobStatus::Completed;
    let was_refused = |name: &str| actions.refused.as_ref().is_some_and(|refused| refused.action == name);
    let mut forms: Vec<Confirm> = Vec::new();
    if (root && completed) || was_refused("replay") {
        forms.push(replay(job, actions));
    }
    if root || was_refused("pin") || was_refused("unpin") {
        forms.push(pin(job, actions));
    }
    if (!completed && job.tree.status != JobStatus::Cancelling) || was_refused("cancel") {
        forms.push(cancel(job, actions));
    }
    if (root && completed && (actions.own || actions.admin)) || was_refused("delete") {
        forms.push(delete(job, actions));
    }
    let forms =
        forms.into_iter().map(|form| form.view(actions.open.as_deref(), actions.refused.as_ref())).collect_view();
    view! { <div class="actions">{retry(job)} {watch(job, actions)} {forms}</div> }.into_any()
}

/// Button that starts or stops watching the tree.
fn watch(job: &Job, actions: &Actions) -> Option<AnyView> {
    let watching = actions.watching.filter(|_| job.parent_id.is_none())?;
    let (path, word, title) = if watching {
        ("unwatch", "Stop watching", "You are told when this job finishes or needs attention")
    } else {
        ("watch", "Watch", "Be told when this job finishes or needs attention")
    };
    let form = view! {
        <form method="post" action=format!("/jobs/{}/{path}", job.id)>
            <button class="btn" type="submit" title=title>
                <svg class="icon" aria-hidden="true" focusable="false">
                    <use href="#i-bell" />
                </svg>
                {word}
            </button>
        </form>
    };
    Some(form.into_any())
}

/// Button that retries all failed items: it starts a preview.
fn retry(job: &Job) -> Option<AnyView> {
    let (term, dead) = reach(job);
    (dead > 0).then(|| preview_as("btn btn-primary", &vec![term].into(), format!("Retry {} failed", grouped(dead))))
}

fn items(n: i64) -> String {
    if n == 1 { "1 item".to_owned() } else { format!("{} items", grouped(n)) }
}

fn form(job: &Job, actions: &Actions, id: &'static str) -> Confirm {
    Confirm {
        id,
        action: format!("/jobs/{}/{id}", job.id),
        icon: "bookmark",
        verb: "",
        question: String::new(),
        text: String::new(),
        button: String::new(),
        dangerous: false,
        way_out: "Cancel",
        back: format!("/jobs/{}", job.id),
        others: (!actions.own).then(|| job.owner.name.clone()),
        key: None,
    }
}

fn cancel(job: &Job, actions: &Actions) -> Confirm {
    Confirm {
        icon: "ban",
        verb: "Cancel job…",
        question: format!("Cancel “{}”?", name(job)),
        text: canceling(&job.tree.counts, false),
        button: "Cancel job".to_owned(),
        dangerous: true,
        way_out: "Keep running",
        ..form(job, actions, "cancel")
    }
}

fn replay(job: &Job, actions: &Actions) -> Confirm {
    Confirm {
        icon: "copy",
        verb: "Run again as a new job…",
        question: format!("Run “{}” again?", name(job)),
        text: format!(
            "A new job gets the same definition and those of the {} that came from outside, with their payloads as they are now. Start times and reached steps are not carried over. This job stays.",
            items(job.tree.item_count)
        ),
        button: "Run again".to_owned(),
        key: Some(actions.key.clone()),
        ..form(job, actions, "replay")
    }
}

fn pin(job: &Job, actions: &Actions) -> Confirm {
    if job.pinned {
        return Confirm {
            verb: "Delete automatically again…",
            question: "Delete automatically again?".to_owned(),
            text: "It is kept forever now. Afterwards it is deleted when the retention of its type is over.".to_owned(),
            button: "Delete automatically again".to_owned(),
            ..form(job, actions, "unpin")
        };
    }
    Confirm {
        verb: "Keep forever…",
        question: "Keep this job forever?".to_owned(),
        text: "It stays, with all its items and results, until someone deletes it.".to_owned(),
        button: "Keep forever".to_owned(),
        ..form(job, actions, "pin")
    }
}

fn delete(job: &Job, actions: &Actions) -> Confirm {
    Confirm {
        icon: "trash-2",
        verb: "Delete…",
        question: format!("Delete “{}”?", name(job)),
        text: format!(
            "The job, its {}, and all results are deleted at once. This cannot be undone.",
            items(job.tree.item_count)
        ),
        button: format!("Delete {}", items(job.tree.item_count)),
        dangerous: true,
        way_out: "Keep it",
        ..form(job, actions, "delete")
    }
}
