//! Credentials that end: tokens with an `expires_at`, disabled services, sign-in links replaced by a newer link or a
//! changed address. Ended credentials are refused within a second on every server.

use std::time::{Duration, Instant};

use domain::Time;
use serde_json::{Value, json};
use time::OffsetDateTime;

use crate::support::{Api, Server};

/// Polls until the caller is refused; fails if that takes longer than `limit`.
async fn refused_within(api: &Api, limit: Duration) {
    let began = Instant::now();
    loop {
        let answer = api.get("/api/v1/me").await;
        if answer.status == 401 {
            return;
        }
        assert!(began.elapsed() < limit, "still let in after {:?}: {}", began.elapsed(), answer.text);
        crate::support::moment().await;
    }
}

fn ahead(seconds: i64) -> Value {
    let at = OffsetDateTime::now_utc() + time::Duration::seconds(seconds);
    json!(Time(at.replace_nanosecond(0).expect("a whole second")).to_rfc3339())
}

#[tokio::test]
async fn expired_token_is_refused() {
    let server = Server::start().await;
    let other = server.another().await;
    server.post("/api/v1/services", json!({"name": "payroll"})).await.expect(201);
    let body = |expires_at: Value| json!({"service": "payroll", "name": "short", "scopes": ["jobs:read"], "expires_at": expires_at});
    let invalid = server.post("/api/v1/tokens", body(json!("2020-01-01T00:00:00Z"))).await;
    let problem = invalid.expect_problem(422, "invalid_body");
    assert_eq!(problem["errors"][0]["pointer"], "/expires_at");

    let until = ahead(2);
    let created = server.post("/api/v1/tokens", body(until.clone())).await.expect(201);
    assert_eq!(created["token"]["expires_at"], until);
    let lasting = server.post("/api/v1/tokens", body(ahead(3600))).await.expect(201);
    let listed = server.get("/api/v1/tokens").await.expect(200);
    let expiry_times: Vec<&Value> =
        listed["data"].as_array().expect("tokens").iter().map(|it| &it["expires_at"]).collect();
    assert!(expiry_times.contains(&&until) && expiry_times.contains(&&Value::Null), "{listed}");

    // Remembered on both servers, and refused by both.
    let secret = created["secret"].as_str().expect("a secret");
    let (here, there) = (server.stranger().with_token(secret), other.stranger().with_token(secret));
    here.get("/api/v1/me").await.expect(200);
    there.get("/api/v1/me").await.expect(200);
    refused_within(&here, Duration::from_secs(4)).await;
    refused_within(&there, Duration::from_secs(1)).await;
    let lasting = server.stranger().with_token(lasting["secret"].as_str().expect("a secret"));
    lasting.get("/api/v1/me").await.expect(200);
    other.stop().await;
    server.stop().await;
}

#[tokio::test]
async fn disabled_service_is_refused_until_enabled() {
    let server = Server::start().await;
    let other = server.another().await;
    let (first, second) =
        (server.service("payroll", &["jobs:read", "jobs:write"]).await, server.service("payroll", &["work"]).await);
    let neighbour = server.service("neighbour", &["jobs:read"]).await;
    server.put("/api/v1/job-types/a", json!({})).await.expect(201);
    let job = first.post("/api/v1/jobs", json!({"type": "a", "items": [{"payload": 1}]})).await.expect(201);
    let services = server.get("/api/v1/services").await.expect(200);
    let payroll = services["data"].as_array().expect("services").iter().find(|it| it["name"] == "payroll");
    let payroll = payroll.expect("it is listed");
    assert_eq!(payroll["disabled"], false);
    let path = format!("/api/v1/services/{}", payroll["id"].as_str().expect("an id"));
    assert_eq!(&server.get(&path).await.expect(200), payroll);
    second.get("/api/v1/me").await.expect(200);

    // Asked of the other server; this one finds out within a second.
    let disabled = other.patch(&path, json!({"disabled": true, "reason": "it leaked"})).await.expect(200);
    assert_eq!(disabled["disabled"], true);
    refused_within(&first, Duration::from_secs(1)).await;
    refused_within(&second, Duration::from_secs(1)).await;
    neighbour.get("/api/v1/me").await.expect(200);
    // Its work stays, and so do its tokens, for when it comes back.
    server.get(&format!("/api/v1/jobs/{}", job["id"].as_str().expect("an id"))).await.expect(200);
    assert_eq!(server.get(&path).await.expect(200)["disabled"], true);
    server.patch(&path, json!({"disabled": false})).await.expect(200);
    first.get("/api/v1/me").await.expect(200);
    let log = server.get("/api/v1/audit?limit=100").await.expect(200);
    for action in ["service.disable", "service.enable"] {
        assert!(log["data"].as_array().expect("entries").iter().any(|entry| entry["action"] == action), "{log}");
    }

    let bootstrap = services["data"].as_array().expect("services").iter().find(|it| it["name"] == "bootstrap");
    let bootstrap = format!("/api/v1/services/{}", bootstrap.expect("it is listed")["id"].as_str().expect("an id"));
    server.patch(&bootstrap, json!({"disabled": true})).await.expect_problem(422, "invalid_body");
    server.patch(&path, json!({"name": "x"})).await.expect_problem(422, "invalid_body");
    let nobody = "/api/v1/services/0190a5e0-0000-7000-8000-000000000000";
    server.get(nobody).await.expect_problem(404, "not_found");
    server.patch(nobody, json!({"disabled": true})).await.expect_problem(404, "not_found");
    other.stop().await;
    server.stop().await;
}

#[tokio::test]
async fn services_page_disables_services_and_creates_expiring_tokens() {
    let server = Server::start().await;
    let admin = server.admin().await;
    admin.form("/services", &[("name", "payroll")]).await;
    let services = server.get("/api/v1/services").await.expect(200);
    let payroll = services["data"].as_array().expect("services").iter().find(|it| it["name"] == "payroll");
    let id = payroll.expect("it is listed")["id"].as_str().expect("an id").to_owned();
    let token = [("service", "payroll"), ("token_name", "t"), ("scope", "metrics"), ("types", "")];
    let invalid = admin.form("/services/tokens", &[&token[..], &[("expires", "tomorrow")]].concat()).await;
    assert_eq!(invalid.status, 422, "{}", invalid.text);
    assert!(invalid.text.contains("expected a day"), "{}", invalid.text);
    let created = admin.form("/services/tokens", &[&token[..], &[("expires", "2099-12-31")]].concat()).await;
    assert_eq!(created.status, 303, "{}", created.text);
    let tokens = server.get("/api/v1/tokens").await.expect(200);
    assert_eq!(tokens["data"][0]["expires_at"], "2100-01-01T00:00:00Z");

    assert_eq!(admin.form(&format!("/services/{id}/disable"), &[]).await.status, 303);
    let page = admin.get("/services").await;
    assert!(page.text.contains("Enable the service payroll"), "{}", page.text);
    assert_eq!(admin.form(&format!("/services/{id}/enable"), &[]).await.status, 303);
    assert!(admin.get("/services").await.text.contains("Disable the service payroll"));
    let eve = server.person("eve", "support").await;
    assert_eq!(eve.form(&format!("/services/{id}/disable"), &[]).await.status, 403);
    server.stop().await;
}

#[tokio::test]
async fn new_sign_in_link_or_email_invalidates_older_links() {
    let server = Server::start().await;
    let ada = json!({"name": "Ada", "email": "ada@example.com"});
    let created = server.post("/api/v1/users", ada).await.expect(201);
    let (first, id) = (&created["sign_in_link"], created["id"].as_str().expect("an id"));
    let links = format!("/api/v1/users/{id}/sign-in-link");
    let second = server.post(&links, json!({})).await.expect(201)["url"].clone();
    let redeem = async |link: &Value| server.stranger().post("/api/v1/session", json!({"link": link})).await;
    redeem(first).await.expect_problem(410, "link_used");
    server.patch(&format!("/api/v1/users/{id}"), json!({"email": "ada@example.org"})).await.expect(200);
    redeem(&second).await.expect_problem(410, "link_used");
    let third = server.post(&links, json!({})).await.expect(201)["url"].clone();
    redeem(&third).await.expect(204);
    server.stop().await;
}
