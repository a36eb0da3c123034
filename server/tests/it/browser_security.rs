//! Browser security: nothing remains cached after signing out, downloads are not executed, and a host name of another
//! site that resolves to this server is refused.

use argon2::{Algorithm, Argon2, Params, Version, password_hash::PasswordHasher as _};
use reqwest::Method;
use serde_json::json;

use crate::support::{Answer, Api, Server};

const PASSWORD: &str = "correct horse battery";

/// Sends a request with this host, made by a page of `origin`.
async fn request_with_host(api: &Api, method: Method, path: &str, host: &str, origin: Option<&str>) -> Answer {
    let mut request = api.request(method, path).header("host", host);
    if let Some(origin) = origin {
        request = request.header("origin", origin);
    }
    Answer::of(request.json(&json!({"link": "x"}))).await
}

#[tokio::test]
async fn pages_and_api_responses_are_not_cached() {
    let server = Server::start().await;
    let admin = server.admin().await;
    let job_type = json!({"name": "a"});
    admin.post("/api/v1/job-types", job_type).await.expect(201);
    let job = admin.post("/api/v1/jobs", json!({"type": "a", "items": [{"payload": 1}]})).await.expect(201);
    let job = format!("/api/v1/jobs/{}", job["id"].as_str().expect("an id"));
    for path in ["/", "/imports", "/services", "/people", "/api/v1/jobs", "/api/v1/me", "/sign-in", job.as_str()] {
        let answer = admin.get(path).await;
        assert_eq!(answer.status, 200, "{path}");
        assert_eq!(answer.headers["cache-control"], "no-store", "{path}");
    }
    // A program that asks whether anything is new is still told so in brief.
    let tag = admin.get(&job).await.headers["etag"].clone();
    let same = Answer::of(admin.request(Method::GET, &job).header("if-none-match", tag)).await;
    assert_eq!((same.status.as_u16(), same.text.as_str()), (304, ""));

    let token = json!({"service": "ci", "name": "t", "scopes": ["jobs:read"]});
    admin.post("/api/v1/services", json!({"name": "ci"})).await.expect(201);
    let created = admin.post("/api/v1/tokens", token).await;
    created.expect(201);
    assert_eq!(created.headers["cache-control"], "no-store");

    let out = admin.form("/sign-out", &[]).await;
    assert_eq!(out.status, 303);
    assert_eq!(out.headers["clear-site-data"], "\"cache\", \"storage\"");
    let again = server.person("eve", "user").await.delete("/api/v1/session").await;
    again.expect(204);
    assert_eq!(again.headers["clear-site-data"], "\"cache\", \"storage\"");
    server.stop().await;
}

#[tokio::test]
async fn end_of_the_current_session_clears_the_browser() {
    let server = Server::start().await;
    let admin = server.admin().await;
    let ada = server.person("ada", "user").await;
    let eve = server.person("eve", "user").await;
    let bob = server.person("bob", "user").await;
    let current = async |who: &Api| {
        let sessions = who.get("/api/v1/me/sessions").await.expect(200);
        let session = sessions["data"].as_array().expect("a list").iter().find(|one| one["current"] == true);
        session.expect("one")["id"].as_str().expect("an id").to_owned()
    };
    let users = admin.get("/api/v1/users").await.expect(200);
    let sessions_of = |name: &str| {
        let user = users["data"].as_array().expect("people").iter().find(|user| user["name"] == name);
        format!("/api/v1/users/{}/sessions", user.expect("a person")["id"].as_str().expect("an id"))
    };
    let clears = |answer: &Answer| {
        let cookie = answer.headers.get("set-cookie").map(|cookie| cookie.to_str().expect("text"));
        let clears_cookie = cookie.is_some_and(|cookie| cookie.contains("treeline_session=;"));
        let data = answer.headers.get("clear-site-data");
        assert_eq!(clears_cookie, data.is_some_and(|value| value == "\"cache\", \"storage\""), "{answer:?}");
        clears_cookie
    };

    // The end of somebody else's session clears nothing.
    let session = current(&bob).await;
    let ended = admin.delete(&format!("{}/{session}", sessions_of("bob"))).await;
    ended.expect(204);
    assert!(!clears(&ended), "{ended:?}");

    let session = current(&ada).await;
    let ended = ada.delete(&format!("/api/v1/me/sessions/{session}")).await;
    ended.expect(204);
    assert!(clears(&ended), "{ended:?}");
    ada.get("/api/v1/me").await.expect_problem(401, "unauthenticated");

    let session = current(&eve).await;
    let ended = eve.form(&format!("/account/sessions/{session}/end"), &[]).await;
    assert_eq!(ended.status, 303, "{ended:?}");
    assert_eq!(ended.headers["location"], "/sign-in?ended=1");
    assert!(clears(&ended), "{ended:?}");

    let session = current(&admin).await;
    let ended = admin.delete(&format!("{}/{session}", sessions_of("admin"))).await;
    ended.expect(204);
    assert!(clears(&ended), "{ended:?}");
    server.stop().await;
}

#[tokio::test]
async fn restored_page_reloads_and_sign_out_clears_file_names() {
    let server = Server::start().await;
    let admin = server.admin().await;
    let page = admin.get("/imports").await.text;
    let address = page.split('"').find(|part| part.ends_with("/page.js")).expect("the page's script");
    let script = admin.get(address).await.text;
    assert!(script.contains(".persisted?location.reload()"));
    assert!(script.contains("getElementById(\"sign-out\")") && script.contains("treeline-upload "));
    server.stop().await;
}

#[tokio::test]
async fn downloads_are_sandboxed_attachments() {
    let server = Server::start().await;
    let html = "<script>alert(1)</script>";
    let stored = server.post_text("/api/v1/uploads?filename=a.html", "text/html", html).await.expect(201);
    let path = format!("/api/v1/uploads/{}/content", stored["id"].as_str().expect("an id"));
    let content = server.get(&path).await;
    assert_eq!(content.headers["content-security-policy"], "default-src 'none'; sandbox");
    assert_eq!(content.headers["x-content-type-options"], "nosniff");
    assert!(content.headers["content-disposition"].to_str().expect("text").starts_with("attachment"));
    assert_eq!(content.headers["cache-control"], "no-store");
    server.stop().await;
}

#[tokio::test]
async fn unknown_host_header_is_misdirected() {
    let server =
        Server::start_with(|config| config.public_url = Some("http://treeline.example".parse().expect("a URL"))).await;
    let admin = server.admin().await;
    for path in ["/", "/sign-in", "/api/v1/me", "/metrics", "/pkg/x/y.js", "/nothing"] {
        let refused = request_with_host(&admin, Method::GET, path, "evil.example", None).await;
        refused.expect_problem(421, "misdirected");
    }
    let origin = Some("http://evil.example:3000");
    let refused =
        request_with_host(&server.stranger(), Method::POST, "/api/v1/session", "evil.example:3000", origin).await;
    refused.expect_problem(421, "misdirected");
    request_with_host(&server.stranger(), Method::GET, "/healthz", "evil.example", None).await.expect(200);
    // A page cannot send a token, and workers know the server by names of their own.
    request_with_host(&server, Method::GET, "/api/v1/me", "treeline.internal", None).await.expect(200);
    for own in ["treeline.example", "127.0.0.1:9", "[::1]:3000", "localhost:3000"] {
        request_with_host(&admin, Method::GET, "/api/v1/me", own, None).await.expect(200);
    }
    let own = Some("http://treeline.example");
    let answer = request_with_host(&server.stranger(), Method::POST, "/api/v1/session", "treeline.example", own).await;
    answer.expect_problem(410, "link_used");
    server.stop().await;
}

#[tokio::test]
async fn sessions_expire_at_a_displayed_time() {
    let server = Server::start().await;
    let ada = server.person("ada", "user").await;
    let pool = &server.running.app.pool;
    let session = ada.get("/api/v1/me/sessions").await.expect(200)["data"][0].clone();
    let day = |name: &str| session[name].as_str().expect("a time")[..10].to_owned();
    assert!(day("expires_at") > day("created_at"), "{session}");
    // Used after 80 days, it has ten left; after 90 none.
    let older = "update session set created_at = clock_timestamp() - interval '80 days', \
                 last_seen_at = clock_timestamp() - interval '1 day'";
    sqlx::query(older).execute(pool).await.expect("moved");
    let id = session["id"].as_str().expect("an id").parse::<uuid::Uuid>().expect("an id");
    engine::store::access::identity::touch_session(pool, id, 30).await.expect("touched");
    let left = "select (expires_at - clock_timestamp() between interval '9 days' and interval '10 days') from session";
    assert!(sqlx::query_scalar::<_, bool>(left).fetch_one(pool).await.expect("asked"));
    let over = "update session set expires_at = clock_timestamp()";
    sqlx::query(over).execute(pool).await.expect("moved");
    let other = server.another().await;
    other.with_cookie(ada.cookie()).get("/api/v1/me").await.expect_problem(401, "unauthenticated");
    other.stop().await;
    server.stop().await;
}

#[tokio::test]
async fn sign_out_ends_the_session_on_all_servers() {
    let server = Server::start().await;
    let other = server.another().await;
    let ada = server.person("ada", "user").await;
    let there = other.with_cookie(ada.cookie());
    there.get("/api/v1/me").await.expect(200);
    server.post("/api/v1/job-types", json!({"name": "a"})).await.expect(201);
    let job = ada.post("/api/v1/jobs", json!({"type": "a", "items": [{"payload": 1}]})).await.expect(201);
    let events = format!("/api/v1/jobs/{}/events", job["id"].as_str().expect("an id"));
    let mut stream = there.request(Method::GET, &events).send().await.expect("a stream");
    assert_eq!(stream.status(), 200);
    ada.delete("/api/v1/session").await.expect(204);
    let began = std::time::Instant::now();
    while there.get("/api/v1/me").await.status != 401 {
        assert!(began.elapsed().as_secs_f64() < 1.0, "still signed in");
        crate::support::moment().await;
    }
    while stream.chunk().await.expect("a chunk").is_some() {}
    assert!(began.elapsed().as_secs_f64() < 5.0, "the stream went on for {:?}", began.elapsed());
    other.stop().await;
    server.stop().await;
}

#[tokio::test]
async fn initial_password_must_be_changed() {
    let server = Server::start().await;
    let admin = server.admin().await;
    let new = json!({"name": "ada", "email": "ada@example.com", "password": PASSWORD});
    for common in ["password1234", "123456789012", "short"] {
        let mut new = new.clone();
        new["password"] = json!(common);
        let refused = admin.post("/api/v1/users", new).await.expect_problem(422, "invalid_body");
        assert_eq!(refused["errors"][0]["pointer"], "/password", "{common}");
    }
    admin.post("/api/v1/users", new).await.expect(201);
    let ada = server.sign_in("ada@example.com", PASSWORD).await;
    assert_eq!(ada.get("/api/v1/me").await.expect(200)["must_change_password"], true);
    let sent = ada.get("/imports").await;
    assert_eq!((sent.status.as_u16(), sent.headers["location"].to_str().expect("text")), (303, "/account"));
    assert!(ada.get("/account").await.text.contains("An admin chose the password"));
    // The API refuses her as the pages do, whoever holds the session: nothing is seen, made, or added that would stay.
    for path in ["/api/v1/jobs", "/api/v1/events", "/api/v1/items", "/api/v1/me/factors"] {
        ada.get(path).await.expect_problem(403, "password_change_required");
    }
    for path in ["/api/v1/jobs", "/api/v1/me/totp", "/api/v1/me/passkeys/options"] {
        ada.post(path, json!({})).await.expect_problem(403, "password_change_required");
    }
    ada.post("/api/v1/me/step-up", json!({"password": PASSWORD})).await.expect(204);
    let another = server.sign_in("ada@example.com", PASSWORD).await;
    another.get("/api/v1/me/sessions").await.expect(200);
    another.delete("/api/v1/session").await.expect(204);
    let change =
        |new: &str| ada.post("/api/v1/me/password", json!({"current_password": PASSWORD, "new_password": new}));
    change(PASSWORD).await.expect_problem(422, "invalid_body");
    change("iloveyou1234").await.expect_problem(422, "invalid_body");
    let changed = change("another long horse").await;
    changed.expect(204);
    // The session goes on under another secret; the one that anybody may have seen is worthless.
    ada.get("/api/v1/me").await.expect_problem(401, "unauthenticated");
    let cookie = changed.headers["set-cookie"].to_str().expect("text").split(';').next().expect("a cookie").to_owned();
    let ada = server.with_cookie(&cookie);
    assert_eq!(ada.get("/api/v1/me").await.expect(200)["must_change_password"], json!(null));
    assert_eq!(ada.get("/imports").await.status, 200);

    // A program that makes accounts says itself whether their passwords are to be changed.
    let ben = json!({"name": "ben", "email": "ben@example.com", "password": PASSWORD});
    server.post("/api/v1/users", ben).await.expect(201);
    let ben = server.sign_in("ben@example.com", PASSWORD).await;
    assert_eq!(ben.get("/imports").await.status, 200);
    server.stop().await;
}

#[tokio::test]
async fn outdated_password_hash_is_upgraded() {
    let server = Server::start().await;
    let ada = json!({"name": "ada", "email": "ada@example.com", "password": PASSWORD});
    server.post("/api/v1/users", ada).await.expect(201);
    let pool = &server.running.app.pool;
    let stored = "select password_hash from owner where name = 'ada'";
    // The same password at another cost, as an older release may have stored it.
    let older = Params::new(4_096, 3, 1, None).expect("parameters");
    let older = Argon2::new(Algorithm::Argon2id, Version::V0x13, older);
    let hash = older.hash_password(PASSWORD.as_bytes()).expect("a hash").to_string();
    sqlx::query("update owner set password_hash = $1 where name = 'ada'").bind(&hash).execute(pool).await.expect("set");
    server.sign_in("ada@example.com", PASSWORD).await;
    let now: String = sqlx::query_scalar(stored).fetch_one(pool).await.expect("a hash");
    assert!(now.starts_with("$argon2id$v=19$m=19456,t=2,p=1$"), "{now}");
    server.sign_in("ada@example.com", PASSWORD).await;
    server.stop().await;
}

#[tokio::test]
async fn first_admin_link_expires_after_15_minutes() {
    let server = Server::start().await;
    let link = server.running.sign_in_link.clone().expect("a link");
    let pool = &server.running.app.pool;
    let left = "select expires_at - created_at <= interval '15 minutes 1 second' from sign_in_link";
    assert!(sqlx::query_scalar::<_, bool>(left).fetch_one(pool).await.expect("asked"));
    sqlx::query("update sign_in_link set expires_at = expires_at - interval '15 minutes'")
        .execute(pool)
        .await
        .expect("moved");
    server.stranger().post("/api/v1/session", json!({"link": link})).await.expect_problem(410, "link_used");
    server.stop().await;
}
