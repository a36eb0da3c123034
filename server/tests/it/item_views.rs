//! Reads: items show what they wait for, decisions about a job are visible before they reach its rows, and deleted
//! objects are reported as deleted.

use std::collections::BTreeMap;

use reqwest::Method;
use serde_json::{Value, json};

use crate::{
    lists::{all, claim, id, job, sql},
    support::{Answer, Api, Server},
};

#[tokio::test]
async fn item_shows_waiting_reason() {
    let server = Server::start().await;
    server.put("/api/v1/job-types/a", json!({"backoff": {"min_seconds": 600, "jitter": false}})).await.expect(201);
    let later = "2100-01-01T00:00:00Z";
    let body = json!({"type": "a", "items": [{"payload": 0}, {"payload": 1}, {"payload": 2, "run_after": later}],
        "children": [{"type": "a", "key": "first"}, {"type": "a", "key": "second"}]});
    let job = job(&server, body).await;
    let items = all(&server, &format!("/api/v1/items?job={}", id(&job))).await;
    let waits = |n: usize| {
        let (server, path) = (&server, format!("/api/v1/items/{}", items[n]));
        async move { server.get(&path).await.expect(200)["waiting_for"].clone() }
    };
    let never = waits(0).await;
    assert_eq!(never["reason"], "not_claimed");
    assert_eq!(never["detail"], "No worker has asked for a yet.");
    assert_eq!(waits(2).await, json!({"reason": "run_after", "detail": null, "until": later}));

    let claimed = claim(&server, "w", &["a"], 1).await;
    assert_eq!(waits(0).await, Value::Null);
    assert_eq!(waits(1).await["detail"], "Workers ask for a; others go first.");
    server.patch("/api/v1/job-types/a", json!({"concurrency": 1})).await.expect(200);
    let capped = waits(1).await;
    assert_eq!(
        (&capped["reason"], &capped["detail"]),
        (&json!("concurrency"), &json!("1 of at most 1 item of a is running."))
    );
    server.post("/api/v1/job-types/a/pause", json!({})).await.expect(200);
    assert_eq!(waits(1).await["reason"], "paused");
    server
        .post(&format!("/api/v1/assignments/{}/failure", id(&claimed[0])), json!({"error": {"message": "no"}}))
        .await
        .expect(200);
    let retry = waits(0).await;
    assert_eq!(retry["reason"], "retry");
    assert!(retry["until"].is_string(), "{retry}");

    // Behind an older item of its key, and behind another job.
    sql(
        &server,
        format!(
            "insert into serialize_queue (owner_id, key) select owner_id, 'k' from job where id = '{0}';
             insert into serialize_queue_entry select id, 1, '{1}' from serialize_queue; insert into serialize_queue_entry select id, 2, '{2}' from serialize_queue;
             with gone as (delete from ready where item_id = '{2}' returning *)
             insert into blocked select item_id, job_key, false, null, expires_at, type_id, attempts, failures, negated_priority,
               (select id from serialize_queue) from gone;",
            id(&job),
            items[0],
            items[1]
        ),
    )
    .await;
    let behind = waits(1).await;
    assert_eq!(behind["reason"], "serialize_key");
    assert!(behind["detail"].as_str().is_some_and(|d| d.contains(&items[0]) && d.contains("retryable")), "{behind}");
    sql(
        &server,
        format!(
            "update job set after = '{{first,second}}' where id = '{}'; update blocked set by_after = true;
        update job_state set after_open = 2 where job_key = (select job_key from job where id = '{0}')",
            id(&job)
        ),
    )
    .await;
    let after = waits(1).await;
    assert_eq!((&after["reason"], &after["detail"]), (&json!("after"), &json!("Waits for first, second.")));
    server.post(&format!("/api/v1/jobs/{}/seal", id(&job["children"][0])), json!({})).await.expect(200);
    assert_eq!(waits(1).await["detail"], "Waits for second.");
    server.stop().await;
}

#[tokio::test]
async fn item_state_reflects_job_decision_before_propagation() {
    let server = Server::start().await;
    server.put("/api/v1/job-types/a", json!({})).await.expect(201);
    let items: Vec<Value> = (0..5).map(|n| json!({"payload": n})).collect();
    let job = job(&server, json!({"type": "a", "items": items})).await;
    let items = all(&server, &format!("/api/v1/items?job={}", id(&job))).await;
    claim(&server, "w", &["a"], 1).await;
    // The walk that lets rows follow a decision gets nowhere meanwhile.
    sql(
        &server,
        "create function held() returns trigger language plpgsql as 'begin raise exception ''held''; end';
         create trigger held before delete or update of seq on propagation for each row execute function held()"
            .into(),
    )
    .await;
    // The commit of a cancellation; the rows of the other four still stand in `ready`.
    sql(
        &server,
        format!(
            "update job_state set cancelled_at = clock_timestamp(), cancel_reason = 'wrong file', sealed = true,
               n_cancelled = n_available, n_available = 0, version = version + 1
             where job_key = (select job_key from job where id = '{0}');
             insert into propagation (job_key, kind) select job_key, 1 from job where id = '{0}'",
            id(&job)
        ),
    )
    .await;
    let item = server.get(&format!("/api/v1/items/{}", items[2])).await.expect(200);
    assert_eq!((&item["state"], &item["waiting_for"]), (&json!("cancelled"), &Value::Null));
    assert_eq!(item["last_error"]["message"], "wrong file");
    assert!(item["finished_at"].is_string(), "{item}");
    for query in [
        "state=cancelled".to_owned(),
        format!("state=cancelled&job={}", id(&job)),
        format!("state=cancelled,dead&root={}", id(&job)),
    ] {
        assert_eq!(all(&server, &format!("/api/v1/items?{query}")).await, items[1..].to_vec(), "{query}");
    }
    assert_eq!(all(&server, &format!("/api/v1/items?state=available&job={}", id(&job))).await, Vec::<String>::new());
    let running = server.get("/api/v1/items?state=running").await.expect(200)["data"][0].clone();
    assert_eq!(id(&running), items[0]);
    assert!(running["cancel_requested_at"].is_string(), "{running}");
    let job = server.get(&format!("/api/v1/jobs/{}", id(&job))).await.expect(200);
    assert_eq!((&job["status"], &job["message"]), (&json!("cancelling"), &json!("Cancelling, 1 still running…")));
    assert_eq!(job["open_because"], json!({"reason": "cancelling", "detail": "Workers still hold 1 item."}));

    // A job that it waited for failed, and was repaired: ended rows are blocked again before they come back.
    sql(
        &server,
        "update job_state set cancelled_at = null, cancel_reason = null, after_failed = true; update propagation set kind = 2"
            .into(),
    )
    .await;
    assert_eq!(server.get(&format!("/api/v1/items/{}", items[3])).await.expect(200)["state"], "cancelled");
    sql(
        &server,
        format!(
            "with gone as (delete from ready where item_id = '{}' returning *)
             insert into outcome (item_id, job_key, seq, ended_at, attempt, failures, state, error_kind, error_message)
             select item_id, job_key, 4, clock_timestamp(), 0, 0, 3, 'after_failed', 'x' from gone;
             update job_state set after_failed = false, after_open = 1; update propagation set kind = 4",
            items[3]
        ),
    )
    .await;
    let back = server.get(&format!("/api/v1/items/{}", items[3])).await.expect(200);
    assert_eq!(
        (&back["state"], &back["finished_at"], &back["last_error"]),
        (&json!("blocked"), &Value::Null, &Value::Null)
    );
    assert_eq!(back["waiting_for"]["reason"], "after");
    assert_eq!(all(&server, "/api/v1/items?state=blocked").await, [&*items[3]]);
    assert_eq!(all(&server, "/api/v1/items?state=cancelled").await, Vec::<String>::new());
    server.stop().await;
}

#[tokio::test]
async fn fed_child_expected_count_is_that_of_its_parent() {
    let server = Server::start().await;
    for name in ["a", "b"] {
        server.put(&format!("/api/v1/job-types/{name}"), json!({})).await.expect(201);
    }
    let items: Vec<Value> = (0..4).map(|n| json!({"payload": n})).collect();
    let tree = |child: Value| json!({"type": "a", "sealed": true, "items": items, "children": [child]});
    for unknown in [json!({"type": "b"}), json!({"type": "b", "feed": {"each": "/result"}})] {
        let created = server.post("/api/v1/jobs", tree(unknown)).await.expect(201);
        assert_eq!(created["percent"], Value::Null, "nobody knows how many the child will have");
        server.post(&format!("/api/v1/jobs/{}/cancel", id(&created)), json!({})).await.expect(200);
    }
    let job = job(&server, tree(json!({"type": "b", "key": "child", "feed": {}}))).await;
    let (path, child) = (format!("/api/v1/jobs/{}", id(&job)), format!("/api/v1/jobs/{}", id(&job["children"][0])));
    let claimed = claim(&server, "w", &["a"], 1).await;
    server.post(&format!("/api/v1/assignments/{}/result", id(&claimed[0])), json!({})).await.expect(200);
    let before = server.get(&child).await;
    let tree = server.get(&path).await.expect(200);
    // One of the four, and of the four to come.
    assert_eq!((&tree["percent"], &tree["message"]), (&json!(12), &json!("Job running, 12% complete…")));
    assert_eq!(before.expect(200)["open_because"]["reason"], "unsealed");

    // What the child shows hangs on its parent, so its version does too.
    let claimed = claim(&server, "w", &["a"], 1).await;
    server.post(&format!("/api/v1/assignments/{}/result", id(&claimed[0])), json!({})).await.expect(200);
    let again = server.request(Method::GET, &child).header("if-none-match", &before.headers["etag"]);
    Answer::of(again).await.expect(200);
    let newest = server.get(&child).await.headers["etag"].clone();
    let tags = format!("\"1\", W/{}", newest.to_str().expect("text"));
    Answer::of(server.request(Method::GET, &child).header("if-none-match", tags)).await.expect(304);
    let alone = server.get(&format!("{path}?children=false")).await.expect(200);
    assert_eq!((alone.get("children"), &alone["tree"]["item_count"]), (None, &json!(6)));
    server.stop().await;
}

#[tokio::test]
async fn deleted_tree_answers_410() {
    let server = Server::start().await;
    let team = server.service("team", &["jobs:read", "jobs:write"]).await;
    let other = server.service("other", &["jobs:read"]).await;
    server.put("/api/v1/job-types/a", json!({})).await.expect(201);
    let body = json!({"type": "a", "items": [{"payload": 1}], "children": [{"type": "a", "key": "child"}]});
    let job = team.post("/api/v1/jobs", body).await.expect(201);
    let item = all(&team, &format!("/api/v1/items?job={}", id(&job))).await.remove(0);
    sql(
        &server,
        "update job_state set deleted_at = clock_timestamp(); insert into tombstone select id, root_id, owner_id from job"
            .into(),
    )
    .await;
    let (root, child) = (format!("/api/v1/jobs/{}", id(&job)), format!("/api/v1/jobs/{}", id(&job["children"][0])));
    let second = server.another().await;
    for rows_are_gone in [false, true] {
        if rows_are_gone {
            sql(&server, "delete from ready; delete from item; delete from job; delete from job_state".into()).await;
        }
        for path in [&root, &child, &format!("{root}/results"), &format!("{root}/failures")] {
            team.get(path).await.expect_problem(410, "job_removed");
            other.get(path).await.expect_problem(404, "not_found");
            second.get(path).await.expect_problem(410, "job_removed");
        }
        team.get(&format!("/api/v1/items?job={}", id(&job))).await.expect_problem(410, "job_removed");
        other.get(&format!("/api/v1/items?job={}", id(&job))).await.expect_problem(404, "not_found");
        team.get(&format!("/api/v1/items/{item}")).await.expect_problem(404, "not_found");
        assert_eq!(all(&server, "/api/v1/items?").await, Vec::<String>::new());
        assert_eq!(all(&server, "/api/v1/jobs?").await, Vec::<String>::new());
    }
    second.stop().await;
    server.stop().await;
}

#[tokio::test]
async fn attempt_history_lists_errors_steps_and_results() {
    let server = Server::start().await;
    let spec = json!({"steps": ["charged", "sent"], "backoff": {"min_seconds": 0, "jitter": false}});
    server.put("/api/v1/job-types/a", spec).await.expect(201);
    let job = job(&server, json!({"type": "a", "sealed": true, "items": [{"payload": 1}]})).await;
    let item = all(&server, &format!("/api/v1/items?job={}", id(&job))).await.remove(0);
    let mut versions = Vec::new();
    let item_path = format!("/api/v1/items/{item}");
    let version = async || server.get(&item_path).await.expect(200)["version"].as_i64().expect("a version");
    versions.push(version().await);
    let path = format!("/api/v1/assignments/{}", id(&claim(&server, "w-1", &["a"], 1).await[0]));
    versions.push(version().await);
    let failure = json!({"error": {"message": "no answer", "kind": "timeout", "detail": {"ms": 50}}});
    server.post(&format!("{path}/failure"), failure).await.expect(200);
    versions.push(version().await);
    let waiting = json!({"worker_id": "w-2", "types": ["a"], "wait_seconds": 20});
    let claimed = server.post("/api/v1/assignments", waiting).await.expect(200)["assignments"][0].clone();
    let path = format!("/api/v1/assignments/{}", id(&claimed));
    server.post(&format!("{path}/step"), json!({"name": "charged", "data": {"id": 7}})).await.expect(200);
    versions.push(version().await);
    server.post(&format!("{path}/result"), json!({"result": {"ok": true}})).await.expect(200);
    versions.push(version().await);
    let mut sorted = versions.clone();
    sorted.sort_unstable();
    sorted.dedup();
    assert_eq!(sorted, versions, "every change has a version of its own");

    let path = format!("{item_path}/attempts");
    let attempts = server.get(&path).await.expect(200)["data"].as_array().expect("data").clone();
    assert_eq!(attempts.len(), 2);
    assert_eq!((&attempts[0]["ended_as"], &attempts[0]["worker_id"]), (&json!("failed"), &json!("w-1")));
    assert_eq!(
        (&attempts[0]["error"]["kind"], &attempts[0]["error"]["detail"]),
        (&json!("timeout"), &json!({"ms": 50}))
    );
    assert_eq!((&attempts[0]["step"], &attempts[0]["result"]), (&Value::Null, &Value::Null));
    assert_eq!((&attempts[1]["ended_as"], &attempts[1]["result"]), (&json!("succeeded"), &json!({"ok": true})));
    assert_eq!(attempts[1]["step"], json!({"name": "charged", "data": {"id": 7}}));
    let first = server.get(&format!("{path}?limit=1")).await.expect(200);
    let cursor = first["next_cursor"].as_str().expect("a next page");
    let second = server.get(&format!("{path}?limit=1&cursor={cursor}")).await.expect(200);
    assert_eq!((&second["data"][0]["attempt"], &second["next_cursor"]), (&json!(2), &Value::Null));

    // A person's other payload: both can be read.
    sql(&server, format!("insert into item_edit (item_id, edit, payload) values ('{item}', 1, '{{\"n\": 1.10}}')"))
        .await;
    let edited = server.get(&item_path).await;
    assert!(edited.text.contains(r#""payload":{"n": 1.10}"#), "{}", edited.text);
    assert_eq!(edited.json()["original_payload"], 1);
    assert!(edited.json()["version"].as_i64() > versions.last().copied());
    server.stop().await;
}

#[tokio::test]
async fn attempts_keep_their_steps() {
    let server = Server::start().await;
    let spec = json!({"steps": ["charged", "sent"], "backoff": {"min_seconds": 0, "jitter": false}});
    server.put("/api/v1/job-types/a", spec).await.expect(201);
    let job = job(&server, json!({"type": "a", "sealed": true, "items": [{"payload": 1}]})).await;
    let item = format!("/api/v1/items/{}", all(&server, &format!("/api/v1/items?job={}", id(&job))).await[0]);
    let attempt = async |steps: &[Value], retryable: bool| {
        let waiting = json!({"worker_id": "w", "types": ["a"], "wait_seconds": 20});
        let claimed = server.post("/api/v1/assignments", waiting).await.expect(200)["assignments"][0].clone();
        let path = format!("/api/v1/assignments/{}", id(&claimed));
        for step in steps {
            server.post(&format!("{path}/step"), step.clone()).await.expect(200);
        }
        let failure = json!({"error": {"message": "no line"}, "retryable": retryable});
        server.post(&format!("{path}/failure"), failure).await.expect(200);
    };
    let listed = async || {
        let attempts = server.get(&format!("{item}/attempts")).await.expect(200);
        attempts["data"].as_array().expect("data").iter().map(|it| it["step"].clone()).collect::<Vec<_>>()
    };
    let (charged, sent) = (json!({"name": "charged", "data": 7}), json!({"name": "sent", "data": 8}));
    attempt(std::slice::from_ref(&charged), true).await;
    attempt(&[], true).await;
    attempt(std::slice::from_ref(&sent), false).await;
    let expected = [charged.clone(), Value::Null, sent.clone()];
    assert_eq!(listed().await, expected);
    // Restarted from the beginning: its own steps are new ones, and the last of two counts.
    server.post(&format!("{item}/retry"), json!({"restart": true})).await.expect(200);
    assert_eq!(listed().await, expected);
    attempt(&[charged, sent.clone()], false).await;
    assert_eq!(listed().await, [&expected[..], &[sent]].concat());
    server.stop().await;
}

#[tokio::test]
async fn items_are_counted_by_step() {
    let server = Server::start().await;
    server.put("/api/v1/job-types/a", json!({"steps": ["charged", "sent", "filed"]})).await.expect(201);
    let items: Vec<Value> = (0..5).map(|n| json!({"payload": n})).collect();
    let job = job(&server, json!({"type": "a", "items": items})).await;
    let steps = format!("/api/v1/jobs/{}/steps", id(&job));
    let counted = async || {
        let answer = server.get(&steps).await.expect(200);
        let steps = answer["steps"].as_array().expect("steps").clone();
        assert!(steps.iter().all(|step| step["more"] == false), "{answer}");
        steps.into_iter().map(|step| (step["name"].clone(), step["items"].clone())).collect::<Vec<_>>()
    };
    let expected = |numbers: [i64; 3]| {
        ["charged", "sent", "filed"]
            .into_iter()
            .zip(numbers)
            .map(|(name, n)| (json!(name), json!(n)))
            .collect::<Vec<_>>()
    };
    assert_eq!(counted().await, expected([0, 0, 0]));
    let claimed = claim(&server, "w", &["a"], 4).await;
    for (assignment, steps) in claimed.iter().zip([&["charged"][..], &["charged"], &["charged", "sent"], &["filed"]]) {
        for step in steps {
            let path = format!("/api/v1/assignments/{}/step", id(assignment));
            server.post(&path, json!({"name": step})).await.expect(200);
        }
    }
    assert_eq!(counted().await, expected([2, 1, 1]));
    let result = format!("/api/v1/assignments/{}/result", id(&claimed[3]));
    server.post(&result, json!({})).await.expect(200);
    assert_eq!(counted().await, expected([2, 1, 1]), "also of items that have ended");
    let sent = all(&server, &format!("/api/v1/items?job={}&step=sent", id(&job))).await;
    assert_eq!(sent, [id(&claimed[2]["item"])]);
    let page = server.person("sam", "support").await.get(&format!("/jobs/{}", id(&job))).await.text;
    let card = page.split("id=\"steps\"").nth(1).expect("the card").split("</section>").next().expect("its end");
    assert!(card.contains("%20step:charged\">2<"), "{card}");
    server.put("/api/v1/job-types/plain", json!({})).await.expect(201);
    let plain = server.post("/api/v1/jobs", json!({"type": "plain"})).await.expect(201);
    assert_eq!(server.get(&format!("/api/v1/jobs/{}/steps", id(&plain))).await.expect(200)["steps"], json!([]));
    server.stop().await;
}

#[tokio::test]
async fn version_never_goes_back_when_an_item_without_attempts_is_retried() {
    let server = Server::start().await;
    server.put("/api/v1/job-types/a", json!({})).await.expect(201);
    let job = job(&server, json!({"type": "a", "items": [{"payload": 1}]})).await;
    let item = format!("/api/v1/items/{}", all(&server, &format!("/api/v1/items?job={}", id(&job))).await[0]);
    let version = async || server.get(&item).await.expect(200)["version"].as_i64().expect("a version");
    let mut versions = vec![version().await];
    for action in ["cancel", "retry", "cancel", "retry"] {
        server.post(&format!("{item}/{action}"), json!({})).await.expect(200);
        versions.push(version().await);
    }
    assert!(versions.is_sorted_by(|one, next| one < next), "{versions:?}");
    server.stop().await;
}

#[tokio::test]
async fn workers_and_statistics_without_counting_rows() {
    let server = Server::start().await;
    let team = server.service("team", &["jobs:read", "jobs:write", "work"]).await;
    let other = server.service("other", &["jobs:read"]).await;
    for name in ["a", "b"] {
        server.put(&format!("/api/v1/job-types/{name}"), json!({})).await.expect(201);
    }
    let items: Vec<Value> = (0..3).map(|n| json!({"payload": n})).collect();
    team.post("/api/v1/jobs", json!({"type": "a", "items": items})).await.expect(201);
    assert_eq!(claim(&team, "w-1", &["a"], 2).await.len(), 2);
    claim(&team, "w-2", &["a", "b"], 1).await;

    for api in [&team, &*server] {
        let workers = api.get("/api/v1/workers?sort=worker_id").await.expect(200)["data"].clone();
        assert_eq!(workers.as_array().map(Vec::len), Some(2), "{workers}");
        assert_eq!(
            (&workers[0]["worker_id"], &workers[0]["open"], &workers[0]["owner"]),
            (&json!("w-1"), &json!(2), &json!("team"))
        );
        assert_eq!((&workers[1]["open"], &workers[1]["types"]), (&json!(1), &json!(["a", "b"])));
        assert!(workers[0]["last_seen_at"].is_string());
    }
    assert_eq!(other.get("/api/v1/workers").await.expect(200)["data"], json!([]));
    let first = team.get("/api/v1/workers?sort=worker_id&limit=1").await.expect(200);
    let cursor = first["next_cursor"].as_str().expect("a next page");
    let second = team.get(&format!("/api/v1/workers?sort=worker_id&limit=1&cursor={cursor}")).await.expect(200);
    assert_eq!((&second["data"][0]["worker_id"], &second["next_cursor"]), (&json!("w-2"), &Value::Null));

    let newest = team.get("/api/v1/workers").await.expect(200)["data"].clone();
    assert_eq!((&newest[0]["worker_id"], &newest[1]["worker_id"]), (&json!("w-2"), &json!("w-1")), "newest first");

    other.get("/api/v1/stats").await.expect_problem(403, "forbidden");
    // The walk that adds up begins anew each second.
    let deadline = tokio::time::Instant::now() + std::time::Duration::from_secs(20);
    let stats = loop {
        let stats = server.get("/api/v1/stats").await.expect(200);
        let of = stats["data"].as_array().expect("data").iter().find(|it| it["type"] == "a").expect("the type").clone();
        if of["counts"]["running"] == 3 {
            assert!(stats["age_seconds"].as_f64().is_some_and(|age| (0.0..60.0).contains(&age)), "{stats}");
            break of;
        }
        assert!(tokio::time::Instant::now() < deadline, "{stats}");
    };
    assert_eq!((&stats["open"], &stats["counts"]["available"]), (&json!(3), &json!(0)));
    assert!(stats["last_asked_at"].is_string(), "{stats}");
    let spans: BTreeMap<i64, f64> = stats["rates"]
        .as_array()
        .expect("rates")
        .iter()
        .map(|rate| (rate["seconds"].as_i64().expect("seconds"), rate["in_per_second"].as_f64().expect("a rate")))
        .collect();
    assert_eq!(spans.keys().copied().collect::<Vec<_>>(), [60, 300, 3600]);
    let metrics = server.get("/metrics").await;
    assert!(metrics.text.contains("treeline_items{type=\"a\",state=\"running\"} 3"), "{}", metrics.text);

    // Over all jobs, groups come from what each owner has.
    sql(
        &server,
        "insert into owner_error select o.id, t.id, 'f1', 'broken ' || o.name, 'k', 2, clock_timestamp(),
           clock_timestamp(), gen_random_uuid() from owner o, job_type t where o.kind = 'service' and t.name = 'a'
           and o.name in ('team', 'other')"
            .into(),
    )
    .await;
    let groups = |api: Api, query: &'static str| async move {
        api.get(&format!("/api/v1/dead-letters/groups?{query}")).await.expect(200)["data"].clone()
    };
    assert_eq!(groups((*server).clone(), "").await[0]["count"], 4);
    assert_eq!(groups((*server).clone(), "owner=team").await[0]["count"], 2);
    assert_eq!(groups((*server).clone(), "q=broken%20oth").await[0]["count"], 2);
    assert_eq!(groups((*server).clone(), "type=b").await, json!([]));
    assert_eq!(groups(team.clone(), "").await[0]["message"], "broken team");
    assert_eq!(groups(team, "owner=other").await, json!([]));
    server.stop().await;
}

#[tokio::test]
async fn fed_items_count_as_added() {
    let server = Server::start().await;
    for name in ["book", "mail"] {
        server.put(&format!("/api/v1/job-types/{name}"), json!({})).await.expect(201);
    }
    let items: Vec<Value> = (0..5).map(|n| json!({"payload": n})).collect();
    let tree = json!({"type": "book", "items": items, "children": [{"type": "mail", "feed": {}}]});
    server.post("/api/v1/jobs", tree).await.expect(201);
    let body = json!({"worker_id": "w", "types": ["book"], "max": 5, "wait_seconds": 10});
    let claimed = server.post("/api/v1/assignments", body).await.expect(200);
    for one in claimed["assignments"].as_array().expect("assignments") {
        let path = format!("/api/v1/assignments/{}/result", one["id"].as_str().expect("an id"));
        server.post(&path, json!({"result": {"n": 1}})).await.expect(200);
    }
    let stats = server.get("/api/v1/stats").await.expect(200);
    for name in ["book", "mail"] {
        let of = stats["data"].as_array().expect("data").iter().find(|it| it["type"] == name).expect("the type");
        let rate = of["rates"][0]["in_per_second"].as_f64().expect("a rate");
        assert!((rate - 5.0 / 60.0).abs() < 1e-6, "{name}: {rate}");
    }
    server.stop().await;
}
