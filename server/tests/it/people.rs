//! People: creation by admins, sign-in by password, several sessions, disabling; and share links for strangers.

use std::time::{Duration, Instant};

use reqwest::Method;
use serde_json::{Value, json};

use crate::support::{Answer, Api, SECOND, Server};

const PASSWORD: &str = "correct horse battery";

/// Creates a person with a password. Returns the id.
async fn person(admin: &Api, name: &str, role: &str) -> String {
    let email = format!("{name}@example.com");
    let new = json!({"name": name, "email": email, "role": role, "password": PASSWORD});
    let created = admin.post("/api/v1/users", new).await.expect(201);
    assert_eq!(created["sign_in_link"], Value::Null);
    created["id"].as_str().expect("an id").to_owned()
}

fn credentials(email: &str, password: &str) -> Value {
    json!({"email": email, "password": password})
}

/// Waits until this credential is refused; fails if that takes longer than a second.
async fn ends_within_a_second(api: &Api) {
    let began = Instant::now();
    while api.get("/api/v1/me").await.status != 401 {
        assert!(began.elapsed() < SECOND, "still signed in");
        crate::support::moment().await;
    }
}

#[tokio::test]
async fn admin_creates_users_who_sign_in_with_password() {
    let server = Server::start().await;
    let admin = server.admin().await;
    let id = person(&admin, "ada", "user").await;
    let ada = server.sign_in("ADA@example.com", PASSWORD).await;
    assert_eq!(
        ada.get("/api/v1/me").await.expect(200),
        json!({"kind": "user", "name": "ada", "role": "user", "scopes": [], "must_change_password": true})
    );
    ada.get("/api/v1/users").await.expect_problem(403, "password_change_required");
    let zoe = server.person("zoe", "user").await;
    zoe.get("/api/v1/users").await.expect_problem(403, "forbidden");
    zoe.patch(&format!("/api/v1/users/{id}"), json!({"role": "admin"})).await.expect_problem(403, "forbidden");
    zoe.post("/api/v1/users", json!({"name": "b", "email": "b@c.d"})).await.expect_problem(403, "forbidden");

    let listed = admin.get("/api/v1/users").await;
    assert!(!listed.text.contains("argon2") && !listed.text.contains(PASSWORD), "{}", listed.text);
    let listed = listed.expect(200)["data"].clone();
    let listed: Vec<_> = listed.as_array().expect("rows").iter().filter(|person| person["name"] == "ada").collect();
    assert_eq!((&listed[0]["email"], &listed[0]["has_password"]), (&json!("ada@example.com"), &json!(true)));
    assert!(listed[0]["last_seen_at"].is_string());

    let twice = json!({"name": "Ada", "email": "Ada@Example.com"});
    assert_eq!(admin.post("/api/v1/users", twice).await.expect_problem(409, "duplicate")["id"], id);
    let twice = json!({"name": "ada", "email": "other@example.com"});
    admin.post("/api/v1/users", twice).await.expect_problem(409, "duplicate");
    let invalid = json!({"name": " ", "email": "ada", "role": "root", "password": "short"});
    let problem = admin.post("/api/v1/users", invalid).await.expect_problem(422, "invalid_body");
    let places: Vec<&str> =
        problem["errors"].as_array().expect("faults").iter().filter_map(|it| it["pointer"].as_str()).collect();
    assert_eq!(places, ["/name", "/email", "/role", "/password"]);

    // Without a password there is a link, which works once, and lets its holder choose one.
    // Other letters than ASCII: browsers cannot send such an address as it is, so its owner could not sign in there.
    for address in ["ünal@example.com", "ada@exämple.com"] {
        let invalid = json!({"name": "ünal", "email": address});
        let refused = admin.post("/api/v1/users", invalid).await.expect_problem(422, "invalid_body");
        assert_eq!(refused["errors"][0]["pointer"], "/email", "{refused}");
        let patch = admin.patch(&format!("/api/v1/users/{id}"), json!({"email": address})).await;
        patch.expect_problem(422, "invalid_body");
    }
    let ben = admin.post("/api/v1/users", json!({"name": "ben", "email": "ben@example.com"})).await.expect(201);
    let ben = server.signed_in(ben["sign_in_link"].as_str().expect("a link")).await;
    ben.post("/api/v1/me/password", json!({"new_password": "short"})).await.expect_problem(422, "invalid_body");
    ben.post("/api/v1/me/password", json!({"new_password": "another horse"})).await.expect(204);
    let elsewhere = server.sign_in("ben@example.com", "another horse").await;
    let changes = |current: Option<&str>| {
        elsewhere.post("/api/v1/me/password", json!({"current_password": current, "new_password": PASSWORD}))
    };
    changes(None).await.expect_problem(422, "invalid_body");
    changes(Some("wrong")).await.expect_problem(422, "invalid_body");
    let changed = changes(Some("another horse")).await;
    changed.expect(204);
    // The other sessions end, and this one goes on under a new secret.
    ben.get("/api/v1/me").await.expect_problem(401, "unauthenticated");
    elsewhere.get("/api/v1/me").await.expect_problem(401, "unauthenticated");
    let renewed = changed.headers["set-cookie"].to_str().expect("text").split(';').next().expect("a cookie");
    server.with_cookie(renewed).get("/api/v1/me").await.expect(200);
    server.sign_in("ben@example.com", PASSWORD).await;
    server.stop().await;
}

#[tokio::test]
async fn first_admin_link_works_beside_a_person_of_that_name() {
    let server = Server::start().await;
    server.person("admin", "user").await;
    let admin = server.admin().await;
    let me = admin.get("/api/v1/me").await.expect(200);
    assert_eq!((&me["name"], &me["role"]), (&json!("admin (2)"), &json!("admin")));
    server.stop().await;
}

#[tokio::test]
async fn refused_sign_in_reveals_nothing() {
    let server = Server::start().await;
    let admin = server.admin().await;
    person(&admin, "ada", "user").await;
    let gone = person(&admin, "gone", "user").await;
    admin.patch(&format!("/api/v1/users/{gone}"), json!({"disabled": true})).await.expect(200);
    admin.post("/api/v1/users", json!({"name": "new", "email": "new@example.com"})).await.expect(201);

    let mut times = Vec::new();
    let mut audit_entries = Vec::new();
    for (email, password) in [
        ("ada@example.com", "wrong horse"),
        ("nobody@example.com", PASSWORD),
        ("new@example.com", ""),
        ("gone@example.com", PASSWORD),
    ] {
        let mut quickest = Duration::MAX;
        for _ in 0..4 {
            let began = Instant::now();
            let refused = server.stranger().post("/api/v1/session", credentials(email, password)).await;
            quickest = quickest.min(began.elapsed());
            assert!(!refused.headers.contains_key("set-cookie"));
            audit_entries.push(refused.expect_problem(401, "unauthenticated")["detail"].clone());
        }
        times.push(quickest);
    }
    audit_entries.dedup();
    assert_eq!(audit_entries.len(), 1, "{audit_entries:?}");
    // An account that is not there is not answered faster: the same costly look is taken.
    let (least, most) = (times.iter().min().expect("times"), times.iter().max().expect("times"));
    assert!(*least > Duration::from_millis(5) && *most < *least * 5, "{times:?}");

    for half in [json!({}), json!({"email": "ada@example.com"}), json!({"link": "x", "email": "a@b", "password": "c"})]
    {
        server.stranger().post("/api/v1/session", half).await.expect_problem(422, "invalid_body");
    }
    server.stop().await;
}

#[tokio::test]
async fn concurrent_password_guesses_are_limited() {
    let server = Server::start().await;
    let admin = server.admin().await;
    person(&admin, "ada", "user").await;
    let tries = (0..40).map(|n| {
        let stranger = server.stranger();
        async move {
            let guess = credentials("ada@example.com", &format!("guess {n}"));
            stranger.post("/api/v1/session", guess).await.status.as_u16()
        }
    });
    let began = Instant::now();
    let statuses = futures::future::join_all(tries).await;
    let checked = statuses.iter().filter(|status| **status == 401).count();
    // Ten are free, and after that they wait, longer each time.
    assert!((1..=10 + began.elapsed().as_secs() as usize / 5).contains(&checked), "{statuses:?}");
    assert!(statuses.iter().all(|status| [401, 429].contains(status)), "{statuses:?}");
    let right = loop {
        let refused = server.stranger().post("/api/v1/session", credentials("ada@example.com", "one more")).await;
        if refused.status == 429
            && refused.headers["retry-after"].to_str().expect("text").parse::<u32>().expect("seconds") > 2
        {
            break server.stranger().post("/api/v1/session", credentials("ada@example.com", PASSWORD)).await;
        }
    };
    right.expect_problem(429, "too_many_requests");
    assert!(right.headers.contains_key("retry-after"));
    server.stop().await;
}

#[tokio::test]
async fn disabling_or_demoting_a_user_takes_effect_on_all_servers() {
    let server = Server::start().await;
    let other = server.another().await;
    let admin = server.admin().await;
    let id = person(&admin, "ada", "support").await;
    let path = format!("/api/v1/users/{id}");
    let ada = server.sign_in("ada@example.com", PASSWORD).await;
    let there = other.with_cookie(ada.cookie());
    assert_eq!(there.get("/api/v1/me").await.expect(200)["role"], "support");

    admin.patch(&path, json!({"role": "user", "reason": "moved on"})).await.expect(200);
    assert_eq!(ada.get("/api/v1/me").await.expect(200)["role"], "user", "here at once");
    let began = Instant::now();
    while there.get("/api/v1/me").await.expect(200)["role"] != "user" {
        assert!(began.elapsed() < SECOND, "still support elsewhere");
        crate::support::moment().await;
    }

    let link = admin.post(&format!("{path}/sign-in-link"), json!({})).await.expect(201)["url"].clone();
    let disabled = admin.patch(&path, json!({"disabled": true})).await.expect(200);
    assert_eq!(disabled["disabled"], true);
    ada.get("/api/v1/me").await.expect_problem(401, "unauthenticated");
    ends_within_a_second(&there).await;
    server.stranger().post("/api/v1/session", json!({"link": link})).await.expect_problem(410, "link_used");
    let refused = server.stranger().post("/api/v1/session", credentials("ada@example.com", PASSWORD)).await;
    refused.expect_problem(401, "unauthenticated");
    admin.post(&format!("{path}/sign-in-link"), json!({})).await.expect_problem(409, "user_disabled");

    // Enabled again, the old sessions stay ended.
    admin.patch(&path, json!({"disabled": false})).await.expect(200);
    ada.get("/api/v1/me").await.expect_problem(401, "unauthenticated");
    server.sign_in("ada@example.com", PASSWORD).await;

    let log = admin.get("/api/v1/audit?actor=admin").await.expect(200);
    let audit_entries = |action: &str| {
        let rows = log["data"].as_array().expect("rows");
        rows.iter().find(|row| row["action"] == action).unwrap_or_else(|| panic!("{action} is not in {log}")).clone()
    };
    assert_eq!(
        (&audit_entries("user.role")["reason"], &audit_entries("user.role")["detail"]),
        (&json!("moved on"), &json!("support → user"))
    );
    assert_eq!(audit_entries("user.disable")["owner"]["name"], "ada");
    for action in ["user.create", "user.sign_in_link", "user.enable"] {
        audit_entries(action);
    }
    other.stop().await;
    server.stop().await;
}

#[tokio::test]
async fn last_admin_cannot_be_removed() {
    let server = Server::start().await;
    let admin = server.admin().await;
    let first = admin.get("/api/v1/users").await.expect(200)["data"][0]["id"].clone();
    let first = format!("/api/v1/users/{}", first.as_str().expect("an id"));
    for change in [json!({"role": "user"}), json!({"disabled": true}), json!({"role": "support", "disabled": true})] {
        admin.patch(&first, change).await.expect_problem(409, "last_admin");
    }
    admin.patch(&first, json!({"role": "admin", "email": "root@example.com"})).await.expect(200);
    let second = person(&server, "ada", "admin").await;
    let second_path = format!("/api/v1/users/{second}");
    let ada = server.sign_in("ada@example.com", PASSWORD).await;
    admin.patch(&second_path, json!({"email": "ROOT@example.com"})).await.expect_problem(409, "duplicate");

    // Each takes the other away at the same moment, again and again: one stays each time.
    for _ in 0..10 {
        let demote = json!({"role": "user"});
        let (one, two) = tokio::join!(server.patch(&first, demote.clone()), server.patch(&second_path, demote));
        let mut statuses = [one.status.as_u16(), two.status.as_u16()];
        statuses.sort_unstable();
        assert_eq!(statuses, [200, 409], "{} {}", one.text, two.text);
        for path in [&first, &second_path] {
            server.patch(path, json!({"role": "admin"})).await.expect(200);
        }
    }
    ada.patch(&first, json!({"disabled": true})).await.expect(200);
    admin.get("/api/v1/me").await.expect_problem(401, "unauthenticated");
    server.stop().await;
}

#[tokio::test]
async fn user_lists_and_ends_own_sessions() {
    let server = Server::start().await;
    let admin = server.admin().await;
    let id = person(&server, "ada", "user").await;
    person(&server, "eve", "user").await;
    let eve = server.sign_in("eve@example.com", PASSWORD).await;
    let agent = "Mozilla/5.0 (X11; Linux x86_64; rv:130.0) Gecko/20100101 Firefox/130.0";
    let attempt = server.stranger().request(Method::POST, "/api/v1/session").header("user-agent", agent);
    let answer = Answer::of(attempt.json(&credentials("ada@example.com", PASSWORD))).await;
    answer.expect(204);
    let laptop =
        server.with_cookie(answer.headers["set-cookie"].to_str().expect("text").split(';').next().expect("one"));
    let phone = server.sign_in("ada@example.com", PASSWORD).await;
    let third = server.sign_in("ada@example.com", PASSWORD).await;

    let sessions = phone.get("/api/v1/me/sessions").await.expect(200)["data"].clone();
    let sessions = sessions.as_array().expect("a list");
    let current: Vec<bool> = sessions.iter().map(|it| it["current"] == true).collect();
    assert_eq!(current, [false, true, false]);
    assert_eq!(sessions[2]["device"], "Firefox on Linux");
    let path = format!("/api/v1/me/sessions/{}", sessions[2]["id"].as_str().expect("an id"));
    eve.delete(&path).await.expect_problem(404, "not_found");
    laptop.get("/api/v1/me").await.expect(200);
    phone.delete(&path).await.expect(204);
    phone.delete(&path).await.expect(204);
    laptop.get("/api/v1/me").await.expect_problem(401, "unauthenticated");
    assert_eq!(phone.delete("/api/v1/me/sessions").await.expect(200), json!({"ended": 1}));
    third.get("/api/v1/me").await.expect_problem(401, "unauthenticated");
    phone.get("/api/v1/me").await.expect(200);

    // An admin sees and ends anybody's; nobody else does, and a token has none.
    let theirs = format!("/api/v1/users/{id}/sessions");
    eve.get(&theirs).await.expect_problem(403, "forbidden");
    eve.delete(&theirs).await.expect_problem(403, "forbidden");
    server.get("/api/v1/me/sessions").await.expect_problem(403, "forbidden");
    let one = admin.get(&theirs).await.expect(200)["data"][0]["id"].clone();
    admin.delete(&format!("{theirs}/{}", one.as_str().expect("an id"))).await.expect(204);
    phone.get("/api/v1/me").await.expect_problem(401, "unauthenticated");
    let again = server.sign_in("ada@example.com", PASSWORD).await;
    assert_eq!(admin.delete(&theirs).await.expect(200), json!({"ended": 1}));
    again.get("/api/v1/me").await.expect_problem(401, "unauthenticated");
    let nobody = "/api/v1/users/0190a5e0-0000-7000-8000-000000000000/sessions";
    admin.get(nobody).await.expect_problem(404, "not_found");
    server.stop().await;
}

#[tokio::test]
async fn sign_in_link_creation_is_idempotent() {
    let server = Server::start().await;
    let admin = server.admin().await;
    let post = || {
        let new = json!({"name": "ada", "email": "ada@example.com"});
        Answer::of(admin.request(Method::POST, "/api/v1/users").header("idempotency-key", "k1").json(&new))
    };
    let (first, second) = (post().await.expect(201), post().await.expect(201));
    assert_eq!(first, second);
    let stored: Vec<String> = sqlx::query_scalar("select coalesce(answer, '') from idempotency")
        .fetch_all(&server.running.app.pool)
        .await
        .expect("rows");
    assert!(stored.iter().all(|answer| !answer.contains("sign-in")), "{stored:?}");
    server.stop().await;
}
