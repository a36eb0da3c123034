//! Small edits by people: they take effect on every server, on the version that was read, and with a reason for another
//! owner's work.

use reqwest::Method;
use serde_json::{Value, json};

use crate::support::{Answer, Api, Server};

async fn claim(api: &Api, max: u32) -> Vec<Value> {
    let body = json!({"worker_id": "w", "types": ["a"], "max": max});
    api.post("/api/v1/assignments", body).await.expect(200)["assignments"].as_array().expect("assignments").clone()
}

fn id(value: &Value) -> &str {
    value["id"].as_str().expect("an id")
}

fn payloads(assignments: &[Value]) -> Vec<i64> {
    assignments.iter().map(|it| it["item"]["payload"].as_i64().expect("a number")).collect()
}

/// A server, and a job of type `a` with payloads 0 to `n` − 1; returns the paths of both.
async fn with_items(n: i64) -> (Server, String, Vec<String>) {
    let server = Server::start().await;
    server.put("/api/v1/job-types/a", json!({"backoff": {"min_seconds": 600}})).await.expect(201);
    let items: Vec<Value> = (0..n).map(|n| json!({"payload": n})).collect();
    let job = server.post("/api/v1/jobs", json!({"type": "a", "items": items})).await.expect(201);
    let (path, items) = paths(&server, &job).await;
    (server, path, items)
}

async fn paths(server: &Server, job: &Value) -> (String, Vec<String>) {
    let items = server.get(&format!("/api/v1/items?limit=1000&job={}", id(job))).await.expect(200);
    let items = items["data"].as_array().expect("data").iter().map(|it| format!("/api/v1/items/{}", id(it))).collect();
    (format!("/api/v1/jobs/{}", id(job)), items)
}

async fn counts(server: &Server, job: &str) -> (i64, i64) {
    let counts = server.get(job).await.expect(200)["counts"].clone();
    (counts["available"].as_i64().expect("a count"), counts["scheduled"].as_i64().expect("a count"))
}

#[tokio::test]
async fn waiting_item_priority_and_start_time_are_edited() {
    let (server, job, items) = with_items(4).await;
    let moved = server.patch(&items[3], json!({"priority": 50})).await.expect(200);
    assert_eq!((&moved["priority"], &moved["state"]), (&json!(50), &json!("available")));
    let later = "2100-01-01T00:00:00Z";
    let put_off = server.patch(&items[0], json!({"run_after": later})).await.expect(200);
    assert_eq!((&put_off["state"], &put_off["run_after"]), (&json!("scheduled"), &json!(later)));
    assert_eq!(counts(&server, &job).await, (3, 1));
    assert_eq!(payloads(&claim(&server, 2).await), [3, 1]);

    // Back again: it is the oldest that waits, but has come to its turn anew.
    let back = server.patch(&items[0], json!({"run_after": null})).await.expect(200);
    assert_eq!((&back["state"], &back["run_after"]), (&json!("available"), &Value::Null));
    assert_eq!(counts(&server, &job).await, (2, 0));

    let gone = server.patch(&items[2], json!({"expires_at": "2020-01-01T00:00:00Z"})).await.expect(200);
    assert_eq!(gone["expires_at"], "2020-01-01T00:00:00Z");
    assert_eq!(payloads(&claim(&server, 5).await), [0], "never after its expires_at");
    crate::fair_turns::until(&server, job.rsplit('/').next().expect("an id"), |job| job["counts"]["expired"] == 1)
        .await;
    server.stop().await;
}

/// An item behind an older one of its serialize key that is postponed is scheduled when its turn comes, and holds the key.
#[tokio::test]
async fn postponed_item_behind_a_serialize_key_is_scheduled() {
    let (server, _, _) = with_items(0).await;
    let items: Vec<Value> = (0..3).map(|n| json!({"payload": n, "serialize_key": "s"})).collect();
    let job = server.post("/api/v1/jobs", json!({"type": "a", "items": items})).await.expect(201);
    let (job, items) = paths(&server, &job).await;
    let later = "2100-01-01T00:00:00Z";
    let states = async || {
        let mut states = Vec::new();
        for path in &items {
            states.push(server.get(path).await.expect(200)["state"].as_str().expect("a state").to_owned());
        }
        states
    };
    let claim_one = async |payload: i64| {
        let body = json!({"worker_id": "w", "types": ["a"], "max": 5, "wait_seconds": 20});
        let claimed = server.post("/api/v1/assignments", body).await.expect(200)["assignments"].clone();
        let claimed = claimed.as_array().expect("assignments").clone();
        assert_eq!(payloads(&claimed), [payload]);
        format!("/api/v1/assignments/{}/result", id(&claimed[0]))
    };
    let first = claim_one(0).await;
    let put_off = server.patch(&items[1], json!({"run_after": later})).await.expect(200);
    assert_eq!((&put_off["state"], &put_off["run_after"]), (&json!("blocked"), &json!(later)));
    server.post(&first, json!({})).await.expect(200);
    assert_eq!(states().await, ["succeeded", "scheduled", "blocked"]);
    assert_eq!(payloads(&claim(&server, 5).await), [0_i64; 0]);

    server.patch(&items[1], json!({"run_after": null})).await.expect(200);
    let second = claim_one(1).await;
    server.patch(&job, json!({"run_after": later})).await.expect(200);
    server.post(&second, json!({})).await.expect(200);
    assert_eq!(states().await, ["succeeded", "succeeded", "scheduled"], "by its job");
    server.patch(&job, json!({"run_after": null})).await.expect(200);
    let third = claim_one(2).await;
    server.post(&third, json!({})).await.expect(200);
    crate::support::invariants::check(&server.running.app.pool, None, std::time::Duration::from_secs(10))
        .await
        .expect("the invariants hold");
    server.stop().await;
}

/// A postponed item that has failed is due at the end of its backoff again once its start is removed.
#[tokio::test]
async fn retryable_item_returns_to_its_backoff_when_its_start_is_removed() {
    let (server, job, items) = with_items(1).await;
    let claimed = claim(&server, 1).await.remove(0);
    let failure = json!({"error": {"message": "no line"}});
    server.post(&format!("/api/v1/assignments/{}/failure", id(&claimed)), failure).await.expect(200);
    let retry_at = async || {
        let item = server.get(&items[0]).await.expect(200);
        assert_eq!(item["state"], "retryable", "{item}");
        item["retry_at"].clone()
    };
    let backoff_end = retry_at().await;
    let later = "2100-01-01T00:00:00Z";
    for path in [&items[0], &job] {
        server.patch(path, json!({"run_after": later})).await.expect(200);
        assert_eq!(retry_at().await, later);
        server.patch(path, json!({"run_after": null})).await.expect(200);
        assert_eq!(retry_at().await, backoff_end);
    }
    server.stop().await;
}

/// As at their creation, children have the later start and the earlier expiry of their own and their parent's, also after
/// an edit of either.
#[tokio::test]
async fn edited_job_inherits_from_its_parent_and_passes_on_to_its_children() {
    let (server, _, _) = with_items(0).await;
    let at = |year: u32| json!(format!("{year}-01-01T00:00:00Z"));
    let tree = json!({"type": "a", "run_after": at(2100), "expires_at": at(2150), "children": [
        {"type": "a", "key": "plain", "items": [{"payload": 1}]},
        {"type": "a", "key": "own", "run_after": at(2110), "expires_at": at(2120), "priority": 7,
         "items": [{"payload": 2}, {"payload": 3, "run_after": at(2112)}], "children": [{"type": "a", "key": "below"}]}]});
    let root = server.post("/api/v1/jobs", tree).await.expect(201);
    let of = |job: &Value| format!("/api/v1/jobs/{}", id(job));
    let (plain, own) = (of(&root["children"][0]), of(&root["children"][1]));
    let below = of(&root["children"][1]["children"][0]);
    let settings = async |path: &str| {
        let job = server.get(path).await.expect(200);
        json!([job["run_after"], job["expires_at"], job["priority"]])
    };
    assert_eq!(settings(&plain).await, json!([at(2100), at(2150), 0]));
    assert_eq!(settings(&below).await, json!([at(2110), at(2120), 7]));

    // A child's own times hold only within those of its parent.
    let edit = json!({"run_after": at(2090), "expires_at": at(2160), "priority": null});
    let edited = server.patch(&own, edit).await.expect(200);
    assert_eq!((&edited["run_after"], &edited["expires_at"]), (&at(2100), &at(2150)));
    assert_eq!(settings(&below).await, json!([at(2100), at(2150), 0]), "inherited");
    server.patch(&own, json!({"run_after": at(2110), "priority": 7})).await.expect(200);

    // The root's edit reaches what was inherited, down to the items.
    let edit = json!({"run_after": at(2105), "expires_at": null, "priority": 3});
    server.patch(&of(&root), edit).await.expect(200);
    assert_eq!(settings(&plain).await, json!([at(2105), null, 3]));
    assert_eq!(settings(&own).await, json!([at(2110), null, 7]));
    assert_eq!(settings(&below).await, json!([at(2110), null, 7]));
    let mut items = Vec::new();
    for job in &root["children"].as_array().expect("children")[..] {
        let listed = server.get(&format!("/api/v1/items?job={}", id(job))).await.expect(200);
        items.extend(listed["data"].as_array().expect("data").iter().map(|it| {
            (it["payload"].as_i64().expect("a number"), json!([it["run_after"], it["expires_at"], it["priority"]]))
        }));
    }
    items.sort_by_key(|(payload, _)| *payload);
    let expected = [json!([at(2105), null, 3]), json!([at(2110), null, 7]), json!([at(2112), null, 7])];
    assert_eq!(items, (1..).zip(expected).collect::<Vec<_>>());
    server.stop().await;
}

#[tokio::test]
async fn edit_wakes_a_waiting_claim() {
    let (server, _, items) = with_items(1).await;
    server.patch(&items[0], json!({"run_after": "2100-01-01T00:00:00Z"})).await.expect(200);
    let waiting = json!({"worker_id": "w", "types": ["a"], "wait_seconds": 30});
    let (claimed, _) =
        tokio::join!(server.post("/api/v1/assignments", waiting), server.patch(&items[0], json!({"run_after": null})));
    assert_eq!(claimed.expect(200)["assignments"].as_array().map(Vec::len), Some(1));
    server.stop().await;
}

#[tokio::test]
async fn item_edit_requires_waiting_state_and_current_version() {
    let (server, _, items) = with_items(2).await;
    let read = server.get(&items[0]).await;
    let tag = read.headers["etag"].clone();
    assert_eq!(tag, format!("\"{}\"", read.expect(200)["version"]));
    let edit = |path: &str, body: Value| server.request(Method::PATCH, path).header("if-match", &tag).json(&body);
    Answer::of(edit(&items[0], json!({"priority": 5}))).await.expect(200);
    Answer::of(edit(&items[0], json!({"priority": 6}))).await.expect_problem(412, "precondition_failed");
    assert_eq!(server.get(&items[0]).await.expect(200)["priority"], 5);

    for (body, pointer) in [
        (json!({"priority": 101}), "/priority"),
        (json!({"payload": 1}), "/payload"),
        (json!({"run_after": "soon"}), "/run_after"),
    ] {
        let problem = server.patch(&items[0], body).await.expect_problem(422, "invalid_body");
        assert_eq!(problem["errors"][0]["pointer"], pointer, "{problem}");
    }
    let assignments = claim(&server, 1).await;
    assert_eq!(payloads(&assignments), [0]);
    server.patch(&items[0], json!({"priority": 1})).await.expect_problem(409, "already_started");
    server.post(&format!("/api/v1/assignments/{}/result", id(&assignments[0])), json!({})).await.expect(200);
    server.patch(&items[0], json!({"priority": 1})).await.expect_problem(409, "already_started");
    let nobody = "/api/v1/items/0190a5e0-0000-7000-8000-000000000000";
    server.patch(nobody, json!({"priority": 1})).await.expect_problem(404, "not_found");

    let (job_key_of_item, pool) = ("select job_key from item limit 1", &server.running.app.pool);
    let statement = format!(
        "update job_state set cancelled_at = clock_timestamp(), sealed = true where job_key = ({job_key_of_item})"
    );
    sqlx::raw_sql(sqlx::AssertSqlSafe(statement)).execute(pool).await.expect("as a cancellation leaves it");
    server.patch(&items[1], json!({"priority": 1})).await.expect_problem(409, "already_started");
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn concurrent_edits_and_claims_lose_nothing() {
    let (server, job, items) = with_items(60).await;
    let edits = async {
        for (n, path) in items.iter().enumerate() {
            let body = if n % 2 == 0 { json!({"priority": n}) } else { json!({"run_after": null, "priority": 1}) };
            let answer = server.patch(path, body).await;
            assert!([200, 409].contains(&answer.status.as_u16()), "{}", answer.text);
        }
    };
    let claims = async {
        let mut seen = Vec::new();
        while seen.len() < 60 {
            let body = json!({"worker_id": "w", "types": ["a"], "max": 3, "wait_seconds": 20});
            let assignments = server.post("/api/v1/assignments", body).await.expect(200)["assignments"].clone();
            let assignments = assignments.as_array().expect("assignments").clone();
            assert!(!assignments.is_empty(), "only {} were handed out", seen.len());
            seen.extend(payloads(&assignments));
        }
        seen
    };
    let ((), mut seen) = tokio::join!(edits, claims);
    seen.sort_unstable();
    assert_eq!(seen, (0..60).collect::<Vec<_>>());
    let counts = server.get(&job).await.expect(200)["counts"].clone();
    assert_eq!((&counts["running"], &counts["available"]), (&json!(60), &json!(0)));
    server.stop().await;
}

#[tokio::test]
async fn job_patch_changes_named_fields_only() {
    let (server, job, _) = with_items(1).await;
    let before = server.get(&job).await;
    let edit = json!({"name": "April", "metadata": {"n": 1, "team": "hr"}, "expected_count": 40, "expires_at": "2100-01-01T00:00:00Z",
        "on_completed": {"url": "https://example.org/done", "secret": "whsec_c2VjcmV0"}});
    let answer = server.patch(&job, edit).await;
    let after = answer.expect(200);
    assert_eq!(
        (&after["name"], &after["metadata"], &after["expected_count"]),
        (&json!("April"), &json!({"n": 1, "team": "hr"}), &json!(40))
    );
    assert_eq!(after["expires_at"], "2100-01-01T00:00:00Z");
    assert!(!answer.text.contains("whsec"), "secrets are never read back");
    assert!(after["version"].as_i64() > before.expect(200)["version"].as_i64());
    assert_eq!(answer.headers["etag"], format!("\"{}\"", after["version"]));
    let stale = server.request(Method::PATCH, &job).header("if-match", &before.headers["etag"]);
    Answer::of(stale.json(&json!({"name": "May"}))).await.expect_problem(412, "precondition_failed");
    let fresh = server.request(Method::PATCH, &job).header("if-match", &answer.headers["etag"]);
    let fresh = Answer::of(fresh.json(&json!({"name": null}))).await.expect(200);
    assert_eq!((&fresh["name"], &fresh["expected_count"]), (&Value::Null, &json!(40)));
    let cleared = server.patch(&job, json!({"metadata": null, "priority": null})).await.expect(200);
    assert_eq!((&cleared["metadata"], &cleared["priority"]), (&json!({}), &json!(0)));
    let fresh = cleared;
    // Nothing to change, nothing changed.
    assert_eq!(server.patch(&job, json!({})).await.expect(200)["version"], fresh["version"]);

    for (body, pointer) in [
        (json!({"metadata": []}), "/metadata"),
        (json!({"expected_count": -1}), "/expected_count"),
        (json!({"max_failures": 0}), "/max_failures"),
        (json!({"priority": -101}), "/priority"),
        (json!({"on_completed": {"url": "nowhere"}}), "/on_completed/url"),
        (json!({"on_completed": {"url": "https://example.org", "secret": ""}}), "/on_completed/secret"),
        (json!({"type": "b"}), "/type"),
    ] {
        let problem = server.patch(&job, body).await.expect_problem(422, "invalid_body");
        assert_eq!(problem["errors"][0]["pointer"], pointer, "{problem}");
    }
    for closed in ["ftp://example.org", "http://169.254.169.254/latest", "http://localhost:5432/"] {
        let edit = json!({"on_completed": {"url": closed}});
        let problem = server.patch(&job, edit).await.expect_problem(422, "url_not_allowed");
        assert_eq!(problem["errors"][0]["pointer"], "/on_completed/url", "{problem}");
    }
    server.stop().await;
}

#[tokio::test]
async fn job_priority_and_times_propagate_to_waiting_items() {
    let (server, _, _) = with_items(3).await;
    let items: Vec<Value> =
        (10..2_600).map(|n| json!({"payload": n})).chain([json!({"payload": 9, "priority": -7})]).collect();
    let second = server.post("/api/v1/jobs", json!({"type": "a", "items": items})).await.expect(201);
    let (second, items) = paths(&server, &second).await;
    let edited = server.patch(&second, json!({"priority": 10})).await.expect(200);
    assert_eq!((&edited["priority"], &edited["counts"]["available"]), (&json!(10), &json!(2_591)));
    assert_eq!(server.get(&items[0]).await.expect(200)["priority"], 10);
    assert_eq!(payloads(&claim(&server, 3).await), [10, 11, 12]);

    // Put off as a whole, and back; what was claimed stays where it is.
    server.patch(&second, json!({"run_after": "2100-01-01T00:00:00Z"})).await.expect(200);
    assert_eq!(counts(&server, &second).await, (0, 2_588));
    server.post(&format!("{second}/items"), json!([{"payload": 5_000}])).await.expect(200);
    assert_eq!(counts(&server, &second).await, (0, 2_589), "items added from then on too");
    assert_eq!(payloads(&claim(&server, 10).await), [0, 1, 2]);
    server.patch(&second, json!({"run_after": null})).await.expect(200);
    assert_eq!(counts(&server, &second).await, (2_589, 0));
    let rest = payloads(&claim(&server, 1_000).await);
    assert_eq!((rest.len(), rest.contains(&9)), (1_000, false), "an item's own priority stays its own");
    server.stop().await;
}

/// An edit that is interrupted between two batches of items is continued.
#[tokio::test]
async fn interrupted_job_edit_reaches_all_items() {
    let (server, _, _) = with_items(1).await;
    let job = server.post("/api/v1/jobs", json!({"type": "a"})).await.expect(201);
    let path = format!("/api/v1/jobs/{}", id(&job));
    let items: Vec<Value> = (0..2_600).map(|n| json!({"payload": n})).collect();
    server.post(&format!("{path}/items"), json!(items)).await.expect(200);
    let pool = &server.running.app.pool;
    let mut tx = pool.begin().await.expect("a transaction");
    let lock = "select id from item where seq = 2500 for update";
    sqlx::query(lock).execute(&mut *tx).await.expect("the lock of an item of the second batch");
    let kill = "select count(pg_terminate_backend(pid)) from pg_stat_activity
        where datname = current_database() and wait_event_type = 'Lock'";
    let mut edit = Box::pin(server.patch(&path, json!({"priority": 10})));
    loop {
        tokio::select! {
            edited = &mut edit => {
                assert_eq!(edited.expect(200)["priority"], 10);
                break;
            }
            () = crate::support::moment() => {
                sqlx::query(kill).execute(pool).await.expect("the second batch is interrupted");
            }
        }
    }
    drop(edit);
    tx.rollback().await.expect("the end of the lock");
    let left = "select count(*) from item join job using (job_key) where job.id = $1::uuid and item.priority <> 10";
    let left = async || sqlx::query_scalar::<_, i64>(left).bind(id(&job)).fetch_one(pool).await.expect("a count");
    crate::support::until(async || left().await == 0).await;
    assert_eq!(counts(&server, &path).await, (2_600, 0));
    crate::support::invariants::check(pool, None, std::time::Duration::from_secs(10)).await.expect("the invariants");
    server.stop().await;
}

/// `start-and-expiry`: an edit also reaches items that a claim has looked at and left.
#[tokio::test]
async fn job_edit_reaches_items_that_a_claim_left() {
    let (server, path, _) = with_items(3).await;
    let mut claim = server.running.app.pool.begin().await.expect("a transaction");
    let looked_at = "select item_id from ready order by item_id limit 1 for update";
    sqlx::query(looked_at).execute(&mut *claim).await.expect("the lock of an item");
    server.patch(&path, json!({"run_after": "2099-01-01T00:00:00Z"})).await.expect(200);
    claim.rollback().await.expect("the claim takes nothing");
    crate::support::until(async || counts(&server, &path).await == (0, 3)).await;
    server.stop().await;
}

/// `start-and-expiry`: an edit also reaches items that a failed `after` has canceled, for when they wait again.
#[tokio::test]
async fn job_edit_reaches_items_that_a_failed_job_before_it_has_canceled() {
    let server = Server::start().await;
    server.put("/api/v1/job-types/a", json!({"max_failures": 1})).await.expect(201);
    let tree = json!({"type": "a", "sealed": true, "children": [
        {"type": "a", "key": "first", "sealed": true, "items": [{"payload": 1}]},
        {"type": "a", "key": "second", "sealed": true, "after": ["first"], "items": [{"payload": 2}, {"payload": 3}]}]});
    let tree = server.post("/api/v1/jobs", tree).await.expect(201);
    let (second, items) = paths(&server, &tree["children"][1]).await;
    let states = async || {
        let mut states = Vec::new();
        for item in &items {
            states.push(server.get(item).await.expect(200)["state"].as_str().expect("a state").to_owned());
        }
        states
    };
    let first = claim(&server, 5).await.remove(0);
    let failure = json!({"error": {"message": "no line"}});
    server.post(&format!("/api/v1/assignments/{}/failure", id(&first)), failure).await.expect(200);
    crate::support::until(async || states().await == ["cancelled", "cancelled"]).await;
    server.patch(&second, json!({"run_after": "2099-01-01T00:00:00Z", "priority": 7})).await.expect(200);
    server.post(&format!("/api/v1/items/{}/retry", id(&first["item"])), json!({})).await.expect(200);
    crate::support::until(async || states().await == ["blocked", "blocked"]).await;
    let again = claim(&server, 5).await;
    assert_eq!(payloads(&again), [1]);
    server.post(&format!("/api/v1/assignments/{}/result", id(&again[0])), json!({})).await.expect(200);
    crate::support::until(async || states().await == ["scheduled", "scheduled"]).await;
    assert_eq!(server.get(&items[0]).await.expect(200)["priority"], 7);
    let pool = &server.running.app.pool;
    crate::support::invariants::check(pool, None, std::time::Duration::from_secs(10)).await.expect("the invariants");
    server.stop().await;
}

/// `start-and-expiry`: an item that is claimed during an edit keeps the values of its assignment.
#[tokio::test]
async fn item_that_is_claimed_during_an_edit_of_its_job_keeps_its_values() {
    let (server, path, items) = with_items(2).await;
    let pool = &server.running.app.pool;
    let mut claim = pool.begin().await.expect("a transaction");
    let taken = "with taken as (
           delete from ready where item_id = (select min(item_id::text)::uuid from ready) returning *)
         insert into lease (id, item_id, job_key, credential_id, started_at, last_heartbeat_at, lease_seconds, type_id, attempt,
           failures, negated_priority, worker_id)
         select gen_random_uuid(), item_id, job_key, gen_random_uuid(), clock_timestamp(), clock_timestamp(), 60, type_id,
           1, 0, negated_priority, 'w' from taken";
    sqlx::query(taken).execute(&mut *claim).await.expect("a claim");
    let edit = async {
        server.patch(&path, json!({"run_after": "2099-01-01T00:00:00Z"})).await.expect(200);
    };
    let commit = async {
        let waits = "select count(*) from pg_stat_activity
            where datname = current_database() and state = 'idle in transaction' and query like '%blocked%'";
        let looks = async || sqlx::query_scalar::<_, i64>(waits).fetch_one(pool).await.expect("a count") > 0;
        crate::support::until(looks).await;
        claim.commit().await.expect("the end of the claim");
    };
    tokio::join!(edit, commit);
    let item = async |path: &String| server.get(path).await.expect(200);
    let mut starts = Vec::new();
    for path in &items {
        let item = item(path).await;
        starts.push((item["state"].as_str().expect("a state").to_owned(), item["run_after"].is_null()));
    }
    starts.sort_unstable();
    assert_eq!(starts, [("running".to_owned(), true), ("scheduled".to_owned(), false)]);
    server.stop().await;
}

/// Edits that fail every time do not delay the others, however many they are.
#[tokio::test]
async fn failing_job_edit_does_not_delay_other_edits() {
    let (server, _, _) = with_items(1).await;
    for payload in std::iter::repeat_n(0, 20).chain([1]) {
        server.post("/api/v1/jobs", json!({"type": "a", "items": [{"payload": payload}]})).await.expect(201);
    }
    let app = &server.running.app;
    app.shutdown.cancel();
    app.tasks.close();
    app.tasks.wait().await;
    for statement in [
        "create function fail() returns trigger language plpgsql as $$ begin raise exception 'no room'; end $$",
        "create trigger fail before update on item for each row when (new.payload = '0') execute function fail()",
        "insert into job_edit (job_key, from_priority, to_priority) select job_key, 0, 7 from job order by job_key",
    ] {
        sqlx::query(statement).execute(&app.pool).await.expect(statement);
    }
    assert_eq!(app.engine.sweep_job_edits().await.expect("the first twenty fail"), 0);
    assert_eq!(app.engine.sweep_job_edits().await.expect("progress of one"), 1);
    let left =
        sqlx::query_scalar::<_, i64>("select count(*) from job_edit").fetch_one(&app.pool).await.expect("a count");
    assert!(left >= 21, "{left}: those that fail are left");
    server.stop().await;
}

/// Many edits of one job that wait for each other leave connections to claims.
#[tokio::test]
async fn waiting_edits_of_a_job_do_not_delay_claims() {
    let (server, path, items) = with_items(2).await;
    server.put("/api/v1/job-types/b", json!({})).await.expect(201);
    let pool = &server.running.app.pool;
    // The items of the first edit take long.
    let mut tx = pool.begin().await.expect("a transaction");
    sqlx::query("select id from item for update").execute(&mut *tx).await.expect("the locks of the items");
    let edits = futures::future::join_all((1..=12).map(|priority| server.patch(&path, json!({"priority": priority}))));
    let claims = async {
        let edits = async || sqlx::query_scalar::<_, i64>("select count(*) from job_edit").fetch_one(pool).await;
        crate::support::until(async || edits().await.expect("a count") == 12).await;
        for _ in 0..10 {
            let claim = json!({"worker_id": "w", "types": ["b"]});
            server.post("/api/v1/assignments", claim).await.expect(200);
        }
        tx.rollback().await.expect("the end of the lock");
    };
    let (edited, ()) = futures::join!(edits, claims);
    for edited in edited {
        edited.expect(200);
    }
    let priority = server.get(&path).await.expect(200)["priority"].clone();
    crate::support::until(async || server.get(&items[1]).await.expect(200)["priority"] == priority).await;
    server.stop().await;
}

#[tokio::test]
async fn edited_retry_budget_applies_on_every_server() {
    let (server, job, items) = with_items(2).await;
    let second = server.another().await;
    // Both know the job by now.
    assert_eq!(second.get(&items[0]).await.expect(200)["max_failures"], 3);
    server.patch(&job, json!({"max_failures": 1})).await.expect(200);
    assert_eq!(server.get(&items[0]).await.expect(200)["max_failures"], 1);
    let deadline = tokio::time::Instant::now() + std::time::Duration::from_secs(20);
    while second.get(&items[0]).await.expect(200)["max_failures"] != 1 {
        assert!(tokio::time::Instant::now() < deadline, "the other server never heard of it");
    }
    let assignments = claim(&second, 1).await;
    let failure = json!({"error": {"message": "no"}});
    let ended = second.post(&format!("/api/v1/assignments/{}/failure", id(&assignments[0])), failure).await.expect(200);
    assert_eq!(ended["item_state"], "dead");
    assert_eq!(server.patch(&job, json!({"max_failures": null})).await.expect(200)["max_failures"], 3);
    second.stop().await;
    server.stop().await;
}

#[tokio::test]
async fn editing_foreign_jobs_requires_reason() {
    let server = Server::start().await;
    server.put("/api/v1/job-types/a", json!({})).await.expect(201);
    let team = server.service("team", &["jobs:read", "jobs:write"]).await;
    let other = server.service("other", &["jobs:read", "jobs:write"]).await;
    let reader = server.service("reader", &["jobs:read"]).await;
    let job = team.post("/api/v1/jobs", json!({"type": "a", "items": [{"payload": 1}]})).await.expect(201);
    let (job, items) = paths(&server, &job).await;
    for (path, body) in [(&job, json!({"name": "x"})), (&items[0], json!({"priority": 3}))] {
        other.patch(path, body.clone()).await.expect_problem(404, "not_found");
        reader.patch(path, body.clone()).await.expect_problem(403, "forbidden");
        server.patch(path, body.clone()).await.expect_problem(422, "reason_required");
        team.patch(path, body).await.expect(200);
    }
    server.patch(&job, json!({"name": "y", "reason": "asked for by phone"})).await.expect(200);
    server.patch(&items[0], json!({"priority": 4, "reason": "urgent"})).await.expect(200);
    let rows: Vec<(String, Option<String>, String)> =
        sqlx::query_as("select action, reason, detail from audit where action like '%.edit' order by at")
            .fetch_all(&server.running.app.pool)
            .await
            .expect("the log");
    let audit_entries: Vec<(&str, Option<&str>, &str)> =
        rows.iter().map(|(action, reason, detail)| (action.as_str(), reason.as_deref(), detail.as_str())).collect();
    assert_eq!(
        audit_entries,
        [
            ("job.edit", Some("asked for by phone"), r#"{"name":"y"}"#),
            ("item.edit", Some("urgent"), r#"{"priority":4}"#)
        ]
    );
    server.stop().await;
}
