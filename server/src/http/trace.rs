//! Trace contexts of requests: read from `traceparent`, continued by a span of the request, and given to handlers.
//!
//! Spans name the route, never the path: paths contain sign-in links and capabilities.

use std::convert::Infallible;

use axum::{
    extract::{FromRequestParts, MatchedPath, Request},
    http::{HeaderMap, HeaderName, StatusCode, request::Parts},
};
use domain::dispatch::traceparent::Traceparent;
use opentelemetry::KeyValue;

use crate::{App, traces::OpenSpan};

/// Header with a trace context (W3C).
pub const TRACEPARENT: HeaderName = HeaderName::from_static("traceparent");

/// Routes without spans: probes and scrapes come every few seconds, and files of the site are read once.
const UNTRACED: [&str; 4] = ["/healthz", "/readyz", "/metrics", "/pkg/"];

/// Trace context of a request, from within its span; `None` if it belongs to no trace.
#[derive(Clone, Copy, Debug)]
pub struct Trace(pub Option<Traceparent>);

impl<S: Sync> FromRequestParts<S> for Trace {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Infallible> {
        Ok(parts.extensions.get::<Self>().copied().unwrap_or(Self(None)))
    }
}

/// Trace context that a client sent. An invalid one is ignored, as are several.
fn sent(headers: &HeaderMap) -> Option<Traceparent> {
    let mut all = headers.get_all(TRACEPARENT).iter();
    let only = all.next().filter(|_| all.next().is_none())?;
    only.to_str().ok()?.parse().ok()
}

/// Begins the span of a request, if spans are sent, and stores the context for its handler.
pub(super) fn begin(app: &App, request: &mut Request, route: Option<&MatchedPath>) -> Option<OpenSpan> {
    let sent = sent(request.headers());
    let route = route.map_or("other", MatchedPath::as_str);
    let is_traced = app.traces.is_on() && !UNTRACED.iter().any(|prefix| route.starts_with(prefix));
    let span = is_traced.then(|| {
        let method = request.method().as_str();
        let attributes = vec![
            KeyValue::new("http.request.method", method.to_owned()),
            KeyValue::new("http.route", route.to_owned()),
        ];
        app.traces.request(format!("{method} {route}"), sent, attributes)
    });
    let span = span.flatten();
    let trace = span.as_ref().and_then(OpenSpan::traceparent).or(sent);
    if trace.is_some() {
        request.extensions_mut().insert(Trace(trace));
    }
    span
}

/// Id of a request's trace, as logs name it.
pub(super) fn id_of(request: &Request) -> Option<String> {
    let Trace(trace) = request.extensions().get::<Trace>()?;
    trace.map(|trace| trace.to_string()[3..35].to_owned())
}

/// Ends the span of a request.
pub(super) fn end(span: Option<OpenSpan>, status: StatusCode) {
    let Some(mut span) = span else { return };
    span.set([KeyValue::new("http.response.status_code", i64::from(status.as_u16()))]);
    span.end(status.is_server_error().then(|| status.as_u16().to_string()));
}
