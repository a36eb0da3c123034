//! Last lines of the log of an attempt, with links to the logs of the others.

use crate::speech::grouped;
use domain::{
    api::{LogLevel, LogLine, LogTail},
    id::Uuid,
};
use leptos::prelude::*;

use crate::components::{state::icon, timestamp::exact};

/// Number of attempts that have a link.
const LINKS: usize = 5;

pub(super) fn card(item_id: Uuid, log: &LogTail) -> AnyView {
    let linked_attempts = &log.attempts[log.attempts.len().saturating_sub(LINKS)..];
    let links = (log.attempts.len() > 1).then(|| {
        let links =
            linked_attempts.iter().map(|&attempt| link(item_id, attempt, attempt == log.attempt)).collect_view();
        view! { <nav class="seg-control" aria-label="Attempt">{links}</nav> }
    });
    let first = log.lines.first().map_or(1, |line| line.line);
    let note = match (first, log.dropped) {
        (..2, _) => None,
        (_, 0) => Some(format!("from line {}", grouped(first))),
        (_, dropped) => Some(format!("from line {}; the oldest {} were dropped", grouped(first), grouped(dropped))),
    };
    let all = format!("/api/v1/items/{item_id}/logs?attempt={}&limit=1000", log.attempt);
    let lines = log.lines.iter().map(line).collect_view();
    view! {
        <section class="card clip-card" id="log" aria-labelledby="log-heading">
            <div class="card-head">
                <h2 id="log-heading">"Log"</h2>
                {note.map(|note| view! { <span class="sub">{note}</span> })}
                <div class="end">
                    {links}
                    <a class="btn btn-sm btn-icon" href=all download="" aria-label="Download log">
                        {icon("download")}
                    </a>
                </div>
            </div>
            <ol class="log" tabindex="0" aria-label=format!("Log of attempt {}", log.attempt) data-tail="">
                {lines}
            </ol>
        </section>
    }
    .into_any()
}

fn link(item_id: Uuid, attempt: i32, is_shown: bool) -> impl IntoView {
    let text = if is_shown { format!("Attempt {attempt}") } else { attempt.to_string() };
    let label = format!("Attempt {attempt}");
    let href = format!("/items/{item_id}?attempt={attempt}#log");
    view! { <a href=href aria-label=label aria-current=is_shown.then_some("true")>{text}</a> }
}

fn line(line: &LogLine) -> impl IntoView + use<> {
    let class = match line.level {
        LogLevel::Trace | LogLevel::Debug => "lv-low",
        LogLevel::Info => "lv-info",
        LogLevel::Warn => "lv-warn",
        LogLevel::Error => "lv-err",
    };
    let id = format!("L{}", line.line);
    let fields =
        line.fields.as_ref().map(|fields| view! { " " <span class="fields">{fields.text().to_owned()}</span> });
    view! {
        <li id=id.clone() class=(line.level == LogLevel::Error).then_some("is-err")>
            <a href=format!("#{id}") aria-label=format!("Line {}", line.line)>{line.line}</a>
            {exact(line.at)}
            <span class=class>{line.level.as_str()}</span>
            <span class="msg">{line.message.clone()} {fields}</span>
        </li>
    }
}
