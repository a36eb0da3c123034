//! What a page watches: where it is told of, how what it is told is read, and who takes it in.
//!
//! Apart from the connection, which is the same for a job and for a list: [`super::link`] opens, watches and closes
//! the stream and knows nothing of what it carries.

use domain::{
    Job,
    change::{Change, Roots, event},
    id::Uuid,
};
use leptos::prelude::window;
use wasm_bindgen::{JsCast as _, JsValue};
use wasm_bindgen_futures::JsFuture;
use web_sys::{RequestInit, Response};

/// Object that a page watches.
#[derive(Clone, Copy)]
pub(super) enum Watched {
    Job(Uuid),
    /// All trees that the reader sees.
    Roots,
}

impl Watched {
    pub(super) fn stream(self) -> String {
        match self {
            Self::Job(job) => format!("/api/v1/jobs/{job}/events"),
            Self::Roots => "/api/v1/events".to_owned(),
        }
    }

    /// Address for a single request instead of the stream.
    fn address(self) -> String {
        match self {
            Self::Job(job) => format!("/api/v1/jobs/{job}"),
            Self::Roots => super::roots::address(),
        }
    }

    /// An answer of [`Self::address`].
    fn answer(self, address: String, text: &str) -> Option<Heard> {
        match self {
            Self::Job(_) => serde_json::from_str(text).ok().map(Heard::Snapshot),
            Self::Roots => serde_json::from_str(text).ok().map(|rows| Heard::Rows(rows, address)),
        }
    }

    /// A `snapshot` or `change` of the stream.
    pub(super) fn event(self, name: &str, data: &str) -> Option<Heard> {
        let snapshot = name == event::SNAPSHOT;
        match self {
            Self::Job(_) if snapshot => serde_json::from_str(data).ok().map(Heard::Snapshot),
            Self::Job(_) => serde_json::from_str(data).ok().map(Heard::Change),
            Self::Roots => serde_json::from_str(data).ok().map(|roots| Heard::Roots(roots, snapshot)),
        }
    }
}

/// Message of the stream, or the answer to a separate request.
pub(super) enum Heard {
    Snapshot(Box<Job>),
    Change(Box<Change>),
    /// Trees in brief; whether they are the newest of all.
    Roots(Roots, bool),
    /// The jobs that were asked for, as far as they are still there, and the address that named them.
    Rows(Roots, String),
}

/// Brings it to whoever draws.
pub(super) fn tell(heard: Heard) {
    match heard {
        Heard::Snapshot(_) | Heard::Change(_) => super::session::hear(heard),
        Heard::Roots(roots, newest) => super::roots::hear(roots, newest),
        Heard::Rows(rows, address) => super::roots::answered(rows.jobs, &address),
    }
}

/// Result of a single request.
pub(super) enum Answer {
    Heard(Heard),
    SignedOut,
    Removed,
    /// The link to it shows nothing any more.
    Closed,
    Nothing,
}

pub(super) async fn fetch(watched: Watched) -> Answer {
    let request = RequestInit::new();
    // A link opens the stream and no job; whether it still does, its own page tells.
    let shared = window().location().pathname().ok().filter(|path| path.starts_with("/s/"));
    let is_shared = shared.is_some();
    let address = shared.unwrap_or_else(|| watched.address());
    let promise = window().fetch_with_str_and_init(&address, &request);
    let Ok(response) = JsFuture::from(promise).await.map(JsValue::unchecked_into::<Response>) else {
        return Answer::Nothing;
    };
    match response.status() {
        404 | 410 if is_shared => return Answer::Closed,
        _ if is_shared => return Answer::Nothing,
        200 => {}
        401 => return Answer::SignedOut,
        404 | 410 => return Answer::Removed,
        _ => return Answer::Nothing,
    }
    let Ok(text) = response.text() else { return Answer::Nothing };
    let text = JsFuture::from(text).await.ok().and_then(|text| text.as_string()).unwrap_or_default();
    watched.answer(address, &text).map_or(Answer::Nothing, Answer::Heard)
}
