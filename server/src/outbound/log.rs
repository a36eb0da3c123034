//! Outbound requests in the log (`TREELINE_LOG_HTTP=full`), with secrets blanked.

use reqwest::{
    StatusCode,
    header::{CONTENT_TYPE, HeaderMap},
};
use url::Url;

use crate::redaction;

/// Headers that hold no secret; of others only the name is shown.
const SHOWN: [&str; 8] = [
    "accept",
    "content-length",
    "content-type",
    "idempotency-key",
    "retry-after",
    "traceparent",
    "webhook-id",
    "webhook-timestamp",
];

/// Logs a request that is about to be sent.
pub(super) fn request(url: &Url, headers: &HeaderMap, body: &[u8]) {
    let address = redaction::url(url);
    let body = redaction::body(media_type(headers), &body[..body.len().min(redaction::LONGEST)], body.len());
    tracing::info!(url = redaction::words(&address), headers = shown(headers), body, "outbound request");
}

/// Logs the head of its response.
pub(super) fn response(url: &Url, status: StatusCode, headers: &HeaderMap) {
    let address = redaction::url(url);
    let status = status.as_u16();
    tracing::info!(url = redaction::words(&address), status, headers = shown(headers), "outbound response");
}

/// Logs the body of a response, as far as it was read.
pub(super) fn response_body(media_type: Option<&str>, body: &[u8], is_cut: bool) {
    let length = if is_cut { body.len() + 1 } else { body.len() };
    let shown = redaction::body(media_type, &body[..body.len().min(redaction::LONGEST)], length);
    tracing::info!(body = shown, "outbound response body");
}

/// Media type of a body.
pub(super) fn media_type(headers: &HeaderMap) -> Option<&str> {
    headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok())
}

fn shown(headers: &HeaderMap) -> String {
    let pairs = headers.iter().map(|(name, value)| {
        let is_shown = SHOWN.contains(&name.as_str()) && !value.is_sensitive();
        format!("{name}={:?}", if is_shown { value.to_str().unwrap_or("?") } else { "***" })
    });
    pairs.collect::<Vec<_>>().join(" ")
}
