//! What can be done to a job: cancelled, made again, kept, deleted. Each form says what will happen, with the
//! numbers of this moment.

use domain::{Job, JobStatus, progress::grouped};
use leptos::prelude::*;

use crate::components::{
    deed::{Deed, Refused, deed_open},
    panel::{note, section},
};

/// Who looks, and what they tried.
#[derive(Clone, Debug, Default)]
pub struct Deeds {
    /// The job is the reader's own.
    pub own: bool,
    /// May delete what is not theirs.
    pub admin: bool,
    /// The form that a link asks to be open.
    pub open: Option<String>,
    pub refused: Option<Refused>,
    /// What was just done.
    pub did: Option<String>,
}

/// The section with all forms that make sense for the job as it is.
pub(super) fn section_of(job: &Job, deeds: &Deeds) -> AnyView {
    let root = job.parent_id.is_none();
    let completed = job.tree.status == JobStatus::Completed;
    let tried = |name: &str| deeds.refused.as_ref().is_some_and(|refused| refused.deed == name);
    let mut forms: Vec<AnyView> = Vec::new();
    if (!completed && job.tree.status != JobStatus::Cancelling) || tried("cancel") {
        forms.push(cancel(job, deeds));
    }
    if (root && completed) || tried("replay") {
        forms.push(replay(job, deeds));
    }
    if root || tried("pin") {
        forms.push(pin(job, deeds));
    }
    if (root && completed && (deeds.own || deeds.admin)) || tried("delete") {
        forms.push(delete(job, deeds));
    }
    if forms.is_empty() {
        let text = if job.tree.status == JobStatus::Cancelling {
            "It is being cancelled: it is over when the last item in work has ended."
        } else {
            "It is complete. Its whole tree can be made again from the tree's own page."
        };
        return section("deeds", "What you can do", note(text));
    }
    section("deeds", "What you can do", view! { <div class="deeds">{forms}</div> }.into_any())
}

fn form(job: &Job, deeds: &Deeds, deed: &'static str, verb: &'static str) -> Deed {
    Deed {
        deed,
        action: format!("/jobs/{}/{deed}", job.id),
        verb,
        text: ().into_any(),
        fields: None,
        button: String::new(),
        dangerous: false,
        others: !deeds.own,
    }
}

fn drawn(form: Deed, deeds: &Deeds) -> AnyView {
    let open = deeds.open.as_deref() == Some(form.deed);
    deed_open(form, deeds.refused.as_ref(), open)
}

fn items(n: i64) -> String {
    if n == 1 { "1 item".to_owned() } else { format!("{} items", grouped(n)) }
}

fn cancel(job: &Job, deeds: &Deeds) -> AnyView {
    let counts = &job.tree.counts;
    let running = counts.running;
    let waiting = counts.total() - counts.finished() - running;
    let waits = match waiting {
        0 => "Nothing waits in it.".to_owned(),
        n => format!("{} that wait will never start.", items(n)),
    };
    let works = match running {
        0 => String::new(),
        1 => " 1 item in work is told to stop, and its result is refused.".to_owned(),
        n => format!(" {} in work are told to stop, and their results are refused.", items(n)),
    };
    let ended = match counts.finished() {
        0 => String::new(),
        1 => " The 1 item that has ended stays as it is.".to_owned(),
        n => format!(" The {} that have ended stay as they are.", items(n)),
    };
    let text = format!(
        "{waits}{works}{ended} No more items can be added. This cannot be undone; the work can be made again as a new tree."
    );
    let button = match waiting + running {
        0 => "Cancel the job".to_owned(),
        n => format!("Cancel {}", items(n)),
    };
    let form = Deed { text: text.into_any(), button, dangerous: true, ..form(job, deeds, "cancel", "Cancel…") };
    drawn(form, deeds)
}

fn replay(job: &Job, deeds: &Deeds) -> AnyView {
    let text = format!(
        "A new tree of the same definition is made, with those of its {} that came from outside, payloads as they are now. This one stays. Times before which nothing was to start, and steps, are dropped.",
        items(job.tree.item_count)
    );
    let form =
        Deed {
            text: text.into_any(), button: "Make it again".to_owned(), ..form(job, deeds, "replay", "Make again…")
        };
    drawn(form, deeds)
}

fn pin(job: &Job, deeds: &Deeds) -> AnyView {
    if job.pinned {
        let text = "It is kept forever. Otherwise it is deleted when the retention of its type is over.";
        let form = Deed {
            text: text.into_any(),
            button: "Delete automatically again".to_owned(),
            ..form(job, deeds, "unpin", "Delete automatically again…")
        };
        return drawn(form, deeds);
    }
    let text = "It stays, with all its items and results, until somebody deletes it.";
    let form =
        Deed { text: text.into_any(), button: "Keep forever".to_owned(), ..form(job, deeds, "pin", "Keep forever…") };
    drawn(form, deeds)
}

fn delete(job: &Job, deeds: &Deeds) -> AnyView {
    let text = format!(
        "The tree goes at once and for ever: {}, what became of them, and the downloads.",
        items(job.tree.item_count)
    );
    let form = Deed {
        text: text.into_any(),
        button: format!("Delete {}", items(job.tree.item_count)),
        dangerous: true,
        ..form(job, deeds, "delete", "Delete…")
    };
    drawn(form, deeds)
}
