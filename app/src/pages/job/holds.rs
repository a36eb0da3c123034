//! Reasons why a job does not progress, as sentences. An estimate would be wrong too often.

use domain::{
    hold::{Held, Hold},
    progress::grouped,
};
use leptos::prelude::*;

use crate::components::{moment::clock, state::icon};

/// One line for every type whose items are blocked or unclaimed. Empty if there are none.
pub fn holds(held: &[Held]) -> Vec<AnyView> {
    held.iter().filter_map(line).collect()
}

fn line(held: &Held) -> Option<AnyView> {
    let name = held.job_type.clone();
    let waiting = held.waiting();
    let open_type = || {
        view! { <a class="btn btn-sm" href=format!("/types/{}", held.job_type)>{format!("Open {}", held.job_type)}</a> }
            .into_any()
    };
    let (title, text, way) = match &held.hold {
        Hold::Ours | Hold::Shared => return None,
        Hold::Paused => (
            format!("{waiting}: {name} is paused"),
            "They start when somebody resumes the job type.".into_any(),
            Some(open_type()),
        ),
        Hold::Away { target, until } => (
            format!("{waiting}: {target} does not answer"),
            view! { "It is asked again at " {clock(*until)} "." }.into_any(),
            Some(open_type()),
        ),
        Hold::Capped { open, cap } => (
            format!("{waiting} for a free slot"),
            format!("{} of {} slots of {name} are in use.", grouped(*open), grouped(*cap)).into_any(),
            None,
        ),
        Hold::Unasked(since) => (
            format!("{waiting} in {name}"),
            match since {
                Some(at) => view! { "No worker has asked for them since " {clock(*at)} "." }.into_any(),
                None => "No worker has asked for them yet.".into_any(),
            },
            Some(view! { <a class="btn btn-sm" href="/workers">"Workers"</a> }.into_any()),
        ),
    };
    let stuck = held.hold.is_stuck();
    Some(
        view! {
            <div class=if stuck { "notice notice-warn" } else { "notice notice-info" }>
                {icon(if stuck { "triangle-alert" } else { "info" })}
                <div>
                    <strong>{title}</strong>
                    <p>{text}</p>
                </div>
                {way.map(|way| view! { <div class="actions">{way}</div> })}
            </div>
        }
        .into_any(),
    )
}

/// The same for uploaders: only problems that do not resolve themselves, without operator terms and links.
pub fn holds_of_import(held: &[Held]) -> Vec<AnyView> {
    let stuck = held.iter().filter_map(|held| {
        let why = match &held.hold {
            Hold::Paused => view! { "This kind of work is paused for now." }.into_any(),
            Hold::Unasked(None) => view! { "Nobody has begun to work on files of this kind." }.into_any(),
            Hold::Unasked(Some(at)) => {
                view! { "Nobody has worked on files of this kind since " {clock(*at)} "." }.into_any()
            }
            Hold::Away { .. } => view! { "What works on files of this kind does not answer at the moment." }.into_any(),
            Hold::Ours | Hold::Shared | Hold::Capped { .. } => return None,
        };
        let rows = match held.count {
            1 => "1 row waits. ".to_owned(),
            n => format!("{} rows wait. ", grouped(n)),
        };
        let rest = " Nothing is lost: they go on as soon as that changes.";
        Some(view! { <p class="note note-warn">{icon("partial")} " " <span>{rows} {why} {rest}</span></p> }.into_any())
    });
    stuck.collect()
}
