//! No statement scans a whole table, even on tables that were never analyzed, as in the first minute of a large job.
//! Measured by PostgreSQL, in rows, not in time.

use serde_json::{Value, json};

use crate::support::Server;

/// Items of the large job. With fewer, a full scan is a good plan.
const ITEMS: usize = 100_000;
/// Maximum rows read by full scans of one table in all statements: a batch of some hundred ids may use one full scan of
/// a table of this size, but not every page or every claim.
const FEW: i64 = 4 * ITEMS as i64;
/// Tables with a row for each waiting item.
const LARGE: [&str; 2] = ["item", "ready"];

async fn claimed(server: &Server, max: usize) -> Vec<String> {
    let body = json!({"worker_id": "w", "types": ["many"], "max": max, "wait_seconds": 10});
    let got = server.post("/api/v1/assignments", body).await.expect(200);
    got["assignments"].as_array().expect("assignments").iter().map(|one| text(&one["id"])).collect()
}

fn text(value: &Value) -> String {
    value.as_str().expect("text").to_owned()
}

#[tokio::test]
async fn no_full_scan_of_large_tables() {
    let server = Server::start().await;
    for table in LARGE {
        let never = format!("alter table {table} set (autovacuum_enabled = false)");
        sqlx::query(sqlx::AssertSqlSafe(never)).execute(&server.running.app.pool).await.expect("as it is told");
    }
    server.put("/api/v1/job-types/many", json!({"steps": ["one"], "backoff": {"min_seconds": 3600}})).await.expect(201);
    let job = text(&server.post("/api/v1/jobs", json!({"type": "many", "name": "large"})).await.expect(201)["id"]);
    let line = |n: usize| match n % 1_000 {
        0 => format!("{{\"payload\":{n},\"run_after\":\"2199-01-01T00:00:00Z\"}}\n"),
        1 => format!("{{\"payload\":{n},\"serialize_key\":\"k\"}}\n"),
        _ => format!("{{\"payload\":{n},\"dedupe_key\":\"{n}\"}}\n"),
    };
    let lines: String = (0..ITEMS).map(line).collect();
    let added = server.post_text(&format!("/api/v1/jobs/{job}/items"), "application/x-ndjson", lines).await;
    assert_eq!(added.expect(200)["accepted"], ITEMS);

    // Of five hundred a third each succeeds, is tried again in an hour, is dead.
    for _ in 0..10 {
        let assignments = claimed(&server, 50).await;
        assert_eq!(assignments.len(), 50);
        let ending = |(n, id): (usize, &String)| match n % 3 {
            0 => json!({"assignment_id": id, "result": {"n": n}}),
            of => json!({"assignment_id": id, "error": {"message": format!("no such user {n}")}, "retryable": of == 1}),
        };
        let endings: Vec<Value> = assignments.iter().enumerate().map(ending).collect();
        server.post("/api/v1/assignments/finish", json!({"endings": endings})).await.expect(200);
    }
    let assignments = claimed(&server, 50).await;
    server.post(&format!("/api/v1/assignments/{}/step", assignments[0]), json!({"name": "one"})).await.expect(200);
    server.post(&format!("/api/v1/assignments/{}/heartbeat", assignments[0]), json!({})).await.expect(200);
    server.post(&format!("/api/v1/assignments/{}/release", assignments[1]), json!({})).await.expect(200);

    let dead = server.get(&format!("/api/v1/items?job={job}&state=dead&limit=5")).await.expect(200);
    let item = text(&dead["data"][0]["id"]);
    let group = server.get(&format!("/api/v1/dead-letters/groups?job={job}")).await.expect(200);
    let error = text(&group["data"][0]["fingerprint"]);
    let reads = [
        format!("/jobs/{job}"),
        format!("/jobs/{job}?view=graph"),
        format!("/jobs/{job}?view=timeline"),
        format!("/jobs/{job}?view=results"),
        format!("/jobs/{job}?view=activity"),
        format!("/imports/{job}"),
        "/jobs".to_owned(),
        "/items".to_owned(),
        format!("/items?q=job:{job}"),
        format!("/items/{item}"),
        "/dead".to_owned(),
        format!("/dead?q=root:{job}"),
        "/".to_owned(),
        "/types".to_owned(),
        "/workers".to_owned(),
        format!("/api/v1/items?job={job}"),
        format!("/api/v1/items?job={job}&state=available"),
        format!("/api/v1/items?job={job}&state=scheduled,retryable"),
        format!("/api/v1/items?job={job}&state=running"),
        format!("/api/v1/items?job={job}&state=blocked"),
        format!("/api/v1/items?job={job}&error={error}"),
        format!("/api/v1/items?job={job}&worker=w"),
        format!("/api/v1/items?job={job}&serialize_key=k"),
        format!("/api/v1/items?job={job}&dedupe_key=2"),
        format!("/api/v1/items?job={job}&state=dead&q=user"),
        format!("/api/v1/items/{item}"),
        format!("/api/v1/items/{item}/attempts"),
        "/api/v1/dead-letters".to_owned(),
        "/api/v1/dead-letters/groups".to_owned(),
        "/api/v1/stats".to_owned(),
        "/api/v1/alerts".to_owned(),
        format!("/api/v1/jobs/{job}"),
        "/metrics".to_owned(),
    ];
    for path in &reads {
        let answer = server.get(path).await;
        assert_eq!(answer.status, 200, "{path}: {answer:?}");
    }

    server.patch(&format!("/api/v1/items/{}", text(&dead["data"][1]["id"])), json!({})).await;
    server.post(&format!("/api/v1/items/{item}/retry"), json!({"payload": 1})).await.expect(200);
    server.post(&format!("/api/v1/items/{item}/cancel"), json!({})).await.expect(200);
    let filter = json!({"job": job, "state": "dead"});
    let bulk = json!({"action": "retry", "target": "items", "filter": filter});
    let bulk = text(&server.post("/api/v1/bulk-operations", bulk).await.expect(202)["id"]);
    let path = format!("/api/v1/bulk-operations/{bulk}");
    while server.get(&path).await.expect(200)["state"] != "completed" {
        tokio::task::yield_now().await;
    }

    let passed = server.stop_and_count_rows_of_scans().await;
    let of = |table: &str| passed.iter().find(|(name, _)| name == table).map_or(0, |(_, rows)| *rows);
    let violations: Vec<(&str, i64)> =
        LARGE.iter().map(|table| (*table, of(table))).filter(|(_, rows)| *rows > FEW).collect();
    assert!(violations.is_empty(), "rows met while passing over whole tables: {violations:?}");
}
