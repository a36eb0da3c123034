//! The page of a worker: the items that it holds, its rates, and its last errors, as the database has them.

use serde_json::{Value, json};

use crate::{
    lists::{claim, id},
    support::{Api, Server},
};

async fn number(server: &Server, statement: &'static str) -> i64 {
    sqlx::query_scalar(statement).fetch_one(&server.running.app.pool).await.expect("a number")
}

async fn end(api: &Api, assignment: &Value, verb: &str, body: Value) {
    api.post(&format!("/api/v1/assignments/{}/{verb}", id(assignment)), body).await.expect(200);
}

#[tokio::test]
async fn worker_page_shows_items_rates_and_last_errors() {
    let server = Server::start().await;
    let backoff = json!({"min_seconds": 0, "max_seconds": 0, "jitter": false});
    server.put("/api/v1/job-types/a", json!({"backoff": backoff, "max_failures": 1})).await.expect(201);
    let team = server.service("team", &["jobs:read", "jobs:write", "work"]).await;
    let items: Vec<Value> = (0..60).map(|n| json!({"payload": n})).collect();
    team.post("/api/v1/jobs", json!({"type": "a", "items": items})).await.expect(201);
    let name = "payroll/7f3a <b>";
    let claimed = claim(&team, name, &["a"], 40).await;
    for assignment in &claimed[..8] {
        end(&team, assignment, "result", json!({"result": {}})).await;
    }
    for (n, assignment) in claimed[8..38].iter().enumerate() {
        end(&team, assignment, "failure", json!({"error": {"message": format!("no account {n}.")}})).await;
    }
    let progress = json!({"progress": {"done": 3, "total": 4, "message": "half way"}});
    team.post(&format!("/api/v1/assignments/{}/heartbeat", id(&claimed[38])), progress).await.expect(200);
    claim(&team, "other", &["a"], 1).await;
    server.running.app.engine.write_activity_counters().await.expect("written");

    // By worker and step, the history equals the attempts and outcomes.
    let differences = "select count(*) from (values (1::smallint), (2::smallint)) as steps (step)
        cross join lateral (select coalesce(sum(n_succeeded), 0) as ok, coalesce(sum(n_failed), 0) as bad,
          coalesce(sum((select sum(n) from unnest(runs) as n)), 0) as runs
          from worker_history where step = steps.step and worker_id like 'payroll%') h
        cross join (select count(*) filter (where ended_as = 1) as ok, count(*) filter (where ended_as = 2) as bad
          from outcome where worker_id like 'payroll%') o
        where (h.ok, h.bad, h.runs) is distinct from (o.ok, o.bad, o.ok + o.bad) or o.bad <> 30";
    assert_eq!(number(&server, differences).await, 0);
    assert_eq!(number(&server, "select count(*) from worker_error").await, 20, "the newest twenty are kept");

    let grace = server.person("Grace", "support").await;
    let list = grace.get("/workers").await;
    let links: Vec<&str> = list.text.split("href=\"/workers/").skip(1).filter_map(|it| it.split('"').next()).collect();
    assert_eq!(links.len(), 2, "{links:?}");
    let link = links.into_iter().find(|link| link.contains("payroll")).expect("its page");
    let page = grace.get(&format!("/workers/{link}")).await;
    assert_eq!(page.status, 200, "{}", page.text);
    let text = page.text.replace("<!>", "");
    for part in [
        "payroll/7f3a &lt;b&gt;",
        "3 of 4 · half way",
        "no account 29.",
        "no account 10.",
        "<span class=\"kpi-value\">2</span>",
        "<span class=\"kpi-value\">8</span>",
        "<span class=\"kpi-value\">30</span>",
        "id=\"attempts-data\"",
        "team",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert!(!text.contains("no account 9."), "older errors are gone");
    assert_eq!(grace.get(&format!("/workers/{link}&range=48h")).await.status, 200);

    // For staff only, and only for workers that exist.
    assert_eq!(server.person("Ann", "user").await.get(&format!("/workers/{link}")).await.status, 403);
    let (credential, _) = link.split_once('?').expect("a name");
    assert_eq!(grace.get(&format!("/workers/{credential}?name=nobody")).await.status, 404);
    assert_eq!(grace.get("/workers/nothing?name=other").await.status, 404);
    server.stop().await;
}
