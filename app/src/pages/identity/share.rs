//! `/s/{token}`: an import as seen through a share link; and the panel on the import's page that creates and revokes
//! links.
//!
//! A shared page shows the same as the uploader's page, without links to other pages.

use domain::{
    Job, JobStatus, Problem,
    api::ErrorGroup,
    tree::share_link::{EXPIRED, REVOKED, Share},
};
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
    speech::in_words,
    t, t_view,
};

/// Page of a share link. `file`: the job was created from a file.
pub fn page(job: &Job, file: bool, groups: &[ErrorGroup]) -> Page {
    let name = progress::name(job);
    let completed = job.tree.status == JobStatus::Completed;
    let head = Head { file, ..Head::of(job) };
    let content = view! {
        <div class="narrow">
            <p class="crumbs">{t!("share-with-you")}</p>
            <div class="job-title" id="title" data-refresh="">
                <h1>{name.clone()}</h1>
                {progress::state(job, file)}
            </div>
            {progress::woods()}
            <LiveImport id=job.id label=t!("progress-of", name = &name) head />
            <div class="stack gap-4" id="around" data-refresh="">
                {progress::failed(job, file, groups, false)}
                {progress::downloads_card(job, file, completed)}
            </div>
            <p class="small soft">{if file { t_view!("progress-uploaded", time = clock(job.created_at)) } else { t_view!("progress-created", time = clock(job.created_at)) }}</p>
        </div>
    }
    .into_any();
    Page { title: name, nav_section: NavSection::Elsewhere, content, is_live: true, is_translated: true }
}

/// Page of a link that no longer works.
pub fn gone(problem: &Problem) -> Page {
    use domain::Code;
    let text = match problem.code {
        Code::LinkUsed if problem.detail == REVOKED => t!("share-revoked").to_owned(),
        Code::LinkUsed if problem.detail == EXPIRED => t!("share-expired").to_owned(),
        Code::LinkUsed => t!("share-closed").to_owned(),
        Code::JobRemoved => t!("share-gone").to_owned(),
        _ => t!("share-nothing").to_owned(),
    };
    let content = view! {
        <div class="standalone"><h1>{t!("share-shows-nothing")}</h1> <p>{text}</p></div>
    }
    .into_any();
    Page {
        title: t!("signin-invalid").to_owned(),
        nav_section: NavSection::Standalone,
        content,
        is_live: false,
        is_translated: true,
    }
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
    /// Lifetime as chosen, in days; empty before.
    pub days: String,
    pub problem: Option<Problem>,
}

/// Available lifetimes of a new link, in days.
const ENDS_AFTER: [i64; 5] = [1, 7, 30, 90, 365];

/// Creates, lists and revokes links.
pub fn panel(job: &Job, share_panel: &SharePanel) -> AnyView {
    let created = share_panel.created.as_ref().map(|url| {
        view! {
            <div class="notice notice-ok" role="status">
                {icon("succeeded")}
                <div class="grow">
                    <strong>{t!("share-your-link")}</strong>
                    <p>{t!("share-copy-now")}</p>
                    {secret("share-link", t!("share-link"), url)}
                </div>
            </div>
        }
    });
    let refused =
        share_panel.problem.as_ref().map(|problem| refusal(t!("form-nothing-changed"), &in_words(&problem.detail)));
    let rows = share_panel.shares.iter().map(|share| row(share, share_panel.needs_reason)).collect_view();
    let reason = share_panel.needs_reason.then(|| {
        Field::new(t!("form-reason"), "reason", "text").value(&share_panel.reason).hint(t!("share-reason-help")).view()
    });
    let chosen = share_panel.days.parse().unwrap_or(30);
    let options = ENDS_AFTER
        .iter()
        .map(|&days| {
            let word = if days == 365 { t!("share-year").to_owned() } else { t!("share-days", n = days) };
            view! {
                <option value=days.to_string() selected=days == chosen>
                    {word}
                </option>
            }
        })
        .collect_view();
    view! {
        <section class="card" id="share" aria-labelledby="share-heading">
            <div class="card-head">
                <h2 id="share-heading">{t!("share-button")}</h2>
                <span class="sub">{visible_to(job, share_panel)}</span>
            </div>
            <div class="card-body stack">
                {refused}
                {created}
                <p class="small soft">
                    {t!("share-text")}
                </p>
                <ul class="lined">{rows}</ul>
                <form method="post" action=format!("/imports/{}/share", job.id) class="row-wrap share-form">
                    {reason}
                    <div class="field">
                        <label class="label" for="days">
                            {t!("share-ends-after")}
                        </label>
                        <select id="days" name="days">
                            {options}
                        </select>
                    </div>
                    <button class="btn" type="submit" id="create-link">
                        {t!("share-create")}
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
        0 => String::new(),
        n => format!(" {}", t!("share-anyone", n = n)),
    };
    if share_panel.needs_reason {
        return view! { {t_view!("share-visible-owner", owner = view! { <b>{job.owner.name.clone()}</b> })} {others.clone()} }
            .into_any();
    }
    view! { {t!("share-visible")} {others} }.into_any()
}

fn row(share: &Share, needs_reason: bool) -> impl IntoView + use<> {
    let seen = match share.last_seen_at {
        Some(at) => t_view!("share-last-opened", time = ago(at)).into_any(),
        None => t!("share-never-opened").into_any(),
    };
    let reason = needs_reason.then(|| {
        view! { <input type="text" name="reason" required maxlength="300" placeholder=t!("form-reason") aria-label=t!("form-reason") /> }
    });
    view! {
        <li class="row-wrap row link-line" data-key=share.id.to_string()>
            <span class="two grow small">
                <span>{t_view!("share-created", time = ago(share.created_at); name = &share.created_by.name)}</span>
                <span>{t_view!("share-ends", time = clock(share.expires_at))} ", " {seen}</span>
            </span>
            <details class="rename">
                <summary class="btn btn-sm btn-danger">{t!("share-revoke")} "…"</summary>
                <form method="post" action=format!("/shares/{}/revoke", share.id) class="inline">
                    <span class="small soft">{t!("share-revoke-effect")}</span>
                    {reason}
                    <button class="btn btn-sm btn-danger" type="submit">
                        {t!("share-revoke")}
                    </button>
                </form>
            </details>
        </li>
    }
}
