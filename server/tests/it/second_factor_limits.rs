//! Wrong codes of authenticator apps: someone who knows the password guesses none, and blocks nobody.
//!
//! Separate from `throttle`, which covers passwords. docs/identity.md computes how few codes may be tried, and
//! `auth::throttle::limits` counts them. A trusted proxy supplies the addresses.

use reqwest::{Method, StatusCode};
use serde_json::{Value, json};
use server::config::Config;

use crate::{
    factors::{App, PASSWORD, age_sessions, person, set_up},
    support::{Answer, Server},
};

fn behind_a_proxy(config: &mut Config) {
    config.proxies.trusted_proxies = "127.0.0.1".parse().expect("a network");
}

async fn from(server: &Server, address: &str, device: Option<&str>, credentials: Value) -> Answer {
    let mut request = server.stranger().request(Method::POST, "/api/v1/session").header("x-forwarded-for", address);
    if let Some(device) = device {
        request = request.header("cookie", device);
    }
    Answer::of(request.json(&credentials)).await
}

fn with(name: &str, value: &str) -> Value {
    json!({"email": "ada@example.com", "password": PASSWORD, name: value})
}

fn cookie(answer: &Answer, name: &str) -> String {
    let lines = answer.headers.get_all("set-cookie").iter().filter_map(|line| line.to_str().ok());
    let mut pairs = lines.filter_map(|line| line.split(';').next());
    pairs.find(|pair| pair.starts_with(name)).expect("the cookie").to_owned()
}

/// Simulates a time step of thirty seconds for used codes.
async fn a_step_later(server: &Server) {
    sqlx::query("update totp set last_step = 0").execute(&server.running.app.pool).await.expect("time passes");
}

/// Ada, with an app and recovery codes, and a device that has signed in with both factors.
async fn ada(server: &Server) -> (String, App, Vec<String>, Answer) {
    let id = person(server, "ada", "user").await;
    let (app, codes) = set_up(&server.sign_in("ada@example.com", PASSWORD).await).await;
    a_step_later(server).await;
    let signed_in = from(server, "203.0.113.1", None, with("code", &app.code(0))).await;
    assert_eq!(signed_in.status, 204, "{}", signed_in.text);
    a_step_later(server).await;
    (id, app, codes, signed_in)
}

/// State that represents a correct password, so that a guess costs no argon2.
async fn state(server: &Server) -> String {
    let password = json!({"email": "ada@example.com", "password": PASSWORD});
    let challenge = from(server, "192.0.2.1", None, password).await.expect_problem(401, "mfa_required");
    challenge["state"].as_str().expect("a state").to_owned()
}

/// Sends wrong codes from an address until they are refused. Returns the number that were checked: a few more on a slow
/// machine, where the first delays pass meanwhile.
async fn guess(server: &Server, address: &str, state: &str) -> u32 {
    let mut tried = 0;
    loop {
        let answer = from(server, address, None, json!({"state": state, "code": "000000"})).await;
        if answer.status == StatusCode::TOO_MANY_REQUESTS {
            return tried;
        }
        answer.expect_problem(401, "mfa_required");
        tried += 1;
    }
}

#[tokio::test]
async fn second_factor_guesses_are_limited_without_locking_out_the_owner() {
    let server = Server::start_with(behind_a_proxy).await;
    let root = server.admin().await;
    let (id, app, codes, signed_in) = ada(&server).await;
    // One address alone leaves the others free.
    let password = state(&server).await;
    let mut tried = guess(&server, "198.51.100.1", &password).await;
    assert!((5..=8).contains(&tried), "{tried}");
    from(&server, "203.0.113.9", None, with("code", &app.code(0))).await.expect(204);
    a_step_later(&server).await;
    // Many addresses have a few tries together.
    for n in 2..40 {
        tried += guess(&server, &format!("198.51.100.{n}"), &password).await;
    }
    assert!((30..=36).contains(&tried), "{tried}");
    let other = server.another_with(behind_a_proxy).await;
    assert!(guess(&other, "198.51.100.200", &password).await <= 1, "all servers count together");
    other.stop().await;
    let fresh = json!({"state": password, "code": "000000"});
    while from(&server, "203.0.113.10", None, fresh.clone()).await.status != StatusCode::TOO_MANY_REQUESTS {}
    let right = json!({"state": password, "code": app.code(0)});
    from(&server, "203.0.113.10", None, right).await.expect_problem(429, "too_many_requests");

    // She gets in: on the device that she has used, by a recovery code anywhere, by an admin's link.
    let device = cookie(&signed_in, "treeline_device=");
    from(&server, "198.51.100.1", Some(&device), with("code", &app.code(0))).await.expect(204);
    a_step_later(&server).await;
    from(&server, "203.0.113.11", None, with("recovery_code", &codes[0])).await.expect(204);
    let link = root.post(&format!("/api/v1/users/{id}/sign-in-link"), json!({})).await.expect(201);
    let by_link = json!({"link": link["url"], "code": app.code(0)});
    from(&server, "203.0.113.12", None, by_link).await.expect(204);
    a_step_later(&server).await;
    // In her session she proves who she is.
    age_sessions(&server).await;
    let session = server.with_cookie(&cookie(&signed_in, "treeline_session="));
    session.post("/api/v1/me/recovery-codes", json!({})).await.expect_problem(403, "step_up_required");
    session.post("/api/v1/me/step-up", json!({"code": app.code(0)})).await.expect(204);
    server.stop().await;
}

#[tokio::test]
async fn device_trust_from_before_second_factor_does_not_count() {
    let server = Server::start_with(behind_a_proxy).await;
    person(&server, "ada", "user").await;
    let password = json!({"email": "ada@example.com", "password": PASSWORD});
    // Devices that somebody has collected while the password was enough.
    let mut devices = Vec::new();
    for _ in 0..8 {
        devices.push(cookie(&from(&server, "198.51.100.1", None, password.clone()).await, "treeline_device="));
    }
    set_up(&server.sign_in("ada@example.com", PASSWORD).await).await;
    let (password, mut tried) = (state(&server).await, 0);
    for device in &devices {
        for _ in 0..10 {
            let guess = json!({"state": password, "code": "000000"});
            let answer = from(&server, "198.51.100.1", Some(device), guess).await;
            tried += u32::from(answer.status == StatusCode::UNAUTHORIZED);
        }
    }
    assert!((5..=8).contains(&tried), "{tried}");
    server.stop().await;
}

#[tokio::test]
async fn session_codes_and_recovery_codes_have_separate_limits() {
    let server = Server::start_with(behind_a_proxy).await;
    let (_, app, _, signed_in) = ada(&server).await;
    let session = server.with_cookie(&cookie(&signed_in, "treeline_session="));
    for _ in 0..10 {
        session.post("/api/v1/me/step-up", json!({"code": "000000"})).await.expect_problem(422, "invalid_body");
    }
    let refused = session.post("/api/v1/me/step-up", json!({"code": app.code(0)})).await;
    refused.expect_problem(429, "too_many_requests");
    let wrong_code = json!({"state": state(&server).await, "recovery_code": "0000-0000-0000-0000"});
    let mut tried = 0;
    while from(&server, "198.51.100.1", None, wrong_code.clone()).await.status != StatusCode::TOO_MANY_REQUESTS {
        tried += 1;
        assert!(tried < 100, "never refused");
    }
    assert!(tried >= 20, "{tried}");
    // Neither is in the way of signing in.
    from(&server, "198.51.100.1", None, with("code", &app.code(0))).await.expect(204);
    server.stop().await;
}
