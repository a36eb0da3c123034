//! Lists: every filter finds exactly its matches, and pages neither lose nor repeat rows.

use serde_json::{Value, json};

use crate::support::{Api, Server};

pub(crate) async fn claim(api: &Api, worker: &str, types: &[&str], max: u32) -> Vec<Value> {
    let body = json!({"worker_id": worker, "types": types, "max": max});
    api.post("/api/v1/assignments", body).await.expect(200)["assignments"].as_array().expect("assignments").clone()
}

pub(crate) fn id(value: &Value) -> &str {
    value["id"].as_str().expect("an id")
}

pub(crate) async fn job(server: &Server, body: Value) -> Value {
    server.post("/api/v1/jobs", body).await.expect(201)
}

/// Ids on all pages of a list, in order.
pub(crate) async fn all(api: &Api, path: &str) -> Vec<String> {
    all_behind(api, path, String::new()).await
}

/// Ids on all pages from a cursor (`&cursor=…`) on.
async fn all_behind(api: &Api, path: &str, mut cursor: String) -> Vec<String> {
    let mut found = Vec::new();
    loop {
        let page = api.get(&format!("{path}{cursor}")).await.expect(200);
        found.extend(page["data"].as_array().expect("data").iter().map(|it| id(it).to_owned()));
        let Some(next) = page["next_cursor"].as_str() else { return found };
        cursor = format!("&cursor={next}");
    }
}

/// Executes a statement that sets up states that requests cannot produce here.
pub(crate) async fn sql(server: &Server, statement: String) {
    let pool = &server.running.app.pool;
    sqlx::raw_sql(sqlx::AssertSqlSafe(statement)).execute(pool).await.expect("the statement runs");
}

fn ids(items: &[Value]) -> Vec<String> {
    items.iter().map(|it| id(it).to_owned()).collect()
}

#[tokio::test]
async fn item_list_filters() {
    let server = Server::start().await;
    for name in ["a", "b"] {
        server.put(&format!("/api/v1/job-types/{name}"), json!({"backoff": {"min_seconds": 600}})).await.expect(201);
    }
    let items: Vec<Value> = (0..6).map(|n| json!({"payload": {"n": n, "word": format!("w{n} 100%")}})).collect();
    let one = job(&server, json!({"type": "a", "items": items})).await;
    let two = job(&server, json!({"type": "b", "items": [{"payload": "elsewhere"}]})).await;
    let claimed = claim(&server, "w-1", &["a"], 4).await;
    let of = |n: usize| claimed[n]["item"]["id"].as_str().expect("an id").to_owned();
    let path = |n: usize| format!("/api/v1/assignments/{}", id(&claimed[n]));
    server.post(&format!("{}/result", path(0)), json!({})).await.expect(200);
    let error = json!({"message": "no such user 17", "kind": "unknown_user"});
    server.post(&format!("{}/failure", path(1)), json!({"error": error, "retryable": false})).await.expect(200);
    server.post(&format!("{}/failure", path(2)), json!({"error": {"message": "try again"}})).await.expect(200);

    let list = |query: String| {
        let server = &server;
        async move { all(server, &format!("/api/v1/items?{query}")).await }
    };
    let in_one = all(&server, &format!("/api/v1/items?job={}", id(&one))).await;
    assert_eq!(in_one.len(), 6);
    assert_eq!(list(format!("root={}", id(&one))).await, in_one);
    assert_eq!(list("type=b".into()).await, all(&server, &format!("/api/v1/items?job={}", id(&two))).await);
    assert_eq!(list("type=unheard-of".into()).await, Vec::<String>::new());
    assert_eq!(list("state=succeeded".into()).await, [of(0)]);
    assert_eq!(list("state=dead".into()).await, [of(1)]);
    assert_eq!(list("state=retryable".into()).await, [of(2)]);
    assert_eq!(list("state=running".into()).await, [of(3)]);
    assert_eq!(list("state=running,dead".into()).await, [of(1), of(3)]);
    assert_eq!(list("state=retryable,running,blocked".into()).await, [of(2), of(3)]);
    assert_eq!(list(format!("state=available&job={}", id(&one))).await, in_one[4..].to_vec());
    assert_eq!(list("worker=w-1".into()).await, [of(0), of(1), of(3)]);
    assert_eq!(list("worker=w-1&state=running".into()).await, [of(3)]);
    assert_eq!(list("q=such%20user&state=dead".into()).await, [of(1)]);
    assert_eq!(list(format!("q=W5%20100%25&job={}", id(&one))).await, in_one[5..].to_vec());
    assert_eq!(list(format!("q=%25&job={}", id(&two))).await, Vec::<String>::new());
    assert_eq!(list(format!("q=try%20again&root={}", id(&one))).await, [of(2)]);

    let dead = server.get("/api/v1/dead-letters").await.expect(200);
    assert_eq!(ids(dead["data"].as_array().expect("data")), [of(1)]);
    let groups = server.get(&format!("/api/v1/dead-letters/groups?job={}", id(&one))).await.expect(200);
    let print = groups["data"][0]["fingerprint"].as_str().expect("a fingerprint").to_owned();
    assert_eq!((&groups["data"][0]["count"], &groups["data"][0]["type"]), (&json!(1), &json!("a")));
    assert_eq!(list(format!("error={print}")).await, [of(1)]);
    assert_eq!(list(format!("error={print}&job={}", id(&two))).await, Vec::<String>::new());
    for (query, found) in [("q=user", 1), ("q=nothing", 0), ("type=a", 1), ("type=b", 0)] {
        let path = format!("/api/v1/dead-letters/groups?root={}&{query}", id(&one));
        let groups = server.get(&path).await.expect(200);
        assert_eq!(groups["data"].as_array().map(Vec::len), Some(found), "{query}");
    }

    let middle = server.get(&format!("/api/v1/items/{}", in_one[5])).await.expect(200)["created_at"].clone();
    let middle = middle.as_str().expect("a time");
    assert_eq!(list(format!("created_after={middle}&type=b")).await.len(), 1);
    assert_eq!(list(format!("created_before={middle}&type=b")).await.len(), 0);
    sql(&server, format!("update item set serialize_key = 'k' where id = '{}'", of(3))).await;
    assert_eq!(list("serialize_key=k".into()).await, [of(3)]);
    sql(
        &server,
        format!(
            "update item set dedupe_key = 'd' where id = '{0}';
             insert into item_dedupe select job_key, 'd', id from item where id = '{0}'",
            of(2)
        ),
    )
    .await;
    assert_eq!(list("dedupe_key=d".into()).await, [of(2)]);
    assert_eq!(list("dedupe_key=d&state=running".into()).await, Vec::<String>::new());

    for bad in ["colour=red", "state=asleep", "q=x", "q=x&state=succeeded", "row=many", "created_after=soon"] {
        server.get(&format!("/api/v1/items?{bad}")).await.expect_problem(400, "invalid_parameter");
    }
    server.get("/api/v1/dead-letters?state=running").await.expect_problem(400, "invalid_parameter");
    server.stop().await;
}

#[tokio::test]
async fn item_list_filter_by_row_number() {
    let server = Server::start().await;
    let csv = "n\n1\n2\n3\n4\n";
    let upload = server.post_text("/api/v1/uploads?filename=f.csv", "text/csv", csv).await.expect(201);
    let job = job(&server, json!({"type": "import", "upload": {"id": upload["id"]}})).await;
    crate::fair_turns::until(&server, id(&job), |job| job["status"] == "completed").await;
    for query in [format!("job={}&row=4", id(&job)), format!("root={}&row=4", id(&job)), "row=4".to_owned()] {
        let found = server.get(&format!("/api/v1/items?{query}")).await.expect(200);
        assert_eq!(found["data"][0]["payload"], json!({"n": "3"}), "{query}");
        assert_eq!(found["data"].as_array().map(Vec::len), Some(1), "{query}");
    }
    server.stop().await;
}

#[tokio::test]
async fn list_pages_have_no_gaps_or_duplicates_under_changes() {
    let server = Server::start().await;
    server.put("/api/v1/job-types/a", json!({})).await.expect(201);
    let mut wanted = Vec::new();
    for n in 0..40 {
        let count = if n == 20 { 60 } else { 1 };
        let items: Vec<Value> =
            (0..count).map(|i| json!({"payload": [n, i], "priority": if n < 10 { 9 } else { 0 }})).collect();
        let created = job(&server, json!({"type": "a", "sealed": true, "items": items})).await;
        wanted.extend(all(&server, &format!("/api/v1/items?limit=1000&job={}", id(&created))).await);
    }
    assert_eq!(wanted.len(), 99);
    for query in ["type=a", "state=available", "state=available,dead"] {
        for limit in [1, 7, 50, 1000] {
            let found = all(&server, &format!("/api/v1/items?{query}&sort=created_at&limit={limit}")).await;
            assert_eq!(found, wanted, "{query} by {limit}");
        }
    }

    // Ten of them change while somebody turns the pages; the other ones are not lost by it.
    let first = server.get("/api/v1/items?state=available&sort=created_at&limit=3").await.expect(200);
    let cursor = first["next_cursor"].as_str().expect("a next page").to_owned();
    let taken = claim(&server, "w", &["a"], 10).await;
    assert_eq!(taken.len(), 10);
    let rest =
        all_behind(&server, "/api/v1/items?state=available&sort=created_at&limit=3", format!("&cursor={cursor}")).await;
    let seen: Vec<String> = ids(first["data"].as_array().expect("data")).into_iter().chain(rest).collect();
    let taken_ids: Vec<String> = taken.iter().map(|it| id(&it["item"]).to_owned()).collect();
    let stayed: Vec<String> = wanted.iter().filter(|it| !taken_ids.contains(it)).cloned().collect();
    let seen_others: Vec<String> = seen.iter().filter(|it| !taken_ids.contains(it)).cloned().collect();
    assert_eq!(seen_others, stayed);

    server
        .get(&format!("/api/v1/items?state=dead&sort=created_at&cursor={cursor}"))
        .await
        .expect_problem(400, "cursor_mismatch");
    server.get("/api/v1/items?cursor=rubbish").await.expect_problem(400, "invalid_parameter");

    // The states that stand in tables of their own, across jobs.
    for it in &taken {
        let path = format!("/api/v1/assignments/{}", id(it));
        let body = json!({"error": {"message": "broken"}, "retryable": false});
        server.post(&format!("{path}/failure"), body).await.expect(200);
    }
    let mut dead = taken_ids;
    dead.sort();
    for limit in [1, 4, 1000] {
        let mut found = all(&server, &format!("/api/v1/dead-letters?sort=created_at&limit={limit}")).await;
        let in_order: Vec<String> = wanted.iter().filter(|it| found.contains(it)).cloned().collect();
        assert_eq!(found, in_order);
        found.sort();
        assert_eq!(found, dead, "by {limit}");
    }
    server.stop().await;
}

#[tokio::test]
async fn job_list_filters() {
    let server = Server::start().await;
    let team = server.service("team", &["jobs:read", "jobs:write", "work"]).await;
    for name in ["a", "b"] {
        server.put(&format!("/api/v1/job-types/{name}"), json!({})).await.expect(201);
    }
    let body = json!({"type": "a", "key": "top", "name": "March", "initiated_by": "ann", "metadata": {"team": "hr", "n": 7},
        "items": [{"payload": 1}], "children": [{"type": "b", "key": "below"}]});
    let tree = job(&server, body).await;
    let below = tree["children"][0].clone();
    let done = job(&server, json!({"type": "b", "sealed": true})).await;
    let theirs = team.post("/api/v1/jobs", json!({"type": "a", "metadata": {"team": "it"}})).await.expect(201);

    let list = |query: String| {
        let server = &server;
        async move { all(server, &format!("/api/v1/jobs?{query}")).await }
    };
    let (tree_id, below_id) = (id(&tree).to_owned(), id(&below).to_owned());
    let (done_id, their_id) = (id(&done).to_owned(), id(&theirs).to_owned());
    assert_eq!(list("root=true".into()).await, [&*their_id, &done_id, &tree_id]);
    assert_eq!(list("root=false".into()).await, [&*below_id]);
    assert_eq!(list("limit=1".into()).await, [&*their_id, &done_id, &below_id, &tree_id]);
    assert_eq!(list(format!("root_id={tree_id}")).await, [&*below_id, &tree_id]);
    assert_eq!(list(format!("parent={tree_id}")).await, [&*below_id]);
    assert_eq!(list("type=b".into()).await, [&*done_id, &below_id]);
    assert_eq!(list("type=b&root=true".into()).await, [&*done_id]);
    assert_eq!(list("owner=team".into()).await, [&*their_id]);
    assert_eq!(list("initiated_by=ann".into()).await, [&*tree_id]);
    assert_eq!(list("metadata.team=hr".into()).await, [&*tree_id]);
    assert_eq!(list("metadata.team=hr&metadata.n=7".into()).await, [&*tree_id]);
    assert_eq!(list("metadata.team=hr&metadata.n=8".into()).await, Vec::<String>::new());
    assert_eq!(list("q=marc".into()).await, [&*tree_id]);
    assert_eq!(list("q=%22it%22".into()).await, [&*their_id]);
    assert_eq!(list("status=completed".into()).await, [&*done_id]);
    assert_eq!(list("outcome=succeeded&root=true".into()).await, [&*done_id]);
    assert_eq!(list("status=waiting&root=true".into()).await, [&*their_id, &tree_id]);
    let at = done["created_at"].as_str().expect("a time");
    assert_eq!(list(format!("created_after={at}")).await, [&*their_id]);
    assert_eq!(list(format!("created_before={at}")).await, [&*below_id, &tree_id]);

    // The root has not begun, its child has: the tree runs, the root waits.
    server.post(&format!("/api/v1/jobs/{below_id}/items"), json!([{"payload": 1}])).await.expect(200);
    claim(&server, "w", &["b"], 1).await;
    assert_eq!(list("status=running&root=true".into()).await, [&*tree_id]);
    assert_eq!(list("status=running".into()).await, [&*below_id]);
    assert_eq!(list(format!("status=waiting&root_id={tree_id}")).await, [&*tree_id]);

    sql(&server, format!("update job set dedupe_key = 'd', replay_of = '{tree_id}' where id = '{done_id}'")).await;
    assert_eq!(list("dedupe_key=d".into()).await, [&*done_id]);
    assert_eq!(list(format!("replay_of={tree_id}")).await, [&*done_id]);
    assert_eq!(list("stalled=true".into()).await, Vec::<String>::new());
    sql(&server, "update job_state set updated_at = updated_at - interval '61 minutes'".into()).await;
    assert_eq!(list("stalled=true&root=true".into()).await, [&*their_id, &tree_id]);
    assert_eq!(list("stalled=false&root=true".into()).await, [&*done_id]);

    // Others see their own, whatever they ask for.
    assert_eq!(all(&team, "/api/v1/jobs?").await, [&*their_id]);
    assert_eq!(all(&team, "/api/v1/jobs?root=true").await, [&*their_id]);
    assert_eq!(all(&team, "/api/v1/jobs?type=b").await, Vec::<String>::new());
    assert_eq!(all(&team, &format!("/api/v1/jobs?root_id={tree_id}")).await, Vec::<String>::new());

    let page = server.get("/api/v1/jobs?root=true&limit=1").await.expect(200);
    let cursor = page["next_cursor"].as_str().expect("a next page").to_owned();
    server.get(&format!("/api/v1/jobs?root=false&cursor={cursor}")).await.expect_problem(400, "cursor_mismatch");
    for full in [
        "jobs?dedupe_key=d&limit=1".to_owned(),
        format!("items?job={tree_id}&limit={}", all(&server, &format!("/api/v1/items?job={tree_id}")).await.len()),
    ] {
        let page = server.get(&format!("/api/v1/{full}")).await.expect(200);
        assert!(page["next_cursor"].is_null(), "a full page is the last one if nothing follows: {page}");
    }
    for bad in ["colour=red", "metadata.=x", "metadata=x", "status=asleep", "root=maybe"] {
        server.get(&format!("/api/v1/jobs?{bad}")).await.expect_problem(400, "invalid_parameter");
    }
    server.stop().await;
}
