//! Subscription of a page: its URLs, the parsing of its messages, and their consumer.
//!
//! [`super::connection`] opens, checks and closes the stream, and does not know its content; it is the same for a
//! job and for a list.

use domain::{
    Job,
    id::Uuid,
    tree::change::{Change, Roots, event},
};
use leptos::prelude::window;
use wasm_bindgen::{JsCast as _, JsValue};
use wasm_bindgen_futures::JsFuture;
use web_sys::{RequestInit, Response};

/// Object that a page subscribes to.
#[derive(Clone, Copy)]
pub(super) enum Subscription {
    Job(Uuid),
    /// All trees that are visible to the reader.
    Roots,
}

impl Subscription {
    pub(super) fn stream(self) -> String {
        match self {
            Self::Job(job) => format!("/api/v1/jobs/{job}/events"),
            Self::Roots => "/api/v1/events".to_owned(),
        }
    }

    /// URL of a single request instead of the stream.
    fn address(self) -> String {
        match self {
            Self::Job(job) => format!("/api/v1/jobs/{job}"),
            Self::Roots => super::job_list_session::address(),
        }
    }

    /// Parses a response to [`Self::address`].
    fn answer(self, address: String, text: &str) -> Option<StreamMessage> {
        match self {
            Self::Job(_) => serde_json::from_str(text).ok().map(StreamMessage::Polled),
            Self::Roots => serde_json::from_str(text).ok().map(|rows| StreamMessage::Rows(rows, address)),
        }
    }

    /// Parses a `snapshot` or `change` event of the stream.
    pub(super) fn event(self, name: &str, data: &str) -> Option<StreamMessage> {
        let snapshot = name == event::SNAPSHOT;
        match self {
            Self::Job(_) if snapshot => serde_json::from_str(data).ok().map(StreamMessage::Snapshot),
            Self::Job(_) => serde_json::from_str(data).ok().map(StreamMessage::Change),
            Self::Roots => serde_json::from_str(data).ok().map(|roots| StreamMessage::Roots(roots, snapshot)),
        }
    }
}

/// Message of the stream, or the answer to a separate request.
pub(super) enum StreamMessage {
    Snapshot(Box<Job>),
    /// Answer about a job; no message about its running items follows.
    Polled(Box<Job>),
    Change(Box<Change>),
    /// Summaries of trees; true if they are the newest of all.
    Roots(Roots, bool),
    /// Requested jobs that still exist, and the URL that requested them.
    Rows(Roots, String),
}

/// Passes a message to its consumer.
pub(super) fn dispatch(message: StreamMessage) {
    match message {
        StreamMessage::Snapshot(_) | StreamMessage::Polled(_) | StreamMessage::Change(_) => {
            super::session::receive(message);
        }
        StreamMessage::Roots(roots, newest) => super::job_list_session::receive(roots, newest),
        StreamMessage::Rows(rows, address) => super::job_list_session::receive_rows(rows.jobs, &address),
    }
}

/// Result of a single request.
pub(super) enum Answer {
    StreamMessage(StreamMessage),
    SignedOut,
    Removed,
    /// The share link no longer works.
    Closed,
    Nothing,
}

pub(super) async fn fetch(subscription: Subscription) -> Answer {
    let request = RequestInit::new();
    // A share link gives access to the stream but not to the job; its own page tells whether it still works.
    let shared = window().location().pathname().ok().filter(|path| path.starts_with("/s/"));
    let is_shared = shared.is_some();
    let address = shared.unwrap_or_else(|| subscription.address());
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
    subscription.answer(address, &text).map_or(Answer::Nothing, Answer::StreamMessage)
}
