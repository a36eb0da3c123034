//! `/s/{token}`: what whoever has a link sees of one import; and the panel on the import's own page where
//! links are made and taken back.
//!
//! A shared page shows what the uploader's page shows, without ways to anything else.

use domain::{Job, JobStatus, Problem, api::ErrorGroup, share::Share};
use leptos::prelude::*;

use super::{import, problems};
use crate::{
    components::{
        form::{Field, choice, press, secret},
        mark::treeline,
        moment::{ago, clock},
        panel::{note, refusal, section},
        state::icon,
    },
    frame::{Page, Place},
    live::import::LiveImport,
    reading::Head,
};

/// The page behind a link. The job is as a link shows it.
pub fn page(job: &Job, groups: &[ErrorGroup]) -> Page {
    let name = import::name(job);
    let completed = job.tree.status == JobStatus::Completed;
    let dead = job.tree.counts.dead;
    let content = view! {
        <div class="narrow">
            <p class="crumbs">"Shared with you, to look at"</p>
            <h1 class="file-name">{icon("file")} " " {name.clone()}</h1>
            <LiveImport id=job.id label=format!("Progress of {name}") head=Head::of(job) />
            <div id="around" data-refresh="">
                {(dead > 0 || !completed)
                    .then(|| section("problems", "What went wrong", problems::unlinked(groups, dead, !completed)))}
                {section("downloads", "Take home", import::downloads(job, completed))}
            </div>
            <p class="sub">"Uploaded " {clock(job.created_at)}</p>
        </div>
    }
    .into_any();
    Page { title: name, place: Place::Elsewhere, content, lives: true }
}

/// The page of a link that opens nothing any more.
pub fn gone(problem: &Problem) -> Page {
    use domain::Code;
    let text = match problem.code {
        Code::LinkUsed => format!("{} Ask for a new one if you still need it.", problem.detail),
        Code::JobRemoved => {
            "What it showed is gone: it was deleted, or the time for which it is kept has passed.".to_owned()
        }
        _ => "There is nothing behind this link. Check that it was copied whole.".to_owned(),
    };
    let content = view! {
        <div class="gate">{treeline(0, "treeline")} <h1>"This link shows nothing"</h1> <p>{text}</p></div>
    }
    .into_any();
    Page { title: "Link not valid".to_owned(), place: Place::Elsewhere, content, lives: false }
}

/// The panel on an import's page.
#[derive(Clone, Debug, Default)]
pub struct SharePanel {
    /// Links that open something.
    pub shares: Vec<Share>,
    /// A link that was just made.
    pub made: Option<String>,
    /// Whether it is somebody else's work.
    pub needs_reason: bool,
    pub reason: String,
    pub problem: Option<Problem>,
}

/// Lifetimes that a new link can have, in days.
const ENDS_AFTER: [(&str, &str); 5] =
    [("1", "A day"), ("7", "A week"), ("30", "30 days"), ("90", "90 days"), ("365", "A year")];

/// Makes, lists and takes back links.
pub fn panel(job: &Job, shown: &SharePanel) -> AnyView {
    let made = shown.made.as_ref().map(|url| {
        view! {
            <div class="notice notice-good" role="status">
                <div class="notice-body">
                    <strong>"Your link"</strong>
                    <p>"It is shown this once. Whoever has it can look, until it ends or you take it back."</p>
                    {secret("share-link", "Link", url)}
                </div>
            </div>
        }
    });
    let refused = shown.problem.as_ref().map(|problem| refusal("No link was made or taken back", &problem.detail));
    let rows = shown.shares.iter().map(|share| row(share, shown.needs_reason)).collect_view();
    let list = if shown.shares.is_empty() {
        note(
            "Nobody else can see this upload. A link shows its progress, its problems and its downloads to whoever has it, and nothing else.",
        )
    } else {
        view! { <ul class="lines">{rows}</ul> }.into_any()
    };
    let reason = shown.needs_reason.then(|| {
        Field::new("Reason", "reason", "text").value(&shown.reason).hint("It is somebody else's upload.").view()
    });
    let content = view! {
        {refused}
        {made}
        {list}
        <form method="post" action=format!("/imports/{}/share", job.id) class="form form-short">
            {reason}
            {choice("Ends after", "days", &ENDS_AFTER, "30")}
            <div class="actions">
                <button type="submit">"Make a link"</button>
            </div>
        </form>
    };
    section("share", "Share", content.into_any())
}

fn row(share: &Share, needs_reason: bool) -> impl IntoView + use<> {
    let seen = match share.last_seen_at {
        Some(at) => view! { "last looked at " {ago(at)} }.into_any(),
        None => "nobody has looked yet".into_any(),
    };
    let action = format!("/shares/{}/revoke", share.id);
    let label = "Take back this link".to_owned();
    let end = if needs_reason {
        view! {
            <form method="post" action=action class="inline">
                <input type="text" name="reason" required=true maxlength="300" placeholder="Reason" aria-label="Reason" />
                <button class="small" type="submit" aria-label=label>
                    "Take back"
                </button>
            </form>
        }
        .into_any()
    } else {
        press(action, "Take back", Some(label))
    };
    view! {
        <li class="line">
            <span class="line-text">
                <span>"Made " {ago(share.created_at)} " by " {share.created_by.name.clone()}</span>
                <span class="sub">"Ends " {clock(share.expires_at)} ", " {seen}</span>
            </span>
            {end}
        </li>
    }
}
