//! Failed rows of an import in error groups, largest first.

use crate::speech::grouped;
use domain::{Job, JobStatus, api::ErrorGroup};
use leptos::prelude::*;

use super::FEW;
use crate::{
    components::{state::icon, timestamp::ago},
    job_view::{counted, kind},
    speech::in_words,
    t, t_view,
};

/// Maximum number of groups on a page; the download has every row.
const MOST: usize = 10;

/// Card of error groups; nothing if all rows succeeded. `fixes`: the reader may correct rows.
pub(crate) fn failed(job: &Job, file: bool, groups: &[ErrorGroup], fixes: bool) -> Option<AnyView> {
    let completed = job.tree.status == JobStatus::Completed;
    let dead = job.tree.counts.dead;
    if completed && dead == 0 {
        return None;
    }
    let most = groups.iter().map(|group| group.count).max().unwrap_or(1).max(1);
    let here = fixes && completed && (1..=FEW).contains(&job.counts.dead);
    let rows = groups.iter().take(MOST).map(|group| one(job, group, most, here)).collect_view();
    let more = groups.len().saturating_sub(MOST);
    let sub = match (dead, groups.len()) {
        (0, _) => String::new(),
        (n, 0 | 1) if completed => counted(file, n),
        (n, 0 | 1) => t!("failed-so-far", rows = &counted(file, n)),
        (n, kinds) if completed => t!("failed-in-groups", rows = &counted(file, n), groups = kinds),
        (n, kinds) => t!("failed-so-far-in-groups", rows = &counted(file, n), groups = kinds),
    };
    let foot = match (dead, groups.is_empty(), more) {
        (0, ..) => Some(t!("failed-nothing").to_owned()),
        (_, true, _) => Some(t!("failed-counting").to_owned()),
        (_, _, 1..) => Some(t!("failed-more", n = more)),
        _ if completed => None,
        _ => Some(t!("failed-later").to_owned()),
    };
    Some(
        view! {
            <section class="card" id="problems" aria-labelledby="problems-heading">
                <div class="card-head">
                    <h2 id="problems-heading">
                        {t!("failed-title", kind = kind(file))}
                    </h2>
                    <span class="sub">{sub}</span>
                </div>
                <ol class="lined">{rows}</ol>
                {foot.map(|text| view! { <div class="card-foot"><span>{text}</span></div> })}
            </section>
        }
        .into_any(),
    )
}

fn one(job: &Job, group: &ErrorGroup, most: i64, here: bool) -> impl IntoView + use<> {
    let share = format!("{:.1}%", (group.count as f64 / most as f64 * 100.0).max(3.0));
    let fix = here.then(|| {
        view! {
            <a class="btn btn-sm" href=format!("/imports/{}/correct", job.id)>
                {t!("failed-fix", n = group.count)}
            </a>
        }
    });
    // Failures far down the file: its first lines did not reveal the wrong encoding.
    let encoding = job.upload_id.filter(|_| group.kind.as_deref() == Some("bad_encoding")).map(|id| {
        view! {
            <span>
                {t!("failed-encoding")} " "
                <a href=format!("/imports/new?upload_id={id}")>{t!("failed-encoding-link")}</a>
            </span>
        }
    });
    let last = || ago(group.last_seen_at);
    let last = match group.count - 1 {
        0 => t_view!("failed-last", time = last()),
        n => t_view!("failed-last-of-more", time = last(); n = n),
    };
    view! {
        <li class="row err-row" data-key=group.fingerprint.clone()>
            <span class="bad">{icon("dead")}</span>
            <strong class="num w4 problem-count">{grouped(group.count)}</strong>
            <span class="two grow small">
                <span class="strong problem-message">{in_words(&group.message)}</span>
                <span>{last}</span>
                {encoding}
            </span>
            <span class="err-bar">
                <svg class="bar" aria-hidden="true" focusable="false">
                    <rect class="track" width="100%" height="100%" />
                    <rect class="seg seg-dead" width=share height="100%" />
                </svg>
            </span>
            {fix}
        </li>
    }
}
