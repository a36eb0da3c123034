//! The origin check: a browser that is signed in cannot be made to act by another site's page.
//!
//! Every unsafe request without a token, with our cookie or to sign in, must come from our own origin.
//! Browsers say so by `Sec-Fetch-Site`, older ones by `Origin`. Requests with an `Authorization` header need
//! no check: no page of another site can make a browser send one, and beside it the cookie plays no part.

use axum::{
    extract::{Request, State},
    http::{HeaderMap, Method, header},
    middleware::Next,
    response::{IntoResponse, Response},
};
use domain::Code;

use crate::{App, error::Error};

/// Middleware: 403 `forbidden` for what another site made a browser send.
pub async fn check(State(app): State<App>, request: Request, next: Next) -> Response {
    let safe = matches!(*request.method(), Method::GET | Method::HEAD | Method::OPTIONS);
    let headers = request.headers();
    let has_cookie = app.auth.cookie().read(headers).is_some();
    let by_token = headers.contains_key(header::AUTHORIZATION);
    if safe || by_token || is_own(headers, app.public_url.authority(), has_cookie) {
        return next.run(request).await;
    }
    Error::refuse(Code::Forbidden, "The request comes from another site. Open the page again and retry.")
        .into_response()
}

/// Whether the request comes from our own pages, as far as the browser tells.
fn is_own(headers: &HeaderMap, authority: &str, has_cookie: bool) -> bool {
    let text = |name| headers.get(name).map(|value: &axum::http::HeaderValue| value.to_str().unwrap_or("?"));
    if let Some(site) = text(header::HeaderName::from_static("sec-fetch-site")) {
        return matches!(site, "same-origin" | "none");
    }
    if let Some(origin) = text(header::ORIGIN) {
        let said = origin.split_once("://").map_or("", |(_, rest)| rest).to_ascii_lowercase();
        let host = text(header::HOST).unwrap_or_default().to_ascii_lowercase();
        return !said.is_empty() && (said == authority || said == host);
    }
    // Neither header: no browser of ours. Without a cookie there is nothing to abuse.
    !has_cookie
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    fn own(pairs: &[(&'static str, &'static str)]) -> bool {
        let headers = pairs
            .iter()
            .map(|&(name, value)| (header::HeaderName::from_static(name), HeaderValue::from_static(value)))
            .collect();
        is_own(&headers, "treeline.example", true)
    }

    #[test]
    fn only_our_own_pages_pass() {
        assert!(own(&[("sec-fetch-site", "same-origin")]));
        assert!(own(&[("origin", "https://treeline.example")]));
        assert!(own(&[("origin", "http://127.0.0.1:3000"), ("host", "127.0.0.1:3000")]));
        for foreign in [
            &[("sec-fetch-site", "cross-site")][..],
            &[("sec-fetch-site", "same-site"), ("origin", "https://treeline.example")],
            &[("origin", "https://evil.example"), ("host", "treeline.example")],
            &[("origin", "https://treeline.example.evil.example")],
            &[("origin", "null")],
            &[],
        ] {
            assert!(!own(foreign), "{foreign:?}");
        }
    }
}
