//! People: the one-time link, the session, and protection from other sites.

use reqwest::Method;
use serde_json::json;

use crate::support::{Answer, Server};

#[tokio::test]
async fn first_sign_in_link_creates_the_admin_once() {
    let server = Server::start().await;
    let link = server.running.sign_in_link.clone().expect("a link");
    assert!(link.starts_with(&format!("http://{}/sign-in/", server.running.addr)), "{link}");
    let admin = server.admin().await;
    assert_eq!(
        admin.get("/api/v1/me").await.expect(200),
        json!({"kind": "user", "name": "admin", "role": "admin", "scopes": []})
    );
    server.stranger().post("/api/v1/session", json!({"link": link})).await.expect_problem(410, "link_used");
    server.stranger().post("/api/v1/session", json!({"link": "rubbish"})).await.expect_problem(410, "link_used");
    let second = server.another().await;
    assert_eq!(second.running.sign_in_link, None, "there is an admin already");
    assert_eq!(admin.get("/api/v1/me").await.status, 200);
    second.stop().await;
    server.stop().await;
}

#[tokio::test]
async fn sign_in_link_command_admits_an_admin() {
    let server = Server::start().await;
    server.admin().await;
    let output = server.program(&["sign-in-link"]).await;
    let link = output.trim().strip_prefix("Sign in: ").expect("a link");
    // Looking at it changes nothing; pressing the button does.
    let path = link.strip_prefix(&server.url("")).expect("a link to this server");
    for _ in 0..2 {
        assert_eq!(server.stranger().get(path).await.status, 200);
    }
    let press = server.stranger().request(Method::POST, path).header("sec-fetch-site", "same-origin");
    let answer = Answer::of(press).await;
    assert_eq!(answer.status, 303);
    assert!(answer.headers["set-cookie"].to_str().expect("text").starts_with("treeline_session="));
    let again = server.stranger().request(Method::POST, path).header("sec-fetch-site", "same-origin");
    assert_eq!(Answer::of(again).await.status, 410);
    server.stop().await;
}

#[tokio::test]
async fn concurrent_first_links_create_one_admin() {
    let server = Server::start().await;
    let second = server.another().await;
    let press = |server: &Server| {
        let link = server.running.sign_in_link.clone().expect("a link");
        let stranger = server.stranger();
        async move { stranger.post("/api/v1/session", json!({"link": link})).await.status.as_u16() }
    };
    let mut answers = [press(&server), press(&second)].map(Box::pin);
    let [a, b] = &mut answers;
    let (a, b) = tokio::join!(a, b);
    let mut statuses = [a, b];
    statuses.sort_unstable();
    assert_eq!(statuses, [204, 410]);
    second.stop().await;
    server.stop().await;
}

#[tokio::test]
async fn session_cookie_is_host_only_and_http_only() {
    let server =
        Server::start_with(|config| config.public_url = Some("https://treeline.example".parse().expect("a URL"))).await;
    let link = server.running.sign_in_link.clone().expect("a link");
    let answer = server.stranger().post("/api/v1/session", json!({"link": link})).await;
    answer.expect(204);
    let cookie = answer.headers["set-cookie"].to_str().expect("text");
    assert!(cookie.starts_with("__Host-treeline_session="), "{cookie}");
    for part in ["; Path=/", "; HttpOnly", "; SameSite=Lax", "; Secure"] {
        assert!(cookie.contains(part), "{cookie}");
    }
    assert!(answer.headers.contains_key("strict-transport-security"));
    server.stop().await;
}

#[tokio::test]
async fn cross_site_requests_with_cookie_are_refused() {
    let server = Server::start().await;
    let admin = server.admin().await;
    let attempt = |headers: &[(&'static str, &str)]| {
        let mut request = server.stranger().request(Method::POST, "/api/v1/job-types").header("cookie", admin.cookie());
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        Answer::of(request.json(&json!({"name": "forged"})))
    };
    attempt(&[("sec-fetch-site", "cross-site")]).await.expect_problem(403, "forbidden");
    attempt(&[("sec-fetch-site", "same-site")]).await.expect_problem(403, "forbidden");
    attempt(&[("origin", "https://evil.example")]).await.expect_problem(403, "forbidden");
    attempt(&[("origin", "null")]).await.expect_problem(403, "forbidden");
    attempt(&[]).await.expect_problem(403, "forbidden");
    server.get("/api/v1/job-types/forged").await.expect_problem(404, "not_found");
    let own = format!("http://{}", server.running.addr);
    attempt(&[("origin", own.as_str())]).await.expect(201);

    let link = json!({"link": "x"});
    let login = server.stranger().request(Method::POST, "/api/v1/session").header("sec-fetch-site", "cross-site");
    Answer::of(login.json(&link)).await.expect_problem(403, "forbidden");
    server.stop().await;
}

#[tokio::test]
async fn sign_out_ends_the_session() {
    let server = Server::start().await;
    let admin = server.admin().await;
    let answer = admin.delete("/api/v1/session").await;
    answer.expect(204);
    assert!(answer.headers["set-cookie"].to_str().expect("text").contains("Max-Age=0"));
    admin.get("/api/v1/me").await.expect_problem(401, "unauthenticated");
    server.delete("/api/v1/session").await.expect_problem(403, "forbidden");
    server.stop().await;
}

#[tokio::test]
async fn repeated_sign_in_failures_are_throttled() {
    let server = Server::start().await;
    let link = server.running.sign_in_link.clone().expect("a link");
    let stranger = server.stranger();
    for n in 0..20 {
        stranger.post("/api/v1/session", json!({"link": format!("guess-{n}")})).await.expect_problem(410, "link_used");
    }
    let answer = stranger.post("/api/v1/session", json!({"link": "guess-20"})).await;
    answer.expect_problem(429, "too_many_requests");
    let wait: u32 = answer.headers["retry-after"].to_str().expect("text").parse().expect("seconds");
    assert!((1..=7).contains(&wait), "{wait}");
    // The right one waits like any other, and is not used up by it.
    stranger.post("/api/v1/session", json!({"link": link})).await.expect_problem(429, "too_many_requests");
    assert!(
        server::auth::sign_in_links::is_open(&server.running.app, link.rsplit('/').next().expect("a secret"))
            .await
            .expect("asked")
    );
    server.stop().await;
}

/// Who missed the fifteen minutes of the link that the server printed gets another one.
#[tokio::test]
async fn sign_in_link_command_creates_the_first_admin() {
    let server = Server::start().await;
    let printed = server.program(&["sign-in-link"]).await;
    let link = printed.trim().rsplit(' ').next().expect("a link");
    let admin = server.signed_in(link).await;
    assert_eq!(admin.get("/api/v1/me").await.expect(200)["role"], "admin");
    server.person("eve", "user").await;
    let disable = "update owner set disabled_at = clock_timestamp() where name = 'eve'";
    sqlx::query(disable).execute(&server.running.app.pool).await.expect("disabled");
    let refused = server.try_program(&["sign-in-link", "--user", "eve"]).await.expect_err("disabled");
    assert!(refused.contains("eve is disabled"), "{refused}");
    server.stop().await;
}

#[tokio::test]
async fn commands_that_read_do_not_migrate() {
    let server = Server::start().await;
    let pool = &server.running.app.pool;
    sqlx::query("delete from _sqlx_migrations where version = 5").execute(pool).await.expect("as of an older version");
    for command in [&["signing-secret", "--audit"][..], &["reset-factors", "--user", "ada"], &["rotate-key"]] {
        let refused = server.try_program(command).await.expect_err("no schema of this version");
        assert!(refused.contains("1 migrations are missing"), "{refused}");
    }
    server.stop().await;
}
