//! Timing: nothing is claimable before its time, expiry takes effect on time, and downtime of the server costs no
//! leases (`lease-expiry`, `start-and-expiry`, P15, P19).

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use time::{OffsetDateTime, format_description::well_known::Rfc3339};

use crate::{
    fair_turns::until,
    support::{Api, Server},
};

/// Due items change state within a second; the rest is slack for a busy machine.
const LATE: time::Duration = time::Duration::seconds(if cfg!(debug_assertions) { 4 } else { 1 });

fn id(value: &Value) -> String {
    value["id"].as_str().expect("an id").to_owned()
}

fn at(value: &Value) -> OffsetDateTime {
    OffsetDateTime::parse(value.as_str().expect("a time"), &Rfc3339).expect("a time")
}

fn in_seconds(seconds: f64) -> (OffsetDateTime, String) {
    let at = OffsetDateTime::now_utc() + time::Duration::seconds_f64(seconds);
    // PostgreSQL knows microseconds.
    let at = at.replace_nanosecond(at.nanosecond() / 1_000 * 1_000).expect("a time");
    let text = at.format(&Rfc3339).expect("a time");
    (at, text)
}

/// Claims the first item of a type, waiting for it.
async fn claim(api: &Api, kind: &str, wait: u32) -> Option<Value> {
    let body = json!({"worker_id": "w", "types": [kind], "wait_seconds": wait});
    let got = api.post("/api/v1/assignments", body).await.expect(200)["assignments"].clone();
    got.as_array().expect("assignments").first().cloned()
}

async fn attempts(api: &Api, item: &str) -> Vec<Value> {
    let page = api.get(&format!("/api/v1/items/{item}/attempts")).await.expect(200);
    page["data"].as_array().expect("attempts").clone()
}

#[track_caller]
fn on_time(due: OffsetDateTime, was: OffsetDateTime) {
    assert!(was >= due, "{was} is before {due}");
    assert!(was - due <= LATE, "{was} is late for {due}");
}

/// `manual-retry`: an item that was made due stays due, whatever is edited later.
#[tokio::test]
async fn item_that_was_made_due_is_not_postponed_again() {
    let server = Server::start().await;
    server.put("/api/v1/job-types/a", json!({})).await.expect(201);
    let tree = json!({"type": "a", "run_after": "2100-01-01T00:00:00Z", "items": [{}, {}]});
    let job = id(&server.post("/api/v1/jobs", tree).await.expect(201));
    let item = id(&server.get(&format!("/api/v1/items?job={job}")).await.expect(200)["data"][0]);
    let item = format!("/api/v1/items/{item}");
    server.post(&format!("{item}/retry"), json!({})).await.expect(200);
    until(&server, &job, |job| job["counts"]["available"] == 1).await;
    server.patch(&format!("/api/v1/jobs/{job}"), json!({"priority": 5})).await.expect(200);
    let edited = server.get(&item).await.expect(200);
    assert_eq!((&edited["state"], &edited["priority"]), (&json!("available"), &json!(5)));
    assert_eq!(edited["run_after"], Value::Null);

    let claimed = claim(&server, "a", 5).await.expect("it is due");
    let failure = json!({"error": {"message": "no"}, "retryable": false});
    server.post(&format!("/api/v1/assignments/{}/failure", id(&claimed)), failure).await.expect(200);
    server.post(&format!("{item}/retry"), json!({})).await.expect(200);
    assert_eq!(server.get(&item).await.expect(200)["state"], "available");
    server.stop().await;
}

/// `start-and-expiry`: an item is claimable at its run_after, and not before; a failed one, at its retry_at.
#[tokio::test]
async fn scheduled_item_is_claimed_on_time() {
    let server = Server::start().await;
    server.put("/api/v1/job-types/a", json!({})).await.expect(201);
    let (early, (due, text)) = (in_seconds(0.5).1, in_seconds(1.5));
    // Of the item's moment and its job's, the later holds.
    let tree = json!({"type": "a", "sealed": true, "run_after": text, "items": [{"run_after": early}]});
    let job = id(&server.post("/api/v1/jobs", tree).await.expect(201));
    let item = id(&server.get(&format!("/api/v1/items?job={job}")).await.expect(200)["data"][0]);
    let path = format!("/api/v1/items/{item}");
    let waits = server.get(&path).await.expect(200);
    assert_eq!((&waits["state"], &waits["waiting_for"]["reason"]), (&json!("scheduled"), &json!("run_after")));
    assert_eq!(at(&waits["waiting_for"]["until"]), due);
    assert_eq!(claim(&server, "a", 0).await, None);

    // Whoever waits for it gets it then, and nobody has to ask again.
    let claimed = claim(&server, "a", 20).await.expect("the item");
    let since = at(&server.get(&path).await.expect(200)["assignment"]["since"]);
    on_time(due, since);

    let too_late = json!({"error": {"message": "later"}, "retry_after_seconds": 315_360_001});
    let refused = server.post(&format!("/api/v1/assignments/{}/failure", id(&claimed)), too_late).await;
    let refused = refused.expect_problem(422, "invalid_body");
    assert!(refused["errors"][0]["detail"].as_str().is_some_and(|it| it.ends_with("from 0 to 315360000")), "{refused}");
    let failure = json!({"error": {"message": "later"}, "retry_after_seconds": 1.5});
    let failed = server.post(&format!("/api/v1/assignments/{}/failure", id(&claimed)), failure).await.expect(200);
    assert_eq!(claim(&server, "a", 0).await, None);
    claim(&server, "a", 20).await.expect("the item");
    on_time(at(&failed["retry_at"]), at(&server.get(&path).await.expect(200)["assignment"]["since"]));
    server.stop().await;
}

/// `start-and-expiry`: an item that nobody claimed before its expires_at expires then and is no longer claimable;
/// running items are unaffected.
#[tokio::test]
async fn unclaimed_item_expires() {
    let server = Server::start().await;
    server.put("/api/v1/job-types/a", json!({})).await.expect(201);
    let (due, text) = in_seconds(1.5);
    let tree =
        json!({"type": "a", "sealed": true, "items": [{"expires_at": text, "priority": 1}, {"expires_at": text}]});
    let job = id(&server.post("/api/v1/jobs", tree).await.expect(201));
    let claimed = claim(&server, "a", 0).await.expect("the first");
    until(&server, &job, |job| job["counts"]["expired"] == 1).await;
    let waited = server.get(&format!("/api/v1/items?job={job}&state=expired")).await.expect(200)["data"][0].clone();
    assert_ne!(waited["id"], claimed["item"]["id"]);
    on_time(due, at(&waited["finished_at"]));
    assert_eq!(claim(&server, "a", 0).await, None);
    server.post(&format!("/api/v1/assignments/{}/result", id(&claimed)), json!({})).await.expect(200);
    let job = server.get(&format!("/api/v1/jobs/{job}")).await.expect(200);
    assert_eq!((&job["outcome"], &job["counts"]["succeeded"]), (&json!("partial"), &json!(1)));
    server.stop().await;
}

/// `manual-retry`: a later expiry of a retried item that waits holds, and an earlier one does too.
#[tokio::test]
async fn retry_changes_the_expiry_of_waiting_items() {
    let server = Server::start().await;
    server.put("/api/v1/job-types/a", json!({})).await.expect(201);
    let run_after = in_seconds(600.0).1;
    let (soon, soon_text) = in_seconds(4.0);
    let items = json!([{"run_after": run_after, "expires_at": soon_text}, {"run_after": run_after}]);
    let job = id(&server.post("/api/v1/jobs", json!({"type": "a", "sealed": true, "items": items})).await.expect(201));
    let page = server.get(&format!("/api/v1/items?job={job}")).await.expect(200);
    let [mut extended, mut shortened] = [id(&page["data"][0]), id(&page["data"][1])];
    if page["data"][0]["expires_at"].is_null() {
        std::mem::swap(&mut extended, &mut shortened);
    }
    for (item, text) in [(&extended, in_seconds(600.0).1), (&shortened, soon_text)] {
        server.post(&format!("/api/v1/items/{item}/retry"), json!({"expires_at": text})).await.expect(200);
    }
    until(&server, &job, |job| job["counts"]["expired"] == 1).await;
    let expired = server.get(&format!("/api/v1/items/{shortened}")).await.expect(200);
    assert_eq!(expired["state"], json!("expired"));
    on_time(soon, at(&expired["finished_at"]));
    let lives = server.get(&format!("/api/v1/items/{extended}")).await.expect(200);
    assert_eq!(lives["state"], json!("available"));
    server.stop().await;
}

/// `start-and-expiry`: an expired item is not claimable even before it is swept.
#[tokio::test]
async fn expired_item_is_not_claimed_before_the_sweep() {
    let server = Server::start().await;
    server.put("/api/v1/job-types/a", json!({})).await.expect(201);
    let tree = json!({"type": "a", "items": [{"expires_at": in_seconds(600.0).1}]});
    for _ in 0..10 {
        server.post("/api/v1/jobs", tree.clone()).await.expect(201);
        // Its time is over this very moment; the sweep comes by twice a second.
        let over = "update ready set expires_at = clock_timestamp()";
        sqlx::query(over).execute(&server.running.app.pool).await.expect("the statement runs");
        assert_eq!(claim(&server, "a", 0).await, None);
    }
    server.stop().await;
}

/// Grace period for workers after a downtime (`uptime::tick`).
const GRACE: Duration = Duration::from_secs(5);

/// Heartbeat interval. Leases last a second and a half; a downtime is longer than those and than the clock interval.
const HEARTBEAT: f64 = 0.5;
const LEASE: Duration = Duration::from_millis(1_500);
const ABSENCE: Duration = Duration::from_millis(7_500);

/// Two assigned items: one worker keeps sending heartbeats, the other is silent.
async fn two_assignments(server: &Server) -> [Value; 2] {
    server.put("/api/v1/job-types/a", json!({"heartbeat_seconds": HEARTBEAT})).await.expect(201);
    server.post("/api/v1/jobs", json!({"type": "a", "sealed": true, "items": [{}, {}]})).await.expect(201);
    [claim(server, "a", 0).await.expect("the first"), claim(server, "a", 0).await.expect("the second")]
}

/// Sends heartbeats for a while, ignoring the responses.
async fn heartbeat_for(api: &Api, claimed: &Value, how_long: Duration) {
    let path = format!("/api/v1/assignments/{}/heartbeat", id(claimed));
    let begin = Instant::now();
    while begin.elapsed() < how_long {
        let _ = api.request(reqwest::Method::POST, &path).json(&json!({})).send().await;
        tokio::time::sleep(Duration::from_secs_f64(HEARTBEAT / 2.0)).await;
    }
}

/// Checks the cost of a downtime: the live worker keeps its item, the silent one loses it one full lease after the
/// grace period.
async fn spared(server: &Server, [alive, silent]: [Value; 2], returned: OffsetDateTime) {
    let resumed_at: OffsetDateTime =
        sqlx::query_scalar("select resumed_at from uptime").fetch_one(&server.running.app.pool).await.expect("a time");
    assert!(resumed_at > OffsetDateTime::now_utc() - 2 * ABSENCE, "the return was noticed");
    let item = id(&silent["item"]);
    let again = tokio::select! {
        again = claim(server, "a", 20) => again.expect("the item of the silent worker"),
        () = heartbeat_for(server, &alive, Duration::from_mins(1)) => panic!("nothing came back"),
    };
    assert_eq!(id(&again["item"]), item);
    let lost = attempts(server, &item).await.remove(0);
    assert_eq!(lost["ended_as"], "lease_lost");
    let soon = at(&lost["ended_at"]) - returned;
    assert!(soon >= GRACE + LEASE, "{} is {soon} after {returned}", lost["ended_at"]);

    server.post(&format!("/api/v1/assignments/{}/result", id(&alive)), json!({})).await.expect(200);
    let listed = attempts(server, &id(&alive["item"])).await;
    assert_eq!((listed.len(), &listed[0]["ended_as"]), (1, &json!("succeeded")));
    let late = format!("/api/v1/assignments/{}/result", id(&silent));
    server.post(&late, json!({})).await.expect_problem(409, "assignment_closed");
}

/// `lease-expiry`, P19: the database is down for longer than a lease. Live workers keep their items, and work continues
/// by itself.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn database_outage_does_not_expire_leases() {
    let (server, proxy) = Server::start_with_proxy().await;
    let claimed = two_assignments(&server).await;
    proxy.cut();
    heartbeat_for(&server, &claimed[0], ABSENCE).await;
    assert_eq!(server.get("/readyz").await.status, 503, "it is away");
    let (returned, begin) = (OffsetDateTime::now_utc(), Instant::now());
    proxy.restore();
    while server.get("/readyz").await.status != 200 {
        heartbeat_for(&server, &claimed[0], Duration::from_millis(100)).await;
        assert!(begin.elapsed() < Duration::from_secs(30), "it goes on by itself");
    }
    until_noticed(&server, &claimed[0]).await;
    spared(&server, claimed, returned).await;
    server.stop().await;
}

/// `lease-expiry`: a heartbeat whose connection to the database hangs delays no others.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hanging_heartbeat_does_not_delay_others() {
    let (server, proxy) = Server::start_with_proxy_and(|config| config.db_pool = 13).await;
    server.put("/api/v1/job-types/a", json!({})).await.expect(201);
    server.post("/api/v1/jobs", json!({"type": "a", "sealed": true, "items": [{}, {}]})).await.expect(201);
    let claimed = [claim(&server, "a", 0).await.expect("the first"), claim(&server, "a", 0).await.expect("the second")];
    let heartbeat = async |of: &Value| {
        let path = format!("/api/v1/assignments/{}/heartbeat", id(of));
        server.post(&path, json!({"progress": {"done": 1}})).await
    };
    heartbeat(&claimed[0]).await.expect(200);
    let used = "select client_port from pg_stat_activity
        where datname = current_database() and query like 'update lease l set last_heartbeat_at%'";
    let port: i32 = sqlx::query_scalar(used).fetch_one(&server.running.app.pool).await.expect("its connection");
    let lost = proxy.hang(port.try_into().expect("a port"));
    // Until one of them takes that connection; another may be idle as well.
    let hanging = async { while heartbeat(&claimed[0]).await.status == 200 {} };
    let others = async {
        lost.await;
        for _ in 0..3 {
            let answer = tokio::time::timeout(Duration::from_secs(10), heartbeat(&claimed[1])).await;
            answer.expect("it does not wait for the first").expect(200);
        }
    };
    tokio::select! {
        biased;
        () = hanging => panic!("the connection hangs, and does not fail"),
        others = tokio::time::timeout(Duration::from_mins(1), others) => others.expect("the connection hangs"),
    }
    server.stop().await;
}

/// `lease-expiry`: all servers are down for longer than a lease.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn outage_of_all_servers_does_not_expire_leases() {
    let first = Server::start().await;
    let claimed = two_assignments(&first).await;
    // It answers nobody and no duty of it runs; its database stays for the next.
    first.running.app.shutdown.cancel();
    tokio::time::sleep(ABSENCE).await;
    let returned = OffsetDateTime::now_utc();
    let server = first.another().await;
    until_noticed(&server, &claimed[0]).await;
    spared(&server, claimed, returned).await;
    server.stop().await;
}

/// Sends heartbeats until a server has noticed the downtime.
async fn until_noticed(server: &Server, alive: &Value) {
    let resumed = "select resumed_at > clock_timestamp() - interval '6 seconds' from uptime";
    let noticed = || async {
        let found = sqlx::query_scalar::<_, bool>(resumed).fetch_one(&server.running.app.pool).await;
        found.unwrap_or(false)
    };
    let begin = Instant::now();
    while !noticed().await {
        assert!(begin.elapsed() < Duration::from_secs(30), "the return was not noticed");
        heartbeat_for(server, alive, Duration::from_millis(100)).await;
    }
}

/// `final-stage`: the results of a tree are those of its final stage; by default those of its leaves.
#[tokio::test]
async fn tree_results_come_from_the_final_stage() {
    let server = Server::start().await;
    server.put("/api/v1/job-types/a", json!({})).await.expect(201);
    for (marked, expected) in
        [(None, vec!["leaf", "other"]), (Some("middle"), vec!["middle"]), (Some("root"), vec!["root"])]
    {
        let node = |key: &str, children: Value| {
            json!({"type": "a", "key": key, "sealed": true, "items": [{"payload": key}],
                   "final_stage": marked == Some(key), "children": children})
        };
        let tree = node("root", json!([node("middle", json!([node("leaf", json!([]))])), node("other", json!([]))]));
        let root = id(&server.post("/api/v1/jobs", tree).await.expect(201));
        while let Some(claimed) = claim(&server, "a", 0).await {
            let result = json!({"result": {"of": claimed["item"]["payload"]}});
            server.post(&format!("/api/v1/assignments/{}/result", id(&claimed)), result).await.expect(200);
        }
        let lines = server.get(&format!("/api/v1/jobs/{root}/results")).await;
        assert_eq!(lines.status, 200);
        let mut of: Vec<String> = lines
            .text
            .lines()
            .map(|line| {
                serde_json::from_str::<Value>(line).expect("a line")["result"]["of"].as_str().expect("a key").to_owned()
            })
            .collect();
        of.sort_unstable();
        assert_eq!(of, expected, "{marked:?}");
    }
    server.stop().await;
}
