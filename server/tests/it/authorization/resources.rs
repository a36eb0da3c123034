//! Objects of calls: ids of an owner's objects, created when a call first names them.
//!
//! All data of an owner contains the word "secret", so that leaks are detected. An allowed call may have used up an
//! object; then the next call gets a new one.

use std::collections::BTreeMap;

use reqwest::Method;
use serde_json::{Value, json};

use crate::support::{Answer, Api, Server};

/// Objects of one owner, by placeholder name: `{job}`.
pub(super) struct Resources<'a> {
    server: &'a Server,
    /// Caller with all rights on the owner's objects.
    owner: Api,
    /// Worker that holds only its own assignments.
    worker: Api,
    pub(super) ids: BTreeMap<&'static str, String>,
}

/// All placeholder names.
const NAMES: [&str; 22] = [
    "view",
    "group",
    "channel",
    "schedule",
    "job",
    "shared",
    "done",
    "item",
    "dead",
    "assignment",
    "upload",
    "partial",
    "bulk",
    "share",
    "delivery",
    "session",
    "person",
    "person-session",
    "owner",
    "service",
    "token",
    "type",
];

impl<'a> Resources<'a> {
    pub(super) fn of(server: &'a Server, owner: Api, worker: Api) -> Self {
        Self { server, owner, worker, ids: BTreeMap::new() }
    }

    /// Replaces every placeholder with an id. `holder` holds the assignment, if there is one.
    pub(super) async fn fill(&mut self, text: &str, holder: Option<&Api>) -> String {
        let mut filled = text.to_owned();
        for name in NAMES {
            let placeholder = format!("{{{name}}}");
            if !filled.contains(&placeholder) {
                continue;
            }
            let id = if let Some(id) = self.ids.get(name) {
                id.clone()
            } else {
                let id = Box::pin(self.make(name, holder)).await;
                self.ids.insert(name, id.clone());
                id
            };
            filled = filled.replace(&placeholder, &id);
        }
        filled
    }

    /// Drops the objects that this text names, because a call has changed them.
    pub(super) fn forget(&mut self, text: &str) {
        self.ids.retain(|name, _| *name == "shared" || *name == "owner" || !text.contains(&format!("{{{name}}}")));
    }

    async fn make(&self, name: &str, holder: Option<&Api>) -> String {
        let (server, owner) = (self.server, &self.owner);
        match name {
            "job" | "shared" => id(&self.job(2).await["id"]),
            "done" => {
                let called = json!({"url": "https://example.invalid/secret"});
                let job = json!({"type": "a", "name": "secret", "sealed": true, "on_completed": called});
                id(&owner.post("/api/v1/jobs", job).await.expect(201)["id"])
            }
            "item" => self.item(&self.job(1).await).await,
            "dead" => {
                let item = self.item(&self.job(1).await).await;
                let assignment = claim(&self.worker, &item).await;
                let failure = json!({"error": {"message": "secret reason"}, "retryable": false});
                let path = format!("/api/v1/assignments/{assignment}/failure");
                self.worker.post(&path, failure).await.expect(200);
                item
            }
            "group" => {
                Box::pin(self.make("dead", None)).await;
                let groups = server.get("/api/v1/dead-letters/groups?q=secret%20reason").await.expect(200);
                format!("a/{}", groups["data"][0]["fingerprint"].as_str().expect("a fingerprint"))
            }
            "assignment" => {
                let item = self.item(&self.job(1).await).await;
                claim(holder.unwrap_or(&self.worker), &item).await
            }
            "upload" => {
                let created = owner.post_text("/api/v1/uploads?filename=secret.csv", "text/csv", "a\nsecret\n").await;
                id(&created.expect(201)["id"])
            }
            "partial" => {
                let path = "/api/v1/uploads/resumable?filename=secret.csv";
                let created = Answer::of(owner.request(Method::POST, path).header("upload-length", "9")).await;
                id(&created.expect(201)["id"])
            }
            "bulk" => {
                let filter = json!({"job": id(&self.job(1).await["id"])});
                let bulk = json!({"action": "retry", "target": "items", "filter": filter, "dry_run": true});
                let created = owner.post("/api/v1/bulk-operations", bulk).await;
                assert!([200, 202].contains(&created.status.as_u16()), "{created:?}");
                id(&created.json()["id"])
            }
            "share" => {
                let job = id(&self.job(1).await["id"]);
                id(&owner.post(&format!("/api/v1/jobs/{job}/share"), json!({})).await.expect(201)["id"])
            }
            "schedule" => {
                let body = json!({"name": "secret", "cron": "@yearly", "job": {"type": "a", "name": "secret"}});
                id(&owner.post("/api/v1/schedules", body).await.expect(201)["id"])
            }
            "view" => {
                let name = Self::word("secret");
                let body = json!({"list": "jobs", "name": name, "q": "secret"});
                id(&owner.post("/api/v1/views", body).await.expect(201)["id"])
            }
            "channel" => {
                // Paused: alerts of other calls are not sent.
                let body = json!({"name": "secret", "kind": "webhook", "url": "https://example.invalid/secret", "paused": true});
                id(&server.post("/api/v1/alert-channels", body).await.expect(201)["id"])
            }
            "delivery" => {
                let done = Box::pin(self.make("done", None)).await;
                let calls = self.owner.get(&format!("/api/v1/jobs/{done}/deliveries")).await.expect(200);
                id(&calls["data"][0]["id"])
            }
            "session" => {
                let me = owner.get("/api/v1/me").await.expect(200);
                if me["kind"] == "user" { self.other_session().await } else { uuid::Uuid::now_v7().to_string() }
            }
            "owner" => {
                let me = owner.get("/api/v1/me").await.expect(200);
                self.listed(if me["kind"] == "user" { "users" } else { "services" }, &me["name"]).await
            }
            "person" => {
                let name = Self::word("person");
                server.person(&name, "user").await;
                self.listed("users", &json!(name)).await
            }
            "person-session" => {
                let name = Self::word("person");
                let person = server.person(&name, "user").await;
                let session = id(&person.get("/api/v1/me/sessions").await.expect(200)["data"][0]["id"]);
                // Sessions are named below their person.
                let person = self.listed("users", &json!(name)).await;
                format!("{person}/sessions/{session}")
            }
            "service" => {
                let name = Self::word("service");
                id(&server.post("/api/v1/services", json!({"name": name})).await.expect(201)["id"])
            }
            "token" => {
                let token = json!({"service": "payroll", "name": "secret", "scopes": ["jobs:read"]});
                id(&server.post("/api/v1/tokens", token).await.expect(201)["token"]["id"])
            }
            "type" => {
                let name = Self::word("type");
                server.post("/api/v1/job-types", json!({"name": name})).await.expect(201);
                name
            }
            other => panic!("nobody knows how to make {{{other}}}: add it to authorization/resources.rs"),
        }
    }

    /// Creates another session of the owner, who is a person.
    async fn other_session(&self) -> String {
        let app = &self.server.running.app;
        let owner = Box::pin(self.make("owner", None)).await.parse().expect("an id");
        let link = server::auth::sign_in_links::create(&app.pool, &app.public_url, Some(owner)).await.expect("a link");
        self.server.signed_in(&link).await;
        // The newest comes first.
        id(&self.owner.get("/api/v1/me/sessions").await.expect(200)["data"][0]["id"])
    }

    /// Unique word for names.
    fn word(kind: &str) -> String {
        format!("{kind}-{}", uuid::Uuid::now_v7().simple())
    }

    async fn listed(&self, list: &str, name: &Value) -> String {
        let mut cursor = String::new();
        loop {
            let page = self.server.get(&format!("/api/v1/{list}?limit=1000{cursor}")).await.expect(200);
            if let Some(found) = page["data"].as_array().expect("a list").iter().find(|it| it["name"] == *name) {
                return id(&found["id"]);
            }
            let next = page["next_cursor"].as_str().unwrap_or_else(|| panic!("{name} is not among the {list}"));
            cursor = format!("&cursor={next}");
        }
    }

    async fn job(&self, items: usize) -> Value {
        let items: Vec<Value> = (0..items).map(|_| json!({"payload": "secret"})).collect();
        let job = json!({"type": "a", "name": "secret tree", "items": items, "metadata": {"a": "secret"}});
        self.owner.post("/api/v1/jobs", job).await.expect(201)
    }

    async fn item(&self, job: &Value) -> String {
        let items = self.owner.get(&format!("/api/v1/items?job={}", id(&job["id"]))).await.expect(200);
        id(&items["data"][0]["id"])
    }
}

async fn claim(worker: &Api, item: &str) -> String {
    let claim = json!({"worker_id": "secret-worker", "item_ids": [item]});
    let claimed = worker.post("/api/v1/assignments", claim).await.expect(200);
    id(&claimed["assignments"][0]["id"])
}

fn id(value: &Value) -> String {
    value.as_str().unwrap_or_else(|| panic!("no id: {value}")).to_owned()
}
