//! Bodies of requests and responses in the log (`TREELINE_LOG_HTTP=full`): passed on as they come, and logged when they
//! end, with secrets blanked (`redaction`). Event streams are not logged.

use std::{
    pin::Pin,
    task::{Context, Poll},
};

use axum::{
    body::{Body, Bytes, HttpBody},
    extract::Request,
    http::{HeaderMap, header},
    response::Response,
};
use hyper::body::{Frame, SizeHint};
use tracing::Span;

use crate::redaction::{self, LONGEST};

/// Logs the body of a request. Responses come uncompressed, so that they can be shown.
pub(crate) fn of_request(request: Request, span: &Span) -> Request {
    let (mut parts, body) = request.into_parts();
    parts.headers.remove(header::ACCEPT_ENCODING);
    let body = Logged::of(body, &parts.headers, "request body", span);
    Request::from_parts(parts, body)
}

/// Logs the body of a response.
pub(crate) fn of_response(response: Response, span: &Span) -> Response {
    let (parts, body) = response.into_parts();
    let body = Logged::of(body, &parts.headers, "response body", span);
    Response::from_parts(parts, body)
}

/// Body that is logged when it ends or is dropped.
struct Logged {
    body: Body,
    media_type: Option<String>,
    start: Vec<u8>,
    length: usize,
    what: &'static str,
    span: Span,
}

impl Logged {
    fn of(body: Body, headers: &HeaderMap, what: &'static str, span: &Span) -> Body {
        let media_type = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).map(str::to_owned);
        let is_stream = media_type.as_deref().is_some_and(|media_type| media_type.starts_with("text/event-stream"));
        if is_stream || body.is_end_stream() {
            return body;
        }
        Body::new(Self { body, media_type, start: Vec::new(), length: 0, what, span: span.clone() })
    }
}

impl HttpBody for Logged {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let polled = Pin::new(&mut self.body).poll_frame(context);
        if let Poll::Ready(Some(Ok(frame))) = &polled
            && let Some(data) = frame.data_ref()
        {
            self.length += data.len();
            let room = LONGEST - self.start.len();
            self.start.extend_from_slice(&data[..data.len().min(room)]);
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl Drop for Logged {
    fn drop(&mut self) {
        let shown = redaction::body(self.media_type.as_deref(), &self.start, self.length);
        if !shown.is_empty() {
            self.span.in_scope(|| tracing::info!(body = shown, "{}", self.what));
        }
    }
}
