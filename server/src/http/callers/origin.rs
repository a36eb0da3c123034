//! Host and origin checks: pages of other sites cannot make a signed-in browser act here, even if their host name
//! resolves to this server (DNS rebinding).
//!
//! Every unsafe request with a session cookie or for sign-in, but without a token, must come from our own origin.
//! Browsers report it in `Sec-Fetch-Site`, older ones in `Origin`. Requests with an `Authorization` header need no
//! check: pages of other sites cannot make a browser send one, and the cookie is then ignored.

use std::net::IpAddr;

use axum::{
    extract::{Request, State},
    http::{HeaderMap, Method, Uri, header, uri::Authority},
    middleware::Next,
    response::{IntoResponse, Response},
};
use domain::Code;

use crate::{
    App,
    http::error::{Error, Result},
};

/// Middleware: 421 `misdirected` for requests to another host, and 403 `forbidden` for unsafe requests caused by another
/// site.
pub async fn check(State(app): State<App>, request: Request, next: Next) -> Response {
    match check_host(&app, &request).and_then(|()| check_origin(&app, &request)) {
        Ok(()) => next.run(request).await,
        Err(refused) => refused.into_response(),
    }
}

/// Refuses a request whose host is neither the public one, nor an address, nor a loopback name. Otherwise a page whose
/// host name resolves to this server would count as our origin. Health checks and requests with a token are exempt: a
/// page cannot make a browser send a token.
fn check_host(app: &App, request: &Request) -> Result<()> {
    let exempt =
        matches!(request.uri().path(), "/healthz" | "/readyz") || request.headers().contains_key(header::AUTHORIZATION);
    if exempt || names_us(request.headers(), request.uri(), app.public_url.authority()) {
        return Ok(());
    }
    let detail = format!("This server is {}. Open that, or set TREELINE_PUBLIC_URL.", app.public_url.as_str());
    Err(Error::refuse(Code::Misdirected, detail))
}

/// Returns true if all hosts in the request are ours. HTTP/2 has it in the URI; HTTP/1.0 may have none.
fn names_us(headers: &HeaderMap, uri: &Uri, authority: &str) -> bool {
    let of_headers = headers.get_all(header::HOST).iter().map(|value| value.to_str().unwrap_or("?"));
    of_headers.chain(uri.authority().map(Authority::as_str)).all(|sent_host| {
        let host = host_of(sent_host);
        host.eq_ignore_ascii_case(host_of(authority)) || is_address_or_local(host)
    })
}

/// Returns the host without port and without IPv6 brackets.
fn host_of(authority: &str) -> &str {
    let (host, port) = authority.rsplit_once(':').unwrap_or((authority, ""));
    let host = if port.bytes().all(|byte| byte.is_ascii_digit()) { host } else { authority };
    host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host)
}

fn is_address_or_local(host: &str) -> bool {
    let name = host.trim_end_matches('.').to_ascii_lowercase();
    host.parse::<IpAddr>().is_ok() || name == "localhost" || name.ends_with(".localhost")
}

/// Refuses an unsafe request caused by another site.
fn check_origin(app: &App, request: &Request) -> Result<()> {
    let safe = matches!(*request.method(), Method::GET | Method::HEAD | Method::OPTIONS);
    let headers = request.headers();
    let has_cookie = app.auth.cookie().read(headers).is_some();
    let by_token = headers.contains_key(header::AUTHORIZATION);
    if safe || by_token || is_own(headers, app.public_url.authority(), has_cookie) {
        return Ok(());
    }
    Err(Error::refuse(Code::Forbidden, "The request comes from another site. Open the page again and retry."))
}

/// Returns true if the request comes from our own pages, according to the browser's headers.
fn is_own(headers: &HeaderMap, authority: &str, has_cookie: bool) -> bool {
    let text = |name| headers.get(name).map(|value: &axum::http::HeaderValue| value.to_str().unwrap_or("?"));
    if let Some(site) = text(header::HeaderName::from_static("sec-fetch-site")) {
        return matches!(site, "same-origin" | "none");
    }
    if let Some(origin) = text(header::ORIGIN) {
        let sent_host = origin.split_once("://").map_or("", |(_, rest)| rest).to_ascii_lowercase();
        let host = text(header::HOST).unwrap_or_default().to_ascii_lowercase();
        return !sent_host.is_empty() && (sent_host == authority || sent_host == host);
    }
    // Neither header: not a supported browser. Without a cookie there is nothing to abuse.
    !has_cookie
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    fn is_accepted(pairs: &[(&'static str, &'static str)]) -> bool {
        let headers = pairs
            .iter()
            .map(|&(name, value)| (header::HeaderName::from_static(name), HeaderValue::from_static(value)))
            .collect();
        is_own(&headers, "treeline.example", true)
    }

    #[test]
    fn only_our_own_hosts_are_answered() {
        let us = |host: &'static str| {
            let headers = HeaderMap::from_iter([(header::HOST, HeaderValue::from_static(host))]);
            names_us(&headers, &Uri::from_static("/"), "treeline.example:8443")
        };
        for own in [
            "treeline.example",
            "Treeline.Example:8443",
            "treeline.example:80",
            "127.0.0.1:3000",
            "10.0.0.7",
            "[::1]:3000",
            "[::1]",
            "localhost:3000",
            "LOCALHOST",
            "a.localhost",
        ] {
            assert!(us(own), "{own}");
        }
        for foreign in [
            "evil.example",
            "treeline.example.evil.example",
            "evil.example:3000",
            "",
            "127.0.0.1.nip.io",
            "localhost.evil",
            "treeline.example@evil.example",
            "1.2.3",
        ] {
            assert!(!us(foreign), "{foreign}");
        }
        assert!(names_us(&HeaderMap::new(), &Uri::from_static("/"), "a"), "HTTP/1.0");
        assert!(!names_us(&HeaderMap::new(), &Uri::from_static("http://evil.example/"), "a"), "HTTP/2");
    }

    #[test]
    fn only_our_own_pages_pass() {
        assert!(is_accepted(&[("sec-fetch-site", "same-origin")]));
        assert!(is_accepted(&[("origin", "https://treeline.example")]));
        assert!(is_accepted(&[("origin", "http://127.0.0.1:3000"), ("host", "127.0.0.1:3000")]));
        for foreign in [
            &[("sec-fetch-site", "cross-site")][..],
            &[("sec-fetch-site", "same-site"), ("origin", "https://treeline.example")],
            &[("origin", "https://evil.example"), ("host", "treeline.example")],
            &[("origin", "https://treeline.example.evil.example")],
            &[("origin", "null")],
            &[],
        ] {
            assert!(!is_accepted(foreign), "{foreign:?}");
        }
    }
}
