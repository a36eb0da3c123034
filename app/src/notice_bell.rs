//! The bell of the top bar: the person's newest notices. A details element, so it opens without scripts; `topics.js`
//! refreshes it, and shows notifications of the browser if the person wants them.

use domain::{
    Outcome,
    dispatch::progress::grouped,
    notice::{Notice, NoticeKind, NoticeList},
};
use leptos::prelude::*;

use crate::{components::timestamp::ago, frame::Frame};

/// The bell with its list.
pub(crate) fn bell(frame: &Frame) -> Option<AnyView> {
    let list = frame.notices.as_ref()?;
    let unread = (list.unread > 0).then(|| counted(list.unread));
    let label = unread.as_ref().map_or_else(|| "Notices".to_owned(), |n| format!("Notices: {n} unread"));
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
                <summary class="btn btn-quiet btn-icon btn-sm" title="Notices">
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
                    "Mark all as read"
                </button>
            </form>
        }
    });
    let none = list.data.is_empty().then(|| {
        view! { <p class="menu-head">"Nothing yet. You are told here when your imports and the jobs that you watch finish or need attention."</p> }
    });
    view! {
        <div class="menu-list bell-list">
            <div class="bell-head">
                <strong>"Notices"</strong>
                {read}
            </div>
            {none}
            <ul>{rows}</ul>
            <div class="menu-rule"></div>
            <a class="menu-item" href="/account#notices">
                "Notice settings"
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
            <a class="menu-item bell-item" href=format!("/jobs/{}", one.job_id)>
                <span class="bell-text">
                    <strong class="clip">{one.job_name.clone()}</strong>
                    <span class=is_bad.then_some("bell-bad")>{one.what()}</span>
                    <span class="small soft">{ago(one.created_at)}</span>
                </span>
                {unread.then(|| view! { <span class="bell-dot"><span class="vh">"Unread"</span></span> })}
            </a>
        </li>
    }
    .into_any()
}

fn counted(n: i64) -> String {
    if n >= 100 { "99+".to_owned() } else { grouped(n) }
}
