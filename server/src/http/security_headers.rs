//! Security headers of every response, and the content security policy of each kind of response.

use axum::{
    extract::{Request, State},
    http::{HeaderName, HeaderValue, header},
    middleware::Next,
    response::Response,
};

use crate::App;

/// Policy of responses that are no document: nothing is loaded, and no page shows them in a frame.
const NOTHING: &str = "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// Policy of downloads. A browser that displays one anyway runs nothing in it.
pub(super) const DOWNLOAD: &str = "default-src 'none'; sandbox";

/// Policy of pages: own files, and scripts with the response's nonce.
pub(super) fn page_policy(nonce: &str) -> String {
    format!(
        "default-src 'none'; script-src 'nonce-{nonce}' 'strict-dynamic' 'wasm-unsafe-eval'; style-src 'self'; \
         font-src 'self'; img-src 'self' data:; connect-src 'self'; form-action 'self'; base-uri 'none'; \
         object-src 'none'; frame-ancestors 'none'",
    )
}

/// Adds the headers that a response does not set itself.
pub(super) async fn harden(State(app): State<App>, request: Request, next: Next) -> Response {
    let mut response = next.run(request).await;
    let headers = response.headers_mut();
    let mut fill = |name: HeaderName, value: &'static str| {
        headers.entry(name).or_insert(HeaderValue::from_static(value));
    };
    fill(header::X_CONTENT_TYPE_OPTIONS, "nosniff");
    fill(header::REFERRER_POLICY, "same-origin");
    fill(header::CONTENT_SECURITY_POLICY, NOTHING);
    // Responses must not outlive the session: no browser and no proxy stores them.
    fill(header::CACHE_CONTROL, "no-store");
    fill(HeaderName::from_static("cross-origin-opener-policy"), "same-origin");
    fill(HeaderName::from_static("permissions-policy"), "camera=(), geolocation=(), microphone=()");
    if app.public_url.is_secure() {
        fill(header::STRICT_TRANSPORT_SECURITY, "max-age=31536000; includeSubDomains");
    }
    response
}
