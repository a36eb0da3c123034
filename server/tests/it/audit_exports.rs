//! Exports and uses of share links are audited.
//!
//! Separate from `audit_trail`, which covers actions and API reads. The server performs an export after its request has
//! ended, and the user of a link has no account.

use serde_json::{Value, json};

use crate::{
    bulk::id,
    retention::until,
    support::{Api, Server},
};

/// Entries of one action, newest first.
async fn entries(api: &Api, action: &str) -> Vec<Value> {
    let list = api.get(&format!("/api/v1/audit?limit=1000&action={action}")).await.expect(200);
    list["data"].as_array().expect("a list").clone()
}

async fn tree_of(server: &Server, owner: &Api) -> String {
    server.put("/api/v1/job-types/a", json!({})).await;
    id(&owner.post("/api/v1/jobs", json!({"type": "a", "items": [{"payload": "secret"}]})).await.expect(201))
}

/// Starts an export of a tree, and waits until its file is written.
async fn export(server: &Server, caller: &Api, tree: &str) -> String {
    let item = json!({"payload": {"job_id": tree, "what": "items", "format": "csv"}});
    let job = json!({"type": "export", "sealed": true, "items": [item]});
    let job = id(&caller.post("/api/v1/jobs", job).await.expect(201));
    until(async || {
        let job = server.get(&format!("/api/v1/jobs/{job}")).await.expect(200);
        assert_eq!(job["counts"]["dead"], 0, "{job}");
        job["status"] == "completed"
    })
    .await;
    job
}

#[tokio::test]
async fn every_export_is_in_the_audit_log() {
    let server = Server::start().await;
    let owner = server.service("payroll", &["jobs:read", "jobs:write"]).await;
    let (sam, admin) = (server.person("sam", "support").await, server.admin().await);
    let tree = tree_of(&server, &owner).await;

    let by_owner = export(&server, &owner, &tree).await;
    let by_staff = export(&server, &sam, &tree).await;
    let found = entries(&admin, "job.export").await;
    assert_eq!(found.len(), 2, "{found:?}");
    for (entry, actor, kind, job) in
        [(&found[0], "sam", "user", &by_staff), (&found[1], "payroll", "service", &by_owner)]
    {
        assert_eq!(entry["actor"], json!({"kind": kind, "name": actor}), "{entry}");
        assert_eq!((&entry["owner"]["name"], &entry["job_id"]), (&json!("payroll"), &json!(tree)), "{entry}");
        assert_eq!(entry["detail"], format!("items as csv, by the job {job}"));
        assert!(entry["credential_id"].is_string(), "{entry}");
    }
    assert_eq!(entries(&owner, "job.export").await, found, "owners see who exported their work");
    let other = server.service("other", &["jobs:read"]).await;
    assert_eq!(entries(&other, "job.export").await, Vec::<Value>::new());
    server.stop().await;
}

#[tokio::test]
async fn first_use_of_share_link_is_in_the_audit_log() {
    let server = Server::start().await;
    let ada = server.person("ada", "user").await;
    let tree = tree_of(&server, &ada).await;
    let mut links = Vec::new();
    for _ in 0..2 {
        let created = ada.post(&format!("/api/v1/jobs/{tree}/share"), json!({})).await.expect(201);
        let path =
            created["url"].as_str().expect("a link").strip_prefix(&server.url("")).expect("this server").to_owned();
        links.push((id(&created), path));
    }
    assert!(entries(&ada, "share.open").await.is_empty(), "making a link is no use of it");
    for _ in 0..3 {
        assert_eq!(server.stranger().get(&links[0].1).await.status, 200);
    }
    // Its cookie alone, without the page: the link is used all the same.
    let secret = links[1].1.strip_prefix("/s/").expect("a secret");
    let guest = server.with_cookie(&format!("treeline_share={secret}"));
    for _ in 0..3 {
        guest.get(&format!("/api/v1/jobs/{tree}/results")).await.expect(200);
    }
    server.stranger().get("/s/rubbish").await;

    let found = entries(&ada, "share.open").await;
    assert_eq!(found.len(), 2, "one for each link and address: {found:?}");
    for (entry, (link, _)) in found.iter().zip(links.iter().rev()) {
        assert_eq!(entry["actor"]["kind"], "nobody", "{entry}");
        assert_eq!((&entry["credential_id"], &entry["root_id"]), (&json!(link), &json!(tree)), "{entry}");
        assert_eq!((&entry["owner"]["name"], &entry["address"]), (&json!("ada"), &json!("127.0.0.1")), "{entry}");
    }
    server.stop().await;
}

#[tokio::test]
async fn changed_email_ends_all_sessions() {
    let server = Server::start().await;
    let admin = server.admin().await;
    let (ada, again) = (server.person("ada", "user").await, server.person("eve", "user").await);
    let root = server.person("root", "admin").await;
    let id_of = async |name: &str| {
        let list = root.get("/api/v1/users").await.expect(200)["data"].as_array().expect("people").clone();
        id(list.iter().find(|person| person["name"] == name).expect("a person"))
    };
    let path = format!("/api/v1/users/{}", id_of("ada").await);
    admin.patch(&path, json!({"role": "support"})).await.expect(200);
    ada.get("/api/v1/me").await.expect(200);
    admin.patch(&path, json!({"email": "ada@example.org"})).await.expect(200);
    ada.get("/api/v1/me").await.expect_problem(401, "unauthenticated");
    again.get("/api/v1/me").await.expect(200);
    let entry = entries(&admin, "user.email").await.remove(0);
    assert_eq!(entry["detail"], "none → ada@example.org; sessions ended: 1");

    // An admin's own new address leaves the session that asks for it, and ends the others.
    let own = id_of("root").await;
    let app = &server.running.app;
    let link = server::auth::sign_in_links::create(&app.pool, &app.public_url, own.parse().ok()).await.expect("a link");
    let elsewhere = server.signed_in(&link).await;
    elsewhere.get("/api/v1/me").await.expect(200);
    let path = format!("/api/v1/users/{own}");
    root.patch(&path, json!({"email": "root@example.org"})).await.expect(200);
    elsewhere.get("/api/v1/me").await.expect_problem(401, "unauthenticated");
    root.get("/api/v1/me").await.expect(200);
    server.stop().await;
}
