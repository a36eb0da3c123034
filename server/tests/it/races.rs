//! Concurrency: disjoint claims, closed leases, completion counted once, exact caps. Many concurrent callers against
//! one real database, and two servers if relevant.

use std::{
    collections::HashSet,
    time::{Duration, Instant},
};

use futures::future::join_all;
use serde_json::{Value, json};
use time::{OffsetDateTime, format_description::well_known::Rfc3339};

use crate::{
    fair_turns::until,
    support::{Api, Server},
};

fn id(value: &Value) -> String {
    value["id"].as_str().expect("an id").to_owned()
}

async fn claim(api: &Api, worker: &str, max: u32, wait: u32) -> Vec<Value> {
    let body = json!({"worker_id": worker, "types": ["a"], "max": max, "wait_seconds": wait});
    api.post("/api/v1/assignments", body).await.expect(200)["assignments"].as_array().expect("assignments").clone()
}

async fn end(api: &Api, assignment: &Value, verb: &str, body: Value) -> Value {
    api.post(&format!("/api/v1/assignments/{}/{verb}", id(assignment)), body).await.expect(200)
}

async fn job_of(server: &Server, n: usize) -> String {
    let items: Vec<Value> = (0..n).map(|n| json!({"payload": n})).collect();
    id(&server.post("/api/v1/jobs", json!({"type": "a", "sealed": true, "items": items})).await.expect(201))
}

/// P3: eight workers on two servers never hold one item at once, and every item is claimed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn item_is_assigned_to_one_worker_at_a_time() {
    let server = Server::start().await;
    let other = server.another().await;
    server.put("/api/v1/job-types/a", json!({})).await.expect(201);
    other.get("/api/v1/job-types/a").await.expect(200);
    let job = job_of(&server, 600).await;
    let apis: Vec<Api> = (0..8).map(|n| if n % 2 == 0 { server.clone() } else { other.clone() }).collect();
    let workers = apis.iter().enumerate().map(|(n, api)| async move {
        let worker = format!("w-{n}");
        let mut claimed = Vec::new();
        loop {
            // The other server learns of a new type within a second.
            let got = claim(api, &worker, 7, 2).await;
            if got.is_empty() {
                return claimed;
            }
            claimed.extend(got);
        }
    });
    let claimed: Vec<Vec<Value>> = join_all(workers).await;
    assert!(claimed.iter().filter(|items| !items.is_empty()).count() > 1, "several workers had some");
    let items: Vec<String> = claimed.iter().flatten().map(|a| id(&a["item"])).collect();
    let distinct: HashSet<&String> = items.iter().collect();
    assert_eq!((items.len(), distinct.len()), (600, 600));

    // All end at once, each twice: 600 successes, counted once each.
    let endings = apis.iter().zip(&claimed).flat_map(|(api, claimed)| claimed.iter().map(move |a| (api, a)));
    let twice: Vec<_> =
        endings.flat_map(|(api, a)| [end(api, a, "result", json!({})), end(api, a, "result", json!({}))]).collect();
    for answer in join_all(twice).await {
        assert_eq!(answer["item_state"], "succeeded");
    }
    let job = server.get(&format!("/api/v1/jobs/{job}")).await.expect(200);
    assert_eq!(
        (&job["status"], &job["completion"], &job["counts"]["succeeded"]),
        (&json!("completed"), &json!(1), &json!(600))
    );
    other.stop().await;
    server.stop().await;
}

/// P4, P5: a killed worker's item is offered again; its late result is refused and changes nothing.
#[tokio::test]
async fn lease_expiry_returns_item_to_queue_and_refuses_late_result() {
    let server = Server::start().await;
    server.put("/api/v1/job-types/a", json!({"heartbeat_seconds": 0.2})).await.expect(201);
    let job = job_of(&server, 1).await;
    let lost = claim(&server, "killed", 1, 0).await.remove(0);

    // Nobody hears from the first worker; the second waits in line until the item comes back.
    let again = claim(&server, "second", 1, 20).await.remove(0);
    assert_eq!((&again["item"]["id"], &again["attempt"]), (&lost["item"]["id"], &json!(2)));
    assert_eq!(again["item"]["failures"], 1);

    let late = format!("/api/v1/assignments/{}/result", id(&lost));
    let refused = server.post(&late, json!({"result": {"late": true}})).await.expect_problem(409, "assignment_closed");
    assert_eq!((&refused["ended_as"], &refused["item_state"]), (&json!("lease_lost"), &json!("running")));
    end(&server, &again, "result", json!({"result": {"by": "second"}})).await;
    server.post(&late, json!({"result": {"late": true}})).await.expect_problem(409, "assignment_closed");

    let item = server.get(&format!("/api/v1/items/{}", id(&lost["item"]))).await.expect(200);
    assert_eq!(
        (&item["state"], &item["result"], &item["attempts"]),
        (&json!("succeeded"), &json!({"by": "second"}), &json!(2))
    );
    let attempts = server.get(&format!("/api/v1/items/{}/attempts", id(&lost["item"]))).await.expect(200);
    let ends: Vec<&Value> = attempts["data"].as_array().expect("attempts").iter().map(|a| &a["ended_as"]).collect();
    assert_eq!(ends, ["lease_lost", "succeeded"]);
    let job = server.get(&format!("/api/v1/jobs/{job}")).await.expect(200);
    assert_eq!((&job["outcome"], &job["item_count"]), (&json!("succeeded"), &json!(1)));
    server.stop().await;
}

/// `lease-expiry`: a worker that sends heartbeats keeps its item for many leases.
#[tokio::test]
async fn heartbeats_extend_the_lease() {
    let server = Server::start().await;
    server.put("/api/v1/job-types/a", json!({"heartbeat_seconds": 0.5})).await.expect(201);
    job_of(&server, 1).await;
    let claimed = claim(&server, "alive", 1, 0).await.remove(0);
    let begin = Instant::now();
    // Three leases of 1.5 s.
    while begin.elapsed() < Duration::from_millis(4_600) {
        end(&server, &claimed, "heartbeat", json!({})).await;
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    assert_eq!(claim(&server, "other", 1, 0).await.len(), 0);
    end(&server, &claimed, "result", json!({})).await;
    server.stop().await;
}

/// P6: an at-most-once item is never offered again; its loss is a dead letter.
#[tokio::test]
async fn at_most_once_item_is_never_reassigned() {
    let server = Server::start().await;
    let spec = json!({"heartbeat_seconds": 0.7, "delivery": "at_most_once", "steps": ["sent"]});
    server.put("/api/v1/job-types/a", spec).await.expect(201);
    let job = job_of(&server, 2).await;
    let claimed = claim(&server, "w", 2, 0).await;
    end(&server, &claimed[0], "release", json!({})).await;
    end(&server, &claimed[1], "step", json!({"name": "sent"})).await;
    let started = format!("/api/v1/assignments/{}/release", id(&claimed[1]));
    server.post(&started, json!({})).await.expect_problem(409, "already_started");
    // Only its holder is told.
    let stranger = server.service("other", &["work"]).await;
    stranger.post(&started, json!({})).await.expect_problem(404, "not_found");

    // Only the one that was given back untouched comes again.
    let again = claim(&server, "w", 2, 5).await;
    assert_eq!(again.iter().map(|a| &a["item"]["id"]).collect::<Vec<_>>(), [&claimed[0]["item"]["id"]]);
    end(&server, &again[0], "result", json!({})).await;

    let job = until(&server, &job, |job| job["status"] == "completed").await;
    assert_eq!((&job["counts"]["dead"], &job["counts"]["succeeded"]), (&json!(1), &json!(1)));
    let item = server.get(&format!("/api/v1/items/{}", id(&claimed[1]["item"]))).await.expect(200);
    assert_eq!((&item["state"], &item["last_error"]["kind"]), (&json!("dead"), &json!("outcome_unknown")));
    server.stop().await;
}

/// A step that a later attempt repeats is the beginning of its work, too.
#[tokio::test]
async fn at_most_once_item_is_not_released_after_a_repeated_step() {
    let server = Server::start().await;
    server.put("/api/v1/job-types/a", json!({"delivery": "at_most_once", "steps": ["sent"]})).await.expect(201);
    job_of(&server, 1).await;
    let sent = json!({"name": "sent", "data": {"to": "ada"}});
    let first = claim(&server, "w", 1, 0).await.remove(0);
    end(&server, &first, "step", sent.clone()).await;
    let failure = json!({"error": {"message": "no line"}, "retryable": false});
    end(&server, &first, "failure", failure).await;
    server.post(&format!("/api/v1/items/{}/retry", id(&first["item"])), json!({})).await.expect(200);
    let second = claim(&server, "w", 1, 5).await.remove(0);
    end(&server, &second, "step", sent).await;
    let release = format!("/api/v1/assignments/{}/release", id(&second));
    server.post(&release, json!({})).await.expect_problem(409, "already_started");
    server.stop().await;
}

/// P7: exactly `max_failures` failures, then dead; a retryable item becomes due by itself.
#[tokio::test]
async fn item_is_dead_after_max_failures() {
    let server = Server::start().await;
    let backoff = json!({"min_seconds": 0.1, "max_seconds": 0.1, "factor": 1, "jitter": false});
    server.put("/api/v1/job-types/a", json!({"max_failures": 3, "backoff": backoff})).await.expect(201);
    job_of(&server, 1).await;
    for n in 1..=3 {
        let claimed = claim(&server, "w", 1, 10).await.remove(0);
        assert_eq!((&claimed["attempt"], &claimed["item"]["failures"]), (&json!(n), &json!(n - 1)));
        let failure = json!({"error": {"message": format!("try {n}")}});
        let ended = end(&server, &claimed, "failure", failure.clone()).await;
        let state = if n < 3 { "retryable" } else { "dead" };
        assert_eq!((&ended["item_state"], ended["retry_at"].is_string()), (&json!(state), n < 3));
        if n < 3 {
            let item = server.get(&format!("/api/v1/items/{}", id(&claimed["item"]))).await.expect(200);
            let at = |time: &Value| OffsetDateTime::parse(time.as_str().expect("a time"), &Rfc3339).expect("a time");
            let backoff = at(&ended["retry_at"]) - at(&item["last_error"]["at"]);
            assert_eq!(backoff, time::Duration::milliseconds(100), "{item}");
        }
        // The answer may have been lost: the same again says it failed, not that it is closed.
        assert_eq!(end(&server, &claimed, "failure", failure).await["ended_as"], "failed");
    }
    assert_eq!(claim(&server, "w", 1, 0).await.len(), 0);
    server.stop().await;
}

/// `completion`: of two workers that end the last two items at the same moment, exactly one completes the job.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn concurrent_last_items_complete_the_job_once() {
    let server = Server::start().await;
    let other = server.another().await;
    server.put("/api/v1/job-types/a", json!({})).await.expect(201);
    let trees = join_all((0..60).map(|n| {
        // Half of them are trees of three jobs, which settle in a transaction of their own.
        let one = json!({"type": "a", "sealed": true, "items": [{}, {}]});
        let child = |key: &str| json!({"type": "a", "key": key, "sealed": true, "items": [{}]});
        let three = json!({"type": "a", "sealed": true, "children": [child("b"), child("c")]});
        server.post("/api/v1/jobs", if n % 2 == 0 { one } else { three })
    }))
    .await;
    let claimed = claim(&server, "w", 1_000, 0).await;
    assert_eq!(claimed.len(), 120);
    join_all(claimed.iter().enumerate().map(|(n, assignment)| {
        let api = if n % 2 == 0 { server.clone() } else { other.clone() };
        async move { end(&api, assignment, "result", json!({})).await }
    }))
    .await;
    for tree in trees {
        let tree = server.get(&format!("/api/v1/jobs/{}", id(&tree.expect(201)))).await.expect(200);
        assert_eq!((&tree["tree"]["status"], &tree["completion"]), (&json!("completed"), &json!(1)), "{tree}");
        assert_eq!((&tree["tree"]["outcome"], &tree["percent"]), (&json!("succeeded"), &json!(100)));
    }
    other.stop().await;
    server.stop().await;
}

/// P14: a cap holds exactly, over two servers and many claims at once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn concurrency_cap_is_exact_over_two_servers() {
    let server = Server::start().await;
    server.put("/api/v1/job-types/a", json!({"concurrency": 5})).await.expect(201);
    let other = server.another().await;
    job_of(&server, 200).await;
    for _ in 0..5 {
        let apis: Vec<Api> = (0..16).map(|n| if n % 2 == 0 { server.clone() } else { other.clone() }).collect();
        let claimed: Vec<Vec<Value>> = join_all(apis.iter().map(|api| claim(api, "w", 3, 0))).await;
        let open: Vec<&Value> = claimed.iter().flatten().collect();
        assert_eq!(open.len(), 5, "never more than the cap, and never less while there is work");
        join_all(open.iter().map(|a| end(&server, a, "result", json!({})))).await;
    }
    other.stop().await;
    server.stop().await;
}

/// Every waiting claim is woken if there is work for all, whichever was woken first.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_waiting_claim_is_served() {
    let server = Server::start().await;
    server.put("/api/v1/job-types/a", json!({})).await.expect(201);
    let job = id(&server.post("/api/v1/jobs", json!({"type": "a"})).await.expect(201));
    let waiting = join_all((0..6).map(|_| claim(&server, "w", 1, 30)));
    let adding = async {
        // One after the other, so that wake-ups and claims cross each other.
        for n in 0..6 {
            server.post(&format!("/api/v1/jobs/{job}/items"), json!([{"payload": n}])).await.expect(200);
        }
    };
    let (claimed, ()) = tokio::join!(waiting, adding);
    let items: HashSet<String> = claimed.iter().flatten().map(|a| id(&a["item"])).collect();
    assert_eq!(items.len(), 6);
    server.stop().await;
}

/// `claiming`: a repeated claim returns its open assignments, and takes no new items.
#[tokio::test]
async fn repeated_claim_id_returns_the_same_assignments() {
    let server = Server::start().await;
    server.put("/api/v1/job-types/a", json!({})).await.expect(201);
    job_of(&server, 10).await;
    let body = json!({"worker_id": "w", "types": ["a"], "max": 3, "claim_id": "0190a5e0-0000-7000-8000-00000000000a"});
    let first = server.post("/api/v1/assignments", body.clone()).await.expect(200)["assignments"].clone();
    let again = server.post("/api/v1/assignments", body.clone()).await.expect(200)["assignments"].clone();
    let ids = |list: &Value| list.as_array().expect("a list").iter().map(id).collect::<HashSet<_>>();
    assert_eq!((ids(&first).len(), ids(&first)), (3, ids(&again)));
    end(&server, &first[0], "result", json!({})).await;
    let rest = server.post("/api/v1/assignments", body).await.expect(200)["assignments"].clone();
    assert_eq!(rest.as_array().map(Vec::len), Some(2));
    server.stop().await;
}

/// `claiming`: a repeated claim is not answered with nothing because the first one is still being written.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn concurrent_claims_with_one_claim_id_return_the_same_items() {
    let server = Server::start().await;
    server.put("/api/v1/job-types/a", json!({})).await.expect(201);
    for n in 0..30 {
        // No other item, so that nothing but the `claim_id` tells the later claims of it.
        job_of(&server, 1).await;
        let claim_id = format!("0190a5e0-0000-7000-8000-0000000000{n:02}");
        let body = json!({"worker_id": "w", "types": ["a"], "max": 1, "claim_id": claim_id});
        let claims = (0..4).map(|_| server.post("/api/v1/assignments", body.clone()));
        let answers = futures::future::join_all(claims).await;
        let ids: HashSet<String> = answers
            .into_iter()
            .map(|answer| id(answer.expect(200)["assignments"].get(0).expect("the item that the first claim took")))
            .collect();
        assert_eq!(ids.len(), 1, "{ids:?}");
    }
    server.stop().await;
}

/// An assignment is bound to the token that claimed it.
#[tokio::test]
async fn assignment_is_bound_to_its_token() {
    let server = Server::start().await;
    server.put("/api/v1/job-types/a", json!({"steps": ["s"]})).await.expect(201);
    job_of(&server, 1).await;
    let thief = server.service("thief", &["work"]).await;
    let claimed = claim(&server, "w", 1, 0).await.remove(0);
    for (verb, body) in [
        ("result", json!({})),
        ("failure", json!({"error": {"message": "x"}})),
        ("heartbeat", json!({})),
        ("step", json!({"name": "s"})),
        ("alert", json!({"message": "x"})),
        ("release", json!({})),
    ] {
        thief
            .post(&format!("/api/v1/assignments/{}/{verb}", id(&claimed)), body)
            .await
            .expect_problem(404, "not_found");
    }
    end(&server, &claimed, "result", json!({})).await;
    server.stop().await;
}

/// `finish`: in order; one invalid ending does not affect the others, and the next claim shares the call.
#[tokio::test]
async fn finish_batch_answers_each_ending_and_claims_next() {
    let server = Server::start().await;
    server.put("/api/v1/job-types/a", json!({})).await.expect(201);
    job_of(&server, 6).await;
    let claimed = claim(&server, "w", 4, 0).await;
    let body = json!({
        "endings": [
            {"assignment_id": claimed[0]["id"], "result": {"n": 1}},
            {"assignment_id": "0190a5e0-0000-7000-8000-000000000000", "result": {}},
            {"assignment_id": claimed[1]["id"], "result": null},
            {"assignment_id": claimed[2]["id"], "error": {"message": "bad"}, "retryable": false},
            {"assignment_id": claimed[3]["id"]},
        ],
        "claim": {"worker_id": "w", "types": ["a"], "max": 10},
    });
    let done = server.post("/api/v1/assignments/finish", body.clone()).await.expect(200);
    let statuses: Vec<i64> =
        done["endings"].as_array().expect("endings").iter().filter_map(|e| e["status"].as_i64()).collect();
    assert_eq!(statuses, [200, 404, 422, 200, 200]);
    assert_eq!(done["assignments"].as_array().map(Vec::len), Some(2));
    let again = server.post("/api/v1/assignments/finish", body).await.expect(200);
    assert_eq!((&again["endings"], &again["assignments"]), (&done["endings"], &json!([])));
    server.stop().await;
}

/// Large batches reserve their positions first and check their job again at the end: whatever is decided meanwhile
/// (sealed, canceled, deleted), accepted rows exist, and no others.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn large_batches_race_with_seal_cancel_and_unblock() {
    let server = Server::start().await;
    let other = server.another().await;
    server.put("/api/v1/job-types/a", json!({})).await.expect(201);
    server.put("/api/v1/job-types/b", json!({})).await.expect(201);
    let many = Value::from((0..1_200).map(|n| json!({"payload": n})).collect::<Vec<_>>());
    for decision in ["seal", "cancel", "let go", "seal", "cancel", "let go"] {
        let tree = json!({"type": "a", "sealed": true, "items": [{}], "children": [
            {"type": "b", "key": "first", "sealed": true, "items": [{}]},
            {"type": "b", "key": "second", "after": ["first"]}]});
        let tree = server.post("/api/v1/jobs", tree).await.expect(201);
        let second = tree["children"].as_array().expect("children").iter().find(|job| job["key"] == "second");
        let second = id(second.expect("the second child"));
        let path = format!("/api/v1/jobs/{second}/items");
        let claimed = json!({"worker_id": "w", "types": ["b"], "max": 10});
        let claimed = server.post("/api/v1/assignments", claimed).await.expect(200);
        let decide = async {
            match decision {
                "seal" => server.post(&format!("/api/v1/jobs/{second}/seal"), json!({})).await.expect(200),
                "cancel" => server.post(&format!("/api/v1/jobs/{second}/cancel"), json!({})).await.expect(200),
                _ => end(&server, &claimed["assignments"][0], "result", json!({})).await,
            };
        };
        let adds = join_all([&*server, &*other, &*server].map(|api| api.post(&path, many.clone())));
        let (added, ()) = futures::join!(adds, decide);
        let accepted = added.iter().filter(|answer| answer.status.as_u16() == 200).count();
        for answer in added.iter().filter(|answer| answer.status.as_u16() != 200) {
            answer.expect_problem(409, if decision == "cancel" { "job_cancelled" } else { "job_sealed" });
        }
        let job = server.get(&format!("/api/v1/jobs/{second}")).await.expect(200);
        assert_eq!(job["item_count"], json!(accepted * 1_200), "after {decision}");
        if decision == "let go" {
            assert_eq!(accepted, 3);
            until(&server, &second, |job| job["counts"]["available"] == json!(3_600)).await;
        }
        server.post(&format!("/api/v1/jobs/{}/cancel", id(&tree)), json!({})).await;
    }
    other.stop().await;
    server.stop().await;
}
