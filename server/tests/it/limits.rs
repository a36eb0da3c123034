//! Limits on starts: `rate-limit` and `concurrency-by-key`, exact over two servers, measured by the times that the
//! database recorded.

use std::{
    collections::BTreeMap,
    sync::atomic::{AtomicUsize, Ordering},
    time::Duration,
};

use futures::future::join_all;
use serde_json::{Value, json};

use crate::support::{Api, Server, invariants};

fn id(value: &Value) -> String {
    value["id"].as_str().expect("an id").to_owned()
}

async fn claim(api: &Api, max: u32, wait: u32) -> Vec<Value> {
    let body = json!({"worker_id": "w", "types": ["a"], "max": max, "wait_seconds": wait});
    api.post("/api/v1/assignments", body).await.expect(200)["assignments"].as_array().expect("assignments").clone()
}

async fn succeed(api: &Api, assignment: &Value) {
    api.post(&format!("/api/v1/assignments/{}/result", id(assignment)), json!({})).await.expect(200);
}

/// A sealed job with these payloads; returns its path.
async fn job_of(api: &Api, payloads: impl IntoIterator<Item = Value>) -> String {
    let items: Vec<Value> = payloads.into_iter().map(|payload| json!({"payload": payload})).collect();
    let job = api.post("/api/v1/jobs", json!({"type": "a", "sealed": true, "items": items})).await.expect(201);
    format!("/api/v1/jobs/{}", id(&job))
}

fn customer(name: &str) -> Value {
    json!({"customer": name})
}

/// Sixty-four workers on two servers, until `n` items have succeeded.
async fn work(servers: [&Api; 2], n: usize) {
    let done = AtomicUsize::new(0);
    let workers = (0..64).map(|worker| {
        let (api, done) = (servers[worker % 2], &done);
        async move {
            while done.load(Ordering::SeqCst) < n {
                for assignment in claim(api, 3, 1).await {
                    succeed(api, &assignment).await;
                    done.fetch_add(1, Ordering::SeqCst);
                }
            }
        }
    });
    join_all(workers).await;
}

/// Start and end of every attempt in microseconds, by the value of its key.
async fn attempts(server: &Server) -> BTreeMap<String, Vec<(i64, i64)>> {
    let rows: Vec<(String, i64, i64)> = sqlx::query_as(
        "select coalesce(i.payload::json ->> 'customer', ''), (extract(epoch from o.started_at) * 1000000)::bigint,
           (extract(epoch from o.ended_at) * 1000000)::bigint
         from outcome o join item i on i.id = o.item_id where o.started_at is not null order by o.started_at",
    )
    .fetch_all(&server.running.app.pool)
    .await
    .expect("attempts");
    let mut attempts: BTreeMap<String, Vec<(i64, i64)>> = BTreeMap::new();
    for (key, start, end) in rows {
        attempts.entry(key).or_default().push((start, end));
    }
    attempts
}

/// Most starts in any window of a second.
fn most_in_a_second(attempts: &[(i64, i64)]) -> usize {
    let within = |from: i64| attempts.iter().filter(|(start, _)| (from..from + 1_000_000).contains(start)).count();
    attempts.iter().map(|&(from, _)| within(from)).max().unwrap_or(0)
}

/// Most attempts that ran at one moment.
fn most_at_once(attempts: &[(i64, i64)]) -> usize {
    let at = |now: i64| attempts.iter().filter(|(start, end)| (*start..*end).contains(&now)).count();
    attempts.iter().map(|&(start, _)| at(start)).max().unwrap_or(0)
}

async fn check_invariants(server: &Server) {
    invariants::check(&server.running.app.pool, None, Duration::from_secs(10)).await.expect("the invariants hold");
}

/// `rate-limit`: no window has more starts than the limit, over two servers, and hardly fewer.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rate_limit_is_exact_over_two_servers() {
    let server = Server::start().await;
    server.put("/api/v1/job-types/a", json!({"rate_limit": {"count": 20, "per_seconds": 1}})).await.expect(201);
    let other = server.another().await;
    job_of(&server, (0..100).map(|n| json!({ "n": n }))).await;
    work([&server, &other], 100).await;
    let attempts = attempts(&server).await.remove("").expect("attempts");
    assert_eq!(attempts.len(), 100);
    assert!(most_in_a_second(&attempts) <= 20, "{} in one second", most_in_a_second(&attempts));
    let took = attempts[99].0 - attempts[0].0;
    assert!((4_000_000..12_000_000).contains(&took), "five windows took {took} µs");
    check_invariants(&server).await;
    other.stop().await;
    server.stop().await;
}

/// `rate-limit` by key: each key has windows of its own, and a key with many items holds up no other.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rate_limit_by_key_is_exact_and_starves_no_key() {
    let server = Server::start().await;
    let limit = json!({"count": 5, "per_seconds": 1, "key": "/customer"});
    server.put("/api/v1/job-types/a", json!({ "rate_limit": limit })).await.expect(201);
    let other = server.another().await;
    let large = job_of(&server, (0..2_000).map(|_| customer("large"))).await;
    let small: Vec<Value> = (0..80).map(|n| customer(&format!("c{}", n % 8))).collect();
    job_of(&other, small).await;
    // Ten items of each small key need two windows; the large key takes part meanwhile.
    work([&server, &other], 90).await;
    let attempts = attempts(&server).await;
    for (key, attempts) in &attempts {
        assert!(most_in_a_second(attempts) <= 5, "{key}: {} in one second", most_in_a_second(attempts));
        if key != "large" {
            assert_eq!(attempts.len(), 10, "{key}");
        }
    }
    assert_eq!(attempts.len(), 9, "every key had its turn");
    server.post(&format!("{large}/cancel"), json!({})).await.expect(200);
    check_invariants(&server).await;
    other.stop().await;
    server.stop().await;
}

/// `concurrency-by-key`: never more of a key at once than its limit, over two servers, and every key has its turn.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn concurrency_by_key_is_exact_over_two_servers() {
    let server = Server::start().await;
    let limit = json!({"key": "/customer", "limit": 3});
    server.put("/api/v1/job-types/a", json!({ "concurrency_by": limit })).await.expect(201);
    let other = server.another().await;
    let payloads = (0..600).map(|n| if n % 3 == 0 { customer(&format!("c{}", n % 10)) } else { customer("large") });
    job_of(&server, payloads).await;
    work([&server, &other], 600).await;
    let attempts = attempts(&server).await;
    let ran: usize = attempts.values().map(Vec::len).sum();
    assert_eq!((ran, attempts.len()), (600, 11));
    for (key, attempts) in &attempts {
        assert!(most_at_once(attempts) <= 3, "{key}: {} at once", most_at_once(attempts));
    }
    assert!(most_at_once(&attempts["large"]) > 1, "items of one key ran side by side");
    check_invariants(&server).await;
    other.stop().await;
    server.stop().await;
}

/// Both limits by different keys at once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn limits_by_two_keys_hold_together() {
    let server = Server::start().await;
    let spec = json!({"concurrency_by": {"key": "/customer", "limit": 1},
        "rate_limit": {"count": 4, "per_seconds": 1, "key": "/region"}});
    server.put("/api/v1/job-types/a", spec).await.expect(201);
    let other = server.another().await;
    let payload = |n: usize| json!({"customer": format!("c{}", n % 3), "region": n % 2});
    job_of(&server, (0..24).map(payload)).await;
    work([&server, &other], 24).await;
    let attempts = attempts(&server).await;
    for (key, attempts) in &attempts {
        assert_eq!((most_at_once(attempts), attempts.len()), (1, 8), "{key}");
    }
    let all: Vec<(i64, i64)> = attempts.into_values().flatten().collect();
    assert!(most_in_a_second(&all) <= 8, "two regions of four: {}", most_in_a_second(&all));
    check_invariants(&server).await;
    other.stop().await;
    server.stop().await;
}

/// A waiting item names the limit that holds it.
/// Items that their key holds back leave the free places of the type to the other items of the claim.
#[tokio::test]
async fn claim_by_ids_passes_over_items_that_their_key_holds_back() {
    let server = Server::start().await;
    let spec = json!({"concurrency": 2, "concurrency_by": {"key": "/customer", "limit": 1}});
    server.put("/api/v1/job-types/a", spec).await.expect(201);
    let job = job_of(&server, ["x", "x", "y"].map(customer)).await;
    let items = server.get(&format!("/api/v1/items?job={}", &job["/api/v1/jobs/".len()..])).await.expect(200);
    let ids: Vec<String> = items["data"].as_array().expect("items").iter().map(id).collect();
    let claim_ids = async |ids: &[String]| {
        let claimed = server.post("/api/v1/assignments", json!({"worker_id": "w", "item_ids": ids})).await.expect(200);
        claimed["assignments"].as_array().expect("assignments").iter().map(|it| it["item"]["id"].clone()).collect()
    };
    let (first, rest): (Vec<Value>, Vec<Value>) = (claim_ids(&ids[..1]).await, claim_ids(&ids[1..]).await);
    assert_eq!((first, rest), (vec![json!(ids[0])], vec![json!(ids[2])]));
    server.stop().await;
}

#[tokio::test]
async fn waiting_item_names_its_limit() {
    let server = Server::start().await;
    let spec = json!({"concurrency_by": {"key": "/customer", "limit": 1}});
    server.put("/api/v1/job-types/a", spec).await.expect(201);
    let job = job_of(&server, [customer("x"), customer("x"), json!({"customer": null})]).await;
    let waits = async |n: usize| {
        let items = server.get(&format!("/api/v1/items?job={}", &job["/api/v1/jobs/".len()..])).await;
        items.expect(200)["data"][n]["waiting_for"].clone()
    };
    let claimed = claim(&server, 3, 0).await;
    assert_eq!(claimed.len(), 2, "one of the key, and the one without a key");
    let parked = waits(1).await;
    assert_eq!((&parked["reason"], &parked["until"]), (&json!("concurrency_key"), &Value::Null));
    assert_eq!(parked["detail"], "1 of at most 1 item of a with its value of /customer is running.");
    for assignment in &claimed {
        succeed(&server, assignment).await;
    }
    assert_eq!(waits(1).await["reason"], "not_claimed");

    let spec = json!({"concurrency_by": null, "rate_limit": {"count": 1, "per_seconds": 600}});
    server.patch("/api/v1/job-types/a", spec).await.expect(200);
    assert_eq!(claim(&server, 1, 5).await.len(), 1, "it was parked by a limit that is gone");
    job_of(&server, [customer("x")]).await;
    let waiting = server.get("/api/v1/items?state=available").await.expect(200)["data"][0]["waiting_for"].clone();
    assert_eq!(waiting["reason"], "rate_limit");
    assert_eq!(waiting["detail"], "At most 1 item of a starts in 600 seconds.");
    assert!(waiting["until"].is_string(), "{waiting}");
    assert_eq!(claim(&server, 1, 0).await.len(), 0);
    server.stop().await;
}

/// A changed limit holds for items that wait already.
#[tokio::test]
async fn changed_limits_apply_to_waiting_items() {
    let server = Server::start().await;
    let by = |limit: i64| json!({"concurrency_by": {"key": "/customer", "limit": limit}});
    server.put("/api/v1/job-types/a", json!({})).await.expect(201);
    job_of(&server, (0..20).map(|_| customer("x"))).await;
    server.patch("/api/v1/job-types/a", by(2)).await.expect(200);
    assert_eq!(claim(&server, 10, 0).await.len(), 2, "items that were there before it");
    server.patch("/api/v1/job-types/a", by(5)).await.expect(200);
    assert_eq!(claim(&server, 10, 10).await.len(), 3, "it was raised");
    server.patch("/api/v1/job-types/a", by(1)).await.expect(200);
    assert_eq!(claim(&server, 10, 0).await.len(), 0, "it was lowered");
    let other = json!({"concurrency_by": {"key": "/other", "limit": 1}});
    server.patch("/api/v1/job-types/a", other).await.expect(200);
    let mut n = 0;
    while n < 5 {
        n += claim(&server, 5, 10).await.len();
    }
    server.patch("/api/v1/job-types/a", json!({"concurrency_by": null})).await.expect(200);
    while n < 15 {
        n += claim(&server, 15, 10).await.len();
    }
    assert_eq!(n, 15, "all of them, parked or not");
    check_invariants(&server).await;
    server.stop().await;
}

/// `rate-limit` by key: parked items start as soon as a loosened limit allows, not when the tighter one did.
#[tokio::test]
async fn loosened_rate_limit_by_key_applies_to_parked_items() {
    let server = Server::start().await;
    let limit = |per_seconds: i64| json!({"rate_limit": {"count": 1, "per_seconds": per_seconds, "key": "/customer"}});
    server.put("/api/v1/job-types/a", limit(86_400)).await.expect(201);
    job_of(&server, (0..3).map(|_| customer("x"))).await;
    assert_eq!(claim(&server, 3, 0).await.len(), 1, "the others are parked");
    server.patch("/api/v1/job-types/a", limit(2)).await.expect(200);
    for item in ["second", "third"] {
        assert_eq!(claim(&server, 3, 20).await.len(), 1, "the {item} item");
    }
    check_invariants(&server).await;
    server.stop().await;
}

/// Parked items are canceled, edited and retried like others, and leave their place to the next of their key.
#[tokio::test]
async fn parked_items_are_cancelled_edited_and_retried() {
    let server = Server::start().await;
    let spec =
        json!({"concurrency_by": {"key": "/customer", "limit": 1}, "backoff": {"min_seconds": 0, "jitter": false}});
    server.put("/api/v1/job-types/a", spec).await.expect(201);
    let first = job_of(&server, (0..4).map(|_| customer("x"))).await;
    let second = job_of(&server, (0..3).map(|_| customer("x"))).await;
    let running = claim(&server, 5, 0).await.remove(0);
    let items = server.get(&format!("/api/v1/items?job={}", &first["/api/v1/jobs/".len()..])).await.expect(200);
    let path = |n: usize| format!("/api/v1/items/{}", items["data"][n]["id"].as_str().expect("an id"));
    server.post(&format!("{}/cancel", path(1)), json!({})).await.expect(200);
    server.patch(&path(3), json!({"priority": 5})).await.expect(200);
    let failure = json!({"error": {"message": "no"}, "retry_after_seconds": 0});
    server.post(&format!("/api/v1/assignments/{}/failure", id(&running)), failure).await.expect(200);
    let next = claim(&server, 5, 10).await;
    assert_eq!((next.len(), &next[0]["item"]["id"]), (1, &items["data"][3]["id"]), "the edited one goes first");
    // The admitted ones of a canceled job leave their place to the other job.
    succeed(&server, &next[0]).await;
    server.post(&format!("{first}/cancel"), json!({})).await.expect(200);
    for _ in 0..3 {
        let next = claim(&server, 5, 10).await;
        assert_eq!(next.len(), 1);
        succeed(&server, &next[0]).await;
    }
    assert_eq!(server.get(&second).await.expect(200)["outcome"], "succeeded");
    check_invariants(&server).await;
    server.stop().await;
}

/// Claims find the item of a free key behind many that a limit holds, and look at none of those.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn claims_pass_over_parked_items() {
    let server = Server::start().await;
    let spec = json!({"concurrency_by": {"key": "/customer", "limit": 1}});
    server.put("/api/v1/job-types/a", spec).await.expect(201);
    let job = server.post("/api/v1/jobs", json!({"type": "a"})).await.expect(201);
    for _ in 0..20 {
        let lines: Vec<String> = (0..1_000).map(|_| json!({"payload": customer("large")}).to_string()).collect();
        let path = format!("/api/v1/jobs/{}/items", id(&job));
        server.post_text(&path, "application/x-ndjson", lines.join("\n")).await.expect(200);
    }
    assert_eq!(claim(&server, 10, 0).await.len(), 1);
    let free = server.post(&format!("/api/v1/jobs/{}/items", id(&job)), json!([{"payload": customer("free")}])).await;
    free.expect(200);
    let claimed = claim(&server, 10, 0).await;
    assert_eq!((claimed.len(), &claimed[0]["item"]["payload"]["customer"]), (1, &json!("free")));
    let admitted: i64 = sqlx::query_scalar("select count(*) from ready where type_id > 0")
        .fetch_one(&server.running.app.pool)
        .await
        .expect("a count");
    assert_eq!(admitted, 0, "a claim that finds nothing reads nothing");
    check_invariants(&server).await;
    server.stop().await;
}

/// A limit that is added over a long queue of one key does not hold up the item of another key behind it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn limit_that_is_added_over_a_long_queue_starves_no_key() {
    let server = Server::start().await;
    server.put("/api/v1/job-types/a", json!({})).await.expect(201);
    let large = (0..3_000).map(|_| customer("large"));
    job_of(&server, large.chain([customer("free"), customer("free")])).await;
    let limit = json!({"concurrency_by": {"key": "/customer", "limit": 1}});
    server.patch("/api/v1/job-types/a", limit).await.expect(200);
    for expected in ["large", "free"] {
        let claimed = claim(&server, 1, 20).await;
        assert_eq!(claimed.first().map(|it| &it["item"]["payload"]["customer"]), Some(&json!(expected)));
    }
    assert_eq!(claim(&server, 5, 0).await.len(), 0, "both keys are at their limit");
    check_invariants(&server).await;
    server.stop().await;
}

/// Limits are validated field by field, shown, changed, removed, and audited.
#[tokio::test]
async fn limits_of_a_job_type_are_validated_and_audited() {
    let server = Server::start().await;
    let bad = json!({"rate_limit": {"count": 0, "per_seconds": 90_000, "burst": 0, "key": "customer"},
        "concurrency_by": {"key": "", "limit": 0}});
    let problem = server.put("/api/v1/job-types/a", bad).await.expect_problem(422, "invalid_body");
    let pointers: Vec<&str> =
        problem["errors"].as_array().expect("errors").iter().filter_map(|error| error["pointer"].as_str()).collect();
    assert_eq!(
        pointers,
        [
            "/rate_limit/count",
            "/rate_limit/per_seconds",
            "/rate_limit/burst",
            "/rate_limit/key",
            "/concurrency_by/key",
            "/concurrency_by/limit"
        ]
    );
    let spec = json!({"rate_limit": {"count": 5, "per_seconds": 1, "key": "/customer"},
        "concurrency_by": {"key": "/customer", "limit": 2}});
    let stored = server.put("/api/v1/job-types/a", spec.clone()).await.expect(201);
    assert_eq!((&stored["rate_limit"]["count"], &stored["concurrency_by"]), (&json!(5), &spec["concurrency_by"]));
    let patched = server.patch("/api/v1/job-types/a", json!({"rate_limit": null})).await.expect(200);
    assert_eq!((&patched["rate_limit"], &patched["concurrency_by"]), (&Value::Null, &spec["concurrency_by"]));
    let audit = server.get("/api/v1/audit?action=job_type.change").await.expect(200);
    let detail = audit["data"][0]["detail"].as_str().expect("a detail").to_owned();
    assert!(detail.contains("rate_limit.count: 5 → none"), "{detail}");
    server.stop().await;
}
