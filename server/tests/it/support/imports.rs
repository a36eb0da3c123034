//! Import helpers: store a file, create a job, wait for it, read it back.

use reqwest::Method;
use serde_json::{Value, json};

use super::{Answer, Api};

/// Stores a file under a name; returns its id.
pub(crate) async fn upload(caller: &Api, name: &str, content: impl Into<reqwest::Body>) -> String {
    let path = format!("/api/v1/uploads?filename={name}");
    let stored = caller.post_text(&path, "application/octet-stream", content).await.expect(201);
    stored["id"].as_str().expect("an id").to_owned()
}

/// Creates a job from a stored file.
pub(crate) async fn import(caller: &Api, job_type: &str, upload: &str) -> Value {
    caller.post("/api/v1/jobs", json!({"type": job_type, "upload": {"id": upload}})).await.expect(201)
}

/// Waits until the job is complete.
pub(crate) async fn complete(caller: &Api, job: &Value) -> Value {
    let path = format!("/api/v1/jobs/{}?wait_seconds=30", job["id"].as_str().expect("an id"));
    let mut version = job["version"].clone();
    for _ in 0..10_000 {
        let request = caller.request(Method::GET, &path).header("if-none-match", format!("\"{version}\""));
        let answer = Answer::of(request).await;
        if answer.status == 304 {
            continue;
        }
        let job = answer.expect(200);
        if job["status"] == "completed" {
            return job;
        }
        version = job["version"].clone();
    }
    panic!("the job never completes");
}

/// Results or failures of a job, one JSON value per line.
pub(crate) async fn lines(caller: &Api, job: &Value, what: &str) -> Vec<Value> {
    let answer = caller.get(&format!("/api/v1/jobs/{}/{what}", job["id"].as_str().expect("an id"))).await;
    assert_eq!(answer.status, 200, "{}", answer.text);
    answer.text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
}
