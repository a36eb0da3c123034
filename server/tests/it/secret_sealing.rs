//! Secrets in the database are sealed with a key that is not in it, and a server with another key does not start.
//!
//! Separate, because it reads the tables directly, like someone with a copy of the database. It must never print an
//! opened secret.

use serde_json::{Value, json};

use crate::{
    bulk::id,
    callbacks::{done, once, quick},
    support::{Answer, Server, receiver::Receiver},
};

/// Key in the format of `TREELINE_SECRET_KEY`.
const KEY: &str = "MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=";

#[tokio::test]
async fn server_with_different_sealing_key_does_not_start() {
    let server = Server::start().await;
    server.another().await.stop().await;
    let stranger = server.try_another_with(|config| {
        config.sealing.secret_key = Some(KEY.parse().expect("a secret"));
        // Without the key file of the first one.
        config.data_dir = config.data_dir.as_ref().map(|folder| folder.join("elsewhere"));
    });
    let Err(error) = stranger.await else { panic!("it starts with another key") };
    let refused = format!("{error:#}");
    assert!(refused.contains("TREELINE_SECRET_KEY") && refused.contains("sealed with the key"), "{refused}");
    assert!(!refused.contains(KEY), "{refused}");
    let bad = server.try_another_with(|config| config.sealing.secret_key = Some("letmein".parse().expect("a secret")));
    let Err(error) = bad.await else { panic!("it starts with a key that is none") };
    let refused = format!("{error:#}");
    assert!(refused.contains("32 bytes") && !refused.contains("letmein"), "{refused}");
    server.stop().await;
}

/// A key file made by root could not be read by the server.
#[tokio::test]
async fn commands_neither_make_nor_adopt_a_sealing_key() {
    let server = Server::start().await;
    let (pool, data_dir) = (&server.running.app.pool, server.running.app.config.data_dir().expect("a folder"));
    let file = data_dir.join("secret.key");
    std::fs::remove_file(&file).expect("the key file of the server");
    for command in [&["signing-secret", "--audit"][..], &["rotate-key"]] {
        let refused = server.try_program(command).await.expect_err("no key");
        assert!(refused.contains("There is no sealing key") && refused.contains("secret.key"), "{refused}");
        assert!(!file.exists());
    }
    sqlx::query("delete from sealing_key").execute(pool).await.expect("as before the first start");
    for command in [&["--secret-key", KEY, "signing-secret", "--audit"][..], &["--secret-key", KEY, "rotate-key"]] {
        let refused = server.try_program(command).await.expect_err("no key of the database");
        assert!(refused.contains("start a server first"), "{refused}");
    }
    let adopted: i64 = sqlx::query_scalar("select count(*) from sealing_key").fetch_one(pool).await.expect("a number");
    assert_eq!(adopted, 0);
    server.stop().await;
}

#[tokio::test]
async fn plaintext_signing_key_is_encrypted_at_startup() {
    let server = Server::start().await;
    let pool = &server.running.app.pool;
    let plain = vec![7_u8; 32];
    let stored = "update signing_key set key = $1, sealed = null";
    sqlx::query(stored).bind(&plain).execute(pool).await.expect("as it was");
    sqlx::query("delete from sealing_key").execute(pool).await.expect("as it was");
    let second = server.another().await;
    let (key, sealed): (Option<Vec<u8>>, String) =
        sqlx::query_as("select key, sealed from signing_key").fetch_one(pool).await.expect("the key");
    assert!(key.is_none() && sealed.starts_with("sealed:v1:"), "{sealed}");
    let expected = engine::signing::Key::from_bytes(plain);
    assert_eq!(second.running.app.outgoing.key, expected, "it signs as before");
    second.stop().await;
    server.stop().await;
}

/// Contents of all tables with secrets.
async fn tables(server: &Server) -> String {
    let all = "select coalesce(string_agg(row::text, ' '), '') from (
                 select to_jsonb(t) as row from job_type t union all select to_jsonb(j) from job j
                 union all select to_jsonb(d) from delivery d union all select to_jsonb(s) from signing_key s
                 union all select to_jsonb(a) from audit a union all select to_jsonb(c) from alert_channel c
                 union all select to_jsonb(n) from notice_settings n
                 union all select to_jsonb(s) from schedule s union all select to_jsonb(k) from idempotency k) every";
    sqlx::query_scalar(all).fetch_one(&server.running.app.pool).await.expect("the rows as text")
}

fn alert_channel(receiver: &Receiver) -> Value {
    json!({"name": "Ops", "kind": "webhook", "url": receiver.url("/alerts?key=h1dd3n-query"), "secret": "h1dd3n-signature"})
}

fn notice_webhook(receiver: &Receiver) -> Value {
    json!({"webhook_url": receiver.url("/notices?key=h1dd3n-query"), "webhook_secret": "h1dd3n-signature"})
}

/// A yearly schedule whose trees call a webhook.
fn schedule(receiver: &Receiver) -> Value {
    let target = json!({"url": receiver.url("/run?key=h1dd3n-query"), "secret": "h1dd3n-signature"});
    let job = json!({"type": "a", "sealed": true, "on_completed": target});
    json!({"name": "yearly", "cron": "0 0 1 1 *", "job": job})
}

fn pushed(receiver: &Receiver) -> Value {
    json!({"executor": {"kind": "push", "url": receiver.url("/work?key=h1dd3n-query"), "secret": "h1dd3n-signature",
        "auth": {"user": "ann", "password": "h1dd3n-password"}, "headers": {"X-Key": "h1dd3n-header"}}})
}

#[tokio::test]
async fn database_copy_and_audit_log_contain_no_secrets() {
    let server = Server::start_with(quick).await;
    let mut receiver = Receiver::start().await;
    server.put("/api/v1/job-types/mail", pushed(&receiver)).await.expect(201);
    server.post("/api/v1/alert-channels", alert_channel(&receiver)).await.expect(201);
    server.put("/api/v1/job-types/a", json!({})).await.expect(201);
    let owner = server.service("payroll", &["jobs:read", "jobs:write"]).await;
    let target = json!({"url": receiver.url("/done?key=h1dd3n-query"), "secret": "h1dd3n-signature"});
    let job = done(&owner, target.clone()).await;
    let post = receiver.next().await;
    assert_eq!(post.path, "/done?key=h1dd3n-query", "it is posted to all the same");
    assert!(post.is_signed_by(b"h1dd3n-signature"));
    post.status(200);
    assert_eq!(once(&owner, &job, "delivered").await["url"], receiver.url("/done?…"));
    let open = owner.post("/api/v1/jobs", json!({"type": "a"})).await.expect(201);
    let support = server.person("sue", "support").await;
    support.patch("/api/v1/me/notice-settings", notice_webhook(&receiver)).await.expect(200);
    let edit = json!({"on_completed": target, "reason": "asked to"});
    support.patch(&format!("/api/v1/jobs/{}", id(&open)), edit).await.expect(200);
    let log = server.get("/api/v1/audit?action=job.edit").await;
    log.expect(200);
    assert!(log.text.contains("/done?…") && !log.text.contains("h1dd3n"), "{}", log.text);
    let request = owner.request(reqwest::Method::POST, "/api/v1/schedules").header("idempotency-key", "yearly");
    let scheduled = Answer::of(request.json(&schedule(&receiver))).await.expect(201);
    let rows = tables(&server).await;
    assert!(rows.contains("sealed:v1:") && !rows.contains("h1dd3n"), "{rows}");

    // A schedule is shown without the query and the secret, which stay if the job comes back as it was shown.
    assert_eq!(scheduled["job"]["on_completed"]["url"], receiver.url("/run?…"));
    let path = format!("/api/v1/schedules/{}", id(&scheduled));
    let mut job = support.get(&path).await.expect(200)["job"].clone();
    job["priority"] = json!(7);
    owner.patch(&path, json!({"job": job})).await.expect(200);
    let page = support.get(&path.replace("/api/v1", "")).await;
    assert!(page.text.contains("/run?…") && !page.text.contains("h1dd3n"), "{}", page.text);
    owner.post(&format!("{path}/run"), json!({})).await.expect(200);
    let post = receiver.next().await;
    assert!(post.path == "/run?key=h1dd3n-query" && post.is_signed_by(b"h1dd3n-signature"));
    post.status(200);

    // An admin reads the whole URL back, and nobody else.
    let whole = server.get("/api/v1/job-types/mail").await.expect(200)["executor"]["url"].clone();
    assert_eq!(whole, receiver.url("/work?key=h1dd3n-query"));
    for (who, pages) in
        [(&owner, &["/api/v1/job-types"][..]), (&support, &["/api/v1/job-types", "/types", "/types/mail"])]
    {
        for page in pages {
            let response = who.get(page).await;
            assert!(response.status == 200 && !response.text.contains("h1dd3n"), "{page}: {}", response.text);
        }
    }
    let response = owner.get("/api/v1/job-types/mail").await.expect(200)["executor"]["url"].clone();
    assert_eq!(response, receiver.url("/work?…"));
    // A change of something else keeps all of it.
    server.patch("/api/v1/job-types/mail", json!({"max_failures": 2})).await.expect(200);
    server.post("/api/v1/jobs", json!({"type": "mail", "sealed": true, "items": [{"payload": 1}]})).await.expect(201);
    let post = receiver.next().await;
    assert_eq!((post.path.as_str(), post.header("x-key")), ("/work?key=h1dd3n-query", "h1dd3n-header"));
    assert!(post.is_signed_by(b"h1dd3n-signature"));
    post.status(200);
    server.stop().await;
}

#[tokio::test]
async fn plaintext_secrets_are_encrypted_at_startup_and_on_key_rotation() {
    let server = Server::start_with(quick).await;
    let mut receiver = Receiver::start().await;
    server.put("/api/v1/job-types/a", json!({})).await.expect(201);
    server.put("/api/v1/job-types/mail", pushed(&receiver)).await.expect(201);
    let channel = server.post("/api/v1/alert-channels", alert_channel(&receiver)).await.expect(201);
    let sue = server.person("sue", "support").await;
    sue.patch("/api/v1/me/notice-settings", notice_webhook(&receiver)).await.expect(200);
    let scheduled = server.post("/api/v1/schedules", schedule(&receiver)).await.expect(201);
    let job = server.post("/api/v1/jobs", json!({"type": "a"})).await.expect(201);
    let pool = &server.running.app.pool;
    let plain = schedule(&receiver)["job"].to_string();
    sqlx::query("update schedule set job = $1").bind(plain).execute(pool).await.expect("as it was");
    let plain = json!({"url": receiver.url("/done?key=h1dd3n-query"), "secret": "h1dd3n-signature"}).to_string();
    let target = "update job set on_completed = $1 where id = $2::uuid";
    sqlx::query(target).bind(&plain).bind(id(&job)).execute(pool).await.expect("as it was");
    let calls = "update job_state set calls = true where root_id = $1::uuid";
    sqlx::query(calls).bind(id(&job)).execute(pool).await.expect("as it was");
    let secrets = "update job_type set executor_secrets = $1 where name = 'mail'";
    let plain = json!({"secret": "h1dd3n-signature", "auth": {"user": "ann", "password": "h1dd3n-password"}});
    sqlx::query(secrets).bind(plain.to_string()).execute(pool).await.expect("as it was");
    sqlx::query("delete from sealing_key").execute(pool).await.expect("as it was");
    assert!(tables(&server).await.contains("h1dd3n"));
    let second = server.another_with(quick).await;
    assert!(!tables(&server).await.contains("h1dd3n"), "sealed at the start of the second");

    // A new key, beside two running servers.
    let before = second.running.app.sealer.current_id();
    let output = server.program(&["rotate-key"]).await;
    let after = second.running.app.sealer.current_id();
    assert!(before != after && output.contains(&after), "{output}");
    let rows = tables(&server).await;
    assert!(rows.contains(&after) && !rows.contains(&before), "{rows}");
    server.post(&format!("/api/v1/jobs/{}/seal", id(&job)), json!({})).await.expect(200);
    let post = receiver.next().await;
    assert!(post.path == "/done?key=h1dd3n-query" && post.is_signed_by(b"h1dd3n-signature"));
    post.status(200);
    once(&server, &job, "delivered").await;
    server.post(&format!("/api/v1/schedules/{}/run", id(&scheduled)), json!({})).await.expect(200);
    let post = receiver.next().await;
    assert!(post.path == "/run?key=h1dd3n-query" && post.is_signed_by(b"h1dd3n-signature"));
    post.status(200);
    server.post(&format!("/api/v1/alert-channels/{}/test", id(&channel)), json!(null)).await.expect(202);
    let post = receiver.next().await;
    assert!(post.path == "/alerts?key=h1dd3n-query" && post.is_signed_by(b"h1dd3n-signature"));
    post.status(200);
    let settings = sue.get("/api/v1/me/notice-settings").await.expect(200);
    assert_eq!(
        (&settings["webhook_url"], &settings["has_webhook_secret"]),
        (&json!(receiver.url("/notices?…")), &json!(true))
    );
    second.stop().await;
    server.another().await.stop().await;
    server.stop().await;
}
