//! Secrets of the webhooks of scheduled jobs: signed with, sealed, never shown.

use serde_json::{Value, json};

use crate::{
    callbacks::quick_server,
    support::{
        Api,
        receiver::{Post, Receiver},
    },
};

/// Runs a schedule by hand; returns the callback of its tree, answered.
async fn callback_of_run(owner: &Api, path: &str, receiver: &mut Receiver, secrets: [&str; 3]) -> [bool; 3] {
    let ran = owner.post(&format!("{path}/run"), json!({})).await;
    ran.expect(200);
    assert!(!ran.text.contains("h1dd3n"), "{}", ran.text);
    let post: Post = receiver.next().await;
    let signed = secrets.map(|secret| post.is_signed_by(secret.as_bytes()));
    post.status(200);
    signed
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn schedule_signs_callbacks_with_its_secret_and_never_shows_it() {
    const SECRETS: [&str; 3] = ["h1dd3n-new-secret", "h1dd3n-old-secret", "h1dd3n-other-secret"];
    let server = quick_server().await;
    let mut receiver = Receiver::start().await;
    let ada = server.person("Ada", "user").await;
    let url = receiver.url("/done?key=h1dd3n-query");
    let new_schedule = async |secret: Value| {
        let job = json!({"type": "a", "sealed": true, "on_completed": {"url": url, "secret": secret}});
        ada.post("/api/v1/schedules", json!({"name": "yearly", "cron": "@yearly", "job": job})).await
    };
    for bad in [json!([]), json!("short"), json!(["the-new-secret", "the-old-secret", "the-oldest-secret"])] {
        let refused = new_schedule(bad).await.expect_problem(422, "invalid_body");
        assert_eq!(refused["errors"][0]["pointer"], "/job/on_completed/secret", "{refused}");
    }
    let created = new_schedule(json!([SECRETS[0], SECRETS[1]])).await;
    let path = format!("/api/v1/schedules/{}", created.expect(201)["id"].as_str().expect("an id"));
    let page = path.replace("/api/v1", "");
    let stored = async || -> String {
        let job = sqlx::query_scalar("select job from schedule").fetch_one(&server.running.app.pool);
        job.await.expect("the job")
    };
    let is_nowhere = async || {
        for address in [path.as_str(), "/api/v1/schedules", &page, "/schedules"] {
            let answer = ada.get(address).await;
            assert!(answer.status == 200 && !answer.text.contains("h1dd3n"), "{address}: {}", answer.text);
        }
        let log = server.get("/api/v1/audit").await;
        assert!(log.status == 200 && !log.text.contains("h1dd3n"), "{}", log.text);
        let job = stored().await;
        assert!(job.starts_with("sealed:v1:") && !job.contains("h1dd3n"), "{job}");
    };
    assert!(!created.text.contains("h1dd3n"), "{}", created.text);
    is_nowhere().await;
    let both = [true, true, false];
    assert_eq!(callback_of_run(&ada, &path, &mut receiver, SECRETS).await, both);

    // An edit of something else keeps it, and so does the job as it was shown, from a program and from the form.
    ada.patch(&path, json!({"cron": "0 0 2 1 *"})).await.expect(200);
    assert_eq!(callback_of_run(&ada, &path, &mut receiver, SECRETS).await, both);
    let mut job = ada.get(&path).await.expect(200)["job"].clone();
    job["name"] = json!("by a program");
    let patched = ada.patch(&path, json!({"job": job})).await;
    assert!(patched.status == 200 && !patched.text.contains("h1dd3n"), "{}", patched.text);
    assert_eq!(callback_of_run(&ada, &path, &mut receiver, SECRETS).await, both);
    job["name"] = json!("by the form");
    let job_text = job.to_string();
    let fields = [
        ("name", "yearly"),
        ("cron", "0 0 3 1 *"),
        ("time_zone", "UTC"),
        ("job", job_text.as_str()),
        ("overlap", "skip"),
        ("catch_up", "none"),
        ("catch_up_window_seconds", "3600"),
    ];
    let saved = ada.form(&page, &fields).await;
    assert_eq!(saved.status, 303, "{}", saved.text);
    let shown = ada.get(&path).await.expect(200)["job"].clone();
    assert_eq!(shown["name"], "by the form", "{shown}");
    is_nowhere().await;
    assert_eq!(callback_of_run(&ada, &path, &mut receiver, SECRETS).await, both);

    // Another receiver does not get the secret; `null` removes it.
    job["on_completed"]["url"] = json!(receiver.url("/elsewhere"));
    ada.patch(&path, json!({"job": job})).await.expect(200);
    assert_eq!(callback_of_run(&ada, &path, &mut receiver, SECRETS).await, [false; 3]);
    job["on_completed"]["secret"] = json!(SECRETS[2]);
    ada.patch(&path, json!({"job": job})).await.expect(200);
    is_nowhere().await;
    assert_eq!(callback_of_run(&ada, &path, &mut receiver, SECRETS).await, [false, false, true]);
    job["on_completed"]["secret"] = Value::Null;
    ada.patch(&path, json!({"job": job})).await.expect(200);
    assert_eq!(callback_of_run(&ada, &path, &mut receiver, SECRETS).await, [false; 3]);
    // A list in place of the object is refused, as by the API: its secret would not be recognized.
    let job_text = format!(r#"{{"type": "a", "on_completed": ["{url}", "h1dd3n-new-secret"]}}"#);
    let fields = fields.map(|(name, value)| (name, if name == "job" { job_text.as_str() } else { value }));
    assert_eq!(ada.form(&page, &fields).await.status, 422);
    server.stop().await;
}
