//! Middleware of every request: its id, its log line, and the response to a panic.

use std::{
    any::Any,
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Instant,
};

use axum::{
    body::Body,
    extract::{ConnectInfo, MatchedPath, Request, State},
    http::{HeaderMap, HeaderName, HeaderValue, Uri, header},
    middleware::Next,
    response::{IntoResponse as _, Response},
};
use domain::{Code, Problem};
use tracing::Instrument as _;
use uuid::Uuid;

use super::{
    admission::{self, Admission},
    callers::is_known,
    extract::BodyTimeout,
    trace,
};
use crate::http::{
    connection::{body_log, refused_body},
    metrics,
};
use crate::{
    App,
    auth::ClientAddress,
    config::log_http::LogHttp,
    http::error::{Error, problem_response},
};
use engine::{quotas::RateStatus, task::unless_silent};

/// Header with a request's id, in both directions.
pub const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// Id of a request, stored in its extensions.
#[derive(Clone, Debug)]
pub struct RequestId(pub String);

/// Gives every request an id (the client's own, if it is valid), adds it to the response and to problem documents, logs
/// the request if `TREELINE_LOG_HTTP` is on, and discards what its handler leaves of its body.
pub async fn identify(State(app): State<App>, request: Request, next: Next) -> Response {
    let mut request = refused_body::discard_rest(request);
    let id = request
        .headers()
        .get(REQUEST_ID)
        .and_then(|value| value.to_str().ok())
        .filter(|id| is_sane(id))
        .map_or_else(|| Uuid::now_v7().to_string(), str::to_owned);
    request.extensions_mut().insert(RequestId(id.clone()));
    let client = client_address(&app, &request);
    request.extensions_mut().insert(client);
    request.extensions_mut().insert(BodyTimeout(app.config.http_settings.body_timeout()));
    let admission = unless_silent(admit(&app, client, request.uri(), request.headers())).await;
    // Held until the response begins.
    let body_share = app.body_memory.share();
    request.extensions_mut().insert(body_share.clone());
    let route = request.extensions().get::<MatchedPath>().cloned();
    let label = metrics::route_label(route.as_ref().map(MatchedPath::as_str), request.headers());
    let trace = trace::begin(&app, &mut request, route.as_ref());
    let span = tracing::info_span!("request", id, trace_id = tracing::field::Empty);
    if let Some(trace_id) = trace::id_of(&request) {
        span.record("trace_id", trace_id);
    }
    let description = (app.config.log_http >= LogHttp::Requests).then(|| describe(&request));
    let is_full = app.config.log_http == LogHttp::Full;
    if is_full {
        request = body_log::of_request(request, &span);
    }
    let method = request.method().clone();
    let began = Instant::now();
    let under_way = RequestInProgress::count(&app);
    let mut response = match admission {
        Ok(Ok(admission)) => {
            request.extensions_mut().insert(admission.clone());
            let answered = unless_silent(next.run(request).instrument(span.clone())).await;
            let mut response = answered.unwrap_or_else(|silent| Error::from(silent).into_response());
            admission.end(response.status(), response.headers_mut());
            response
        }
        Ok(Err(exceeded)) => admission::too_many(&exceeded),
        Err(silent) => Error::from(silent).into_response(),
    };
    drop((under_way, body_share));
    engine::failpoints::crash("before_reply", file!());
    if let Some(problem) = response.extensions_mut().remove::<Problem>() {
        response = complete(response, problem, &id);
    }
    if let Ok(value) = HeaderValue::try_from(&id) {
        response.headers_mut().insert(REQUEST_ID, value);
    }
    let took = began.elapsed();
    trace::end(trace, response.status());
    metrics::answered(label, &method, response.status(), took);
    if let Some(description) = description {
        let status = response.status().as_u16();
        let milliseconds = took.as_millis() as u64;
        span.in_scope(|| tracing::info!(description, status, milliseconds, "answered"));
    }
    if is_full {
        response = body_log::of_response(response, &span);
    }
    response
}

/// Begins to count a request. If too many recent requests of the address were refused, only one with a valid credential
/// passes.
async fn admit(app: &App, client: ClientAddress, uri: &Uri, headers: &HeaderMap) -> Result<Admission, RateStatus> {
    let admission = Admission::begin(&app.quotas, client.0, uri);
    match admission.check_address() {
        Err(refused) if !is_known(app, headers).await => Err(refused),
        _ => Ok(admission),
    }
}

/// Client's address: the peer's, or the one that a trusted proxy reports.
fn client_address(app: &App, request: &Request) -> ClientAddress {
    let peer = request.extensions().get::<ConnectInfo<SocketAddr>>().map(|peer| peer.0.ip());
    ClientAddress(peer.map(|peer| app.config.proxies.trusted_proxies.client(peer, request.headers())))
}

/// Request in progress, also after its client disconnects.
struct RequestInProgress(Arc<AtomicUsize>);

impl RequestInProgress {
    fn count(app: &App) -> Self {
        app.under_way.fetch_add(1, Ordering::Relaxed);
        Self(Arc::clone(&app.under_way))
    }
}

impl Drop for RequestInProgress {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Problem with the request's id added to its body.
fn complete(response: Response, problem: Problem, id: &str) -> Response {
    let (mut parts, _) = response.into_parts();
    let whole = Problem { request_id: Some(id.to_owned()), ..problem };
    parts.headers.remove(header::CONTENT_LENGTH);
    // The response may have been marked as compressed; this body is not.
    parts.headers.remove(header::CONTENT_ENCODING);
    Response::from_parts(parts, Body::from(serde_json::to_vec(&whole).unwrap_or_default()))
}

/// Returns true for 1 to 128 characters that are safe in a log line and a header.
fn is_sane(id: &str) -> bool {
    (1..=128).contains(&id.len()) && id.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_.:".contains(&b))
}

/// Request as the log may show it, with secrets redacted.
fn describe(request: &Request) -> String {
    let path = request.uri().path();
    let path = match path {
        link if link.starts_with("/sign-in/") => "/sign-in/***",
        link if link.starts_with("/s/") => "/s/***",
        // The capability of a pushed assignment follows the dot.
        one if one.starts_with("/api/v1/assignments/") => one.split_once('.').map_or(one, |(id, _)| id),
        other => other,
    };
    let query = request.uri().query().map(|query| format!("?{}", logged_query(query))).unwrap_or_default();
    format!("{} {path}{query} {}", request.method(), logged_headers(request.headers()))
}

/// Parameters whose values are logged. All others (searches, reasons, names, metadata) may be personal data.
const LOGGED_PARAMETERS: [&str; 25] = [
    "after",
    "attempt",
    "before",
    "bom",
    "cursor",
    "delimiter",
    "dir",
    "encoding",
    "errors",
    "format",
    "from",
    "header",
    "include",
    "limit",
    "open",
    "order",
    "page",
    "partial",
    "refresh",
    "separator",
    "sort",
    "state",
    "status",
    "to",
    "wait_seconds",
];

/// Query as the log may show it: the names of all parameters, the values of a few.
fn logged_query(query: &str) -> String {
    let pairs = query.split('&').map(|pair| match pair.split_once('=') {
        Some((name, _)) if !LOGGED_PARAMETERS.contains(&name) => format!("{name}=***"),
        _ => pair.to_owned(),
    });
    pairs.collect::<Vec<_>>().join("&")
}

/// Headers that hold no secret. A `Referer` may hold a sign-in link, and proxies add arbitrary headers.
const LOGGED_HEADERS: [&str; 16] = [
    "accept",
    "accept-encoding",
    "accept-language",
    "connection",
    "content-encoding",
    "content-length",
    "content-type",
    "host",
    "if-match",
    "if-none-match",
    "last-event-id",
    "origin",
    "range",
    "sec-fetch-site",
    "transfer-encoding",
    "user-agent",
];

fn logged_headers(headers: &HeaderMap) -> String {
    let pairs: Vec<String> = headers
        .iter()
        .map(|(name, value)| {
            let value = if LOGGED_HEADERS.contains(&name.as_str()) { value.to_str().unwrap_or("?") } else { "***" };
            format!("{name}={value:?}")
        })
        .collect();
    format!("[{}]", pairs.join(" "))
}

/// Response to a panic in a handler: a problem document like any other.
#[expect(clippy::needless_pass_by_value, reason = "the signature that tower-http asks for")]
pub fn panicked(panic: Box<dyn Any + Send + 'static>) -> Response {
    let message = panic
        .downcast_ref::<String>()
        .map(String::as_str)
        .or_else(|| panic.downcast_ref::<&str>().copied())
        .unwrap_or("no message");
    tracing::error!(panic = message, "handler panicked");
    problem_response(&Problem::new(
        Code::Internal,
        "Something went wrong on the server. Try again; if it keeps happening, send the request ID to an admin.",
    ))
}

#[cfg(test)]
mod tests {
    use axum::{Router, body::to_bytes, routing::get};
    use tower::ServiceExt as _;
    use tower_http::catch_panic::CatchPanicLayer;

    use super::*;

    async fn break_down() -> &'static str {
        panic!("the password is abcdef")
    }

    #[tokio::test]
    async fn a_panic_is_answered_without_its_words() {
        let router = Router::new().route("/", get(break_down)).layer(CatchPanicLayer::custom(panicked));
        let response = router.oneshot(Request::new(Body::empty())).await.expect("an answer");
        assert_eq!(response.status(), 500);
        assert_eq!(response.headers()[header::CONTENT_TYPE], "application/problem+json");
        assert_eq!(response.extensions().get::<Problem>().map(|problem| problem.code), Some(Code::Internal));
        let body = to_bytes(response.into_body(), 10_000).await.expect("a body");
        assert!(!String::from_utf8_lossy(&body).contains("abcdef"));
    }

    #[test]
    fn only_sane_ids_are_taken_over() {
        assert!(is_sane("3f2a-9_c.d:1"));
        for bad in ["", "a b", "a\"b", "é", &"a".repeat(129)] {
            assert!(!is_sane(bad), "{bad}");
        }
    }

    #[test]
    fn the_log_shows_no_secret() {
        let request = Request::builder()
            .uri("/sign-in/abcdef?limit=1&q=abcdef&metadata.name=abcdef&reason=abcdef&owner=abcdef")
            .header("authorization", "Bearer abcdef")
            .header("cookie", "treeline_session=abcdef")
            .header("referer", "http://127.0.0.1:3000/sign-in/abcdef")
            .header("accept", "text/html")
            .body(Body::empty())
            .expect("a request");
        let shown = describe(&request);
        assert!(!shown.contains("abcdef"), "{shown}");
        assert!(
            shown.contains("accept=\"text/html\"") && shown.contains("?limit=1&q=***&metadata.name=***"),
            "{shown}"
        );
        let share = Request::builder().uri("/s/abcdef").body(Body::empty()).expect("a request");
        assert!(!describe(&share).contains("abcdef"));
        let ending = "/api/v1/assignments/0190a5e0-0000-7000-8000-000000000000.abcdef/result";
        let ending = Request::builder().uri(ending).body(Body::empty()).expect("a request");
        assert!(!describe(&ending).contains("abcdef"));
    }
}
