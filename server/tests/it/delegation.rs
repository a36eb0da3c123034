//! Exports run with the current rights of the requesting credential, and never with more: neither another token of the
//! service nor a later change of ownership widens them.

use serde_json::{Value, json};

use crate::{
    bulk::id,
    retention::until,
    support::{Api, Server},
};

/// Creates a second token of an existing service.
async fn token(server: &Server, service: &str, scopes: &[&str]) -> (String, Api) {
    let created = server.post("/api/v1/tokens", json!({"service": service, "name": "second", "scopes": scopes})).await;
    let created = created.expect(201);
    (id(&created["token"]), server.stranger().with_token(created["secret"].as_str().expect("a secret")))
}

/// Creates a job of another owner with one waiting item.
async fn victim(server: &Server, owner: &Api) -> String {
    server.put("/api/v1/job-types/a", json!({})).await;
    id(&owner.post("/api/v1/jobs", json!({"type": "a", "items": [{"payload": "secret"}]})).await.expect(201))
}

fn order(job: &str) -> Value {
    json!({"payload": {"job_id": job, "what": "failures", "format": "ndjson"}})
}

async fn create_export(caller: &Api, item: Value, sealed: bool) -> String {
    let job = json!({"type": "export", "sealed": sealed, "items": [item]});
    id(&caller.post("/api/v1/jobs", job).await.expect(201))
}

/// Waits until the newest item of a job has ended.
async fn ended(server: &Server, job: &str) -> Value {
    let mut item = Value::Null;
    until(async || {
        let items = server.get(&format!("/api/v1/items?job={job}")).await.expect(200)["data"].clone();
        let Some(last) = items.as_array().expect("items").last() else { return false };
        item = server.get(&format!("/api/v1/items/{}", id(last))).await.expect(200);
        !item["finished_at"].is_null()
    })
    .await;
    item
}

#[track_caller]
fn refused(item: &Value, kind: &str, word: &str) {
    assert_eq!((&item["state"], &item["last_error"]["kind"]), (&json!("dead"), &json!(kind)), "{item}");
    let message = item["last_error"]["message"].as_str().expect("a message");
    assert!(message.contains(word), "{message}");
}

#[tokio::test]
async fn export_respects_token_restrictions() {
    let server = Server::start().await;
    let victim = victim(&server, &server.service("theirs", &["jobs:read", "jobs:write"]).await).await;
    let wide = server.service("ci", &["admin"]).await;
    let (_, narrow) = token(&server, "ci", &["jobs:read", "jobs:write"]).await;
    narrow.get(&format!("/api/v1/jobs/{victim}")).await.expect_problem(404, "not_found");

    refused(&ended(&server, &create_export(&narrow, order(&victim), true).await).await, "not_found", "job");
    let exported = create_export(&wide, order(&victim), true).await;
    let exported = ended(&server, &exported).await;
    assert_eq!(exported["state"], "succeeded", "{exported}");

    // Whoever adds to a job of a wider token asks with their own rights.
    let open = create_export(&wide, order(&victim), false).await;
    assert_eq!(ended(&server, &open).await["state"], "succeeded");
    narrow.post(&format!("/api/v1/jobs/{open}/items?seal=true"), json!([order(&victim)])).await.expect(200);
    refused(&ended(&server, &open).await, "not_found", "job");

    // So does whoever gives an item back with another payload, alone or with many.
    for bulk in [false, true] {
        let dead =
            create_export(&wide, json!({"payload": {"job_id": victim, "what": "nothing", "format": "csv"}}), true)
                .await;
        let item = ended(&server, &dead).await;
        refused(&item, "invalid_body", "expected");
        if bulk {
            let edit = json!([{"op": "set", "path": "/what", "value": "failures"}]);
            let all = json!({"action": "retry", "target": "items", "filter": {"job": dead, "state": "dead"},
                "payload_edit": edit});
            narrow.post("/api/v1/bulk-operations", all).await.expect(202);
        } else {
            let retry = json!({"payload": order(&victim)["payload"]});
            narrow.post(&format!("/api/v1/items/{}/retry", id(&item)), retry).await.expect(200);
        }
        let mut again = Value::Null;
        until(async || {
            again = ended(&server, &dead).await;
            again["attempts"] == 2
        })
        .await;
        refused(&again, "not_found", "job");
    }

    // Nor does anybody's order take the place of one that waits.
    let debounced =
        json!({"payload": order(&victim)["payload"], "debounce": {"key": "nightly", "seconds": 60, "max_seconds": 60}});
    let job = json!({"type": "export", "items": [debounced]});
    let problem = narrow.post("/api/v1/jobs", job).await.expect_problem(422, "invalid_body");
    assert_eq!(problem["errors"][0]["pointer"], "/items/0/debounce", "{problem}");

    // And whoever makes one again.
    let again = narrow.post(&format!("/api/v1/items/{}/replay", id(&exported)), json!({})).await.expect(201);
    refused(&ended(&server, &id(&again)).await, "not_found", "job");
    let replay = format!("/api/v1/jobs/{}/replay", exported["job_id"].as_str().expect("an id"));
    let again = narrow.post(&replay, json!({})).await.expect(201);
    refused(&ended(&server, &id(&again)).await, "not_found", "job");
    // A wider token does not widen what a narrower one began.
    let own = create_export(&narrow, order(&victim), true).await;
    let item = ended(&server, &own).await;
    wide.post(&format!("/api/v1/items/{}/retry", id(&item)), json!({})).await.expect(200);
    let mut again = Value::Null;
    until(async || {
        again = ended(&server, &own).await;
        again["attempts"] == 2
    })
    .await;
    refused(&again, "not_found", "job");
    server.stop().await;
}

#[tokio::test]
async fn export_fails_when_its_requester_loses_access() {
    let server = Server::start().await;
    let admin = server.admin().await;
    let owner = server.service("theirs", &["jobs:read", "jobs:write"]).await;
    let victim = victim(&server, &owner).await;
    server.service("ci", &["work"]).await;
    let (token_id, ci) = token(&server, "ci", &["admin"]).await;
    let (sam, sue, ada) = (
        server.person("sam", "support").await,
        server.person("sue", "support").await,
        server.person("ada", "support").await,
    );
    server.post("/api/v1/job-types/export/pause", json!({})).await.expect(200);
    let mut jobs = Vec::new();
    for asker in [&ci, &sam, &sue, &ada] {
        jobs.push(create_export(asker, order(&victim), true).await);
    }
    server.delete(&format!("/api/v1/tokens/{token_id}")).await.expect(204);
    let people = admin.get("/api/v1/users").await.expect(200)["data"].clone();
    let person = |name: &str| {
        let found = people.as_array().expect("people").iter().find(|person| person["name"] == name);
        format!("/api/v1/users/{}", id(found.expect("a person")))
    };
    admin.patch(&person("sam"), json!({"disabled": true})).await.expect(200);
    admin.patch(&person("sue"), json!({"role": "user"})).await.expect(200);
    ada.delete("/api/v1/session").await.expect(204);
    server.post("/api/v1/job-types/export/resume", json!({})).await.expect(200);
    let expected = [
        ("unauthenticated", "The token was revoked."),
        ("unauthenticated", "The account was disabled."),
        ("forbidden", "may not see the work of others any more"),
        ("unauthenticated", "The session has ended."),
    ];
    for (job, (kind, word)) in jobs.iter().zip(expected) {
        let item = ended(&server, job).await;
        refused(&item, kind, word);
        assert_eq!(item["attempts"], 1);
    }
    server.stop().await;
}

/// A schedule acts as whoever gave its job, not as whoever pauses or renames it.
#[tokio::test]
async fn scheduled_export_keeps_the_rights_of_who_ordered_it() {
    let server = Server::start().await;
    let victim = victim(&server, &server.service("theirs", &["jobs:read", "jobs:write"]).await).await;
    let wide = server.service("ci", &["admin"]).await;
    let (_, narrow) = token(&server, "ci", &["jobs:read", "jobs:write"]).await;
    let job = json!({"type": "export", "sealed": true, "items": [order(&victim)]});
    let schedule = json!({"name": "nightly", "cron": "@yearly", "job": job});
    let path = format!("/api/v1/schedules/{}", id(&narrow.post("/api/v1/schedules", schedule).await.expect(201)));
    wide.post(&format!("{path}/pause"), json!({})).await.expect(200);
    wide.post(&format!("{path}/resume"), json!({})).await.expect(200);
    wide.patch(&path, json!({"name": "renamed"})).await.expect(200);
    let run = async || {
        let ran = narrow.post(&format!("{path}/run"), json!({})).await.expect(200);
        ended(&server, ran["last_run"]["job_id"].as_str().expect("an id")).await
    };
    refused(&run().await, "not_found", "job");
    wide.patch(&path, json!({"job": job})).await.expect(200);
    assert_eq!(run().await["state"], "succeeded");
    server.stop().await;
}

#[tokio::test]
async fn scheduled_export_outlives_the_session_of_its_maker() {
    let server = Server::start().await;
    server.put("/api/v1/job-types/a", json!({})).await;
    let (pat, sam) = (server.person("pat", "user").await, server.person("sam", "support").await);
    let job = json!({"type": "a", "items": [{"payload": "own"}]});
    let job = id(&pat.post("/api/v1/jobs", job).await.expect(201));
    let mut new_schedule = json!({"name": "nightly", "cron": "@yearly",
        "job": {"type": "export", "sealed": true, "items": [order(&job)]}});
    let path =
        format!("/api/v1/schedules/{}/run", id(&pat.post("/api/v1/schedules", new_schedule.clone()).await.expect(201)));
    pat.delete("/api/v1/session").await.expect(204);
    let run = async |path: &str, caller: &Api| {
        let ran = caller.post(path, json!({"reason": "at once"})).await.expect(200);
        ended(&server, ran["last_run"]["job_id"].as_str().expect("an id")).await
    };
    let exported = run(&path, &server).await;
    assert_eq!(exported["state"], "succeeded", "{exported}");
    let audited = server.get("/api/v1/audit?action=job.export").await.expect(200);
    assert_eq!(audited["data"][0]["actor"]["name"], "pat", "{audited}");

    // It has the current rights of the account, as its trees do.
    let others = json!([order(&victim(&server, &server.service("theirs", &["jobs:read", "jobs:write"]).await).await)]);
    new_schedule["job"]["items"] = others;
    let path = format!("/api/v1/schedules/{}/run", id(&sam.post("/api/v1/schedules", new_schedule).await.expect(201)));
    sam.delete("/api/v1/session").await.expect(204);
    assert_eq!(run(&path, &server).await["state"], "succeeded");
    let people = server.get("/api/v1/users").await.expect(200)["data"].clone();
    let account = people.as_array().expect("people").iter().find(|person| person["name"] == "sam").map(id);
    server.patch(&format!("/api/v1/users/{}", account.expect("sam")), json!({"role": "user"})).await.expect(200);
    refused(&run(&path, &server).await, "not_found", "job");
    server.stop().await;
}
