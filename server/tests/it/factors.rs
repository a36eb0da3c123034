//! Second factors: setup of an authenticator app, its use in all sign-in methods, recovery codes, removal, reset.
//!
//! Passkeys need a browser and are tested in `end2end`. Codes come from a real TOTP library; instead of waiting for a
//! time step, the tests set back the last used step in the database.

use reqwest::Method;
use serde_json::{Value, json};
use time::OffsetDateTime;
use totp_rs::Totp;

use crate::support::{Answer, Api, Server};

pub(crate) const PASSWORD: &str = "correct horse battery";

/// An authenticator app with its secret.
pub(crate) struct App(Totp);

impl App {
    pub(crate) fn of(started: &Value) -> Self {
        Self(Totp::from_url(started["otpauth_url"].as_str().expect("a URL")).expect("a URL that apps read"))
    }

    /// Code at an offset in time steps.
    pub(crate) fn code(&self, steps: i64) -> String {
        let at = OffsetDateTime::now_utc().unix_timestamp() + 30 * steps;
        self.0.generate(at.try_into().expect("after 1970")).to_string()
    }
}

/// A person with a password.
pub(crate) async fn person(server: &Server, name: &str, role: &str) -> String {
    let new = json!({"name": name, "email": format!("{name}@example.com"), "password": PASSWORD, "role": role});
    server.post("/api/v1/users", new).await.expect(201)["id"].as_str().expect("an id").to_owned()
}

/// Sets up an authenticator app. Returns it and the recovery codes. Its current code is used.
pub(crate) async fn set_up(caller: &Api) -> (App, Vec<String>) {
    let app = App::of(&caller.post("/api/v1/me/totp", json!({})).await.expect(201));
    let confirmed = caller.post("/api/v1/me/totp/confirm", json!({"code": app.code(0)})).await.expect(200);
    let codes = confirmed["recovery_codes"].as_array().expect("codes").iter();
    (app, codes.map(|code| code.as_str().expect("text").to_owned()).collect())
}

/// Sets the last authentication of the person to eleven minutes ago.
pub(crate) async fn age_sessions(server: &Server) {
    sqlx::query("update session set authenticated_at = authenticated_at - interval '11 minutes'")
        .execute(&server.running.app.pool)
        .await
        .expect("sessions age");
}

#[tokio::test]
async fn totp_code_is_required_and_single_use() {
    let server = Server::start().await;
    person(&server, "ada", "user").await;
    let ada = server.sign_in("ada@example.com", PASSWORD).await;
    let other = server.sign_in("ada@example.com", PASSWORD).await;
    let started = ada.post("/api/v1/me/totp", json!({})).await.expect(201);
    assert!(started["qr_svg"].as_str().is_some_and(|svg| svg.starts_with("<svg")), "{started}");
    let app = App::of(&started);

    // A secret that was not confirmed protects nothing.
    server.sign_in("ada@example.com", PASSWORD).await;
    let wrong_code = json!({"code": "000000"});
    ada.post("/api/v1/me/totp/confirm", wrong_code).await.expect_problem(422, "invalid_body");
    let confirmed = ada.post("/api/v1/me/totp/confirm", json!({"code": app.code(0)})).await.expect(200);
    assert_eq!(confirmed["recovery_codes"].as_array().map(Vec::len), Some(10));
    other.get("/api/v1/me").await.expect_problem(401, "unauthenticated");
    ada.post("/api/v1/me/totp", json!({})).await.expect_problem(409, "duplicate");
    let factors = ada.get("/api/v1/me/factors").await.expect(200);
    assert_eq!((&factors["required"], &factors["recovery_codes_left"]), (&json!(false), &json!(10)));
    assert!(factors["totp_since"].is_string());
    assert_eq!(factors["totp_name"], "Authenticator app");
    ada.patch("/api/v1/me/totp", json!({"name": " "})).await.expect_problem(422, "invalid_body");
    ada.patch("/api/v1/me/totp", json!({"name": "Phone"})).await.expect(204);
    assert_eq!(ada.get("/api/v1/me/factors").await.expect(200)["totp_name"], "Phone");

    // The secret is sealed in the database.
    let stored: String =
        sqlx::query_scalar("select secret from totp").fetch_one(&server.running.app.pool).await.expect("a secret");
    assert!(stored.starts_with("sealed:"), "{stored}");

    // The password alone, a used code, a wrong password with a right code: nothing.
    let first = json!({"email": "ada@example.com", "password": PASSWORD});
    let challenge = server.stranger().post("/api/v1/session", first.clone()).await.expect_problem(401, "mfa_required");
    assert_eq!(challenge["methods"], json!(["totp", "recovery_code"]));
    let with = |code: String| json!({"email": "ada@example.com", "password": PASSWORD, "code": code});
    server.stranger().post("/api/v1/session", with(app.code(0))).await.expect_problem(401, "mfa_required");
    let next = app.code(1);
    let forged = json!({"email": "ada@example.com", "password": "wrong wrong wrong", "code": next});
    server.stranger().post("/api/v1/session", forged).await.expect_problem(401, "unauthenticated");

    // In one request, then in two; and a code works once.
    server.stranger().post("/api/v1/session", with(next.clone())).await.expect(204);
    let state = challenge["state"].as_str().expect("a state");
    let second = json!({"state": state, "code": next});
    server.stranger().post("/api/v1/session", second.clone()).await.expect_problem(401, "mfa_required");
    sqlx::query("update totp set last_step = 0").execute(&server.running.app.pool).await.expect("time passes");
    server.stranger().post("/api/v1/session", second).await.expect(204);
    let damaged = json!({"state": format!("{state}A"), "code": app.code(1)});
    server.stranger().post("/api/v1/session", damaged).await.expect_problem(401, "unauthenticated");
    server.stop().await;
}

#[tokio::test]
async fn recovery_code_is_single_use_and_replaceable() {
    let server = Server::start().await;
    person(&server, "ada", "user").await;
    let ada = server.sign_in("ada@example.com", PASSWORD).await;
    ada.post("/api/v1/me/recovery-codes", json!({})).await.expect_problem(422, "invalid_body");
    let (_, codes) = set_up(&ada).await;
    let with = |code: &str| json!({"email": "ada@example.com", "password": PASSWORD, "recovery_code": code});
    let typed = codes[0].to_uppercase().replace('-', " ");
    server.stranger().post("/api/v1/session", with(&typed)).await.expect(204);
    server.stranger().post("/api/v1/session", with(&codes[0])).await.expect_problem(401, "mfa_required");
    assert_eq!(ada.get("/api/v1/me/factors").await.expect(200)["recovery_codes_left"], 9);
    let renewed = ada.post("/api/v1/me/recovery-codes", json!({})).await.expect(201);
    server.stranger().post("/api/v1/session", with(&codes[1])).await.expect_problem(401, "mfa_required");
    let new = renewed["recovery_codes"][3].as_str().expect("a code");
    server.stranger().post("/api/v1/session", with(new)).await.expect(204);
    server.stop().await;
}

#[tokio::test]
async fn admin_link_still_requires_second_factor() {
    let server = Server::start().await;
    let root = server.admin().await;
    let id = person(&server, "ada", "user").await;
    let make = async || {
        let path = format!("/api/v1/users/{id}/sign-in-link");
        root.post(&path, json!({})).await.expect(201)["url"].as_str().expect("a link").to_owned()
    };
    // Without a factor the link signs in, and the audit log says whose it was.
    let ada = server.signed_in(&make().await).await;
    let entries = root.get("/api/v1/audit?action=session.begin").await.expect(200);
    let by_link = |entries: &Value| {
        let entries = entries["data"].as_array().expect("entries").clone();
        entries
            .iter()
            .filter(|entry| entry["actor"]["name"] == "ada")
            .any(|entry| entry["detail"].as_str().is_some_and(|detail| detail.contains("one-time link made by admin")))
    };
    assert!(by_link(&entries), "{entries}");

    // With one it asks, keeps, and is used up by the second stage alone.
    let (app, _) = set_up(&ada).await;
    let link = make().await;
    for _ in 0..2 {
        let challenge = server.stranger().post("/api/v1/session", json!({"link": link})).await;
        challenge.expect_problem(401, "mfa_required");
    }
    let path = link.strip_prefix(&server.url("")).expect("a link to this server");
    let press = server.stranger().request(Method::POST, path).header("sec-fetch-site", "same-origin");
    let page = Answer::of(press).await;
    assert_eq!(page.status, 200, "{}", page.text);
    assert!(page.text.contains("Second factor") && !page.headers.contains_key("set-cookie"), "{}", page.text);
    let with = json!({"link": link, "code": app.code(1)});
    server.stranger().post("/api/v1/session", with.clone()).await.expect(204);
    server.stranger().post("/api/v1/session", with).await.expect_problem(410, "link_used");
    server.stop().await;
}

#[tokio::test]
async fn second_factor_form_without_scripts() {
    let server = Server::start().await;
    person(&server, "ada", "user").await;
    let (app, _) = set_up(&server.sign_in("ada@example.com", PASSWORD).await).await;
    let fields = [("email", "ada@example.com"), ("password", PASSWORD), ("back", "/imports/new")];
    let page = server.stranger().form("/sign-in", &fields).await;
    assert_eq!(page.status, 200, "{}", page.text);
    let state = page.text.split("name=\"state\" value=\"").nth(1).and_then(|rest| rest.split('"').next());
    let state = state.expect("a state").to_owned();
    let wrong_code = [("state", state.as_str()), ("code", "123456"), ("back", "/imports/new")];
    let again = server.stranger().form("/sign-in/second-step", &wrong_code).await;
    assert_eq!(again.status, 422, "{}", again.text);
    assert!(again.text.contains("That code is wrong"), "{}", again.text);
    let code = app.code(1);
    let right = [("state", state.as_str()), ("code", code.as_str()), ("back", "/imports/new")];
    let done = server.stranger().form("/sign-in/second-step", &right).await;
    assert_eq!((done.status.as_u16(), done.headers["location"].to_str().ok()), (303, Some("/imports/new")));
    assert!(done.headers.contains_key("set-cookie"));
    server.stop().await;
}

#[tokio::test]
async fn second_factor_guesses_are_limited() {
    let server = Server::start().await;
    person(&server, "ada", "user").await;
    set_up(&server.sign_in("ada@example.com", PASSWORD).await).await;
    let guess = json!({"email": "ada@example.com", "password": PASSWORD, "code": "000000"});
    let mut refused = 0;
    for _ in 0..40 {
        match server.stranger().post("/api/v1/session", guess.clone()).await.status.as_u16() {
            401 => {}
            429 => refused += 1,
            other => panic!("{other}"),
        }
    }
    assert!(refused > 10, "{refused} of 40 guesses were refused");
    server.stop().await;
}

#[tokio::test]
async fn required_second_factor_blocks_all_actions_until_enrolled() {
    let server =
        Server::start_with(|config| config.identity.require_mfa = "admin,support".parse().expect("roles")).await;
    person(&server, "ada", "user").await;
    person(&server, "sue", "support").await;
    let ada = server.sign_in("ada@example.com", PASSWORD).await;
    ada.get("/api/v1/jobs").await.expect(200);
    let sue = server.sign_in("sue@example.com", PASSWORD).await;
    sue.get("/api/v1/jobs").await.expect_problem(403, "mfa_enrollment_required");
    let body = json!({"type": "none", "items": []});
    sue.post("/api/v1/jobs", body).await.expect_problem(403, "mfa_enrollment_required");
    let page = sue.get("/jobs").await;
    assert_eq!((page.status.as_u16(), page.headers["location"].to_str().ok()), (303, Some("/account#factors")));
    sue.get("/api/v1/me").await.expect(200);
    sue.get("/api/v1/me/sessions").await.expect(200);
    for other in ["notices", "notice-settings", "connections"] {
        sue.get(&format!("/api/v1/me/{other}")).await.expect_problem(403, "mfa_enrollment_required");
    }
    let notices = sue.form("/account/notices", &[]).await;
    assert_eq!(notices.headers["location"], "/account#factors", "{}", notices.text);
    let account = sue.get("/account").await;
    assert!(account.status == 200 && account.text.contains("Your role needs a second factor"), "{}", account.text);
    let (_, codes) = set_up(&sue).await;
    sue.get("/api/v1/jobs").await.expect(200);

    // Without it again, the door is closed again.
    sue.delete("/api/v1/me/totp").await.expect(204);
    sue.get("/api/v1/jobs").await.expect_problem(403, "mfa_enrollment_required");
    let signed_in = json!({"email": "sue@example.com", "password": PASSWORD, "recovery_code": codes[0]});
    server.stranger().post("/api/v1/session", signed_in).await.expect(204);
    server.stop().await;
}

#[tokio::test]
async fn admin_resets_second_factors_of_others_only() {
    let server = Server::start().await;
    let root = server.admin().await;
    let id = person(&server, "ada", "user").await;
    let ada = server.sign_in("ada@example.com", PASSWORD).await;
    set_up(&ada).await;
    let path = format!("/api/v1/users/{id}/factors");
    ada.delete(&path).await.expect_problem(403, "forbidden");
    root.delete(&path).await.expect(204);
    ada.get("/api/v1/me").await.expect_problem(401, "unauthenticated");
    server.sign_in("ada@example.com", PASSWORD).await;
    let entries = root.get("/api/v1/audit?action=user.factors_reset").await.expect(200);
    assert_eq!(entries["data"][0]["owner"]["name"], "ada");
    server.post("/api/v1/me/totp", json!({})).await.expect_problem(403, "forbidden");
    server.stop().await;
}

#[tokio::test]
async fn pending_totp_secret_requires_recent_sign_in() {
    let server = Server::start().await;
    person(&server, "ada", "user").await;
    let ada = server.sign_in("ada@example.com", PASSWORD).await;
    let app = App::of(&ada.post("/api/v1/me/totp", json!({})).await.expect(201));
    let page = ada.get("/account/totp").await;
    assert!(page.status == 200 && page.text.contains("<svg"), "{}", page.text);
    age_sessions(&server).await;
    let page = ada.get("/account/totp").await;
    assert_eq!(
        (page.status.as_u16(), page.headers["location"].to_str().ok()),
        (303, Some("/step-up?back=/account/totp"))
    );
    ada.post("/api/v1/me/step-up", json!({"password": PASSWORD})).await.expect(204);
    assert_eq!(ada.get("/account/totp").await.status, 200);

    // An hour later it is forgotten.
    let pool = &server.running.app.pool;
    sqlx::query("update totp set created_at = created_at - interval '61 minutes'").execute(pool).await.expect("older");
    assert_eq!(ada.get("/account/totp").await.status, 303);
    ada.post("/api/v1/me/totp/confirm", json!({"code": app.code(0)})).await.expect_problem(422, "invalid_body");
    server.stop().await;
}

#[tokio::test]
async fn refused_second_factor_is_in_the_audit_log() {
    let server = Server::start().await;
    let root = server.admin().await;
    let id = person(&server, "ada", "user").await;
    let (_, codes) = set_up(&server.sign_in("ada@example.com", PASSWORD).await).await;
    let link = root.post(&format!("/api/v1/users/{id}/sign-in-link"), json!({})).await.expect(201);
    let challenge = server.stranger().post("/api/v1/session", json!({"link": link["url"]})).await;
    let state = challenge.expect_problem(401, "mfa_required")["state"].clone();
    let wrong_code = json!({"state": state, "code": "000000"});
    server.stranger().post("/api/v1/session", wrong_code).await.expect_problem(401, "mfa_required");
    let refused = root.get("/api/v1/audit?action=session.refuse").await.expect(200);
    let detail = refused["data"][0]["detail"].as_str().unwrap_or_default().to_owned();
    assert!(detail.contains("link made by admin: the second factor does not fit"), "{refused}");

    let with = json!({"email": "ada@example.com", "password": PASSWORD, "recovery_code": codes[0]});
    server.stranger().post("/api/v1/session", with).await.expect(204);
    let begun = root.get("/api/v1/audit?action=session.begin&actor=ada").await.expect(200);
    assert_eq!(begun["data"][0]["detail"], "by password, with a recovery code");
    server.stop().await;
}

#[tokio::test]
async fn wrong_second_factor_does_not_prolong_the_state() {
    let server = Server::start().await;
    person(&server, "ada", "user").await;
    set_up(&server.sign_in("ada@example.com", PASSWORD).await).await;
    let challenge = async |body: Value| {
        let state = server.stranger().post("/api/v1/session", body).await.expect_problem(401, "mfa_required");
        state["state"].as_str().expect("a state").to_owned()
    };
    let first = challenge(json!({"email": "ada@example.com", "password": PASSWORD})).await;
    // The same five minutes later.
    let (sealer, context) = (&server.running.app.sealer, "browser state: second stage");
    let open = |state: &str| -> Value {
        serde_json::from_slice(&sealer.open(context, state).expect("a state")).expect("JSON")
    };
    let mut earlier = open(&first);
    let until = earlier["until"].as_i64().expect("a time") - 300;
    earlier["until"] = json!(until);
    let earlier = sealer.seal(context, earlier.to_string().as_bytes());
    let second = challenge(json!({"state": earlier, "code": "000000"})).await;
    assert_eq!(open(&second)["until"], until);
    server.stop().await;
}

#[tokio::test]
async fn second_factor_state_ends_with_password_change_or_account() {
    let server = Server::start().await;
    let id = person(&server, "ada", "user").await;
    let ada = server.sign_in("ada@example.com", PASSWORD).await;
    let (app, _) = set_up(&ada).await;
    let begin = async || {
        let first = json!({"email": "ada@example.com", "password": PASSWORD});
        server.stranger().post("/api/v1/session", first).await.expect_problem(401, "mfa_required")["state"].clone()
    };
    let (early, late) = (begin().await, begin().await);
    server.patch(&format!("/api/v1/users/{id}"), json!({"disabled": true})).await.expect(200);
    let with = json!({"state": early, "code": app.code(1)});
    server.stranger().post("/api/v1/session", with).await.expect_problem(401, "unauthenticated");
    server.patch(&format!("/api/v1/users/{id}"), json!({"disabled": false})).await.expect(200);
    sqlx::query("update owner set password_hash = password_hash || 'x' where name = 'ada'")
        .execute(&server.running.app.pool)
        .await
        .expect("another password");
    let with = json!({"state": late, "code": app.code(1)});
    server.stranger().post("/api/v1/session", with).await.expect_problem(401, "unauthenticated");
    server.stop().await;
}
