//! Histories of jobs: they equal what the database holds, cost small jobs nothing, are bounded, and are drawn on the pages
//! of the jobs.

use serde_json::{Value, json};

use crate::{
    lists::{claim, id},
    support::{Api, Server, until},
};

fn items(n: i64) -> Vec<Value> {
    (0..n).map(|n| json!({"payload": n})).collect()
}

async fn number(server: &Server, statement: &'static str) -> i64 {
    sqlx::query_scalar(statement).fetch_one(&server.running.app.pool).await.expect("a number")
}

async fn end(api: &Api, assignment: &Value, verb: &str, body: Value) {
    api.post(&format!("/api/v1/assignments/{}/{verb}", id(assignment)), body).await.expect(200);
}

async fn flush(server: &Server) {
    server.running.app.engine.write_activity_counters().await.expect("written");
}

/// Jobs whose history differs from their rows, in any of three steps.
const DIFFERENCES: &str = "select count(*) from job j
    cross join (values (1::smallint), (2::smallint), (3::smallint)) as steps (step)
    cross join lateral (select count(*) as added from item where job_key = j.job_key) i
    cross join lateral (
      select count(*) filter (where state = 1) as succeeded, count(*) filter (where state = 2) as dead,
        count(*) filter (where state = 3) as cancelled from outcome where job_key = j.job_key) o
    cross join lateral (
      select coalesce(sum(n_added), 0) as added, coalesce(sum(n_succeeded), 0) as succeeded,
        coalesce(sum(n_dead), 0) as dead, coalesce(sum(n_cancelled), 0) as cancelled
      from job_history where job_key = j.job_key and step = steps.step) h
    where (i.added, o.succeeded, o.dead, o.cancelled) is distinct from (h.added, h.succeeded, h.dead, h.cancelled)
      and i.added >= 20";

#[tokio::test]
async fn job_history_matches_counted_rows() {
    let server = Server::start().await;
    let backoff = json!({"min_seconds": 0, "max_seconds": 0, "jitter": false});
    for name in ["a", "b"] {
        server.put(&format!("/api/v1/job-types/{name}"), json!({"backoff": backoff})).await.expect(201);
    }
    let body = json!({"type": "a", "name": "Payroll", "sealed": true, "items": items(30),
        "children": [{"type": "b", "key": "checks", "feed": {}}]});
    let tree = server.post("/api/v1/jobs", body).await.expect(201);
    let claimed = claim(&server, "w", &["a"], 27).await;
    for assignment in &claimed[..24] {
        end(&server, assignment, "result", json!({"result": {}})).await;
    }
    end(&server, &claimed[24], "failure", json!({"error": {"message": "no"}, "retry_after_seconds": 0})).await;
    end(&server, &claimed[25], "failure", json!({"error": {"message": "never"}, "retryable": false})).await;
    end(&server, &claimed[26], "release", json!({})).await;
    for assignment in &claim(&server, "w", &["b"], 5).await {
        end(&server, assignment, "result", json!({"result": {}})).await;
    }
    flush(&server).await;
    assert_eq!(number(&server, DIFFERENCES).await, 0);
    server.post(&format!("/api/v1/jobs/{}/cancel", id(&tree)), json!({})).await.expect(200);
    until(async || {
        flush(&server).await;
        number(&server, "select count(*) from ready").await == 0 && number(&server, DIFFERENCES).await == 0
    })
    .await;
    assert_eq!(number(&server, "select sum(n_failed)::bigint from job_history where step = 1").await, 2);
    assert_eq!(number(&server, "select sum(n_succeeded)::bigint from job_history where step = 3").await, 29);
    assert_eq!(number(&server, "select sum(n_cancelled)::bigint from job_history where step = 2").await, 24);

    // The page of the root draws the whole tree, that of a child its own part.
    let page = server.get(&format!("/jobs/{}", id(&tree))).await;
    assert_eq!(page.status, 200);
    assert!(page.text.contains("id=\"throughput\""), "{}", page.text);
    let cells = |text: &str, word: &str| -> i64 {
        let mark = format!("data-label=\"{word}\" class=\"num\">");
        let table = text.split("id=\"throughput-data\"").nth(1).and_then(|it| it.split("</table>").next());
        let cells = table.expect("a table").split(&mark).skip(1);
        cells.map(|cell| cell.split('<').next().and_then(|n| n.parse::<i64>().ok()).expect("a number")).sum()
    };
    let sums = ["Succeeded", "Failed", "Added"].map(|word| cells(&page.text, word));
    assert_eq!(sums, [29, 1, 54]);
    let child = server.get(&format!("/jobs/{}", id(&tree["children"][0]))).await;
    assert_eq!(["Succeeded", "Added"].map(|word| cells(&child.text, word)), [5, 24]);

    // A deleted tree leaves none.
    server.delete(&format!("/api/v1/jobs/{}?reason=done", id(&tree))).await.expect(204);
    until(async || number(&server, "select count(*) from job_history").await == 0).await;
    server.stop().await;
}

#[tokio::test]
async fn small_jobs_have_no_history_until_they_grow() {
    let server = Server::start().await;
    server.put("/api/v1/job-types/a", json!({})).await.expect(201);
    for _ in 0..30 {
        server.post("/api/v1/jobs", json!({"type": "a", "sealed": true, "items": items(1)})).await.expect(201);
    }
    let growing = server.post("/api/v1/jobs", json!({"type": "a", "items": items(15)})).await.expect(201);
    for assignment in &claim(&server, "w", &["a"], 45).await {
        end(&server, assignment, "result", json!({"result": {}})).await;
    }
    flush(&server).await;
    assert_eq!(number(&server, "select count(*) from job_history").await, 0);
    let path = format!("/jobs/{}", id(&growing));
    assert!(!server.get(&path).await.text.contains("id=\"throughput\""));
    server.post(&format!("/api/v1{path}/items"), json!(items(10))).await.expect(200);
    flush(&server).await;
    assert_eq!(number(&server, DIFFERENCES).await, 0, "what was counted before is in it");
    assert_eq!(number(&server, "select count(distinct job_key) from job_history").await, 1);
    assert!(server.get(&path).await.text.contains("id=\"throughput\""));
    server.stop().await;
}

#[tokio::test]
async fn histories_are_bounded_by_time_and_not_by_items() {
    let server = Server::start().await;
    server.put("/api/v1/job-types/a", json!({})).await.expect(201);
    let job = server.post("/api/v1/jobs", json!({"type": "a", "items": items(500)})).await.expect(201);
    for assignment in &claim(&server, "w", &["a"], 100).await {
        end(&server, assignment, "result", json!({"result": {}})).await;
        flush(&server).await;
    }
    // At most two minutes, hours and days are touched in this time, however many items and writes there were.
    assert!(number(&server, "select count(*) from job_history").await <= 6);
    assert!(number(&server, "select count(*) from worker_history").await <= 4);
    for statement in [
        "update job_history set starts_at = starts_at - interval '3 years'",
        "update worker_history set starts_at = starts_at - interval '3 days'",
    ] {
        sqlx::query(statement).execute(&server.running.app.pool).await.expect("moved");
    }
    server.running.app.engine.delete_old_activity().await.expect("deleted");
    let left = "select (select count(*) from job_history) + (select count(*) from worker_history)";
    assert_eq!(number(&server, left).await, 0);
    assert_eq!(server.get(&format!("/jobs/{}", id(&job))).await.status, 200);
    server.stop().await;
}
