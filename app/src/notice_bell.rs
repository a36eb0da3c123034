//! The bell of the top bar: the person's newest notices. A details element, so it opens without scripts; `topics.js`
//! refreshes it, and shows notifications of the browser if the person wants them.

use crate::speech::grouped;
use domain::{
    Outcome,
    notice::{Notice, NoticeKind, NoticeList},
};
use leptos::prelude::*;

use crate::{components::timestamp::ago, frame::Frame, t};

/// The bell with its list.
pub(crate) fn bell(frame: &Frame) -> Option<AnyView> {
    let list = frame.notices.as_ref()?;
    let unread = (list.unread > 0).then(|| counted(list.unread));
    let label = unread.as_ref().map_or_else(|| t!("bell-notices").to_owned(), |n| t!("bell-unread-count", n = n));
    let newest = list.data.first().map(|one| one.id.to_string());
    Some(
        view! {
            <details
                class="menu bell"
                id="notices-menu"
                data-refresh=""
                data-topics="notices"
                data-newest=newest.unwrap_or_default()
                data-unread=list.unread.to_string()
            >
                <summary class="btn btn-quiet btn-icon btn-sm" title=t!("bell-notices")>
                    <svg class="icon" aria-hidden="true" focusable="false">
                        <use href="#i-bell" />
                    </svg>
                    {unread
                        .map(|n| {
                            view! {
                                <span class="bell-count" aria-hidden="true">
                                    {n}
                                </span>
                            }
                        })}
                    <span class="vh">{label}</span>
                </summary>
                {panel(list, &frame.address)}
            </details>
        }
        .into_any(),
    )
}

fn panel(list: &NoticeList, back: &str) -> AnyView {
    let rows = list.data.iter().map(row).collect_view();
    let read = (list.unread > 0).then(|| {
        view! {
            <form method="post" action="/notices/read">
                <input type="hidden" name="back" value=back.to_owned() />
                <button class="btn btn-sm" type="submit">
                    {t!("bell-read-all")}
                </button>
            </form>
        }
    });
    let none = list.data.is_empty().then(|| {
        view! { <p class="menu-head">{t!("bell-none")}</p> }
    });
    view! {
        <div class="menu-list bell-list">
            <div class="bell-head">
                <strong>{t!("bell-notices")}</strong>
                {read}
            </div>
            {none}
            <ul>{rows}</ul>
            <div class="menu-rule"></div>
            <a class="menu-item" href="/account#notices">
                {t!("bell-settings")}
            </a>
        </div>
    }
    .into_any()
}

fn row(one: &Notice) -> AnyView {
    let is_bad = one.dead > 0 || one.kind == NoticeKind::NeedsAttention || one.outcome == Some(Outcome::Failed);
    let unread = one.read_at.is_none();
    view! {
        <li data-key=one.id.to_string()>
            <a class="menu-item bell-item" href=one.path()>
                <span class="bell-text">
                    <strong class="clip">{one.job_name.clone()}</strong>
                    <span class=is_bad.then_some("bell-bad")>{what(one)}</span>
                    <span class="small soft">{ago(one.created_at)}</span>
                </span>
                {unread.then(|| view! { <span class="bell-dot"><span class="vh">{t!("bell-unread")}</span></span> })}
            </a>
        </li>
    }
    .into_any()
}

/// Event in a few words.
fn what(one: &Notice) -> String {
    match (one.kind, one.outcome) {
        (NoticeKind::NeedsAttention, _) if one.dead > 0 => t!("bell-attention-failed", n = one.dead),
        (NoticeKind::NeedsAttention, _) => t!("bell-attention-answer").to_owned(),
        (NoticeKind::Finished, Some(Outcome::Cancelled)) => t!("live-status-canceled").to_owned(),
        (NoticeKind::Finished, Some(Outcome::Failed)) => t!("live-status-failed").to_owned(),
        (NoticeKind::Finished, _) if one.dead > 0 => t!("bell-completed-failed", n = one.dead),
        (NoticeKind::Finished, _) => t!("live-status-completed").to_owned(),
    }
}

fn counted(n: i64) -> String {
    if n >= 100 { "99+".to_owned() } else { grouped(n) }
}
