//! Audit log: search, pages, and visibility.

use reqwest::Method;
use serde_json::{Value, json};

use crate::{
    retention::{tree, work},
    support::{Answer, Api, Server},
};

async fn whole(api: &Api, query: &str) -> Vec<Value> {
    api.get(&format!("/api/v1/audit?{query}")).await.expect(200)["data"].as_array().expect("a list").clone()
}

/// Lists actions on work. The log also contains actions on accounts and tokens.
async fn list(api: &Api, query: &str) -> Vec<Value> {
    whole(api, query).await.into_iter().filter(|row| row["job_id"].is_string()).collect()
}

#[tokio::test]
async fn audit_log_is_filtered_and_outlives_deleted_trees() {
    let server = Server::start().await;
    server.put("/api/v1/job-types/a", json!({})).await.expect(201);
    let all = ["jobs:read", "jobs:write", "work"];
    let (payroll, billing) = (server.service("payroll", &all).await, server.service("billing", &all).await);
    let (anna, ben) = (server.person("anna", "admin").await, server.person("ben", "admin").await);
    let mut jobs = Vec::new();
    for (at, owner) in [&payroll, &payroll, &billing].into_iter().enumerate() {
        jobs.push(tree(owner, 1).await);
        work(owner).await;
        let admin = if at == 1 { &ben } else { &anna };
        let path = format!("/api/v1/jobs/{}", jobs[at]);
        Answer::of(admin.request(Method::POST, &format!("{path}/pin")).json(&json!({"reason": "look"})))
            .await
            .expect(200);
        Answer::of(admin.request(Method::DELETE, &path).json(&json!({"reason": format!("case {at}")})))
            .await
            .expect(204);
    }
    // What a service does to its own work is nobody's business.
    let own = tree(&billing, 1).await;
    work(&billing).await;
    billing.delete(&format!("/api/v1/jobs/{own}")).await.expect(204);

    assert_eq!(list(&anna, "").await.len(), 6);
    assert_eq!(list(&server, "actor=ben").await.len(), 2);
    assert_eq!(list(&anna, "action=job.delete").await.len(), 3);
    assert_eq!(list(&anna, "action=job.delete&actor=anna").await.len(), 2);
    let one = list(&anna, &format!("job={}&action=job.delete", jobs[1])).await;
    assert_eq!((one.len(), &one[0]["reason"], &one[0]["root_id"]), (1, &json!("case 1"), &json!(jobs[1])));
    assert_eq!(list(&anna, &format!("root={}", jobs[2])).await.len(), 2);
    assert_eq!(list(&anna, &format!("item={}", jobs[2])).await.len(), 0);
    let last = list(&anna, "limit=1").await[0]["at"].as_str().expect("a time").to_owned();
    assert_eq!(list(&anna, &format!("since={last}")).await.len(), 1);

    assert_eq!(list(&payroll, "").await.len(), 4, "one's own work");
    assert_eq!(list(&billing, "").await.len(), 2);
    assert_eq!(list(&billing, "actor=ben").await.len(), 0);
    assert_eq!(list(&server.person("ulla", "user").await, "").await.len(), 0);
    server.service("worker", &["work"]).await.get("/api/v1/audit").await.expect_problem(403, "forbidden");
    anna.get("/api/v1/audit?colour=red").await.expect_problem(400, "invalid_parameter");

    let mut seen = Vec::new();
    let mut path = "/api/v1/audit?limit=4".to_owned();
    loop {
        let page = anna.get(&path).await.expect(200);
        seen.extend(page["data"].as_array().expect("a list").iter().map(|row| row["id"].clone()));
        let Some(cursor) = page["next_cursor"].as_str() else { break };
        anna.get(&format!("/api/v1/audit?actor=ben&cursor={cursor}")).await.expect_problem(400, "cursor_mismatch");
        path = format!("/api/v1/audit?limit=4&cursor={cursor}");
    }
    let whole: Vec<Value> = whole(&anna, "").await.iter().map(|row| row["id"].clone()).collect();
    // A refusal is written off the path of its request: it may have come meanwhile, as the newest.
    assert!(whole.ends_with(&seen), "{seen:?} {whole:?}");
    server.stop().await;
}

#[tokio::test]
async fn page_of_the_log_names_jobs_that_are_stored() {
    let server = Server::start().await;
    server.put("/api/v1/job-types/a", json!({})).await.expect(201);
    let anna = server.person("anna", "admin").await;
    let body = json!({"type": "a", "name": "Payroll <May>", "sealed": false, "items": [{"payload": 1}]});
    let job = server.post("/api/v1/jobs", body).await.expect(201)["id"].as_str().expect("an id").to_owned();
    let path = format!("/api/v1/jobs/{job}");
    Answer::of(anna.request(Method::POST, &format!("{path}/pin")).json(&json!({"reason": "look"}))).await.expect(200);
    let page = anna.get("/audit").await;
    let link = format!("<a href=\"/jobs/{job}\">Payroll &lt;May&gt;<");
    assert!(page.text.contains(&link), "{}", page.text);
    server.stop().await;
}

#[tokio::test]
async fn page_of_the_log_reads_times_in_the_zone_that_it_shows() {
    let server = Server::start().await;
    let anna = server.person("anna", "admin").await;
    sqlx::query(
        "insert into audit (id, at, actor_id, actor_kind, actor_name, action)
         values (gen_random_uuid(), '2026-11-20T23:30:00Z', gen_random_uuid(), 'user', 'Bea', 'upload.read')",
    )
    .execute(&server.running.app.pool)
    .await
    .expect("an entry");
    let shown = async |api: &Api, since: &str| {
        let page = api.get(&format!("/audit?actor=Bea&since={since}")).await;
        assert_eq!(page.status, 200, "{}", page.text);
        page.text.contains("Looked at uploaded file")
    };
    // In Vienna it was half past midnight of the next day.
    let vienna = server.with_cookie(&format!("{}; treeline_offset=60", anna.cookie()));
    for (since, in_vienna, in_utc) in [
        ("2026-11-21", true, false),
        ("2026-11-21+00:30", true, false),
        ("2026-11-21+00:31", false, false),
        ("2026-11-20", true, true),
    ] {
        assert_eq!(shown(&vienna, since).await, in_vienna, "{since}");
        assert_eq!(shown(&anna, since).await, in_utc, "{since}");
    }
    server.stop().await;
}
