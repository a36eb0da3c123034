//! Audit entries other than actions on work: sign-ins, reads, configuration, the command line; and external copies of
//! the log. `postgres_roles` tests that it cannot be changed.

use engine::settings::Secret;
use reqwest::Method;
use serde_json::{Value, json};

use crate::{
    bulk::{claim, id, kill},
    live_topics::Watching,
    retention::{tree, until, work},
    support::{Answer, Api, Server, receiver::Receiver},
};

async fn entries(api: &Api, query: &str) -> Vec<Value> {
    api.get(&format!("/api/v1/audit?limit=1000&{query}")).await.expect(200)["data"].as_array().expect("a list").clone()
}

async fn only(api: &Api, query: &str) -> Value {
    let mut found = entries(api, query).await;
    assert_eq!(found.len(), 1, "{query}: {found:?}");
    found.remove(0)
}

async fn lines(api: &Api, query: &str) -> Vec<Value> {
    let answer = api.get(&format!("/api/v1/audit?format=ndjson{query}")).await;
    answer.expect(200);
    assert_eq!(answer.headers["content-type"], "application/x-ndjson");
    answer.text.lines().map(|line| serde_json::from_str(line).expect("a line of JSON")).collect()
}

#[tokio::test]
async fn sign_ins_are_in_the_audit_log_with_address_and_credential() {
    let server = Server::start().await;
    let admin = server.admin().await;
    let first = only(&admin, "action=user.first_admin").await;
    assert_eq!((&first["actor"]["name"], &first["address"]), (&json!("admin"), &json!("127.0.0.1")));
    let session = admin.get("/api/v1/me/sessions").await.expect(200)["data"][0]["id"].clone();
    let begun = only(&admin, "action=session.begin").await;
    assert_eq!((&begun["credential_id"], &begun["actor"]["kind"]), (&session, &json!("user")));
    assert_eq!(begun["detail"], "by a one-time link");

    let ann = json!({"name": "ann", "email": "ann@example.org", "password": "a long enough passphrase"});
    let new_object = admin.post("/api/v1/users", ann).await.expect(201);
    let created = only(&admin, "action=user.create").await;
    assert_eq!((&created["credential_id"], &created["address"]), (&session, &json!("127.0.0.1")));

    for _ in 0..5 {
        let invalid = json!({"email": "ann@example.org", "password": "not the passphrase"});
        server.stranger().post("/api/v1/session", invalid).await.expect_problem(401, "unauthenticated");
        let unknown = json!({"email": "hunter2@example.org", "password": "hunter2 hunter2"});
        server.stranger().post("/api/v1/session", unknown).await.expect_problem(401, "unauthenticated");
    }
    until(async || entries(&admin, "action=session.refuse").await.len() >= 2).await;
    let refused = entries(&admin, "action=session.refuse").await;
    assert_eq!(refused.len(), 2, "one for the account, one for all that are none: {refused:?}");
    assert!(refused.iter().all(|entry| entry["actor"]["kind"] == "nobody" && entry["address"] == "127.0.0.1"));
    assert_eq!(refused.iter().filter(|entry| entry["owner"]["name"] == "ann").count(), 1);
    assert!(!json!(refused).to_string().contains("hunter2"), "what was typed is not kept");
    server.stranger().post("/api/v1/session", json!({"link": "nothing"})).await.expect_problem(410, "link_used");

    let ann = server.sign_in("ann@example.org", "a long enough passphrase").await;
    let begun = only(&admin, "action=session.begin&actor=ann").await;
    assert_eq!((&begun["detail"], &begun["owner"]["name"]), (&json!("by password"), &json!("ann")));
    ann.delete("/api/v1/session").await.expect(204);
    let ended = only(&admin, "action=session.end&actor=ann").await;
    assert_eq!((&ended["credential_id"], &ended["detail"]), (&begun["credential_id"], &json!("signed out")));

    let id = new_object["user"]["id"].as_str().or(new_object["id"].as_str()).expect("an id").to_owned();
    server.sign_in("ann@example.org", "a long enough passphrase").await;
    admin.delete(&format!("/api/v1/users/{id}/sessions")).await;
    assert_eq!(only(&admin, "action=session.end&actor=admin").await["owner"]["name"], "ann");
    server.stop().await;
}

#[tokio::test]
async fn staff_reads_of_foreign_data_are_in_the_audit_log() {
    let server = Server::start().await;
    server.put("/api/v1/job-types/a", json!({})).await.expect(201);
    let payroll = server.service("payroll", &["jobs:read", "jobs:write", "work"]).await;
    let (sue, eve) = (server.person("sue", "support").await, server.person("eve", "user").await);
    let job = tree(&payroll, 1).await;
    work(&payroll).await;
    let item = payroll.get(&format!("/api/v1/items?job={job}")).await.expect(200)["data"][0]["id"].clone();
    let item = item.as_str().expect("an id");
    let upload = Answer::of(payroll.request(Method::POST, "/api/v1/uploads?filename=a.csv&format=csv").body("n\n1\n"))
        .await
        .expect(201)["id"]
        .clone();
    let upload = upload.as_str().expect("an id");
    let nightly = json!({"name": "nightly", "cron": "0 2 * * *", "time_zone": "UTC",
        "job": {"type": "a", "sealed": true, "items": [{"payload": "of payroll"}]}});
    let schedule = payroll.post("/api/v1/schedules", nightly).await.expect(201)["id"].clone();
    let schedule = schedule.as_str().expect("an id");

    let reads = [
        ("job.read_results", format!("/api/v1/jobs/{job}/results")),
        ("job.read_failures", format!("/api/v1/jobs/{job}/failures")),
        ("job.read", format!("/api/v1/jobs/{job}")),
        ("item.read", format!("/api/v1/items/{item}")),
        ("upload.download", format!("/api/v1/uploads/{upload}/content")),
        ("upload.read", format!("/api/v1/uploads/{upload}/preview")),
        ("items.list", format!("/api/v1/items?job={job}")),
        ("schedule.read", format!("/api/v1/schedules/{schedule}")),
    ];
    for (action, path) in &reads {
        for _ in 0..3 {
            assert!(sue.get(path).await.status.is_success(), "{path}");
            assert!(payroll.get(path).await.status.is_success(), "{path}");
        }
        let entry = only(&sue, &format!("action={action}")).await;
        assert_eq!((&entry["actor"]["name"], &entry["owner"]["name"]), (&json!("sue"), &json!("payroll")), "{entry}");
        assert!(entry["credential_id"].is_string() && entry["address"] == "127.0.0.1", "{entry}");
    }
    // Of lists and searches, the log has that they were read. The pages of the same lists are counted with them.
    let lists = [
        ("schedules.list", ["/api/v1/schedules", "/schedules"]),
        ("jobs.list", ["/api/v1/jobs?root=true", "/jobs"]),
        ("search.read", ["/api/v1/search?q=payroll", "/search?q=payroll"]),
        ("deliveries.list", ["/api/v1/deliveries", "/deliveries"]),
    ];
    for (action, paths) in lists {
        for path in paths {
            sue.get(path).await.expect(200);
            payroll.get(paths[0]).await.expect(200);
        }
        let entry = only(&sue, &format!("action={action}")).await;
        assert_eq!((&entry["actor"]["name"], &entry["detail"]), (&json!("sue"), &json!("everybody's")), "{entry}");
    }
    // A page is a read like any other, and was counted with them.
    sue.get(&format!("/items/{item}")).await.expect(200);
    assert_eq!(entries(&sue, "action=item.read").await.len(), 1);
    assert_eq!(entries(&payroll, "action=job.read_results").await.len(), 1, "the owner sees who looked");

    // Somebody who is refused, too: 404 and 403, once each object and hour.
    for _ in 0..3 {
        eve.get(&format!("/api/v1/jobs/{job}")).await.expect_problem(404, "not_found");
        eve.get("/api/v1/users").await.expect_problem(403, "forbidden");
        eve.get(&format!("/api/v1/jobs/{}", uuid::Uuid::now_v7())).await.expect_problem(404, "not_found");
    }
    eve.post("/api/v1/assignments", json!({"worker_id": "w", "types": ["a"]})).await.expect_problem(403, "forbidden");
    until(async || entries(&sue, "action=access.refuse&actor=eve").await.len() == 3).await;
    let about = only(&sue, &format!("action=access.refuse&job={job}")).await;
    assert_eq!(about["detail"], "GET /api/v1/jobs/{id}: 404 not_found");
    server.stop().await;
}

/// A change that changes nothing returns its object, and a refused form shows it.
#[tokio::test]
async fn changes_without_effect_are_in_the_audit_log_as_reads() {
    let server = Server::start().await;
    server.put("/api/v1/job-types/a", json!({})).await.expect(201);
    let payroll = server.service("payroll", &["jobs:read", "jobs:write"]).await;
    let person = |name| server.person(name, "support");
    let (sue, sam, sid, sal) = futures::join!(person("sue"), person("sam"), person("sid"), person("sal"));
    let job = tree(&payroll, 1).await;
    let item = payroll.get(&format!("/api/v1/items?job={job}")).await.expect(200)["data"][0]["id"].clone();
    let item = item.as_str().expect("an id");
    let (reason, nothing) = (json!({"reason": "curious"}), json!({}));
    let patched = sue.patch(&format!("/api/v1/items/{item}"), reason.clone()).await.expect(200);
    assert!(!patched["payload"].is_null(), "{patched}");
    assert_eq!(only(&sue, "actor=sue&action=item.read").await["item_id"], item);
    // A refusal just before is not that read.
    sam.delete(&format!("/api/v1/jobs/{job}")).await.expect_problem(403, "forbidden");
    until(async || entries(&sue, "actor=sam&action=access.refuse").await.len() == 1).await;
    sam.patch(&format!("/api/v1/jobs/{job}"), reason).await.expect(200);
    assert_eq!(only(&sue, "actor=sam&action=job.read").await["job_id"], *job);
    sid.request(Method::DELETE, &format!("/api/v1/jobs/{job}/pin")).json(&nothing).send().await.expect("an answer");
    assert_eq!(entries(&sue, "actor=sid&action=job.read").await.len(), 1);
    let form = sal.form(&format!("/items/{item}/cancel"), &[]).await;
    assert_eq!(form.status, 422, "{}", form.text);
    assert_eq!(entries(&sue, "actor=sal&action=item.read").await.len(), 1);
    let share = server.post(&format!("/api/v1/jobs/{job}/share"), json!({"reason": "asked for"})).await.expect(201);
    let form = sal.form(&format!("/shares/{}/revoke", share["id"].as_str().expect("an id")), &[]).await;
    assert_eq!(form.status, 422, "{}", form.text);
    assert_eq!(only(&sue, "actor=sal&action=job.read").await["job_id"], *job);
    server.stop().await;
}

/// Creates a service with a job whose two items are dead; returns the service, the job, and the items.
async fn dead_letters(server: &Server) -> (Api, String, Vec<String>) {
    server.put("/api/v1/job-types/a", json!({})).await.expect(201);
    let payroll = server.service("payroll", &["jobs:read", "jobs:write", "work"]).await;
    let body = json!({"type": "a", "sealed": true, "items": [{"payload": {"account": "DE89"}}, {"payload": {"n": 1}}]});
    let job = id(&payroll.post("/api/v1/jobs", body).await.expect(201));
    let mut items = Vec::new();
    for assignment in claim(&payroll, "a", 10, 0).await {
        kill(&payroll, &assignment).await;
        items.push(id(&assignment["item"]));
    }
    assert_eq!(items.len(), 2);
    (payroll, job, items)
}

/// The members of an operation belong to any owner, whoever started it.
#[tokio::test]
async fn members_of_bulk_operations_are_in_the_audit_log_as_reads() {
    const OPERATIONS: &str = "/api/v1/bulk-operations";
    let server = Server::start().await;
    let (payroll, job, _) = dead_letters(&server).await;
    let sue = server.person("sue", "support").await;
    let filter = json!({"job": job, "state": "dead"});
    let dry_run = json!({"action": "retry", "target": "items", "filter": filter, "dry_run": true});
    let preview = sue.post(OPERATIONS, dry_run.clone()).await.expect(200);
    let entry = only(&server, "actor=sue&action=items.list").await;
    assert_eq!(entry["detail"], "everybody's", "{entry}");
    let path = format!("{OPERATIONS}/{}", id(&preview));
    until(async || server.get(&path).await.expect(200)["sample"][0]["message"] == "no account").await;

    let page = format!("/bulk/{}", id(&preview));
    let reads = [("sam", path.as_str()), ("sid", OPERATIONS), ("sal", page.as_str()), ("sol", "/bulk")];
    for (name, read) in reads {
        let person = server.person(name, "support").await;
        for _ in 0..2 {
            person.get(read).await.expect(200);
        }
        assert_eq!(entries(&sue, &format!("actor={name}&action=items.list")).await.len(), 1, "{read}");
    }
    let kim = server.person("kim", "support").await;
    Watching::open(&kim, "operations").await;
    assert_eq!(entries(&sue, "actor=kim&action=items.list").await.len(), 1);

    // An operation that starts is one entry.
    let kai = server.person("kai", "support").await;
    let started = json!({"action": "retry", "target": "items", "filter": filter, "reason": "the bank is open"});
    kai.post(OPERATIONS, started).await.expect(202);
    only(&sue, "actor=kai&action=bulk.retry").await;
    assert_eq!(entries(&sue, "actor=kai&action=items.list").await.len(), 0);
    // Owners have only their own work in a preview.
    payroll.post(OPERATIONS, dry_run).await.expect(200);
    payroll.get(OPERATIONS).await.expect(200);
    assert_eq!(entries(&sue, "actor=payroll&action=items.list").await.len(), 0);
    server.stop().await;
}

/// The forms of an operation and of an error group show other people's data without a change.
#[tokio::test]
async fn refused_forms_over_all_owners_are_in_the_audit_log_as_reads() {
    let server = Server::start().await;
    let (payroll, job, mut items) = dead_letters(&server).await;
    let (sue, sam) = futures::join!(server.person("sue", "support"), server.person("sam", "support"));
    let q = format!("state:dead root:{job}");
    let preview = sue.form("/bulk", &[("what", "retry items"), ("q", &q)]).await;
    assert_eq!(preview.status, 303, "{}", preview.text);
    let preview = preview.headers["location"].to_str().expect("text").to_owned();
    let path = format!("/api/v1/bulk-operations/{}", preview.trim_start_matches("/bulk/"));
    until(async || server.get(&path).await.expect(200)["state"] == "ready").await;
    assert_eq!(entries(&sue, "actor=sue&action=items.list").await.len(), 0, "nothing was shown");

    let start = format!("{preview}/start");
    for _ in 0..2 {
        let shown = sue.form(&start, &[("edits", "set /x 1"), ("show", "1")]).await;
        assert_eq!(shown.status, 422, "{}", shown.text);
        assert!(shown.text.contains("Payloads before and after") && shown.text.contains("DE89"), "{}", shown.text);
    }
    // Each payload is a read of its item, which its owner sees.
    let reads = entries(&payroll, "actor=sue&action=item.read").await;
    let mut of: Vec<&str> = reads.iter().filter_map(|entry| entry["item_id"].as_str()).collect();
    of.sort_unstable();
    items.sort_unstable();
    assert_eq!(of, items, "{reads:?}");
    assert_eq!(entries(&sue, "actor=sue&action=items.list").await.len(), 1, "the sample");

    let groups = payroll.get("/api/v1/dead-letters/groups").await.expect(200);
    let fingerprint = groups["data"][0]["fingerprint"].as_str().expect("text");
    let refused = sam.form(&format!("/dead/groups/a/{fingerprint}"), &[("state", "resolved")]).await;
    assert!(refused.status == 422 && refused.text.contains("no account"), "{}", refused.text);
    assert_eq!(entries(&sue, "actor=sam&action=items.list").await.len(), 1);
    server.stop().await;
}

#[tokio::test]
async fn imports_of_foreign_files_are_in_the_audit_log() {
    let server = Server::start().await;
    server.put("/api/v1/job-types/a", json!({})).await.expect(201);
    let payroll = server.service("payroll", &["jobs:read", "jobs:write"]).await;
    let (sue, sam) = (server.person("sue", "support").await, server.person("sam", "support").await);
    let upload = Answer::of(payroll.request(Method::POST, "/api/v1/uploads?filename=a.csv&format=csv").body("n\n1\n"));
    let upload = upload.await.expect(201)["id"].as_str().expect("an id").to_owned();
    // The pages that show the rows: once an hour, by each credential.
    for _ in 0..2 {
        sue.get(&format!("/imports/new?upload_id={upload}&type=a")).await.expect(200);
        let fields = [("upload_id", upload.as_str()), ("type", "a"), ("do", "check")];
        assert!(sam.form("/imports", &fields).await.status.is_success());
    }
    for name in ["sue", "sam"] {
        let entry = only(&payroll, &format!("action=upload.read&actor={name}")).await;
        assert_eq!(entry["owner"]["name"], "payroll", "{entry}");
        assert_eq!(entry["detail"], format!("upload {upload}"), "{entry}");
    }
    // A job of one's own that has all rows of the file, whoever creates it.
    let admin = server.service("ci", &["admin"]).await;
    for (caller, name, earlier) in [(&sue, "sue", 1), (&admin, "ci", 0)] {
        let body = json!({"type": "a", "upload": {"id": upload}});
        let job = caller.post("/api/v1/jobs", body).await.expect(201)["id"].clone();
        let found = entries(&payroll, &format!("action=upload.read&actor={name}")).await;
        assert_eq!((found.len(), &found[0]["owner"]["name"]), (earlier + 1, &json!("payroll")), "{found:?}");
        let detail = format!("upload {upload}, for the job {}", job.as_str().expect("an id"));
        assert_eq!(found[0]["detail"], detail);
    }
    payroll.post("/api/v1/jobs", json!({"type": "a", "upload": {"id": upload}})).await.expect(201);
    assert_eq!(entries(&payroll, "action=upload.read&actor=payroll").await, Vec::<Value>::new());
    server.stop().await;
}

#[tokio::test]
async fn adding_and_sealing_foreign_jobs_requires_reason() {
    let server = Server::start().await;
    server.put("/api/v1/job-types/a", json!({})).await.expect(201);
    let payroll = server.service("payroll", &["jobs:read", "jobs:write"]).await;
    let sue = server.person("sue", "support").await;
    let open = json!({"type": "a", "items": [{"payload": 1}]});
    let job = payroll.post("/api/v1/jobs", open).await.expect(201)["id"].as_str().expect("an id").to_owned();
    let (items, seal) = (format!("/api/v1/jobs/{job}/items"), format!("/api/v1/jobs/{job}/seal"));

    sue.post(&items, json!([{"payload": 2}])).await.expect_problem(422, "reason_required");
    let ndjson = "{\"payload\":3}\n{\"payload\":4}\n";
    sue.post_text(&items, "application/x-ndjson", ndjson).await.expect_problem(422, "reason_required");
    sue.post(&seal, json!({})).await.expect_problem(422, "reason_required");
    assert_eq!(entries(&sue, "action=items.add").await.len(), 0);

    sue.post(&format!("{items}?reason=one%20was%20missing"), json!([{"payload": 2}])).await.expect(200);
    let many: String = (0..3_000).map(|n| format!("{{\"payload\":{n}}}\n")).collect();
    sue.post_text(&format!("{items}?reason=three%20thousand"), "application/x-ndjson", many).await.expect(200);
    Answer::of(sue.request(Method::POST, &format!("{seal}?reason=by%20phone"))).await.expect(200);
    let added = entries(&payroll, &format!("action=items.add&job={job}")).await;
    assert_eq!(added.len(), 2, "a stream is one entry: {added:?}");
    assert_eq!((&added[1]["reason"], &added[1]["detail"]), (&json!("one was missing"), &json!("1 item")));
    assert_eq!(only(&payroll, "action=job.seal").await["reason"], "by phone");
    // On one's own nobody asks.
    let own = payroll.post("/api/v1/jobs", json!({"type": "a"})).await.expect(201)["id"].clone();
    let own = own.as_str().expect("an id");
    payroll.post(&format!("/api/v1/jobs/{own}/items"), json!([{"payload": 2}])).await.expect(200);
    payroll.post(&format!("/api/v1/jobs/{own}/seal"), json!({})).await.expect(200);
    assert_eq!(entries(&payroll, &format!("job={own}")).await.len(), 0);
    server.stop().await;
}

#[tokio::test]
async fn upload_deletion_requires_owner_or_admin_with_reason() {
    let server = Server::start().await;
    let payroll = server.service("payroll", &["jobs:read", "jobs:write"]).await;
    let (sue, ada) = (server.person("sue", "support").await, server.person("ada", "admin").await);
    let mut paths = Vec::new();
    for _ in 0..2 {
        let new_object = payroll.request(Method::POST, "/api/v1/uploads?filename=a.csv").body("n\n1\n");
        let id = Answer::of(new_object).await.expect(201)["id"].as_str().expect("an id").to_owned();
        paths.push(format!("/api/v1/uploads/{id}"));
    }
    sue.delete(&format!("{}?reason=x", paths[0])).await.expect_problem(403, "forbidden");
    ada.delete(&paths[0]).await.expect_problem(422, "reason_required");
    ada.delete(&format!("{}?reason=personal%20data", paths[0])).await.expect(204);
    let entry = only(&payroll, "action=upload.delete").await;
    assert_eq!((&entry["reason"], &entry["actor"]["name"]), (&json!("personal data"), &json!("ada")));
    payroll.delete(&paths[1]).await.expect(204);
    server.stop().await;
}

#[tokio::test]
async fn job_type_changes_are_in_the_audit_log_without_secrets() {
    let server = Server::start().await;
    let ada = server.person("ada", "admin").await;
    let push = json!({"kind": "push", "url": "https://hooks.example/in?key=s3cret", "secret": "whsec_hunter2hunter2",
        "auth": {"user": "u", "password": "hunter2"}});
    ada.put("/api/v1/job-types/mail", json!({"max_failures": 3, "executor": push})).await.expect(201);
    ada.patch("/api/v1/job-types/mail", json!({"max_failures": 5})).await.expect(200);
    let mut moved = push.clone();
    moved["secret"] = json!("whsec_hunter3hunter3");
    ada.patch("/api/v1/job-types/mail", json!({"executor": moved})).await.expect(200);
    ada.post("/api/v1/job-types/mail/pause", json!({})).await.expect(200);
    ada.post("/api/v1/job-types/mail/pause", json!({})).await.expect(200);
    ada.post("/api/v1/job-types/mail/resume", json!({})).await.expect(200);
    ada.delete("/api/v1/job-types/mail").await.expect(204);
    let log: Vec<Value> =
        entries(&ada, "actor=ada").await.into_iter().filter(|entry| entry["action"] != "session.begin").collect();
    let actions: Vec<&str> = log.iter().rev().map(|entry| entry["action"].as_str().expect("text")).collect();
    let pause = ["job_type.pause", "job_type.resume", "job_type.delete"];
    assert_eq!(actions, [["job_type.create", "job_type.change", "job_type.change"], pause].concat());
    let details: Vec<&str> = log.iter().rev().map(|entry| entry["detail"].as_str().expect("text")).collect();
    assert!(details[0].contains("executor.url: https://hooks.example/in"), "{}", details[0]);
    assert_eq!(details[1], "mail: max_failures: 3 → 5");
    assert_eq!(details[2], "mail: executor.secret: changed");
    let whole = json!(log).to_string();
    assert!(!whole.contains("hunter") && !whole.contains("s3cret"), "{whole}");
    server.stop().await;
}

#[tokio::test]
async fn tree_creation_by_staff_is_in_the_audit_log() {
    let server = Server::start().await;
    server.put("/api/v1/job-types/a", json!({})).await.expect(201);
    let (sue, eve) = (server.person("sue", "support").await, server.person("eve", "user").await);
    let body = json!({"type": "a", "name": "March", "items": [{"payload": 1}, {"payload": 2}],
        "children": [{"type": "a"}]});
    let new_object = sue.post("/api/v1/jobs", body.clone()).await.expect(201)["id"].clone();
    let entry = only(&server, "action=job.create").await;
    assert_eq!(
        (&entry["actor"]["name"], &entry["job_id"], &entry["root_id"]),
        (&json!("sue"), &new_object, &new_object)
    );
    assert_eq!(entry["detail"], "a \"March\": 2 jobs, 2 items");
    assert!(entry["address"].is_string() && entry["credential_id"].is_string(), "{entry}");
    // What is refused is not made; what services and users make of their own is their work.
    sue.post(
        "/api/v1/jobs",
        json!({"type": "a", "items": [{"payload": 1, "dedupe_key": "x"}, {"payload": 1, "dedupe_key": "x"}]}),
    )
    .await
    .expect_problem(409, "duplicate");
    for other in [&eve, &server.service("payroll", &["jobs:write", "jobs:read"]).await] {
        other.post("/api/v1/jobs", body.clone()).await.expect(201);
    }
    assert_eq!(entries(&server, "action=job.create").await.len(), 1);
    server.stop().await;
}

#[tokio::test]
async fn bulk_operation_is_one_audit_entry_visible_to_each_owner() {
    let server = Server::start().await;
    server.put("/api/v1/job-types/a", json!({})).await.expect(201);
    let all = ["jobs:read", "jobs:write", "work"];
    let (payroll, billing) = (server.service("payroll", &all).await, server.service("billing", &all).await);
    let sue = server.person("sue", "support").await;
    tree(&payroll, 3).await;
    tree(&payroll, 3).await;
    let order = json!({"action": "cancel", "target": "items", "filter": {"type": ["a"]}, "reason": "a wrong file"});
    let id = sue.post("/api/v1/bulk-operations", order).await.expect(202)["id"].as_str().expect("an id").to_owned();
    let path = format!("/api/v1/bulk-operations/{id}");
    until(async || sue.get(&path).await.expect(200)["state"] == "completed").await;
    let entry = only(&sue, "action=bulk.cancel").await;
    assert_eq!((&entry["operation_id"], &entry["reason"]), (&json!(id), &json!("a wrong file")));
    assert_eq!(entries(&sue, "action=item.cancel").await.len(), 0);
    assert_eq!(only(&payroll, "action=bulk.cancel").await["operation_id"], json!(id), "its owner sees it");
    assert!(entries(&billing, "action=bulk.cancel").await.is_empty(), "others do not");
    server.stop().await;
}

#[tokio::test]
async fn command_line_actions_are_in_the_audit_log() {
    let server = Server::start().await;
    server.admin().await;
    server.program(&["sign-in-link"]).await;
    server.program(&["signing-secret", "--type", "mail"]).await;
    let link = only(&server, "action=user.sign_in_link").await;
    assert_eq!((&link["actor"]["kind"], &link["owner"]["name"]), (&json!("operator"), &json!("admin")));
    let secret = only(&server, "action=signing_secret.show").await;
    assert_eq!(secret["detail"], "of posts to the workers of mail");
    server.stop().await;
}

#[tokio::test]
async fn audit_stream_resumes_where_it_ended() {
    let server = Server::start().await;
    let ada = server.person("ada", "admin").await;
    for n in 0..30 {
        ada.put(&format!("/api/v1/job-types/t{n}"), json!({})).await.expect(201);
    }
    let all = lines(&ada, "").await;
    assert_eq!(all.iter().filter(|entry| entry["action"] == "job_type.create").count(), 30);
    let mut newest: Vec<Value> = entries(&ada, "").await;
    newest.reverse();
    assert_eq!(all, newest, "the same entries, oldest first");
    let middle = all[12]["id"].as_str().expect("an id");
    assert_eq!(lines(&ada, &format!("&after={middle}")).await, all[13..]);
    assert_eq!(lines(&ada, "&actor=ada&action=session.begin").await.len(), 1);
    let eve = server.person("eve", "user").await;
    assert_eq!(lines(&eve, "").await.len(), 1, "her own sign-in");
    let nothing = uuid::Uuid::now_v7();
    let odd = [format!("after={nothing}&format=ndjson"), "after=x".into(), "format=ndjson&limit=3".into()];
    let odd = odd.into_iter().chain(["format=ndjson&sort=created_at".to_owned()]);
    for query in odd.chain([format!("after={middle}"), "format=csv".to_owned()]) {
        ada.get(&format!("/api/v1/audit?{query}")).await.expect_problem(400, "invalid_parameter");
    }

    // An entry whose transaction is still open is waited for, as whoever goes on behind a later one would miss it.
    let mut tx = server.running.app.pool.begin().await.expect("a transaction");
    sqlx::query(
        "insert into audit (id, actor_id, actor_kind, actor_name, action) values ($1, $1, 'user', 'slow', 'x')",
    )
    .bind(nothing)
    .execute(&mut *tx)
    .await
    .expect("an entry");
    ada.put("/api/v1/job-types/late", json!({})).await.expect(201);
    let copying = tokio::spawn({
        let ada = ada.clone();
        async move { lines(&ada, "").await }
    });
    until(async || {
        let page = sqlx::query_scalar::<_, i64>("select count(*) from pg_stat_activity where query like '%pg_stat%'");
        page.fetch_one(&server.running.app.pool).await.expect("a number") > 0
    })
    .await;
    assert!(!copying.is_finished());
    tx.commit().await.expect("it commits");
    let copied = copying.await.expect("the stream ends");
    let position = |action: &str| copied.iter().rposition(|entry| entry["action"] == action).expect("it is there");
    assert!(position("x") < position("job_type.create"), "in order, and none is missing");
    server.stop().await;
}

#[tokio::test]
async fn audit_webhook_is_signed_ordered_and_retried() {
    let mut receiver = Receiver::start().await;
    let url: Secret = receiver.url("/siem").parse().expect("a secret");
    let server = Server::start_with(|config| config.audit.url = Some(url.clone())).await;
    let key = server.program(&["signing-secret", "--audit"]).await;
    let key = engine::signing::Key::of(key.trim());

    let first = receiver.next().await;
    let verify = |post: &crate::support::receiver::Post| {
        let at: i64 = post.header("webhook-timestamp").parse().expect("a time");
        let signed = key.sign(post.header("webhook-id"), at, post.body.as_bytes());
        assert_eq!(post.header("webhook-signature"), signed);
        let entries = post.json()["data"]["entries"].as_array().expect("entries").clone();
        assert_eq!(post.json()["type"], "audit.entries");
        entries
    };
    let refused = verify(&first);
    assert_eq!(refused[0]["action"], "signing_secret.show");
    first.status(503);
    let again = receiver.next().await;
    let taken = verify(&again);
    assert_eq!(taken[0], refused[0], "nothing is lost");
    again.status(204);

    let ada = server.person("ada", "admin").await;
    ada.put("/api/v1/job-types/a", json!({})).await.expect(201);
    let mut seen: Vec<Value> = Vec::new();
    while !seen.iter().any(|entry| entry["action"] == "job_type.create") {
        let post = receiver.next().await;
        seen.extend(verify(&post));
        post.status(204);
    }
    let ids: Vec<&str> = seen.iter().map(|entry| entry["id"].as_str().expect("an id")).collect();
    assert!(ids.iter().all(|id| Some(*id) != taken[0]["id"].as_str()), "what was taken does not come again");
    server.stop().await;
}
