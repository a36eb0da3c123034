//! Sign-in by a proxy: its header counts only from trusted addresses, starts a session, and is compared with it.
//!
//! Separate from `client_address`, where a proxy supplies the client address. The tests act as the proxy: their
//! connections come from 127.0.0.1, which the server's settings trust or not.

use bytes::Bytes;
use futures::{Stream, StreamExt as _, future::join_all};
use reqwest::{Method, header::HeaderName};
use serde_json::json;

use crate::{
    factors::{PASSWORD, person, set_up},
    support::{Answer, Server},
};

pub(crate) fn settings(config: &mut server::config::Config) {
    config.identity.auth_header = Some(HeaderName::from_static("x-forwarded-user"));
    config.proxies.trusted_proxies = "127.0.0.0/8".parse().expect("networks");
}

/// Requests the sign-in page as the proxy, on behalf of a person.
pub(crate) async fn named(server: &Server, path: &str, user: &str, cookie: Option<&str>) -> Answer {
    let mut request = server.stranger().request(Method::GET, path).header("x-forwarded-user", user);
    if let Some(cookie) = cookie {
        request = request.header("cookie", cookie);
    }
    Answer::of(request).await
}

pub(crate) fn session(answer: &Answer) -> String {
    let cookies = answer.headers.get_all("set-cookie").iter();
    let mut cookies =
        cookies.map(|cookie| cookie.to_str().expect("text").split(';').next().expect("a pair").to_owned());
    cookies.find(|cookie| cookie.starts_with("treeline_session=")).expect("a session")
}

#[tokio::test]
async fn trusted_proxy_header_signs_in() {
    let server = Server::start_with(settings).await;
    person(&server, "ada", "support").await;
    // Somebody known, and somebody new; the page behind is where they wanted to go.
    let begun = named(&server, "/sign-in?back=/imports", "ada@example.com", None).await;
    assert_eq!((begun.status.as_u16(), begun.headers["location"].to_str().ok()), (303, Some("/imports")));
    let ada = session(&begun);
    let me = named(&server, "/api/v1/me", "ada@example.com", Some(&ada)).await.expect(200);
    assert_eq!((&me["name"], &me["role"]), (&json!("ada"), &json!("support")));
    let eve = session(&named(&server, "/sign-in", "eve", None).await);
    let me = named(&server, "/api/v1/me", "eve", Some(&eve)).await.expect(200);
    assert_eq!((&me["name"], &me["role"]), (&json!("eve"), &json!("user")));

    // The session is whose the proxy names, and nobody's without the header.
    named(&server, "/api/v1/me", "eve", Some(&ada)).await.expect_problem(401, "unauthenticated");
    server.with_cookie(&ada).get("/api/v1/me").await.expect_problem(401, "unauthenticated");
    // The header alone is no credential of the API, and two names are none.
    named(&server, "/api/v1/me", "eve", None).await.expect_problem(401, "unauthenticated");
    assert_eq!(named(&server, "/sign-in", "eve, ada", None).await.status, 200);
    server.stop().await;
}

#[tokio::test]
async fn proxy_header_from_untrusted_address_is_ignored() {
    let server = Server::start_with(|config| {
        settings(config);
        config.proxies.trusted_proxies = "10.1.0.5".parse().expect("an address");
    })
    .await;
    person(&server, "ada", "admin").await;
    let page = named(&server, "/sign-in", "ada@example.com", None).await;
    assert!(page.status == 200 && !page.headers.contains_key("set-cookie"), "{}", page.text);
    server.stop().await;
}

#[tokio::test]
async fn proxy_sign_in_requires_second_factor_unless_configured() {
    let server = Server::start_with(settings).await;
    person(&server, "ada", "user").await;
    set_up(&server.sign_in("ada@example.com", PASSWORD).await).await;
    let page = named(&server, "/sign-in", "ada@example.com", None).await;
    assert!(page.status == 200 && page.text.contains("Second factor"), "{}", page.text);
    let vouching = server
        .another_with(|config| {
            settings(config);
            config.identity.auth_header_mfa = true;
        })
        .await;
    let begun = named(&vouching, "/sign-in", "ada@example.com", None).await;
    assert_eq!(begun.status, 303);
    // The header does not say when the person proved who they are, so their own factor does.
    let create = vouching.stranger().request(Method::POST, "/api/v1/me/recovery-codes");
    let create = create
        .header("x-forwarded-user", "ada@example.com")
        .header("cookie", session(&begun))
        .header("sec-fetch-site", "same-origin");
    Answer::of(create).await.expect_problem(403, "step_up_required");
    vouching.stop().await;
    server.stop().await;
}

#[tokio::test]
async fn proxy_email_matches_the_address_not_a_user_name() {
    let server = Server::start_with(settings).await;
    person(&server, "ada", "support").await;
    let squatter = json!({"name": "ada@example.com", "email": "eve@example.com", "password": PASSWORD, "role": "user"});
    server.post("/api/v1/users", squatter).await.expect(201);
    let ada = session(&named(&server, "/sign-in", "ada@example.com", None).await);
    let me = named(&server, "/api/v1/me", "ada@example.com", Some(&ada)).await.expect(200);
    assert_eq!(me["name"], "ada");
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn proxy_session_streams_end_with_the_session() {
    /// Reads until a text has occurred `times` times.
    async fn read_until(stream: &mut (impl Stream<Item = reqwest::Result<Bytes>> + Unpin), wanted: &str, times: usize) {
        let mut text = String::new();
        while text.matches(wanted).count() < times {
            let part = stream.next().await.expect("the stream goes on").expect("bytes");
            text.push_str(std::str::from_utf8(&part).expect("text"));
        }
    }
    let server = Server::start_with(settings).await;
    server.put("/api/v1/job-types/a", json!({})).await.expect(201);
    let ada = session(&named(&server, "/sign-in", "ada", None).await);
    let ask = |method, path: &str| {
        let request = server.stranger().request(method, path).header("x-forwarded-user", "ada");
        request.header("cookie", &ada).header("sec-fetch-site", "same-origin")
    };
    let job = json!({"type": "a", "items": []});
    let job = Answer::of(ask(Method::POST, "/api/v1/jobs").json(&job)).await.expect(201);
    let tree = format!("/api/v1/jobs/{}/events", job["id"].as_str().expect("an id"));
    let mut streams = Vec::new();
    for path in [tree.as_str(), "/api/v1/events", "/api/v1/events?topics=roots"] {
        let response = ask(Method::GET, path).send().await.expect("a stream");
        assert_eq!(response.status(), 200, "{path}");
        streams.push(response.bytes_stream());
    }
    // A quiet stream says every 15 seconds that it is there; after half a minute the right to look is checked again.
    join_all(streams.iter_mut().map(async |stream| {
        read_until(stream, "event: snapshot", 1).await;
        read_until(stream, "\n\n:", 3).await;
    }))
    .await;
    let signed_out = ask(Method::DELETE, "/api/v1/session");
    Answer::of(signed_out).await.expect(204);
    let ends = join_all(streams.iter_mut().map(async |stream| while stream.next().await.is_some() {}));
    tokio::time::timeout(std::time::Duration::from_secs(10), ends).await.expect("they end with the session");
    server.stop().await;
}
