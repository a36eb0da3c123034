//! Failed rows of an import in error groups, largest first.

use domain::{Job, JobStatus, api::ErrorGroup, dispatch::progress::grouped};
use leptos::prelude::*;

use super::{FEW, counted};
use crate::components::{state::icon, timestamp::ago};

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
    let so_far = if completed { "" } else { " so far" };
    let sub = match (dead, groups.len()) {
        (0, _) => String::new(),
        (n, 0 | 1) => format!("{}{so_far}", counted(file, n)),
        (n, kinds) => format!("{}{so_far}, in {} groups", counted(file, n), grouped(kinds as i64)),
    };
    let foot = match (dead, groups.is_empty(), more) {
        (0, ..) => Some("Nothing has failed so far.".to_owned()),
        (_, true, _) => Some("The reasons are being counted.".to_owned()),
        (_, _, 1) => Some("1 more reason is in the download.".to_owned()),
        (_, _, 2..) => Some(format!("{} more reasons are in the download.", grouped(more as i64))),
        _ if completed => None,
        _ => Some("Failed rows never hold up the others. You can fix them here when the import is done.".to_owned()),
    };
    Some(
        view! {
            <section class="card" id="problems" aria-labelledby="problems-heading">
                <div class="card-head">
                    <h2 id="problems-heading">
                        {if file { "Rows that failed" } else { "Items that failed" }}
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
                {format!("Fix {}", grouped(group.count))}
            </a>
        }
    });
    // Failures far down the file: its first lines did not reveal the wrong encoding.
    let encoding = job.upload_id.filter(|_| group.kind.as_deref() == Some("bad_encoding")).map(|id| {
        view! {
            <span>
                "The file may be in another encoding. "
                <a href=format!("/imports/new?upload_id={id}")>"Choose its encoding and import it again"</a>
            </span>
        }
    });
    let more = match group.count - 1 {
        0 => None,
        1 => Some("and 1 more like it, ".to_owned()),
        n => Some(format!("and {} more like it, ", grouped(n))),
    };
    view! {
        <li class="row err-row" data-key=group.fingerprint.clone()>
            <span class="bad">{icon("dead")}</span>
            <strong class="num w4 problem-count">{grouped(group.count)}</strong>
            <span class="two grow small">
                <span class="strong problem-message">{group.message.clone()}</span>
                <span>{more} "last " {ago(group.last_seen_at)}</span>
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
