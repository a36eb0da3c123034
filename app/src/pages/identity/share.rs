//! `/s/{token}`: an import as seen through a share link; and the panel on the import's page that creates and revokes
//! links.
//!
//! A shared page shows the same as the uploader's page, without links to other pages.

use domain::{Job, JobStatus, Problem, api::ErrorGroup, tree::share_link::Share};
use leptos::prelude::*;

use crate::pages::import::progress;
use crate::{
    components::{
        form::{Field, secret},
        panel::refusal,
        state::icon,
        timestamp::{ago, clock},
    },
    frame::{NavSection, Page},
    job_view::Head,
    live::import::LiveImport,
};

/// Page of a share link. `file`: the job was created from a file.
pub fn page(job: &Job, file: bool, groups: &[ErrorGroup]) -> Page {
    let name = progress::name(job);
    let completed = job.tree.status == JobStatus::Completed;
    let head = Head { file, ..Head::of(job) };
    let content = view! {
        <div class="narrow">
            <p class="crumbs">"Shared with you, to look at"</p>
            <div class="job-title" id="title" data-refresh="">
                <h1>{name.clone()}</h1>
                {progress::state(job, file)}
            </div>
            {progress::woods()}
            <LiveImport id=job.id label=format!("Progress of {name}") head />
            <div class="stack gap-4" id="around" data-refresh="">
                {progress::failed(job, file, groups, false)}
                {progress::downloads_card(job, file, completed)}
            </div>
            <p class="small soft">{if file { "Uploaded " } else { "Created " }} {clock(job.created_at)}</p>
        </div>
    }
    .into_any();
    Page { title: name, nav_section: NavSection::Elsewhere, content, is_live: true }
}

/// Page of a link that no longer works.
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
        <div class="standalone"><h1>"This link shows nothing"</h1> <p>{text}</p></div>
    }
    .into_any();
    Page { title: "Link not valid".to_owned(), nav_section: NavSection::Standalone, content, is_live: false }
}

/// The panel on an import's page.
#[derive(Clone, Debug, Default)]
pub struct SharePanel {
    /// Links that still work.
    pub shares: Vec<Share>,
    /// URL of a link that was just created.
    pub created: Option<String>,
    /// True if it is someone else's work.
    pub needs_reason: bool,
    pub reason: String,
    pub problem: Option<Problem>,
}

/// Available lifetimes of a new link, in days.
const ENDS_AFTER: [(&str, &str); 5] =
    [("1", "1 day"), ("7", "7 days"), ("30", "30 days"), ("90", "90 days"), ("365", "1 year")];

/// Creates, lists and revokes links.
pub fn panel(job: &Job, share_panel: &SharePanel) -> AnyView {
    let created = share_panel.created.as_ref().map(|url| {
        view! {
            <div class="notice notice-ok" role="status">
                {icon("succeeded")}
                <div class="grow">
                    <strong>"Your link"</strong>
                    <p>"Copy it now; it is not shown again. It works until it ends or is revoked."</p>
                    {secret("share-link", "Link", url)}
                </div>
            </div>
        }
    });
    let refused = share_panel.problem.as_ref().map(|problem| refusal("Nothing was changed", &problem.detail));
    let rows = share_panel.shares.iter().map(|share| row(share, share_panel.needs_reason)).collect_view();
    let reason = share_panel.needs_reason.then(|| {
        Field::new("Reason", "reason", "text").value(&share_panel.reason).hint("It is kept in the audit log.").view()
    });
    let options = ENDS_AFTER
        .iter()
        .map(|&(days, word)| {
            view! {
                <option value=days selected=days == "30">
                    {word}
                </option>
            }
        })
        .collect_view();
    view! {
        <section class="card" id="share" aria-labelledby="share-heading">
            <div class="card-head">
                <h2 id="share-heading">"Share"</h2>
                <span class="sub">{visible_to(job, share_panel)}</span>
            </div>
            <div class="card-body stack">
                {refused}
                {created}
                <p class="small soft">
                    "A link lets anyone who has it see progress, problems, and downloads, and nothing else."
                </p>
                <ul class="lined">{rows}</ul>
                <form method="post" action=format!("/imports/{}/share", job.id) class="row-wrap share-form">
                    {reason}
                    <div class="field">
                        <label class="label" for="days">
                            "Ends after"
                        </label>
                        <select id="days" name="days">
                            {options}
                        </select>
                    </div>
                    <button class="btn" type="submit" id="create-link">
                        "Create link"
                    </button>
                </form>
            </div>
        </section>
    }
    .into_any()
}

/// Audience of the import; the sentence must be true for every reader.
fn visible_to(job: &Job, share_panel: &SharePanel) -> AnyView {
    let others = match share_panel.shares.len() {
        0 => ".",
        1 => ", and to anyone with the link.",
        _ => ", and to anyone with one of the links.",
    };
    if share_panel.needs_reason {
        return view! { "Visible to " <b>{job.owner.name.clone()}</b> " and to support and administrators" {others} }
            .into_any();
    }
    view! { "Visible to you and your administrators" {others} }.into_any()
}

fn row(share: &Share, needs_reason: bool) -> impl IntoView + use<> {
    let seen = match share.last_seen_at {
        Some(at) => view! { "last opened " {ago(at)} }.into_any(),
        None => "never opened".into_any(),
    };
    let reason = needs_reason.then(|| {
        view! { <input type="text" name="reason" required maxlength="300" placeholder="Reason" aria-label="Reason" /> }
    });
    view! {
        <li class="row-wrap row link-line" data-key=share.id.to_string()>
            <span class="two grow small">
                <span>"Created " {ago(share.created_at)} " by " {share.created_by.name.clone()}</span>
                <span>"Ends " {clock(share.expires_at)} ", " {seen}</span>
            </span>
            <form method="post" action=format!("/shares/{}/revoke", share.id) class="row">
                {reason}
                <button class="btn btn-sm btn-danger" type="submit">
                    "Revoke this link"
                </button>
            </form>
        </li>
    }
}
