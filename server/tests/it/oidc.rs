//! Sign-in by OpenID Connect against a malicious provider: replayed, mixed-up or forged responses sign nobody in.
//!
//! Sign-in through a real provider's pages is tested in `end2end`. Here the browser is a pair of requests: the redirect
//! with its cookie, and the callback with that cookie and a query chosen by the test.

pub(crate) mod provider;

use provider::{Idp, Signature};
use reqwest::Method;
use serde_json::{Value, json};
use server::config::{Config, identity::Providers};

use crate::{
    factors::{PASSWORD, age_sessions, person, set_up},
    support::{Answer, Api, Server},
};

const CALLBACK: &str = "/sign-in/oidc/idp/callback";

/// Browser between redirect and callback.
struct Journey {
    to: String,
    cookie: String,
}

fn cookies(answer: &Answer) -> Vec<String> {
    let all = answer.headers.get_all("set-cookie").iter();
    all.map(|line| line.to_str().expect("text").split(';').next().expect("a pair").to_owned()).collect()
}

async fn leave(server: &Server, path: &str) -> Journey {
    let answer = server.stranger().get(path).await;
    assert_eq!(answer.status, 303, "{}", answer.text);
    let to = answer.headers["location"].to_str().expect("text").to_owned();
    Journey { to, cookie: cookies(&answer).remove(0) }
}

async fn arrive(server: &Server, path: &str, query: &str, cookie: &str) -> Answer {
    let request = server.stranger().request(Method::GET, &format!("{path}?{query}"));
    Answer::of(request.header("cookie", cookie).header("sec-fetch-site", "cross-site")).await
}

/// Completes a sign-in with these claims.
pub(crate) async fn sign_in(server: &Server, idp: &Idp, path: &str, claims: Value) -> Answer {
    let journey = leave(server, path).await;
    let query = idp.grant(&journey.to, &claims, Signature::Right);
    arrive(server, CALLBACK, &query, &journey.cookie).await
}

/// Caller with the session of a response.
pub(crate) fn signed_in(server: &Server, answer: &Answer) -> Api {
    assert_eq!(answer.status, 303, "{}", answer.text);
    let session = cookies(answer).into_iter().find(|cookie| cookie.starts_with("treeline_session="));
    server.with_cookie(&session.expect("a session"))
}

#[track_caller]
fn nobody(answer: &Answer) {
    assert_eq!(answer.status, 401, "{}", answer.text);
    assert!(answer.text.contains("You are not signed in"), "{}", answer.text);
    assert!(!cookies(answer).iter().any(|cookie| cookie.starts_with("treeline_session=")), "{:?}", answer.headers);
}

async fn sessions(server: &Server) -> i64 {
    sqlx::query_scalar("select count(*) from session").fetch_one(&server.running.app.pool).await.expect("a number")
}

async fn start(idp: &Idp, more: &'static [(&'static str, &'static str)]) -> Server {
    let (one, other) = (idp.settings("idp", more), idp.settings("other", more));
    Server::start_with(|config: &mut Config| config.identity.oidc_providers = Providers(vec![one, other])).await
}

#[tokio::test]
async fn oidc_response_signs_in_once_and_redirects_locally() {
    let idp = Idp::start().await;
    let server = start(&idp, &[("ROLE_MAP", "ops=admin,help=support")]).await;
    let claims = json!({"name": "Grace", "email": "grace@example.com", "email_verified": true, "groups": ["help"]});
    let journey = leave(&server, "/sign-in/oidc/idp?back=/imports").await;
    let query = idp.grant(&journey.to, &claims, Signature::Right);
    // Somebody has planted a session of their choice: the new one is another.
    let planted = format!("treeline_session=planted; {}", journey.cookie);
    let answer = arrive(&server, CALLBACK, &query, &planted).await;
    assert_eq!(answer.headers["location"], "/imports");
    let grace = signed_in(&server, &answer);
    assert_ne!(grace.cookie(), "treeline_session=planted");
    let me = grace.get("/api/v1/me").await.expect(200);
    assert_eq!((&me["name"], &me["role"]), (&json!("Grace"), &json!("support")));
    server.with_cookie("treeline_session=planted").get("/api/v1/me").await.expect_problem(401, "unauthenticated");
    // The same answer again.
    nobody(&arrive(&server, CALLBACK, &query, &journey.cookie).await);

    // Groups decide anew each time, and the way back never leads elsewhere.
    for back in ["//evil.example", "https://evil.example", "/%5Cevil.example", "/%09/evil.example"] {
        let path = format!("/sign-in/oidc/idp?back={back}");
        let again = sign_in(&server, &idp, &path, json!({"name": "Grace", "groups": ["ops"]})).await;
        assert_eq!(again.headers["location"], "/", "{back}");
        assert_eq!(signed_in(&server, &again).get("/api/v1/me").await.expect(200)["role"], "admin");
    }
    let people = "select count(*) from owner where kind = 'user'";
    let people: i64 = sqlx::query_scalar(people).fetch_one(&server.running.app.pool).await.expect("a number");
    assert_eq!(people, 1);
    server.stop().await;
}

#[tokio::test]
async fn concurrent_first_oidc_sign_ins_create_one_account() {
    let idp = Idp::start().await;
    let server = start(&idp, &[]).await;
    let sign_ins = (0..6).map(|_| sign_in(&server, &idp, "/sign-in/oidc/idp", json!({"name": "Grace"})));
    for answer in futures::future::join_all(sign_ins).await {
        assert_eq!(signed_in(&server, &answer).get("/api/v1/me").await.expect(200)["name"], "Grace");
    }
    let people = "select count(*) from owner where kind = 'user'";
    let people: i64 = sqlx::query_scalar(people).fetch_one(&server.running.app.pool).await.expect("a number");
    assert_eq!(people, 1);
    server.stop().await;
}

#[tokio::test]
async fn oidc_response_is_single_use() {
    let idp = Idp::start().await;
    idp.take_codes_again();
    let server = start(&idp, &[]).await;
    let journey = leave(&server, "/sign-in/oidc/idp").await;
    let query = idp.grant(&journey.to, &json!({"name": "Grace"}), Signature::Right);
    signed_in(&server, &arrive(&server, CALLBACK, &query, &journey.cookie).await);
    let again = arrive(&server, CALLBACK, &query, &journey.cookie).await;
    nobody(&again);
    assert!(again.text.contains("Begin again"), "{}", again.text);
    // Nor with another code, or at another server.
    let query = idp.grant(&journey.to, &json!({"name": "Grace"}), Signature::Right);
    let provider = idp.settings("idp", &[]);
    let other =
        server.another_with(|config: &mut Config| config.identity.oidc_providers = Providers(vec![provider])).await;
    nobody(&arrive(&other, CALLBACK, &query, &journey.cookie).await);
    assert_eq!(sessions(&server).await, 1);
    other.stop().await;
    server.stop().await;
}

#[tokio::test]
async fn oidc_response_of_other_browser_or_provider_is_refused() {
    let idp = Idp::start().await;
    let server = start(&idp, &[]).await;
    let journey = leave(&server, "/sign-in/oidc/idp").await;
    let other = leave(&server, "/sign-in/oidc/idp").await;
    let query = || idp.grant(&journey.to, &json!({}), Signature::Right);
    // Without the cookie, with another browser's, with a made-up one.
    nobody(&arrive(&server, CALLBACK, &query(), "a=b").await);
    nobody(&arrive(&server, CALLBACK, &query(), &other.cookie).await);
    nobody(&arrive(&server, CALLBACK, &query(), &format!("{}A", journey.cookie)).await);
    // At the other provider's address, from another issuer, with two states, without a state, with an error.
    nobody(&arrive(&server, "/sign-in/oidc/other/callback", &query(), &journey.cookie).await);
    let foreign = format!("{}&iss=https%3A%2F%2Fevil.example", query());
    nobody(&arrive(&server, CALLBACK, &foreign, &journey.cookie).await);
    nobody(&arrive(&server, CALLBACK, &format!("{}&state=x", query()), &journey.cookie).await);
    let stateless = query().split('&').next().expect("a code").to_owned();
    nobody(&arrive(&server, CALLBACK, &stateless, &journey.cookie).await);
    nobody(&arrive(&server, CALLBACK, &format!("{}&error=access_denied", query()), &journey.cookie).await);
    // The state is right, and the code belongs to another verifier.
    let mixed = idp.grant(&other.to, &json!({}), Signature::Right);
    let state = query().split("&state=").nth(1).expect("a state").to_owned();
    let mixed = format!("{}&state={state}", mixed.split('&').next().expect("a code"));
    nobody(&arrive(&server, CALLBACK, &mixed, &journey.cookie).await);
    assert_eq!(sessions(&server).await, 0);
    assert_eq!(server.stranger().get("/sign-in/oidc/unknown").await.status, 404);
    server.stop().await;
}

#[tokio::test]
async fn invalid_id_token_is_refused() {
    let idp = Idp::start().await;
    let server = start(&idp, &[]).await;
    let faults = [
        (json!({"nonce": "another"}), Signature::Right),
        (json!({"nonce": null}), Signature::Right),
        (json!({"aud": "another"}), Signature::Right),
        (json!({"aud": ["treeline", "another"]}), Signature::Right),
        (json!({"iss": "https://evil.example"}), Signature::Right),
        (json!({"exp": 1_700_000_000}), Signature::Right),
        (json!({}), Signature::Foreign),
        (json!({}), Signature::Secret),
        (json!({}), Signature::None),
    ];
    for (claims, signature) in faults {
        let journey = leave(&server, "/sign-in/oidc/idp").await;
        let query = idp.grant(&journey.to, &claims, signature);
        let answer = arrive(&server, CALLBACK, &query, &journey.cookie).await;
        assert_eq!(answer.status, 401, "{claims} {signature:?}: {}", answer.text);
    }
    assert_eq!(sessions(&server).await, 0);
    let refused = server.get("/api/v1/audit?action=session.refuse").await.expect(200);
    assert_eq!(refused["data"][0]["detail"], "by the provider idp: its answer does not fit", "{refused}");
    // The same provider, honest.
    signed_in(&server, &sign_in(&server, &idp, "/sign-in/oidc/idp", json!({})).await);
    server.stop().await;
}

#[tokio::test]
async fn oidc_email_does_not_take_over_an_account() {
    let idp = Idp::start().await;
    let server = start(&idp, &[]).await;
    person(&server, "ada", "admin").await;
    for verified in [true, false] {
        let claims = json!({"email": "ADA@example.com", "email_verified": verified});
        nobody(&sign_in(&server, &idp, "/sign-in/oidc/idp", claims).await);
    }
    // A chosen name that looks like somebody's address is not taken.
    let eve = json!({"sub": "eve", "name": "boss@example.com", "email": "boss@example.com", "email_verified": false});
    let eve = signed_in(&server, &sign_in(&server, &idp, "/sign-in/oidc/idp", eve).await);
    assert_eq!(eve.get("/api/v1/me").await.expect(200)["name"], "eve");

    let linking = idp.settings("idp", &[("LINK_BY_EMAIL", "verified")]);
    let linking =
        server.another_with(|config: &mut Config| config.identity.oidc_providers = Providers(vec![linking])).await;
    let claims = json!({"email": "ada@example.com", "email_verified": false});
    nobody(&sign_in(&linking, &idp, "/sign-in/oidc/idp", claims).await);
    let claims = json!({"email": "ada@example.com", "email_verified": true});
    let ada = signed_in(&linking, &sign_in(&linking, &idp, "/sign-in/oidc/idp", claims).await);
    assert_eq!(ada.get("/api/v1/me").await.expect(200)["name"], "ada");
    linking.stop().await;
    server.stop().await;
}

#[tokio::test]
async fn oidc_amr_replaces_the_second_factor() {
    let idp = Idp::start().await;
    let server = start(&idp, &[("LINK_BY_EMAIL", "verified"), ("MFA_AMR", "otp")]).await;
    person(&server, "ada", "admin").await;
    let (app, _) = set_up(&server.sign_in("ada@example.com", PASSWORD).await).await;
    let ada = || json!({"email": "ada@example.com", "email_verified": true});
    let before = sessions(&server).await;
    let page = sign_in(&server, &idp, "/sign-in/oidc/idp?back=/imports", ada()).await;
    assert!(page.status == 200 && page.text.contains("Second factor"), "{}", page.text);
    assert_eq!(sessions(&server).await, before, "no session before the second stage");
    let state = page.text.split("name=\"state\" value=\"").nth(1).and_then(|rest| rest.split('"').next());
    let code = app.code(1);
    let fields = [("state", state.expect("a state")), ("code", code.as_str()), ("back", "/imports")];
    let done = server.stranger().form("/sign-in/second-step", &fields).await;
    assert_eq!(done.headers["location"], "/imports");

    let mut vouched = ada();
    vouched["amr"] = json!(["pwd", "otp"]);
    signed_in(&server, &sign_in(&server, &idp, "/sign-in/oidc/idp", vouched).await);
    server.stop().await;
}

#[tokio::test]
async fn oidc_auth_time_decides_recent_sign_in() {
    let idp = Idp::start().await;
    let server = start(&idp, &[("DEFAULT_ROLE", "admin")]).await;
    let an_hour_ago = time::OffsetDateTime::now_utc().unix_timestamp() - 3_600;
    for auth_time in [json!(an_hour_ago), Value::Null] {
        let claims = json!({"auth_time": auth_time});
        let grace = signed_in(&server, &sign_in(&server, &idp, "/sign-in/oidc/idp", claims.clone()).await);
        grace.post("/api/v1/services", json!({"name": "ci"})).await.expect_problem(403, "step_up_required");
        // The wish for a fresh proof was taken out of the address on the way.
        let journey = leave(&server, "/sign-in/oidc/idp?fresh=1").await;
        assert!(journey.to.contains("prompt=login") && journey.to.contains("max_age=0"), "{}", journey.to);
        let query = idp.grant(&journey.to, &claims, Signature::Right);
        nobody(&arrive(&server, CALLBACK, &query, &journey.cookie).await);
    }
    let grace = signed_in(&server, &sign_in(&server, &idp, "/sign-in/oidc/idp?fresh=1", json!({})).await);
    grace.post("/api/v1/services", json!({"name": "ci"})).await.expect(201);
    server.stop().await;
}

#[tokio::test]
async fn oidc_account_is_connected_by_its_own_session() {
    let idp = Idp::start().await;
    let server = start(&idp, &[]).await;
    person(&server, "ada", "user").await;
    person(&server, "eve", "user").await;
    let ada = server.sign_in("ada@example.com", PASSWORD).await;
    let eve = server.sign_in("eve@example.com", PASSWORD).await;
    let connect = async |who: &Api| {
        let page = who.form("/account/providers/idp", &[]).await;
        assert_eq!(page.status, 200, "{}", page.text);
        let to = page.text.split("href=\"").find(|rest| rest.contains("code_challenge")).expect("an address");
        let to = to.split('"').next().expect("an address").replace("&amp;", "&");
        Journey { to, cookie: cookies(&page).remove(0) }
    };
    // The way of the one ends with the session of the other: nothing is connected.
    let journey = connect(&ada).await;
    let query = idp.grant(&journey.to, &json!({}), Signature::Right);
    nobody(&arrive(&server, CALLBACK, &query, &format!("{}; {}", eve.cookie(), journey.cookie)).await);
    nobody(&arrive(&server, CALLBACK, &query, &journey.cookie).await);
    let journey = connect(&ada).await;
    let query = idp.grant(&journey.to, &json!({}), Signature::Right);
    let linked = arrive(&server, CALLBACK, &query, &format!("{}; {}", ada.cookie(), journey.cookie)).await;
    assert_eq!(linked.headers["location"], "/account?done=provider");
    let again = signed_in(&server, &sign_in(&server, &idp, "/sign-in/oidc/idp", json!({})).await);
    assert_eq!(again.get("/api/v1/me").await.expect(200)["name"], "ada");
    // A subject is one person's.
    let journey = connect(&eve).await;
    let query = idp.grant(&journey.to, &json!({}), Signature::Right);
    let taken = arrive(&server, CALLBACK, &query, &format!("{}; {}", eve.cookie(), journey.cookie)).await;
    assert_eq!(taken.status, 409, "{}", taken.text);
    server.stop().await;
}

#[tokio::test]
async fn oidc_provider_is_disconnected_unless_it_is_the_last_sign_in_method() {
    let idp = Idp::start().await;
    let server = start(&idp, &[]).await;
    let grace = signed_in(&server, &sign_in(&server, &idp, "/sign-in/oidc/idp", json!({"name": "Grace"})).await);
    person(&server, "eve", "user").await;
    let eve = server.sign_in("eve@example.com", PASSWORD).await;
    let connected = grace.get("/api/v1/me/connections").await.expect(200);
    let (connection, subject) = (&connected["data"][0], &connected["data"][0]["subject"]);
    assert_eq!((connection["provider"].as_str(), subject.as_str()), (Some("idp"), Some("grace")), "{connected}");
    let path = format!("/api/v1/me/connections/{}", connection["id"].as_str().expect("an id"));

    // Nothing else signs her in; what belongs to her is nobody else's to remove.
    grace.delete(&path).await.expect_problem(409, "last_sign_in_method");
    eve.delete(&path).await.expect(204);
    assert_eq!(grace.get("/api/v1/me/connections").await.expect(200)["data"].as_array().map(Vec::len), Some(1));
    sqlx::query("update owner set email = 'grace@example.com' where name = 'Grace'")
        .execute(&server.running.app.pool)
        .await
        .expect("an address");
    grace.post("/api/v1/me/password", json!({"new_password": PASSWORD})).await.expect(204);
    let grace = server.sign_in("grace@example.com", PASSWORD).await;
    age_sessions(&server).await;
    grace.delete(&path).await.expect_problem(403, "step_up_required");
    grace.post("/api/v1/me/step-up", json!({"password": PASSWORD})).await.expect(204);
    let page = grace.get("/account").await;
    assert!(page.text.contains("Disconnect idp") && page.text.contains("Connect other"), "{}", page.text);
    grace.delete(&path).await.expect(204);
    grace.delete(&path).await.expect(204);
    let entries = server.get("/api/v1/audit?action=user.unlink_provider").await.expect(200);
    assert_eq!(entries["data"].as_array().map(Vec::len), Some(1), "{entries}");
    server.stop().await;
}
