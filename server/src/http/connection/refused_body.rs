//! Bodies of requests that are answered before they have arrived: what is left of them is read and discarded.
//!
//! A client that is still sending would otherwise see a broken connection in place of the response. The response does not
//! wait for it: clients that read while they send get it at once.

use std::{
    pin::Pin,
    task::{Context, Poll, ready},
    time::Duration,
};

use axum::{
    body::{Body, Bytes, HttpBody},
    extract::Request,
    http::header,
};
use futures::StreamExt as _;
use hyper::body::{Frame, SizeHint};

/// Limits, in bytes and time, for the rest of a body.
const MOST_BYTES: usize = 64 << 20;
const LONGEST: Duration = Duration::from_secs(10);

/// Pause after which a sender is assumed to wait for the response.
const PAUSE: Duration = Duration::from_millis(500);

/// Discards the rest of the request's body when its handler drops it.
pub(crate) fn discard_rest(request: Request) -> Request {
    let awaits_continue = request.headers().contains_key(header::EXPECT);
    request.map(
        |body| {
            if body.is_end_stream() { body } else { Body::new(Discarding { body: Some(body), awaits_continue }) }
        },
    )
}

/// Body whose rest is discarded when it is dropped.
struct Discarding {
    /// `None` after its end.
    body: Option<Body>,
    /// True while the client waits for `100 Continue`, which is sent when the body is read.
    awaits_continue: bool,
}

impl HttpBody for Discarding {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        self.awaits_continue = false;
        let Some(body) = &mut self.body else { return Poll::Ready(None) };
        let frame = ready!(Pin::new(body).poll_frame(context));
        if !matches!(frame, Some(Ok(_))) {
            self.body = None;
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.body.as_ref().is_none_or(HttpBody::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        self.body.as_ref().map_or_else(|| SizeHint::with_exact(0), HttpBody::size_hint)
    }
}

impl Drop for Discarding {
    fn drop(&mut self) {
        let rest = self.body.take().filter(|body| !self.awaits_continue && !body.is_end_stream());
        // Without a runtime, the connection has ended.
        if let (Some(rest), Ok(runtime)) = (rest, tokio::runtime::Handle::try_current()) {
            runtime.spawn(tokio::time::timeout(LONGEST, discard(rest)));
        }
    }
}

async fn discard(rest: Body) {
    let mut chunks = rest.into_data_stream();
    let mut seen = 0;
    while seen < MOST_BYTES
        && let Ok(Some(Ok(chunk))) = tokio::time::timeout(PAUSE, chunks.next()).await
    {
        seen += chunk.len();
    }
}
