//! Isolation between owners on indirect paths: exports and pages (P20).
//!
//! `authorization.rs` tests all API operations for every kind of caller; pages are not in the OpenAPI document and are
//! requested here.

use reqwest::Method;
use serde_json::{Value, json};

use crate::support::{Answer, Api, Server};

/// Ada's objects by name.
struct Resources(Vec<(&'static str, String)>);

impl Resources {
    fn fill(&self, text: &str) -> String {
        let named = |text: String, (name, id): &(&str, String)| text.replace(&format!("{{{name}}}"), id);
        self.0.iter().fold(text.to_owned(), named)
    }
}

async fn resources(server: &Server, ada: &Api) -> (Resources, Api) {
    server.put("/api/v1/job-types/a", json!({"max_failures": 1})).await.expect(201);
    let text = |value: &Value| value.as_str().expect("an id").to_owned();
    let upload =
        ada.post_text("/api/v1/uploads?filename=classified.csv", "text/csv", "a\nclassified\n").await.expect(201);
    let items = json!([{"payload": "classified-1"}, {"payload": "classified-2"}]);
    let job = json!({"type": "a", "name": "classified tree", "items": items, "metadata": {"a": "classified"}});
    let job = text(&ada.post("/api/v1/jobs", job).await.expect(201)["id"]);
    let worker = server.service("w", &["work"]).await;
    let claim = json!({"worker_id": "classified-worker", "types": ["a"], "max": 2});
    let claimed = worker.post("/api/v1/assignments", claim).await.expect(200)["assignments"].clone();
    let dead = text(&claimed[0]["id"]);
    let failure = json!({"error": {"message": "classified reason"}});
    worker.post(&format!("/api/v1/assignments/{dead}/failure"), failure).await.expect(200);
    let bulk = json!({"action": "retry", "target": "items", "filter": {"job": job}, "dry_run": true});
    let bulk = ada.post("/api/v1/bulk-operations", bulk).await.expect(200);
    let share = ada.post(&format!("/api/v1/jobs/{job}/share"), json!({})).await.expect(201);
    let page = share["url"].as_str().expect("a link").replace(&server.url(""), "");
    let page = server.stranger().get(&page).await;
    let cookie = page.headers["set-cookie"].to_str().expect("text").split(';').next().expect("a cookie").to_owned();
    let users = server.get("/api/v1/users").await.expect(200);
    let user = users["data"].as_array().expect("people").iter().find(|user| user["name"] == "ada").expect("Ada");
    let partial =
        ada.request(Method::POST, "/api/v1/uploads/resumable?filename=classified.csv").header("upload-length", "9");
    let partial = Answer::of(partial).await.expect(201);
    let done = json!({"type": "a", "sealed": true, "on_completed": {"url": "https://example.invalid/classified"}});
    let done = text(&ada.post("/api/v1/jobs", done).await.expect(201)["id"]);
    let calls = ada.get(&format!("/api/v1/jobs/{done}/deliveries")).await.expect(200);
    let resources = Resources(vec![
        ("delivery", text(&calls["data"][0]["id"])),
        ("done", done),
        ("upload", text(&upload["id"])),
        ("partial", text(&partial["id"])),
        ("item", text(&claimed[0]["item"]["id"])),
        ("assignment", text(&claimed[1]["id"])),
        ("bulk", text(&bulk["id"])),
        ("share", text(&share["id"])),
        ("session", text(&ada.get("/api/v1/me/sessions").await.expect(200)["data"][0]["id"])),
        ("token", text(&server.get("/api/v1/tokens").await.expect(200)["data"][0]["id"])),
        ("ada", text(&user["id"])),
        ("job", job),
    ]);
    (resources, server.with_cookie(&cookie))
}

#[tokio::test]
async fn export_of_foreign_job_is_not_found() {
    let server = Server::start().await;
    let (ada, eve) = (server.person("ada", "user").await, server.person("eve", "user").await);
    let (resources, _) = resources(&server, &ada).await;
    let payload = json!({"job_id": resources.fill("{job}"), "what": "items", "format": "ndjson"});
    let job = json!({"type": "export", "sealed": true, "items": [{"payload": payload}]});
    let id = eve.post("/api/v1/jobs", job).await.expect(201)["id"].as_str().expect("an id").to_owned();
    let done = async {
        loop {
            let job = eve.get(&format!("/api/v1/jobs/{id}?wait_seconds=5")).await.expect(200);
            if job["status"] == "completed" {
                return job;
            }
        }
    };
    let done = tokio::time::timeout(std::time::Duration::from_secs(30), done).await.expect("it ends");
    assert_eq!(done["outcome"], "failed");
    let failures = eve.get(&format!("/api/v1/jobs/{id}/failures")).await;
    failures.expect(200);
    assert!(!failures.text.contains("classified"), "{}", failures.text);
    server.stop().await;
}

#[tokio::test]
async fn pages_do_not_leak_foreign_data() {
    let server = Server::start().await;
    let (ada, eve) = (server.person("ada", "user").await, server.person("eve", "user").await);
    let (resources, guest) = resources(&server, &ada).await;
    for (path, status) in [
        ("/imports", 200),
        ("/imports/{job}", 404),
        ("/jobs", 200),
        ("/jobs/{job}", 404),
        ("/items/{item}", 404),
        ("/account", 200),
        ("/people", 403),
        ("/people/{ada}", 403),
        ("/services", 403),
        ("/audit", 403),
        ("/deliveries", 403),
        ("/deliveries/{delivery}", 404),
    ] {
        let answer = eve.get(&resources.fill(path)).await;
        assert_eq!(answer.status, status, "{path}");
        assert!(!answer.text.contains("classified"), "{path}: {}", answer.text);
        for nobody in [&server.stranger(), &guest] {
            let answer = Answer::of(nobody.request(Method::GET, &resources.fill(path))).await;
            assert_eq!(answer.status, 303, "{path}");
        }
    }
    for path in ["/deliveries/{delivery}/resend", "/imports/{job}/share", "/shares/{share}/revoke"] {
        assert_eq!(eve.form(&resources.fill(path), &[]).await.status, 404, "{path}");
    }
    let revoked = eve.form(&resources.fill("/account/sessions/{session}/end"), &[]).await;
    assert_eq!(revoked.status, 404);
    ada.get("/api/v1/me").await.expect(200);
    server.stop().await;
}
