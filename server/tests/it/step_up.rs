//! Step-up: a sensitive action asks a person to authenticate again, and then continues.
//!
//! Separate from `factors`, which tests the second stage of sign-in. Times are set in the database without waiting.

use serde_json::json;

use crate::{
    factors::{PASSWORD, age_sessions, person, set_up},
    support::Server,
};

#[tokio::test]
async fn sensitive_actions_require_recent_authentication() {
    let server = Server::start().await;
    let id = person(&server, "root", "admin").await;
    let root = server.sign_in("root@example.com", PASSWORD).await;
    let service = root.post("/api/v1/services", json!({"name": "ci"})).await.expect(201);
    let service = format!("/api/v1/services/{}", service["id"].as_str().expect("an id"));
    age_sessions(&server).await;

    let token = json!({"service": "ci", "name": "t", "scopes": ["work"]});
    let challenged = root.post("/api/v1/tokens", token.clone()).await.expect_problem(403, "step_up_required");
    assert_eq!(challenged["methods"], json!(["password"]));
    root.post("/api/v1/services", json!({"name": "x"})).await.expect_problem(403, "step_up_required");
    root.patch(&service, json!({"disabled": true})).await.expect_problem(403, "step_up_required");
    root.post("/api/v1/users", json!({"name": "x", "email": "x@y"})).await.expect_problem(403, "step_up_required");
    let patch = json!({"role": "user"});
    root.patch(&format!("/api/v1/users/{id}"), patch).await.expect_problem(403, "step_up_required");
    root.post(&format!("/api/v1/users/{id}/sign-in-link"), json!({})).await.expect_problem(403, "step_up_required");
    root.put("/api/v1/job-types/a", json!({})).await.expect_problem(403, "step_up_required");
    root.post("/api/v1/job-types", json!({"name": "a"})).await.expect_problem(403, "step_up_required");
    root.post("/api/v1/me/totp", json!({})).await.expect_problem(403, "step_up_required");
    // Looking is free, and a service has no session.
    root.get("/api/v1/tokens").await.expect(200);
    server.put("/api/v1/job-types/a", json!({})).await.expect(201);
    root.patch("/api/v1/job-types/a", json!({"concurrency": 1})).await.expect_problem(403, "step_up_required");
    root.delete("/api/v1/job-types/a").await.expect_problem(403, "step_up_required");
    root.post("/api/v1/job-types/a/pause", json!({})).await.expect(200);

    let wrong_password = json!({"password": "wrong wrong wrong"});
    root.post("/api/v1/me/step-up", wrong_password).await.expect_problem(422, "invalid_body");
    root.post("/api/v1/me/step-up", json!({})).await.expect_problem(422, "invalid_body");
    root.post("/api/v1/tokens", token.clone()).await.expect_problem(403, "step_up_required");
    root.post("/api/v1/me/step-up", json!({"password": PASSWORD})).await.expect(204);
    root.post("/api/v1/tokens", token.clone()).await.expect(201);

    // A person with a second factor is asked for that one.
    let (app, codes) = set_up(&root).await;
    age_sessions(&server).await;
    let challenged = root.post("/api/v1/tokens", token.clone()).await.expect_problem(403, "step_up_required");
    assert_eq!(challenged["methods"], json!(["totp", "recovery_code"]));
    root.post("/api/v1/me/step-up", json!({"password": PASSWORD})).await.expect_problem(422, "invalid_body");
    root.post("/api/v1/me/step-up", json!({"code": app.code(1)})).await.expect(204);
    root.post("/api/v1/tokens", token.clone()).await.expect(201);
    age_sessions(&server).await;
    root.post("/api/v1/me/step-up", json!({"recovery_code": codes[0]})).await.expect(204);
    root.post("/api/v1/tokens", token).await.expect(201);
    server.post("/api/v1/me/step-up", json!({"password": PASSWORD})).await.expect_problem(403, "forbidden");
    server.stop().await;
}

#[tokio::test]
async fn step_up_continues_the_form_without_revealing_input() {
    let server = Server::start().await;
    person(&server, "root", "admin").await;
    let root = server.sign_in("root@example.com", PASSWORD).await;
    age_sessions(&server).await;
    let fields =
        [("name", "Eve"), ("email", "eve@example.com"), ("role", "user"), ("password", "a-password-for-eve-only")];
    let challenged = root.form("/people", &fields).await;
    assert_eq!(challenged.status, 403, "{}", challenged.text);
    assert!(challenged.text.contains("Confirm that it is you"), "{}", challenged.text);
    assert!(
        !challenged.text.contains("a-password-for-eve-only") && !challenged.text.contains("eve@"),
        "{}",
        challenged.text
    );
    let sealed_form = challenged.text.split("name=\"kept\" value=\"").nth(1).and_then(|rest| rest.split('"').next());
    let sealed_form = sealed_form.expect("what was typed, sealed").to_owned();

    let wrong_password = root.form("/step-up", &[("kept", &sealed_form), ("password", "wrong wrong wrong")]).await;
    assert_eq!(wrong_password.status, 422, "{}", wrong_password.text);
    let confirmed = [("kept", sealed_form.as_str()), ("password", PASSWORD)];
    let on = root.form("/step-up", &confirmed).await;
    assert_eq!((on.status.as_u16(), on.headers["location"].to_str().ok()), (307, Some("/people")));
    // A browser sends the same form there.
    let created = root.form("/people", &confirmed).await;
    assert_eq!(created.status, 303, "{}", created.text);
    server.sign_in("eve@example.com", "a-password-for-eve-only").await;

    // The sealed form belongs to one session and one address.
    let other = server.sign_in("root@example.com", PASSWORD).await;
    let stolen = other.form("/services", &[("kept", &sealed_form)]).await;
    assert_eq!(stolen.status, 422, "{}", stolen.text);
    let elsewhere = root.form("/services", &[("kept", &sealed_form)]).await;
    assert_eq!(elsewhere.status, 422, "{}", elsewhere.text);
    server.stop().await;
}

#[tokio::test]
async fn step_up_is_per_session_and_audited() {
    let server = Server::start().await;
    person(&server, "root", "admin").await;
    let one = server.sign_in("root@example.com", PASSWORD).await;
    let (app, _) = set_up(&one).await;
    let with = json!({"email": "root@example.com", "password": PASSWORD, "code": app.code(1)});
    let other = server.session(with).await;
    age_sessions(&server).await;
    sqlx::query("update totp set last_step = 0").execute(&server.running.app.pool).await.expect("time passes");
    one.post("/api/v1/me/step-up", json!({"code": app.code(0)})).await.expect(204);
    one.post("/api/v1/services", json!({"name": "a"})).await.expect(201);
    other.post("/api/v1/services", json!({"name": "b"})).await.expect_problem(403, "step_up_required");
    // The code of the one session is no proof for the other.
    other.post("/api/v1/me/step-up", json!({"code": app.code(0)})).await.expect_problem(422, "invalid_body");
    other.post("/api/v1/services", json!({"name": "b"})).await.expect_problem(403, "step_up_required");
    let entries = one.get("/api/v1/audit?action=session.step_up").await.expect(200);
    assert_eq!(entries["data"].as_array().map(Vec::len), Some(1), "{entries}");
    assert_eq!(entries["data"][0]["detail"], "by authenticator app");
    server.stop().await;
}

#[tokio::test]
async fn first_password_requires_recent_sign_in() {
    let server = Server::start().await;
    let root = server.admin().await;
    let new = json!({"name": "ada", "email": "ada@example.com", "role": "admin"});
    let created = server.post("/api/v1/users", new).await.expect(201);
    let ada = server.signed_in(created["sign_in_link"].as_str().expect("a link")).await;
    age_sessions(&server).await;
    // Else a password of a thief's choice would be the proof for everything else.
    let chosen = json!({"new_password": PASSWORD});
    ada.post("/api/v1/me/password", chosen.clone()).await.expect_problem(403, "step_up_required");
    let challenged = ada.form("/account/password", &[("new_password", PASSWORD)]).await;
    assert!(challenged.status == 403 && challenged.text.contains("Sign in again"), "{}", challenged.text);
    let link = format!("/api/v1/users/{}/sign-in-link", created["id"].as_str().expect("an id"));
    root.post(&link, json!({})).await.expect_problem(403, "step_up_required");
    let link = server.post(&link, json!({})).await.expect(201);
    let ada = server.signed_in(link["url"].as_str().expect("a link")).await;
    ada.post("/api/v1/me/password", chosen).await.expect(204);
    server.stop().await;
}
