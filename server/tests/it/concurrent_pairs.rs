//! Every pair of concurrent actions on the same work, many times: in half of the runs by two servers on one database.
//! Invariants are then checked in the tables.
//!
//! `TREELINE_RACE_ROUNDS` sets the number of trees per pair, `TREELINE_RACE_KEYS` the number of keys that are created
//! sixty-four times; the defaults are small enough for every build.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex,
        atomic::{AtomicI64, AtomicUsize, Ordering},
    },
    time::Duration,
};

use futures::{StreamExt as _, future::join_all, stream};
use reqwest::StatusCode;
use serde_json::{Value, json};
use sqlx::PgPool;
use tokio::sync::Barrier;

use crate::support::{Answer, Api, Server, invariants};

/// Action on a tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Act {
    Claim,
    Finish,
    Fail,
    Heartbeat,
    Step,
    Cancel,
    CancelItem,
    Retry,
    Seal,
    Add,
    Sweep,
    Delete,
    Wait,
    Event,
    Debounce,
}

const ACTS: [Act; 15] = [
    Act::Claim,
    Act::Finish,
    Act::Fail,
    Act::Heartbeat,
    Act::Step,
    Act::Cancel,
    Act::CancelItem,
    Act::Retry,
    Act::Seal,
    Act::Add,
    Act::Sweep,
    Act::Delete,
    Act::Wait,
    Act::Event,
    Act::Debounce,
];

/// Concurrent races, each with its own job types.
const ABREAST: usize = 8;

static SWEEPING: tokio::sync::Mutex<()> = tokio::sync::Mutex::const_new(());

fn number(variable: &str, otherwise: usize) -> usize {
    std::env::var(variable).ok().and_then(|n| n.parse().ok()).unwrap_or(otherwise)
}

fn id(value: &Value) -> String {
    value["id"].as_str().unwrap_or_default().to_owned()
}

/// Tree for all actions: one item runs, one is dead, one waits for an event, two share a serialize key, one has a debounce
/// key and is due; one child is fed, another waits.
struct TestTree {
    root: String,
    assignment: String,
    dead: String,
    waiting: String,
    /// Waits for an event.
    for_event: String,
    /// Runs under `assignment`.
    running: String,
    types: [String; 2],
    /// That of the item which is due.
    debounce: Value,
}

/// Debounce with a pause that outlasts the race.
fn debounce(key: &str) -> Value {
    json!({"key": key, "seconds": 600, "max_seconds": 600})
}

impl TestTree {
    async fn create(api: &Api, slot: usize, serialize_key: &str, complete: bool) -> Self {
        let types = [format!("p{slot}-a"), format!("p{slot}-b")];
        let debounce = debounce(serialize_key);
        let tree = json!({"type": types[0], "key": "root", "items": [
                {"payload": 0, "serialize_key": format!("{serialize_key}-other")}, {"payload": 1},
                {"payload": 2, "serialize_key": serialize_key, "dedupe_key": "d"}, {"payload": 3, "serialize_key": serialize_key},
                {"payload": 4}, {"payload": 5, "debounce": debounce}],
            "children": [
                {"type": types[1], "key": "fed", "feed": {"each": "/result/list", "serialize_key": serialize_key}},
                {"type": types[1], "key": "waits", "sealed": true, "after": ["root"], "items": [{"serialize_key": serialize_key}]}]});
        let root = id(&api.post("/api/v1/jobs", tree).await.expect(201));
        let items = api.get(&format!("/api/v1/items?job={root}")).await.expect(200)["data"].clone();
        let claim = json!({"worker_id": "w", "item_ids": [items[0]["id"], items[1]["id"], items[4]["id"]], "max": 3});
        let got = api.post("/api/v1/assignments", claim).await.expect(200)["assignments"].clone();
        let of = |item: &Value| {
            let all = got.as_array().expect("assignments");
            id(all.iter().find(|a| a["item"]["id"] == item["id"]).expect("an assignment"))
        };
        let fatal = json!({"error": {"message": "no"}, "retryable": false});
        api.post(&format!("/api/v1/assignments/{}/failure", of(&items[1])), fatal).await.expect(200);
        api.post(&format!("/api/v1/assignments/{}/wait", of(&items[4])), json!({"name": "go"})).await.expect(200);
        api.post(&format!("/api/v1/items/{}/retry", id(&items[5])), json!({})).await.expect(200);
        let [dead, waiting, for_event] = [id(&items[1]), id(&items[2]), id(&items[4])];
        let test_tree =
            Self { root, assignment: of(&items[0]), dead, waiting, for_event, running: id(&items[0]), types, debounce };
        if complete {
            let ended = format!("/api/v1/assignments/{}/result", test_tree.assignment);
            api.post(&ended, json!({"result": {"list": []}})).await.expect(200);
            for item in [&items[2], &items[3], &items[4], &items[5]] {
                api.post(&format!("/api/v1/items/{}/cancel", id(item)), json!({})).await.expect(200);
            }
            api.post(&format!("/api/v1/jobs/{}/seal", test_tree.root), json!({})).await.expect(200);
        }
        test_tree
    }

    async fn perform(&self, act: Act, server: &Server) -> Option<Answer> {
        let api: &Api = server;
        let (job, item, assignment) = (
            format!("/api/v1/jobs/{}", self.root),
            |item: &str, verb: &str| format!("/api/v1/items/{item}/{verb}"),
            format!("/api/v1/assignments/{}", self.assignment),
        );
        let answer = match act {
            Act::Claim => {
                let body = json!({"worker_id": "w", "types": self.types, "max": 2});
                let answer = api.post("/api/v1/assignments", body).await;
                // What was claimed ends, so that the race has an end.
                let got = answer.json()["assignments"].as_array().cloned().unwrap_or_default();
                for assignment in got {
                    let path = format!("/api/v1/assignments/{}/result", id(&assignment));
                    let ended = api.post(&path, json!({"result": {"list": [1]}})).await;
                    assert!(ended.status.as_u16() < 500, "{}", ended.text);
                }
                answer
            }
            Act::Finish => api.post(&format!("{assignment}/result"), json!({"result": {"list": [1, 2]}})).await,
            Act::Fail => {
                let body = json!({"error": {"message": "again"}, "retry_after_seconds": 0});
                api.post(&format!("{assignment}/failure"), body).await
            }
            Act::Heartbeat => api.post(&format!("{assignment}/heartbeat"), json!({"progress": {"done": 1}})).await,
            Act::Step => api.post(&format!("{assignment}/step"), json!({"name": "s"})).await,
            Act::Cancel => api.post(&format!("{job}/cancel"), json!({})).await,
            Act::CancelItem => api.post(&item(&self.waiting, "cancel"), json!({})).await,
            Act::Retry => api.post(&item(&self.dead, "retry"), json!({})).await,
            Act::Seal => api.post(&format!("{job}/seal"), json!({})).await,
            Act::Add => {
                let items = json!([{"serialize_key": format!("x-{}", self.root)}, {"dedupe_key": "e"}]);
                api.post(&format!("{job}/items?on_duplicate=skip"), items).await
            }
            Act::Sweep => {
                // As the duty: one at a time.
                let _turn = SWEEPING.lock().await;
                sqlx::query(
                    "update lease set last_heartbeat_at = last_heartbeat_at - interval '1 day' where id::text = $1",
                )
                .bind(&self.assignment)
                .execute(&server.running.app.pool)
                .await
                .expect("the lease is made old");
                server.running.app.engine.sweep_leases().await.expect("the sweep works");
                return None;
            }
            Act::Delete => api.delete(&job).await,
            Act::Wait => api.post(&format!("{assignment}/wait"), json!({"name": "go"})).await,
            Act::Debounce => {
                let item = json!({"payload": 6, "debounce": self.debounce});
                api.post(&format!("{job}/items"), json!([item, item])).await
            }
            Act::Event => {
                let event = async |id: &str| api.post(&item(id, "events"), json!({"name": "go"})).await;
                let (answer, _) = tokio::join!(event(&self.for_event), event(&self.running));
                answer
            }
        };
        Some(answer)
    }
}

/// Races two actions on one tree; every response must be a defined one.
async fn race(slot: usize, serialize_key: &str, acts: [Act; 2], servers: [&Server; 2]) {
    let complete = acts.contains(&Act::Delete);
    let test_tree = TestTree::create(servers[0], slot, serialize_key, complete).await;
    let runners = 4;
    let barrier = Barrier::new(runners);
    let running = (0..runners).map(|n| {
        let (test_tree, barrier) = (&test_tree, &barrier);
        async move {
            barrier.wait().await;
            let answer = test_tree.perform(acts[n % 2], servers[n / 2 % 2]).await;
            if let Some(answer) = answer {
                assert!(answer.status.as_u16() < 500, "{:?} beside {acts:?}: {}", acts[n % 2], answer.text);
            }
        }
    });
    join_all(running).await;
}

/// Finishes the remaining work of a pair.
async fn drain(api: &Api) {
    let types: Vec<String> = (0..ABREAST).flat_map(|slot| [format!("p{slot}-a"), format!("p{slot}-b")]).collect();
    loop {
        let body = json!({"worker_id": "w", "types": types, "max": 100});
        let got = api.post("/api/v1/assignments", body).await.expect(200)["assignments"].clone();
        let endings: Vec<Value> = got
            .as_array()
            .expect("assignments")
            .iter()
            .map(|a| json!({"assignment_id": a["id"], "result": {"list": []}}))
            .collect();
        if endings.is_empty() {
            return;
        }
        api.post("/api/v1/assignments/finish", json!({"endings": endings})).await.expect(200);
    }
}

/// Deadlocks counted by the database. A connection reports them reliably only when it closes: so the pools of the
/// racing servers are closed before a third server reads the count.
async fn deadlocks(pool: &PgPool) -> i64 {
    sqlx::query_scalar("select deadlocks from pg_stat_database where datname = current_database()")
        .fetch_one(pool)
        .await
        .expect("a number")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn concurrent_pairs_of_commands_keep_all_invariants() {
    let rounds = number("TREELINE_RACE_ROUNDS", 2);
    let (one, two) = {
        let one = Server::start().await;
        let two = one.another().await;
        (one, two)
    };
    let pairs: Vec<[Act; 2]> = (0..ACTS.len()).flat_map(|a| (a..ACTS.len()).map(move |b| [ACTS[a], ACTS[b]])).collect();
    for slot in 0..ABREAST {
        for (kind, steps) in [("a", json!(["s"])), ("b", json!([]))] {
            one.put(&format!("/api/v1/job-types/p{slot}-{kind}"), json!({"steps": steps})).await.expect(201);
        }
    }
    // The second server knows the types too before anything begins: the last is put there again.
    two.put(&format!("/api/v1/job-types/p{}-b", ABREAST - 1), json!({})).await.expect(200);
    for acts in pairs {
        for first in (0..rounds).step_by(ABREAST) {
            let races = (first..(first + ABREAST).min(rounds)).map(|round| {
                // Half of the runs on one server, half on two; each on types of its own.
                let servers = if round % 2 == 0 { [&one, &two] } else { [&one, &one] };
                async move { race(round % ABREAST, &format!("{acts:?} {round}"), acts, servers).await }
            });
            join_all(races).await;
        }
        drain(&one).await;
        let checked = invariants::check(&one.running.app.pool, None, Duration::from_secs(30)).await;
        assert_eq!(checked, Ok(()), "after {acts:?}");
    }
    let three = one.another().await;
    one.stop().await;
    two.stop().await;
    assert_eq!(deadlocks(&three.running.app.pool).await, 0);
    three.stop().await;
}

/// P10: sixty-four identical requests create one tree, for every key, on two servers.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn sixty_four_identical_requests_create_one_tree_per_key() {
    let keys = number("TREELINE_RACE_KEYS", 12);
    let one = Server::start().await;
    let two = one.another().await;
    one.put("/api/v1/job-types/a", json!({})).await.expect(201);
    two.put("/api/v1/job-types/a", json!({})).await.expect(200);
    let created = stream::iter(0..keys).map(|key| {
        let (one, two) = (&one, &two);
        async move {
            let answers = (0..64).map(|n| {
                let api: &Api = if n % 2 == 0 { one } else { two };
                let request = api.request(reqwest::Method::POST, "/api/v1/jobs");
                let body = json!({"type": "a", "items": [{"payload": key}]});
                Answer::of(request.header("idempotency-key", format!("k-{key}")).json(&body))
            });
            let answers = join_all(answers).await;
            let first = answers.iter().filter(|answer| answer.status == StatusCode::CREATED).count();
            let again = answers.iter().filter(|answer| answer.status == StatusCode::ACCEPTED).count();
            assert_eq!((first, again), (1, 63), "key {key}");
            let mut ids: Vec<String> = answers.iter().map(|answer| id(&answer.json())).collect();
            ids.dedup();
            assert_eq!(ids.len(), 1, "key {key}");
        }
    });
    created.buffer_unordered(4).collect::<Vec<()>>().await;
    let trees: i64 = sqlx::query_scalar("select count(*) from job").fetch_one(&one.running.app.pool).await.expect("n");
    assert_eq!(trees, keys as i64);
    two.stop().await;
    one.stop().await;
}

/// P8, P9, P14: under load on two servers, no cap is exceeded, no key overlaps or is out of order, and no item is
/// duplicated or left behind.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn concurrency_serialize_keys_and_dedupe_hold_on_two_servers() {
    const CAP: i64 = 3;
    let items = number("TREELINE_RACE_ITEMS", 300);
    let one = Server::start().await;
    let two = one.another().await;
    for server in [&one, &two] {
        server.put("/api/v1/job-types/capped", json!({"concurrency": CAP})).await;
        server.put("/api/v1/job-types/free", json!({})).await;
    }
    let created =
        one.post("/api/v1/jobs", json!({"type": "capped", "children": [{"type": "free", "key": "free"}]})).await;
    let created = created.expect(201);
    let jobs = [id(&created), id(&created["children"][0])];

    // Eight callers add the same items: each is taken once. The order within a key is that of `seq`.
    let accepted = AtomicI64::new(0);
    let adding = (0..8).map(|n| {
        let (api, jobs, accepted): (&Api, _, _) = (if n % 2 == 0 { &one } else { &two }, &jobs, &accepted);
        async move {
            for from in (0..items).step_by(20) {
                let body: Vec<Value> = (from..(from + 20).min(items))
                    .map(|n| json!({"payload": n, "dedupe_key": format!("d{n}"), "serialize_key": format!("k{}", n % 7)}))
                    .collect();
                for job in jobs {
                    let path = format!("/api/v1/jobs/{job}/items?on_duplicate=skip");
                    let added = api.post(&path, Value::Array(body.clone())).await.expect(200);
                    accepted.fetch_add(added["accepted"].as_i64().expect("a number"), Ordering::SeqCst);
                }
            }
        }
    });
    join_all(adding).await;
    assert_eq!(accepted.load(Ordering::SeqCst), 2 * items as i64);
    for job in &jobs {
        one.post(&format!("/api/v1/jobs/{job}/seal"), json!({})).await.expect(200);
    }
    let queue_order: Vec<(String, String)> = sqlx::query_as(
        "select l.key, e.item_id::text from serialize_queue_entry e join serialize_queue l on l.id = e.serialize_queue_id order by l.key, e.position",
    )
    .fetch_all(&one.running.app.pool)
    .await
    .expect("the queues");

    let (capped, done) = (AtomicI64::new(0), AtomicUsize::new(0));
    let running: Arc<Mutex<HashMap<String, i64>>> = Arc::default();
    let order: Arc<Mutex<Vec<(String, String)>>> = Arc::default();
    let working = (0..12).map(|n| {
        let api: &Api = if n % 2 == 0 { &one } else { &two };
        let (capped, done, running, order) = (&capped, &done, &running, &order);
        async move {
            while done.load(Ordering::SeqCst) < 2 * items {
                let body = json!({"worker_id": format!("w{n}"), "types": ["capped", "free"], "max": 1 + n % 4, "wait_seconds": 1});
                let got = api.post("/api/v1/assignments", body).await.expect(200)["assignments"].clone();
                for assignment in got.as_array().expect("assignments") {
                    let item = &assignment["item"];
                    let key = item["serialize_key"].as_str().expect("a key").to_owned();
                    let is_capped = item["type"] == "capped";
                    if is_capped {
                        let open = capped.fetch_add(1, Ordering::SeqCst) + 1;
                        assert!(open <= CAP, "{open} of {CAP} at once");
                    }
                    {
                        let mut running = running.lock().expect("the count");
                        let open = running.entry(key.clone()).or_default();
                        *open += 1;
                        assert_eq!(*open, 1, "two of {key} at once");
                        order.lock().expect("the order").push((key, id(item)));
                    }
                }
                for assignment in got.as_array().expect("assignments") {
                    let item = &assignment["item"];
                    *running.lock().expect("the count").entry(item["serialize_key"].as_str().expect("a key").to_owned()).or_default() -= 1;
                    capped.fetch_sub(i64::from(item["type"] == "capped"), Ordering::SeqCst);
                    api.post(&format!("/api/v1/assignments/{}/result", id(assignment)), json!({})).await.expect(200);
                    done.fetch_add(1, Ordering::SeqCst);
                }
            }
        }
    });
    let all = tokio::time::timeout(Duration::from_mins(10), join_all(working)).await;
    assert!(all.is_ok(), "stuck at {} of {}", done.load(Ordering::SeqCst), 2 * items);
    let mut order = std::mem::take(&mut *order.lock().expect("the order"));
    order.sort_by(|a, b| a.0.cmp(&b.0));
    assert_eq!(order, queue_order, "in the order of acceptance within each key");
    let tree = one.get(&format!("/api/v1/jobs/{}", jobs[0])).await.expect(200);
    assert_eq!(
        (&tree["tree"]["status"], &tree["tree"]["counts"]["succeeded"]),
        (&json!("completed"), &json!(2 * items))
    );
    assert_eq!(invariants::check(&one.running.app.pool, None, Duration::from_secs(30)).await, Ok(()));
    let three = one.another().await;
    one.stop().await;
    two.stop().await;
    assert_eq!(deadlocks(&three.running.app.pool).await, 0);
    three.stop().await;
}
