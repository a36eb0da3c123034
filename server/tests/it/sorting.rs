//! Orders of lists: newest first by default, and a cursor belongs to its order.

use serde_json::{Value, json};

use crate::{
    lists::{all, claim, id, job},
    support::Server,
};

fn reversed(mut ids: Vec<String>) -> Vec<String> {
    ids.reverse();
    ids
}

/// Creates three jobs of three items each, the oldest first, with the items in order of creation.
async fn nine(server: &Server) -> Vec<Vec<String>> {
    server.put("/api/v1/job-types/a", json!({})).await.expect(201);
    let mut created = Vec::new();
    for n in 0..3 {
        let items: Vec<Value> = (0..3).map(|i| json!({"payload": [n, i]})).collect();
        let made_job = job(server, json!({"type": "a", "items": items})).await;
        created.push(all(server, &format!("/api/v1/items?sort=created_at&job={}", id(&made_job))).await);
    }
    created
}

#[tokio::test]
async fn item_list_sort_orders() {
    let server = Server::start().await;
    let created = nine(&server).await;
    let oldest_first: Vec<String> = created.concat();
    let newest_jobs: Vec<String> = created.iter().rev().flatten().cloned().collect();
    let newest_first = reversed(oldest_first.clone());
    let wanted = [("", &newest_jobs), ("&sort=-job", &newest_jobs), ("&sort=-created_at", &newest_first)];
    let wanted = [&wanted[..], &[("&sort=created_at", &oldest_first)]].concat();
    let check = async |path: &str| {
        for (sort, ids) in &wanted {
            for limit in [1, 2, 4, 1000] {
                let path = format!("{path}limit={limit}{sort}");
                assert_eq!(&all(&server, &path).await, *ids, "{path}");
            }
        }
    };
    for path in ["/api/v1/items?", "/api/v1/items?type=a&", "/api/v1/items?state=available&"] {
        check(path).await;
    }
    // The same while workers hold them, and when they are dead.
    let claimed = claim(&server, "w", &["a"], 9).await;
    for path in ["/api/v1/items?state=running&", "/api/v1/items?worker=w&"] {
        check(path).await;
    }
    for one in &claimed {
        let error = json!({"error": {"message": "broken"}, "retryable": false});
        server.post(&format!("/api/v1/assignments/{}/failure", id(one)), error).await.expect(200);
    }
    let groups = server.get("/api/v1/dead-letters/groups").await.expect(200);
    let error = groups["data"][0]["fingerprint"].as_str().expect("a fingerprint").to_owned();
    let with_error = format!("/api/v1/items?error={error}&");
    for path in ["/api/v1/dead-letters?", "/api/v1/items?state=dead,expired&", &with_error] {
        check(path).await;
    }
    server.stop().await;
}

#[tokio::test]
async fn waiting_items_sort_newest_first() {
    let server = Server::start().await;
    server.put("/api/v1/job-types/a", json!({})).await.expect(201);
    let mut oldest_first = Vec::new();
    for _ in 0..4 {
        let later = json!({"payload": 1, "run_after": "2199-01-01T00:00:00Z"});
        let waits = json!([later, {"payload": 1, "serialize_key": "k"}, {"payload": 2, "serialize_key": "k"}]);
        let created = job(&server, json!({"type": "a", "items": waits})).await;
        oldest_first.push(all(&server, &format!("/api/v1/items?sort=created_at&job={}", id(&created))).await);
    }
    let deferred: Vec<String> = oldest_first.iter().map(|ids| ids[0].clone()).collect();
    // The very first of its key is not blocked.
    let blocked: Vec<String> = oldest_first.iter().flat_map(|ids| ids[1..].to_vec()).skip(1).collect();
    for (state, ids) in [("scheduled", deferred), ("blocked", blocked)] {
        for limit in [1, 3, 100] {
            let path = format!("/api/v1/items?state={state}&limit={limit}&sort=");
            assert_eq!(all(&server, &format!("{path}created_at")).await, ids, "{state}");
            assert_eq!(all(&server, &format!("{path}-created_at")).await, reversed(ids.clone()), "{state}");
        }
    }
    server.stop().await;
}

#[tokio::test]
async fn job_list_sort_orders() {
    let server = Server::start().await;
    server.put("/api/v1/job-types/a", json!({})).await.expect(201);
    let mut created = Vec::new();
    for n in 0..5 {
        created.push(id(&job(&server, json!({"type": "a", "name": format!("job {n}")})).await).to_owned());
    }
    for filter in ["", "root=true&", "type=a&", "q=job&", "status=waiting&"] {
        for limit in [1, 2, 100] {
            let path = format!("/api/v1/jobs?{filter}limit={limit}");
            assert_eq!(all(&server, &path).await, reversed(created.clone()), "{path}");
            assert_eq!(all(&server, &format!("{path}&sort=-created_at")).await, reversed(created.clone()), "{path}");
            assert_eq!(all(&server, &format!("{path}&sort=created_at")).await, created, "{path}");
        }
    }
    server.stop().await;
}

#[tokio::test]
async fn cursor_of_another_object_is_refused() {
    let server = Server::start().await;
    server.put("/api/v1/job-types/a", json!({})).await.expect(201);
    let mut lists = Vec::new();
    for name in ["job 1", "job 2"] {
        let path = format!("/api/v1/jobs/{}", id(&job(&server, json!({"type": "a", "name": name})).await));
        for _ in 0..2 {
            server.post(&format!("{path}/share"), json!({})).await.expect(201);
        }
        lists.push(format!("{path}/shares?limit=1"));
    }
    let first = server.get(&lists[0]).await.expect(200);
    let cursor = first["next_cursor"].as_str().expect("a next page");
    let second = server.get(&format!("{}&cursor={cursor}", lists[0])).await.expect(200);
    assert_ne!(second["data"][0]["id"], first["data"][0]["id"], "{second}");
    server.get(&format!("{}&cursor={cursor}", lists[1])).await.expect_problem(400, "cursor_mismatch");
    server.stop().await;
}

#[tokio::test]
async fn cursor_of_another_sort_order_is_refused() {
    let server = Server::start().await;
    nine(&server).await;
    for list in ["/api/v1/items?limit=1", "/api/v1/jobs?limit=1"] {
        let first = server.get(list).await.expect(200);
        let cursor = first["next_cursor"].as_str().expect("a next page").to_owned();
        let other = format!("{list}&sort=created_at&cursor={cursor}");
        server.get(&other).await.expect_problem(400, "cursor_mismatch");
        // The order that a list has anyway is no other one.
        let same = if list.contains("items") { "-job" } else { "-created_at" };
        server.get(&format!("{list}&sort={same}&cursor={cursor}")).await.expect(200);
        let problem = server.get(&format!("{list}&sort=colour")).await.expect_problem(400, "invalid_parameter");
        let detail = problem["errors"][0]["detail"].as_str().expect("a detail").to_owned();
        assert!(detail.contains("created_at") && detail.contains("-created_at"), "{detail}");
        assert_eq!(problem["errors"][0]["pointer"], "?sort");
    }
    let filter = json!({"job": job(&server, json!({"type": "a"})).await["id"], "sort": "created_at"});
    let bulk = json!({"action": "retry", "target": "items", "filter": filter, "dry_run": true});
    server.post("/api/v1/bulk-operations", bulk).await.expect_problem(422, "invalid_body");
    server.stop().await;
}
