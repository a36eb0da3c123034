//! Pages for accounts, services and the audit log, used like by a browser without scripts.

use reqwest::Method;
use serde_json::json;

use crate::support::{Answer, Server};

const PASSWORD: &str = "correct horse battery";

/// Cookie of this name in a response, as it is sent back.
fn cookie(answer: &Answer, name: &str) -> String {
    let lines = answer.headers.get_all("set-cookie").iter().filter_map(|line| line.to_str().ok());
    let pairs = lines.filter_map(|line| line.split(';').next());
    pairs.into_iter().find(|pair| pair.starts_with(name)).unwrap_or_else(|| panic!("no {name}: {answer:?}")).to_owned()
}

/// Redirect target of a form.
#[track_caller]
fn location(answer: &Answer) -> &str {
    assert_eq!(answer.status.as_u16(), 303, "{}", answer.text);
    answer.headers["location"].to_str().expect("text")
}

#[tokio::test]
async fn sign_in_form_redirects_to_the_requested_page() {
    let server = Server::start().await;
    let new = json!({"name": "ada", "email": "ada@example.com", "password": PASSWORD});
    server.post("/api/v1/users", new).await.expect(201);

    let stranger = server.stranger();
    let sent_away = stranger.get("/jobs?q=march+2026").await;
    assert_eq!(location(&sent_away), "/sign-in?back=%2Fjobs%3Fq%3Dmarch%2B2026");
    let page = stranger.get(location(&sent_away)).await;
    assert!(page.text.contains("name=\"back\" value=\"/jobs?q=march+2026\""), "{}", page.text);

    let server_ref = &server;
    let sign_in = |password: &str, back: &str| {
        let fields = [("email", "ada@example.com"), ("password", password), ("back", back)]
            .map(|(name, value)| (name, value.to_owned()));
        async move {
            let fields: Vec<(&str, &str)> = fields.iter().map(|(name, value)| (*name, value.as_str())).collect();
            server_ref.stranger().form("/sign-in", &fields).await
        }
    };
    let refused = sign_in("wrong <horse>", "/jobs").await;
    assert_eq!(refused.status, 422);
    assert!(refused.text.contains("value=\"ada@example.com\"") && refused.text.contains("value=\"/jobs\""));
    assert!(!refused.text.contains("horse") && !refused.headers.contains_key("set-cookie"));
    let good = sign_in(PASSWORD, "/jobs?q=1").await;
    assert_eq!(location(&good), "/jobs?q=1");
    let ada = server.with_cookie(&cookie(&good, "treeline_session="));
    assert_eq!(ada.get("/imports").await.status, 200);
    assert_eq!(location(&sign_in(PASSWORD, "//evil.example").await), "/");

    // Who fails too often waits, also with the right password.
    while sign_in("wrong", "").await.status != 429 {}
    let waits = sign_in(PASSWORD, "").await;
    assert_eq!(waits.status, 429);
    assert!(waits.headers.contains_key("retry-after") && waits.text.contains("Too many attempts"));
    server.stop().await;
}

#[tokio::test]
async fn people_page_creates_and_disables_users() {
    let server = Server::start().await;
    let admin = server.admin().await;
    let refused = admin.form("/people", &[("name", "Ada <b>"), ("email", "ada"), ("role", "support")]).await;
    assert_eq!(refused.status, 422);
    assert!(refused.text.contains("value=\"Ada &lt;b&gt;\""), "{}", refused.text);
    assert!(refused.text.contains("Expected an email address"), "{}", refused.text);
    let created = admin.form("/people", &[("name", "Ada"), ("email", "ada@example.com"), ("role", "user")]).await;
    let path = location(&created).to_owned();
    let once = server.with_cookie(&format!("{}; {}", admin.cookie(), cookie(&created, "treeline_once=")));
    let page = once.get(&path).await;
    let link = page.text.split("value=\"").find(|part| part.contains("/sign-in/")).expect("a link");
    let link = link.split('"').next().expect("a link").to_owned();
    assert!(!admin.get(&path).await.text.contains("/sign-in/"), "shown once");
    let ada = server.signed_in(&link).await;

    // Without an email address a password would be of no use: no form asks for one.
    let own = admin.get("/account").await.text;
    assert!(own.contains("Add an email address") && !own.contains("action=\"/account/password\""), "{own}");

    // One's own account: a password, a second session, its end.
    let short = ada.form("/account/password", &[("new_password", "short")]).await;
    assert_eq!(short.status, 422);
    assert!(short.text.contains("At least 12 characters") && short.text.contains("Expected at least"));
    let set = ada.form("/account/password", &[("new_password", PASSWORD)]).await;
    assert_eq!(location(&set), "/account?done=password");
    let ada = server.with_cookie(&cookie(&set, "treeline_session="));
    let second = server.sign_in("ada@example.com", PASSWORD).await;
    let page = ada.get("/account?done=password").await;
    assert!(page.text.contains("Your password is set") && page.text.contains("This browser"));
    assert!(second.get("/account").await.text.contains("current_password"), "no longer by link");
    assert_eq!(location(&ada.form("/account/sessions/end", &[]).await), "/account?done=sessions");
    assert_eq!(second.get("/account").await.status, 303);
    let sessions = ada.get("/api/v1/me/sessions").await.expect(200)["data"].clone();
    let third = server.sign_in("ada@example.com", PASSWORD).await;
    let own = format!("/account/sessions/{}/end", sessions[0]["id"].as_str().expect("an id"));
    assert_eq!(location(&third.form(&own, &[]).await), "/account?done=session");
    assert_eq!(ada.get("/account").await.status, 303);

    // Only admins see people and services; only staff the log.
    for page in ["/people", &path, "/services", "/audit"] {
        let refused = third.get(page).await;
        assert_eq!(refused.status, 403, "{page}");
        assert!(refused.text.contains("You cannot see this page"), "{}", refused.text);
    }
    for action in ["/people", &path, &format!("{path}/disable"), "/services", "/services/tokens"] {
        assert_eq!(third.form(action, &[("name", "x"), ("email", "x@y.z")]).await.status, 403, "{action}");
    }

    assert_eq!(location(&admin.form(&path, &[("role", "support")]).await), path);
    assert_eq!(third.get("/audit").await.status, 200);
    // A new address ends all sessions, as the old one may have been somebody else's.
    assert_eq!(location(&admin.form(&path, &[("email", "ada@example.org")]).await), path);
    assert_eq!(third.get("/audit").await.status, 303);
    let third = server.sign_in("ada@example.org", PASSWORD).await;
    assert_eq!(third.get("/audit").await.status, 200);
    assert_eq!(location(&admin.form(&format!("{path}/sessions/end"), &[]).await), path);
    assert_eq!(third.get("/audit").await.status, 303);
    assert_eq!(location(&admin.form(&format!("{path}/disable"), &[]).await), path);
    assert!(admin.get(&path).await.text.contains("Reactivate"));
    assert_eq!(location(&admin.form(&format!("{path}/enable"), &[]).await), path);

    let own = admin.get("/api/v1/users").await.expect(200);
    let own = own["data"].as_array().expect("people").iter().find(|user| user["name"] == "admin").expect("the admin");
    let own = format!("/people/{}", own["id"].as_str().expect("an id"));
    let refused = admin.form(&format!("{own}/disable"), &[]).await;
    assert_eq!(refused.status, 422);
    assert!(refused.text.contains("last admin"), "{}", refused.text);

    let log = admin.get("/audit?actor=admin&action=user.role").await;
    assert!(log.text.contains("user → support"), "{}", log.text);
    assert!(log.text.contains(">Changed role<") && log.text.contains("data-format=\"second\""), "{}", log.text);
    assert!(admin.get("/audit?actor=nobody").await.text.contains("No entries match"));
    let invalid = admin.get("/audit?since=yesterday").await;
    assert_eq!(invalid.status, 400);
    assert!(invalid.text.contains("value=\"yesterday\"") && invalid.text.contains("expected a day or a time"));
    assert!(admin.get("/audit?since=2020-01-02").await.text.contains("user.create"));
    server.stop().await;
}

#[tokio::test]
async fn services_page_creates_and_revokes_tokens() {
    let server = Server::start().await;
    let admin = server.admin().await;
    assert_eq!(admin.form("/services", &[("name", "Not A Name")]).await.status, 422);
    assert_eq!(location(&admin.form("/services", &[("name", "payroll")]).await), "/services");
    assert_eq!(admin.form("/services", &[("name", "payroll")]).await.status, 422);
    let refused = admin.form("/services/tokens", &[("service", "payroll"), ("token_name", "night run")]).await;
    assert_eq!(refused.status, 422);
    assert!(refused.text.contains("value=\"night run\"") && refused.text.contains("at least one"), "{}", refused.text);
    // Separators alone do not mean all types.
    let fields = [("service", "payroll"), ("token_name", "night run"), ("scope", "work"), ("types", ", ;")];
    assert_eq!(admin.form("/services/tokens", &fields).await.status, 422);
    let fields = [
        ("service", "payroll"),
        ("token_name", "night run"),
        ("scope", "work"),
        ("scope", "jobs:read"),
        ("types", "a, b"),
    ];
    let created = admin.form("/services/tokens", &fields).await;
    assert_eq!(location(&created), "/services");
    let once = server.with_cookie(&format!("{}; {}", admin.cookie(), cookie(&created, "treeline_once=")));
    let page = once.get("/services").await;
    let secret = page.text.split("value=\"").find(|part| part.starts_with("trl_")).expect("a token");
    let payroll = server.stranger().with_token(secret.split('"').next().expect("a token"));
    assert_eq!(payroll.get("/api/v1/me").await.expect(200)["scopes"], json!(["work", "jobs:read"]));
    let later = admin.get("/services").await;
    assert!(!later.text.contains("trl_") && later.text.contains("work jobs:read of a, b"), "{}", later.text);

    let listed = admin.get("/api/v1/tokens").await.expect(200);
    let id = listed["data"].as_array().expect("tokens").iter().find(|token| token["name"] == "night run").expect("it");
    let path = format!("/tokens/{}/revoke", id["id"].as_str().expect("an id"));
    assert_eq!(location(&admin.form(&path, &[]).await), "/services");
    payroll.get("/api/v1/me").await.expect_problem(401, "unauthenticated");
    assert!(admin.get("/services").await.text.contains("revoked"));
    for action in ["service.create", "token.create", "token.revoke"] {
        assert!(admin.get(&format!("/audit?action={action}")).await.text.contains("payroll"), "{action}");
    }
    server.stop().await;
}

#[tokio::test]
async fn cross_site_form_post_is_refused() {
    let server = Server::start().await;
    let admin = server.admin().await;
    let id = "0190a5e0-0000-7000-8000-000000000000";
    for path in [
        "/sign-in".to_owned(),
        "/people".to_owned(),
        format!("/people/{id}"),
        format!("/people/{id}/disable"),
        format!("/people/{id}/sign-in-link"),
        "/services".to_owned(),
        "/services/tokens".to_owned(),
        format!("/tokens/{id}/revoke"),
        "/account/password".to_owned(),
        "/account/sessions/end".to_owned(),
        format!("/imports/{id}/share"),
        format!("/shares/{id}/revoke"),
    ] {
        for lie in [("sec-fetch-site", "cross-site"), ("origin", "https://evil.example"), ("origin", "null")] {
            let request = server.stranger().request(Method::POST, &path).header("cookie", admin.cookie());
            let request = request.header(lie.0, lie.1).header("content-type", "application/x-www-form-urlencoded");
            let answer = Answer::of(request.body("name=x")).await;
            assert_eq!(answer.status, 403, "{path} {lie:?}");
        }
    }
    assert_eq!(admin.get("/api/v1/services").await.expect(200)["data"].as_array().map(Vec::len), Some(1));
    server.stop().await;
}
