//! Nobody reads or writes what is somebody else's, on any route (P20).
//!
//! The table names every operation of the OpenAPI document; one without a line fails the test. Each is
//! asked by another person, by a service that may only read, by whoever has a link to the tree, and by
//! nobody; and every write is sent once more as another site would make a browser send it.

use reqwest::Method;
use serde_json::{Value, json};

use crate::support::{Answer, Api, Server};

/// What somebody gets who has no part in what the path names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum To {
    /// It is not there: 404.
    Nobody,
    /// One's own list, on which nothing of others is.
    Own,
    /// What all who may read see alike; nothing of it is anybody's.
    All,
    /// For admins: 403.
    Admins,
    /// For service tokens with the scope `work`: 403.
    Workers,
    /// 409 `id_in_use`: ids are the whole world's.
    Taken,
    /// Opens without a credential.
    Open,
}
use To::{Admins, All, Nobody, Open, Own, Taken, Workers};

/// A call, and what strangers get. `{job}` and the like are ids of Ada's things.
type Line = (&'static str, &'static str, &'static str, Value, To);

/// Every operation: method, path of the document, the call, its body, what strangers get.
fn table() -> Vec<Line> {
    let nothing = Value::Null;
    let end = || json!({"error": {"message": "x"}});
    vec![
        ("GET", "/job-types", "/job-types", nothing.clone(), All),
        ("POST", "/job-types", "/job-types", json!({"name": "stolen"}), Admins),
        ("GET", "/job-types/{name}", "/job-types/a", nothing.clone(), All),
        ("PUT", "/job-types/{name}", "/job-types/a", json!({}), Admins),
        ("PATCH", "/job-types/{name}", "/job-types/a", json!({}), Admins),
        ("DELETE", "/job-types/{name}", "/job-types/a", nothing.clone(), Admins),
        ("POST", "/job-types/{name}/pause", "/job-types/a/pause", nothing.clone(), Admins),
        ("POST", "/job-types/{name}/resume", "/job-types/a/resume", nothing.clone(), Admins),
        ("POST", "/uploads", "/uploads?filename=own.csv", json!("own"), Own),
        ("GET", "/uploads/{id}", "/uploads/{upload}", nothing.clone(), Nobody),
        ("DELETE", "/uploads/{id}", "/uploads/{upload}", nothing.clone(), Nobody),
        ("GET", "/uploads/{id}/content", "/uploads/{upload}/content", nothing.clone(), Nobody),
        ("GET", "/uploads/{id}/preview", "/uploads/{upload}/preview", nothing.clone(), Nobody),
        ("POST", "/uploads/resumable", "/uploads/resumable?filename=own.csv", nothing.clone(), Own),
        ("GET", "/uploads/resumable/{id}", "/uploads/resumable/{partial}", nothing.clone(), Nobody),
        ("PATCH", "/uploads/resumable/{id}", "/uploads/resumable/{partial}", json!("stolen"), Nobody),
        ("DELETE", "/uploads/resumable/{id}", "/uploads/resumable/{partial}", nothing.clone(), Nobody),
        ("GET", "/jobs", "/jobs", nothing.clone(), Own),
        ("GET", "/jobs", "/jobs?root_id={job}", nothing.clone(), Own),
        ("GET", "/jobs", "/jobs?owner=ada", nothing.clone(), Own),
        ("GET", "/jobs", "/jobs?q=secret", nothing.clone(), Own),
        ("POST", "/jobs", "/jobs", json!({"type": "import", "upload": {"id": "{upload}"}}), Nobody),
        ("PUT", "/jobs/{id}", "/jobs/{job}", json!({"type": "a"}), Taken),
        ("GET", "/jobs/{id}", "/jobs/{job}", nothing.clone(), Nobody),
        ("GET", "/jobs/{id}", "/jobs/{job}?wait_seconds=1", nothing.clone(), Nobody),
        ("PATCH", "/jobs/{id}", "/jobs/{job}", json!({"name": "stolen"}), Nobody),
        ("DELETE", "/jobs/{id}", "/jobs/{job}", nothing.clone(), Nobody),
        ("POST", "/jobs/{id}/items", "/jobs/{job}/items", json!([{"payload": 1}]), Nobody),
        ("POST", "/jobs/{id}/seal", "/jobs/{job}/seal", nothing.clone(), Nobody),
        ("POST", "/jobs/{id}/cancel", "/jobs/{job}/cancel", json!({}), Nobody),
        ("POST", "/jobs/{id}/replay", "/jobs/{job}/replay", json!({}), Nobody),
        ("POST", "/jobs/{id}/keep", "/jobs/{job}/keep", json!({}), Nobody),
        ("DELETE", "/jobs/{id}/keep", "/jobs/{job}/keep", nothing.clone(), Nobody),
        ("POST", "/jobs/{id}/share", "/jobs/{job}/share", json!({}), Nobody),
        ("GET", "/jobs/{id}/shares", "/jobs/{job}/shares", nothing.clone(), Nobody),
        ("GET", "/shares", "/shares", nothing.clone(), Own),
        ("DELETE", "/shares/{id}", "/shares/{share}", nothing.clone(), Nobody),
        ("GET", "/jobs/{id}/results", "/jobs/{job}/results", nothing.clone(), Nobody),
        ("GET", "/jobs/{id}/failures", "/jobs/{job}/failures?format=csv", nothing.clone(), Nobody),
        ("GET", "/jobs/{id}/events", "/jobs/{job}/events", nothing.clone(), Nobody),
        ("GET", "/items", "/items", nothing.clone(), Own),
        ("GET", "/items", "/items?job={job}", nothing.clone(), Nobody),
        ("GET", "/items", "/items?root={job}&state=dead", nothing.clone(), Own),
        ("GET", "/items", "/items?worker=w", nothing.clone(), Own),
        ("GET", "/items/{id}", "/items/{item}", nothing.clone(), Nobody),
        ("PATCH", "/items/{id}", "/items/{item}", json!({"priority": 5}), Nobody),
        ("GET", "/items/{id}/attempts", "/items/{item}/attempts", nothing.clone(), Nobody),
        ("POST", "/items/{id}/retry", "/items/{item}/retry", json!({}), Nobody),
        ("POST", "/items/{id}/cancel", "/items/{item}/cancel", json!({}), Nobody),
        ("POST", "/items/{id}/replay", "/items/{item}/replay", json!({}), Nobody),
        ("GET", "/dead-letters", "/dead-letters", nothing.clone(), Own),
        ("GET", "/dead-letters/groups", "/dead-letters/groups", nothing.clone(), Own),
        ("GET", "/dead-letters/groups", "/dead-letters/groups?job={job}", nothing.clone(), Nobody),
        ("GET", "/dead-letters/groups", "/dead-letters/groups?owner=ada", nothing.clone(), Own),
        (
            "POST",
            "/bulk-operations",
            "/bulk-operations",
            json!({"action": "cancel", "target": "items", "filter": {"state": "dead"}, "dry_run": true}),
            Own,
        ),
        ("GET", "/bulk-operations", "/bulk-operations", nothing.clone(), Own),
        ("GET", "/bulk-operations/{id}", "/bulk-operations/{bulk}", nothing.clone(), Nobody),
        ("POST", "/bulk-operations/{id}/cancel", "/bulk-operations/{bulk}/cancel", nothing.clone(), Nobody),
        ("POST", "/assignments", "/assignments", json!({"worker_id": "w", "types": ["a"]}), Workers),
        ("POST", "/assignments/{id}/heartbeat", "/assignments/{assignment}/heartbeat", json!({}), Workers),
        ("POST", "/assignments/{id}/step", "/assignments/{assignment}/step", json!({"name": "x"}), Workers),
        ("POST", "/assignments/{id}/result", "/assignments/{assignment}/result", json!({}), Workers),
        ("POST", "/assignments/{id}/failure", "/assignments/{assignment}/failure", end(), Workers),
        ("POST", "/assignments/{id}/release", "/assignments/{assignment}/release", json!({}), Workers),
        ("POST", "/assignments/{id}/alert", "/assignments/{assignment}/alert", json!({"message": "x"}), Workers),
        ("POST", "/assignments/finish", "/assignments/finish", json!({"endings": []}), Workers),
        ("POST", "/assignments/heartbeat", "/assignments/heartbeat", json!({"heartbeats": []}), Workers),
        ("GET", EVENTS, EVENTS, nothing.clone(), Own),
        ("GET", "/stats", "/stats", nothing.clone(), Admins),
        ("GET", "/workers", "/workers", nothing.clone(), Own),
        ("GET", "/deliveries", "/deliveries", nothing.clone(), Own),
        ("GET", "/deliveries", "/deliveries?owner=ada", nothing.clone(), Own),
        ("GET", "/deliveries", "/deliveries?job={done}", nothing.clone(), Own),
        ("GET", "/jobs/{id}/deliveries", "/jobs/{done}/deliveries", nothing.clone(), Nobody),
        ("POST", "/deliveries/{id}/resend", "/deliveries/{delivery}/resend", json!({}), Nobody),
        ("GET", "/alerts", "/alerts?all=true", nothing.clone(), Own),
        ("GET", "/audit", "/audit", nothing.clone(), Own),
        ("GET", "/audit", "/audit?job={job}", nothing.clone(), Own),
        ("POST", "/session", "/session", json!({"link": "x"}), Open),
        ("DELETE", "/session", "/session", nothing.clone(), Own),
        ("GET", "/me", "/me", nothing.clone(), Own),
        ("GET", "/me/sessions", "/me/sessions", nothing.clone(), Own),
        ("DELETE", "/me/sessions", "/me/sessions", nothing.clone(), Own),
        ("DELETE", "/me/sessions/{id}", "/me/sessions/{session}", nothing.clone(), Nobody),
        ("POST", "/me/password", "/me/password", json!({"new_password": "short"}), Own),
        ("GET", "/users", "/users", nothing.clone(), Admins),
        ("POST", "/users", "/users", json!({"name": "x", "email": "x@y.z"}), Admins),
        ("GET", "/users/{id}", "/users/{ada}", nothing.clone(), Admins),
        ("PATCH", "/users/{id}", "/users/{ada}", json!({"role": "admin"}), Admins),
        ("POST", "/users/{id}/sign-in-link", "/users/{ada}/sign-in-link", json!({}), Admins),
        ("GET", "/users/{id}/sessions", "/users/{ada}/sessions", nothing.clone(), Admins),
        ("DELETE", "/users/{id}/sessions", "/users/{ada}/sessions", nothing.clone(), Admins),
        ("DELETE", "/users/{id}/sessions/{session_id}", "/users/{ada}/sessions/{session}", nothing.clone(), Admins),
        ("GET", "/services", "/services", nothing.clone(), Admins),
        ("POST", "/services", "/services", json!({"name": "stolen"}), Admins),
        ("GET", "/tokens", "/tokens", nothing.clone(), Admins),
        ("POST", "/tokens", "/tokens", json!({"service": "w", "name": "x", "scopes": ["work"]}), Admins),
        ("DELETE", "/tokens/{id}", "/tokens/{token}", nothing.clone(), Admins),
    ]
}

/// A list that goes on: of its answer the first part is looked at.
const EVENTS: &str = "/events";

/// Routes of the document that are not under the API's base.
const OUTSIDE: [&str; 2] = ["/healthz", "/readyz"];

/// Ada's things by name.
struct Things(Vec<(&'static str, String)>);

impl Things {
    fn fill(&self, text: &str) -> String {
        let named = |text: String, (name, id): &(&str, String)| text.replace(&format!("{{{name}}}"), id);
        self.0.iter().fold(text.to_owned(), named)
    }

    fn request(&self, api: &Api, line: &Line) -> reqwest::RequestBuilder {
        let (method, _, path, body, _) = line;
        let request = api.request(method.parse().expect("a method"), &format!("/api/v1{}", self.fill(path)));
        match body {
            Value::Null => request,
            Value::String(text) => request.header("content-type", "text/csv").body(text.clone()),
            body => request.header("content-type", "application/json").body(self.fill(&body.to_string())),
        }
    }

    /// Fails where an answer tells anything of Ada's.
    #[track_caller]
    fn told_nothing(&self, line: &Line, who: &str, answer: &Answer) {
        let asked = self.fill(line.2);
        for (name, id) in &self.0 {
            // An id that was asked for may be named in a refusal; one in an answer is a leak.
            let refused = answer.status.is_client_error() && asked.contains(id.as_str());
            assert!(refused || !answer.text.contains(id.as_str()), "{who} learns {name} of {line:?}: {}", answer.text);
        }
        assert!(!answer.text.contains("secret"), "{who} learns a secret of {line:?}: {}", answer.text);
    }
}

async fn things(server: &Server, ada: &Api) -> (Things, Api) {
    server.put("/api/v1/job-types/a", json!({"max_failures": 1})).await.expect(201);
    let text = |value: &Value| value.as_str().expect("an id").to_owned();
    let upload = ada.post_text("/api/v1/uploads?filename=secret.csv", "text/csv", "a\nsecret\n").await.expect(201);
    let items = json!([{"payload": "secret-1"}, {"payload": "secret-2"}]);
    let job = json!({"type": "a", "name": "secret tree", "items": items, "metadata": {"a": "secret"}});
    let job = text(&ada.post("/api/v1/jobs", job).await.expect(201)["id"]);
    let worker = server.service("w", &["work"]).await;
    let claim = json!({"worker_id": "secret-worker", "types": ["a"], "max": 2});
    let held = worker.post("/api/v1/assignments", claim).await.expect(200)["assignments"].clone();
    let dead = text(&held[0]["id"]);
    let failure = json!({"error": {"message": "secret reason"}});
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
        ada.request(Method::POST, "/api/v1/uploads/resumable?filename=secret.csv").header("upload-length", "9");
    let partial = Answer::of(partial).await.expect(201);
    let done = json!({"type": "a", "sealed": true, "on_completed": {"url": "https://example.invalid/secret"}});
    let done = text(&ada.post("/api/v1/jobs", done).await.expect(201)["id"]);
    let calls = ada.get(&format!("/api/v1/jobs/{done}/deliveries")).await.expect(200);
    let things = Things(vec![
        ("delivery", text(&calls["data"][0]["id"])),
        ("done", done),
        ("upload", text(&upload["id"])),
        ("partial", text(&partial["id"])),
        ("item", text(&held[0]["item"]["id"])),
        ("assignment", text(&held[1]["id"])),
        ("bulk", text(&bulk["id"])),
        ("share", text(&share["id"])),
        ("session", text(&ada.get("/api/v1/me/sessions").await.expect(200)["data"][0]["id"])),
        ("token", text(&server.get("/api/v1/tokens").await.expect(200)["data"][0]["id"])),
        ("ada", text(&user["id"])),
        ("job", job),
    ]);
    (things, server.with_cookie(&cookie))
}

#[tokio::test]
async fn every_route_keeps_what_is_somebodys_from_everybody_else() {
    let server = Server::start().await;
    let (ada, eve) = (server.person("ada", "user").await, server.person("eve", "user").await);
    let reader = server.service("reader", &["jobs:read"]).await;
    let (things, guest) = things(&server, &ada).await;
    let table = table();

    let document = server.get("/api/v1/openapi.json").await.expect(200);
    let mut missing = Vec::new();
    for (path, item) in document["paths"].as_object().expect("paths") {
        for (method, operation) in item.as_object().expect("operations") {
            let is_operation = !operation["responses"].is_null();
            let short = path.strip_prefix("/api/v1").unwrap_or(path);
            let listed = table.iter().any(|line| line.0.eq_ignore_ascii_case(method) && line.1 == short);
            if is_operation && !listed && !OUTSIDE.contains(&path.as_str()) {
                missing.push(format!("{} {path}", method.to_uppercase()));
            }
        }
    }
    assert!(missing.is_empty(), "the table has no line for {missing:?}");

    let mut faults = Vec::new();
    for line in &table {
        let (method, document_path, path, _, to) = line;
        let safe = *method == "GET";
        if !safe {
            let forged = things.request(&server.with_cookie(eve.cookie()).elsewhere(), line);
            let answer = Answer::of(forged.header("sec-fetch-site", "cross-site")).await;
            answer.expect_problem(403, "forbidden");
        }
        let shared = ["/jobs/{id}/results", "/jobs/{id}/failures", "/jobs/{id}/events"].contains(document_path);
        if *to != Open {
            let answer = Answer::of(things.request(&server.stranger(), line)).await;
            answer.expect_problem(401, "unauthenticated");
            if shared {
                reads(&things, &guest, line).await;
            } else {
                let answer = Answer::of(things.request(&guest, line)).await;
                answer.expect_problem(401, "unauthenticated");
            }
        }
        // What would end Eve's own session is hers to do; it is asked of a session of its own.
        let own = if *document_path == "/session" {
            server.person(&format!("eve-{method}"), "user").await
        } else {
            eve.clone()
        };
        let answer = asked(&things, &own, line).await;
        things.told_nothing(line, "Eve", &answer);
        let status = answer.status.as_u16();
        // A list that is narrowed to what is not there may say so.
        let named = path.contains('{');
        let right = match to {
            Nobody => status == 404,
            Admins | Workers => status == 403,
            Taken => status == 409,
            Own | All | Open => status < 500 && status != 403 && (named || status != 404),
        };
        if !right {
            faults.push(format!("Eve, {method} {path}: {status} {}", answer.text));
        }
        // A token that may only read reads no more of others', and writes nothing.
        let answer = asked(&things, &reader, line).await;
        things.told_nothing(line, "a reader", &answer);
        let status = answer.status.as_u16();
        let right = match to {
            Workers => status == 403,
            Nobody | Admins | Taken => [403, 404, 409].contains(&status),
            Own | All | Open => status < 500,
        };
        if !right {
            faults.push(format!("a reader, {method} {path}: {status} {}", answer.text));
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));

    // Nothing of it has changed anything.
    let job = things.fill("/api/v1/jobs/{job}");
    let after = ada.get(&job).await.expect(200);
    assert_eq!(
        (&after["name"], &after["item_count"], &after["sealed"]),
        (&json!("secret tree"), &json!(2), &json!(false))
    );
    assert_eq!((&after["counts"]["dead"], &after["counts"]["running"]), (&json!(1), &json!(1)));
    ada.get(&things.fill("/api/v1/uploads/{upload}")).await.expect(200);
    server.stop().await;
}

async fn asked(things: &Things, api: &Api, line: &Line) -> Answer {
    let request = things.request(api, line);
    if line.1 != EVENTS {
        return Answer::of(request).await;
    }
    let mut response = request.send().await.expect("an answer");
    let (status, headers) = (response.status(), response.headers().clone());
    let first = response.chunk().await.expect("a part").unwrap_or_default();
    Answer { status, headers, text: String::from_utf8_lossy(&first).into_owned() }
}

/// What a link opens: the status alone, as a stream does not end.
async fn reads(things: &Things, guest: &Api, line: &Line) {
    let response = things.request(guest, line).send().await.expect("an answer");
    assert_eq!(response.status(), 200, "{line:?}");
}

#[tokio::test]
async fn an_export_of_somebody_elses_job_is_no_file() {
    let server = Server::start().await;
    let (ada, eve) = (server.person("ada", "user").await, server.person("eve", "user").await);
    let (things, _) = things(&server, &ada).await;
    let payload = json!({"job_id": things.fill("{job}"), "what": "items", "format": "ndjson"});
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
    assert!(!failures.text.contains("secret"), "{}", failures.text);
    server.stop().await;
}

#[tokio::test]
async fn every_page_keeps_what_is_somebodys_from_everybody_else() {
    let server = Server::start().await;
    let (ada, eve) = (server.person("ada", "user").await, server.person("eve", "user").await);
    let (things, guest) = things(&server, &ada).await;
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
        let answer = eve.get(&things.fill(path)).await;
        assert_eq!(answer.status, status, "{path}");
        assert!(!answer.text.contains("secret"), "{path}: {}", answer.text);
        for nobody in [&server.stranger(), &guest] {
            let answer = Answer::of(nobody.request(Method::GET, &things.fill(path))).await;
            assert_eq!(answer.status, 303, "{path}");
        }
    }
    for path in ["/deliveries/{delivery}/resend", "/imports/{job}/share", "/shares/{share}/revoke"] {
        assert_eq!(eve.form(&things.fill(path), &[]).await.status, 404, "{path}");
    }
    let revoked = eve.form(&things.fill("/account/sessions/{session}/end"), &[]).await;
    assert_eq!(revoked.status, 404);
    ada.get("/api/v1/me").await.expect(200);
    server.stop().await;
}
