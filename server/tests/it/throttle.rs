//! Throttling of password guessing affects nobody else: strangers at other addresses, on other accounts or behind the
//! same proxy cannot block a sign-in, and all servers share the count.
//!
//! A trusted proxy supplies the addresses, as in production.

use reqwest::{Method, StatusCode};
use serde_json::{Value, json};
use server::config::Config;

use crate::support::{Answer, Server};

const PASSWORD: &str = "correct horse battery";

fn behind_a_proxy(config: &mut Config) {
    config.proxies.trusted_proxies = "127.0.0.1".parse().expect("a network");
}

/// A server that trusts its proxy, and Ada's account.
async fn with_ada() -> Server {
    let server = Server::start_with(behind_a_proxy).await;
    let ada = json!({"name": "ada", "email": "ada@example.com", "password": PASSWORD});
    server.post("/api/v1/users", ada).await.expect(201);
    server
}

/// Tries to sign in from an address, optionally with a device cookie.
async fn try_from(server: &Server, address: &str, credentials: Value, device: Option<&str>) -> Answer {
    let mut request = server.stranger().request(Method::POST, "/api/v1/session").header("x-forwarded-for", address);
    if let Some(device) = device {
        request = request.header("cookie", device);
    }
    Answer::of(request.json(&credentials)).await
}

fn ada(password: &str) -> Value {
    json!({"email": "ada@example.com", "password": password})
}

/// Device cookie of a response, as it is sent back.
fn device(answer: &Answer) -> String {
    let lines = answer.headers.get_all("set-cookie").iter().filter_map(|line| line.to_str().ok());
    let mut pairs = lines.filter_map(|line| line.split(';').next());
    pairs.find(|pair| pair.starts_with("treeline_device=")).expect("a device").to_owned()
}

#[tokio::test]
async fn failures_from_other_networks_do_not_lock_out_a_user() {
    let server = with_ada().await;
    for n in 0..40 {
        let address = format!("198.51.100.{}", n % 4);
        let refused = try_from(&server, &address, ada(&format!("guess number {n}")), None).await;
        assert!([401, 429].contains(&refused.status.as_u16()), "{refused:?}");
    }
    for n in 0..40 {
        let other = json!({"email": format!("x{n}@example.com"), "password": "a wrong password"});
        try_from(&server, "198.51.100.77", other, None).await.expect_problem(401, "unauthenticated");
    }
    try_from(&server, "203.0.113.9", ada(PASSWORD), None).await.expect(204);
    // The address of the guesses is throttled; a forged address in front of it changes nothing.
    while try_from(&server, "198.51.100.1", ada("wrong horse"), None).await.status != StatusCode::TOO_MANY_REQUESTS {}
    try_from(&server, "203.0.113.9, 198.51.100.1", ada(PASSWORD), None).await.expect_problem(429, "too_many_requests");
    server.stop().await;
}

#[tokio::test]
async fn sign_in_delay_grows_across_servers() {
    let server = with_ada().await;
    let other = server.another_with(behind_a_proxy).await;
    for n in 0..10 {
        let at = if n % 2 == 0 { &server } else { &other };
        try_from(at, "198.51.100.1", ada("wrong horse"), None).await.expect_problem(401, "unauthenticated");
    }
    for at in [&server, &other] {
        let refused = try_from(at, "198.51.100.1", ada(PASSWORD), None).await;
        refused.expect_problem(429, "too_many_requests");
        let wait: u32 = refused.headers["retry-after"].to_str().expect("text").parse().expect("seconds");
        assert!((1..=6).contains(&wait), "{wait}");
    }
    // Half a minute and two more failures later, as the database sees it: the delay has doubled twice.
    let pool = &server.running.app.pool;
    let later = "update sign_in_failure set failures = failures + 2, last_at = clock_timestamp()";
    sqlx::query(later).execute(pool).await.expect("moved");
    let third = server.another_with(behind_a_proxy).await;
    let refused = try_from(&third, "198.51.100.1", ada(PASSWORD), None).await;
    let wait: u32 = refused.headers["retry-after"].to_str().expect("text").parse().expect("seconds");
    assert!((15..=21).contains(&wait), "{wait}");
    for at in [third, other, server] {
        at.stop().await;
    }
}

#[tokio::test]
async fn known_device_is_counted_separately() {
    let server = with_ada().await;
    let signed_in = try_from(&server, "203.0.113.9", ada(PASSWORD), None).await;
    let device = device(&signed_in);
    // Everybody at her own address fails until they wait; she does not.
    while try_from(&server, "203.0.113.9", ada("wrong horse"), None).await.status != StatusCode::TOO_MANY_REQUESTS {}
    try_from(&server, "203.0.113.9", ada(PASSWORD), None).await.expect_problem(429, "too_many_requests");
    try_from(&server, "203.0.113.9", ada(PASSWORD), Some(&device)).await.expect(204);
    // The device has no more tries than an address has, and a forged one is no device.
    let forged = device.replace("treeline_device=", "treeline_device=AAAA");
    try_from(&server, "203.0.113.9", ada(PASSWORD), Some(&forged)).await.expect_problem(429, "too_many_requests");
    for _ in 0..10 {
        try_from(&server, "192.0.2.1", ada("wrong horse"), Some(&device)).await.expect_problem(401, "unauthenticated");
    }
    try_from(&server, "192.0.2.1", ada("wrong horse"), Some(&device)).await.expect_problem(429, "too_many_requests");
    try_from(&server, "192.0.2.1", ada(PASSWORD), None).await.expect(204);
    server.stop().await;
}

#[tokio::test]
async fn links_and_passwords_are_counted_separately() {
    let server = with_ada().await;
    let link = server.running.sign_in_link.clone().expect("a link");
    while try_from(&server, "203.0.113.9", ada("wrong horse"), None).await.status != StatusCode::TOO_MANY_REQUESTS {}
    for n in 0..20 {
        let guess = json!({"link": format!("guess-{n}")});
        try_from(&server, "198.51.100.1", guess, None).await.expect_problem(410, "link_used");
    }
    let guess = json!({"link": "guess-20"});
    try_from(&server, "198.51.100.1", guess, None).await.expect_problem(429, "too_many_requests");
    try_from(&server, "198.51.100.1", ada(PASSWORD), None).await.expect(204);
    try_from(&server, "203.0.113.9", json!({"link": link}), None).await.expect(204);
    server.stop().await;
}

#[tokio::test]
async fn password_flood_does_not_block_others() {
    let server = with_ada().await;
    let guesses = (0..120).map(|n| {
        let server = &server;
        async move {
            let guess = json!({"email": format!("x{n}@example.com"), "password": "a wrong password"});
            try_from(server, &format!("198.51.100.{}", n % 6), guess, None).await.status.as_u16()
        }
    });
    let right = async { try_from(&server, "203.0.113.9", ada(PASSWORD), None).await };
    let (refused, right) = tokio::join!(futures::future::join_all(guesses), right);
    assert!(refused.iter().all(|status| [401, 429].contains(status)), "{refused:?}");
    right.expect(204);
    server.stop().await;
}
