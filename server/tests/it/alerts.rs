//! Alerts: raised once by events or conditions, visible to the people concerned, cleared automatically.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use axum::{Json, Router, http::StatusCode, routing::post};
use serde_json::{Value, json};
use tokio::sync::mpsc;

use crate::{
    retention::until,
    support::{Api, Server, receiver::Receiver},
};

const UNKNOWN_ID: &str = "0190a5e0-0000-7000-8000-000000000000";

/// Starts a server that raises alerts after one second.
async fn quick_alerts_server() -> Server {
    let server = Server::start_with(|config| {
        config.alerts.stalled_seconds = 1;
        config.alerts.unclaimed_seconds = 1;
        config.alerts.quiet_seconds = 1;
    })
    .await;
    server.put("/api/v1/job-types/a", json!({})).await.expect(201);
    server
}

async fn alerts(api: &Api, query: &str) -> Vec<Value> {
    api.get(&format!("/api/v1/alerts?{query}")).await.expect(200)["data"].as_array().expect("a list").clone()
}

/// Waits until alerts of a kind are open.
async fn raised(api: &Api, kind: &str) -> Vec<Value> {
    let query = format!("kind={kind}");
    until(async || !alerts(api, &query).await.is_empty()).await;
    alerts(api, &query).await
}

async fn cleared(api: &Api, kind: &str) {
    let query = format!("kind={kind}&all=true");
    until(async || alerts(api, &query).await.iter().any(|alert| !alert["cleared_at"].is_null())).await;
}

async fn claim(api: &Api) -> Value {
    let claim = json!({"worker_id": "w-1", "types": ["a"], "wait_seconds": 5});
    api.post("/api/v1/assignments", claim).await.expect(200)["assignments"][0].clone()
}

fn id(value: &Value) -> &str {
    value["id"].as_str().expect("an id")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn worker_alert_is_visible_to_owner_and_staff() {
    let server = Server::start_with(|config| config.alerts.quiet_seconds = 1).await;
    server.put("/api/v1/job-types/a", json!({})).await.expect(201);
    let owner = server.service("payroll", &["jobs:read", "jobs:write"]).await;
    let worker = server.service("printer", &["work", "jobs:read"]).await;
    let job = owner.post("/api/v1/jobs", json!({"type": "a", "items": [{"payload": 1}]})).await.expect(201);
    let claimed = claim(&worker).await;
    let path = format!("/api/v1/assignments/{}/alert", id(&claimed));
    let out = json!({"message": "out of paper"});

    server.post(&path, out.clone()).await.expect_problem(404, "not_found");
    worker.post(&path, json!({"message": " "})).await.expect_problem(422, "invalid_body");
    worker.post(&path, json!({})).await.expect_problem(422, "invalid_body");
    owner.post(&path, out.clone()).await.expect_problem(403, "forbidden");
    worker.post(&format!("/api/v1/assignments/{UNKNOWN_ID}/alert"), out.clone()).await.expect_problem(404, "not_found");
    let all = (0..8).map(|_| worker.post(&path, out.clone()));
    for answer in futures::future::join_all(all).await {
        answer.expect(204);
    }

    let open = alerts(&server, "").await;
    assert_eq!((open.len(), &open[0]["count"]), (1, &json!(8)), "{open:?}");
    assert_eq!(
        (&open[0]["kind"], &open[0]["message"], &open[0]["type"], &open[0]["job_id"], &open[0]["item_id"]),
        (&json!("worker"), &json!("w-1: out of paper"), &json!("a"), &job["id"], &claimed["item"]["id"])
    );
    assert!(!json!(open).to_string().contains(id(&claimed)), "the assignment id is never shown");
    assert_eq!(alerts(&owner, "").await.len(), 1, "its own work");
    assert_eq!(alerts(&worker, "").await.len(), 0, "somebody else's work");
    assert_eq!(alerts(&server.person("sam", "support").await, "").await.len(), 1);
    let metrics = server.get("/metrics").await.text;
    assert!(metrics.contains("treeline_alerts_open{kind=\"worker\"} 1"), "{metrics}");
    assert!(metrics.contains("treeline_alerts_total{kind=\"worker\"}"), "{metrics}");

    worker.post(&format!("/api/v1/assignments/{}/result", id(&claimed)), json!({})).await.expect(200);
    worker.post(&path, out).await.expect_problem(409, "assignment_closed");
    cleared(&server, "worker").await;
    assert_eq!(alerts(&server, "").await.len(), 0);
    server.get("/api/v1/alerts?kind=odd").await.expect_problem(400, "invalid_parameter");
    server.stop().await;
}

#[tokio::test]
async fn stalled_tree_alert_clears_on_progress() {
    let server = quick_alerts_server().await;
    let job = server.post("/api/v1/jobs", json!({"type": "a", "name": "March"})).await.expect(201);
    let later = json!({"type": "a", "sealed": true, "items": [{"payload": 1, "run_after": "2999-01-01T00:00:00Z"}]});
    server.post("/api/v1/jobs", later).await.expect(201);
    let open = raised(&server, "stalled").await;
    assert_eq!((open.len(), &open[0]["root_id"], &open[0]["count"]), (1, &job["id"], &json!(1)), "{open:?}");
    server.post(&format!("/api/v1/jobs/{}/items", id(&job)), json!([{"payload": 1}])).await.expect(200);
    cleared(&server, "stalled").await;
    server.stop().await;
}

/// A complete tree is looked at when its retention ends, a reopened one again when it could stall.
#[tokio::test]
async fn reopened_tree_stalls_long_before_its_retention() {
    let server = quick_alerts_server().await;
    server.put("/api/v1/job-types/a", json!({"retain_seconds": 604_800})).await.expect(200);
    let tree =
        json!({"type": "a", "sealed": true, "items": [{"payload": 1}], "children": [{"type": "a", "sealed": true}]});
    for job in [json!({"type": "a", "sealed": true, "items": [{"payload": 1}]}), tree] {
        let job = server.post("/api/v1/jobs", job).await.expect(201);
        let assignment = claim(&server).await;
        let failure = json!({"error": {"message": "broken"}, "retryable": false});
        server.post(&format!("/api/v1/assignments/{}/failure", id(&assignment)), failure).await.expect(200);
        let root_id: uuid::Uuid = id(&job).parse().expect("a UUID");
        let far_ahead = "select exists (select 1 from maintenance_check c join job j using (job_key)
                         where j.id = $1 and c.next_check_at > clock_timestamp() + interval '1 day')";
        let pool = &server.running.app.pool;
        until(async || sqlx::query_scalar(far_ahead).bind(root_id).fetch_one(pool).await.expect("a boolean")).await;
        let item = format!("/api/v1/items/{}/retry", id(&assignment["item"]));
        server.post(&item, json!({})).await.expect(200);
        until(async || alerts(&server, "kind=stalled").await.iter().any(|alert| alert["root_id"] == job["id"])).await;
        server.post(&format!("/api/v1/jobs/{}/cancel", id(&job)), json!({})).await.expect(200);
    }
    server.stop().await;
}

#[tokio::test]
async fn unclaimed_work_alert_clears_on_claim() {
    let server = quick_alerts_server().await;
    server.put("/api/v1/job-types/quiet", json!({"paused": true})).await.expect(201);
    for job_type in ["a", "quiet"] {
        let job = json!({"type": job_type, "sealed": true, "items": [{"payload": 1}, {"payload": 2}]});
        server.post("/api/v1/jobs", job).await.expect(201);
    }
    let open = raised(&server, "unclaimed").await;
    let subjects: Vec<&Value> = open.iter().map(|alert| &alert["subject"]).collect();
    assert_eq!(subjects, [&json!("a")], "what is paused is not expected to be claimed");
    claim(&server).await;
    cleared(&server, "unclaimed").await;
    server.stop().await;
}

/// More urgent items make another head, and nobody has claimed any.
#[tokio::test]
async fn unclaimed_work_alert_counts_from_the_last_claim() {
    let server = Server::start().await;
    server.put("/api/v1/job-types/a", json!({})).await.expect(201);
    let job = server.post("/api/v1/jobs", json!({"type": "a", "items": [{"payload": 1}]})).await.expect(201);
    let pool = &server.running.app.pool;
    let back = "update queue_head set since = since - interval '1 day'";
    until(async || sqlx::query(back).execute(pool).await.expect(back).rows_affected() > 0).await;
    let urgent = json!([{"payload": 2, "priority": 5}]);
    server.post(&format!("/api/v1/jobs/{}/items", id(&job)), urgent).await.expect(200);
    let open = raised(&server, "unclaimed").await;
    assert_eq!(open[0]["message"], "Items of a wait and nobody has claimed one for 24 hours.");
    claim(&server).await;
    cleared(&server, "unclaimed").await;
    server.stop().await;
}

#[tokio::test]
async fn many_failures_alert_clears_on_success() {
    let server = quick_alerts_server().await;
    server.put("/api/v1/job-types/a", json!({"max_failures": "unlimited"})).await.expect(200);
    let job = json!({"type": "a", "sealed": true, "items": [{"payload": 1}]});
    let job = server.post("/api/v1/jobs", job).await.expect(201);
    for n in 1..=10 {
        let claimed = claim(&server).await;
        let wait = if n == 10 { 3_600 } else { 0 };
        let failure = json!({"error": {"message": "no line"}, "retry_after_seconds": wait});
        server.post(&format!("/api/v1/assignments/{}/failure", id(&claimed)), failure).await.expect(200);
    }
    let open = raised(&server, "many_failures").await;
    assert_eq!((open.len(), &open[0]["job_id"]), (1, &job["id"]), "{open:?}");
    sqlx::query("update deferred set due_at = clock_timestamp()")
        .execute(&server.running.app.pool)
        .await
        .expect("its time has come");
    let claimed = claim(&server).await;
    server.post(&format!("/api/v1/assignments/{}/result", id(&claimed)), json!({})).await.expect(200);
    cleared(&server, "many_failures").await;
    server.stop().await;
}

/// Neither a lost lease nor a failure without a pause makes the item wait for its time.
#[tokio::test]
async fn many_failures_alert_sees_items_that_are_available_or_running() {
    let server = quick_alerts_server().await;
    server.put("/api/v1/job-types/a", json!({"max_failures": "unlimited"})).await.expect(200);
    let jobs = json!([{"type": "a", "items": [{"payload": 1}]}, {"type": "a", "items": [{"payload": 2}]}]);
    for job in jobs.as_array().expect("jobs") {
        server.post("/api/v1/jobs", job.clone()).await.expect(201);
    }
    let failure = json!({"error": {"message": "no line"}, "retry_after_seconds": 0});
    for _ in 0..10 {
        for claimed in [claim(&server).await, claim(&server).await] {
            server.post(&format!("/api/v1/assignments/{}/failure", id(&claimed)), failure.clone()).await.expect(200);
        }
    }
    let running = claim(&server).await;
    let failing = async || {
        let open = alerts(&server, "kind=many_failures").await;
        let counts = open.iter().map(|alert| alert["count"].as_i64().expect("a count"));
        (open.len(), counts.sum::<i64>())
    };
    until(async || failing().await == (2, 20)).await;
    assert_eq!(running["item"]["failures"], 10);
    server.stop().await;
}

/// It stays open while another item of the job keeps failing, also when that one waits for a claim.
#[tokio::test]
async fn many_failures_alert_stays_while_another_item_fails() {
    let server = quick_alerts_server().await;
    server.put("/api/v1/job-types/a", json!({"max_failures": "unlimited"})).await.expect(200);
    let items = json!([{"payload": "worst", "priority": 5}, {"payload": "other"}]);
    server.post("/api/v1/jobs", json!({"type": "a", "sealed": true, "items": items})).await.expect(201);
    let end = async |claimed: &Value, how: &str, body: Value| {
        server.post(&format!("/api/v1/assignments/{}/{how}", id(claimed)), body).await.expect(200);
    };
    let fail = async |claimed: &Value| {
        end(claimed, "failure", json!({"error": {"message": "no line"}, "retry_after_seconds": 3_600})).await;
    };
    let (worst, other) = (claim(&server).await, claim(&server).await);
    fail(&worst).await;
    fail(&other).await;
    let run = async |statement: &'static str| {
        sqlx::query(statement).execute(&server.running.app.pool).await.expect(statement);
    };
    run("update deferred set failures = 11 - negated_priority").await;
    let open = raised(&server, "many_failures").await;
    assert_eq!((open.len(), &open[0]["item_id"]), (1, &worst["item"]["id"]), "{open:?}");
    run("update deferred set due_at = clock_timestamp()").await;
    let again = claim(&server).await;
    assert_eq!(again["item"]["id"], worst["item"]["id"]);
    end(&again, "result", json!({})).await;
    let waits = format!("/api/v1/items/{}", id(&other["item"]));
    until(async || server.get(&waits).await.expect(200)["state"] == "available").await;
    let hour = std::time::Duration::from_hours(1);
    let thresholds = engine::AlertThresholds { unclaimed_after: hour, quiet_after: hour };
    let evaluate = async || server.running.app.engine.evaluate_alerts(thresholds).await.expect("evaluated");
    evaluate().await;
    assert_eq!(alerts(&server, "kind=many_failures").await[0]["id"], open[0]["id"]);
    fail(&claim(&server).await).await;
    evaluate().await;
    let all = alerts(&server, "kind=many_failures&all=true").await;
    assert_eq!((all.len(), &all[0]["item_id"], &all[0]["count"]), (1, &other["item"]["id"], &json!(12)), "{all:?}");
    run("update deferred set due_at = clock_timestamp()").await;
    end(&claim(&server).await, "result", json!({})).await;
    cleared(&server, "many_failures").await;
    server.stop().await;
}

/// The alert of a broker is cleared by every server, also by one that has no broker.
#[tokio::test]
async fn broker_alert_clears_without_a_broker() {
    let server = Server::start().await;
    server.running.app.engine.report_broker("amqp://gone", Some("refused")).await.expect("reported");
    assert_eq!(alerts(&server, "kind=broker_away").await.len(), 1);
    sqlx::query("update alert set last_seen_at = last_seen_at - interval '1 minute'")
        .execute(&server.running.app.pool)
        .await
        .expect("no server has confirmed it");
    cleared(&server, "broker_away").await;
    server.stop().await;
}

#[tokio::test]
async fn dead_letters_raise_one_alert_per_type() {
    let server = Server::start().await;
    server.put("/api/v1/job-types/a", json!({})).await.expect(201);
    let group = "insert into owner_error (owner_id, type_id, fingerprint, message, n_dead, first_seen_at, last_seen_at,
                   sample_item_id)
                 select o.id, t.id, p.print, 'no such user', 600, clock_timestamp(), clock_timestamp(), o.id
                 from owner o, job_type t, (values ('x'), ('y')) as p (print) where t.name = 'a'";
    let pool = &server.running.app.pool;
    sqlx::query(group).execute(pool).await.expect("as dying items leave them");
    let open = raised(&server, "dead_letters").await;
    assert_eq!(open.len(), 1, "{open:?}");
    assert_eq!(open[0]["message"], "1,200 failed items in a, the latest: no such user");
    let now = async |count: i64, message: &str| {
        let content = (json!(count), json!(message));
        until(async || {
            let open = alerts(&server, "kind=dead_letters").await;
            open.len() == 1 && (open[0]["count"].clone(), open[0]["message"].clone()) == content
        })
        .await;
    };
    now(1200, "1,200 failed items in a, the latest: no such user").await;
    // It is the same alert that says what is so now, also of groups in which nothing is new.
    let more = "update owner_error set n_dead = case fingerprint when 'x' then 1 else 43 end,
                  last_seen_at = case fingerprint when 'x' then clock_timestamp() else clock_timestamp() - interval '1 day' end";
    sqlx::query(more).execute(pool).await.expect("as time goes by");
    now(44, "44 failed items in a, the latest: no such user").await;
    assert_eq!(alerts(&server, "").await[0]["id"], open[0]["id"]);
    sqlx::query("update owner_error set n_dead = 0 where fingerprint = 'y'").execute(pool).await.expect("repaired");
    now(1, "1 failed item in a, the latest: no such user").await;
    sqlx::query("update owner_error set n_dead = 0").execute(pool).await.expect("as retrying them does");
    cleared(&server, "dead_letters").await;
    server.stop().await;
}

#[tokio::test]
async fn alert_webhook_is_retried_until_accepted() {
    let (received, mut posts) = mpsc::unbounded_channel();
    let requests = Arc::new(AtomicUsize::new(0));
    let take = move |Json(body): Json<Value>| {
        let (received, first) = (received.clone(), requests.fetch_add(1, Ordering::SeqCst) == 0);
        async move {
            if first {
                return StatusCode::SERVICE_UNAVAILABLE;
            }
            received.send(body).expect("the story listens");
            StatusCode::NO_CONTENT
        }
    };
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let url = format!("http://{}/alerts", listener.local_addr().expect("an address"));
    let receiver = tokio::spawn(axum::serve(listener, Router::new().route("/alerts", post(take))).into_future());

    let server = Server::start_with(|config| {
        config.alerts.url = Some(url.parse().expect("a secret"));
        config.outbound.callback_retry_seconds = 0.05;
    })
    .await;
    server.put("/api/v1/job-types/a", json!({})).await.expect(201);
    server.post("/api/v1/jobs", json!({"type": "a", "items": [{"payload": 1}]})).await.expect(201);
    let claimed = claim(&server).await;
    let message = json!({"message": "out of paper"});
    server.post(&format!("/api/v1/assignments/{}/alert", id(&claimed)), message).await.expect(204);
    let message = posts.recv().await.expect("a post");
    assert_eq!((&message["type"], &message["data"]["kind"]), (&json!("alert.raised"), &json!("worker")));
    assert_eq!(message["data"]["message"], "w-1: out of paper");
    server.stop().await;
    receiver.abort();
}

/// A message that nobody sends is deleted, but not because no server ran.
#[tokio::test]
async fn unsent_messages_outlive_an_outage() {
    let server = Server::start().await;
    let pool = &server.running.app.pool;
    let up = "update uptime set resumed_at = clock_timestamp() - $1 * interval '1 day'";
    sqlx::query(up).bind(0.0).execute(pool).await.expect("back after an outage");
    let post = "insert into outbound_post (id, purpose, body, next_try_at)
        select days::text, 'alerts', '{}', clock_timestamp() - days * interval '1 day' from unnest(array[2, 8]) as t (days)";
    sqlx::query(post).execute(pool).await.expect("messages");
    let forget = async || engine::store::notify::outbound_posts::forget(pool, 86_400.0).await.expect("no failure");
    let left = async || engine::store::notify::outbound_posts::pending(pool).await.expect("a number");
    assert_eq!((forget().await, left().await), (0, 2));
    // Servers that are restarted every night.
    sqlx::query(up).bind(0.1).execute(pool).await.expect("up for two hours");
    until(async || (forget().await, left().await).1 == 1).await;
    assert_eq!((forget().await, left().await), (0, 1), "the newer one");
    sqlx::query(up).bind(2.0).execute(pool).await.expect("up for two days");
    until(async || (forget().await, left().await).1 == 0).await;
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn alert_raised_before_crash_is_still_sent() {
    const SECRET: &str = "the-deployment-s-own-secret";
    let server = Server::start().await;
    let mut receiver = Receiver::start().await;
    let url = receiver.url("/alerts?key=s3cret");
    let environment = [
        ("TREELINE_ALERT_URL", url.as_str()),
        ("TREELINE_SIGNING_SECRET", SECRET),
        ("TREELINE_CALLBACK_RETRY_SECONDS", "0.1"),
        ("TREELINE_CALLBACK_TIMEOUT_SECONDS", "5"),
        ("HTTP_PROXY", "http://127.0.0.1:9"),
    ];
    // Raised by a server that has nobody to tell, as one that dies before it has told anybody.
    let row = engine::store::notify::alerts::RaiseRow {
        kind: domain::notify::alert::AlertKind::DeliveryFailed,
        subject: "a".to_owned(),
        message: "out of paper".to_owned(),
        owner_id: None,
        job_type: None,
        root_id: None,
        job_id: None,
        item_id: None,
    };
    let engine = &server.running.app.engine;
    engine.raise_alert(row).await;
    let program = server.spawn_program_with(&environment).await;
    let first = receiver.next().await;
    let (webhook, content) = (first.header("webhook-id").to_owned(), first.json());
    assert!(first.is_signed_by(SECRET.as_bytes()), "{:?}", first.headers);
    assert_eq!((&content["type"], &content["data"]["message"]), (&json!("alert.raised"), &json!("out of paper")));
    // Killed (-9) while its post is under way and nobody has answered.
    program.kill().await;
    let program = server.spawn_program_with(&environment).await;
    let again = receiver.next().await;
    assert_eq!((again.header("webhook-id"), &again.json()), (webhook.as_str(), &content), "the same message");
    engine.clear_alert(domain::notify::alert::AlertKind::DeliveryFailed, "a").await.expect("cleared");
    let waiting = "select count(*) from outbound_post where id like '%-cleared'";
    until(async || {
        let n: i64 = sqlx::query_scalar(waiting).fetch_one(&server.running.app.pool).await.expect("a number");
        n == 1
    })
    .await;
    again.status(503);
    let again = receiver.next().await;
    assert_eq!(again.header("webhook-id"), webhook, "tried until it is taken, before that it was cleared");
    again.status(204);

    let cleared = receiver.next().await;
    assert_eq!(
        (&cleared.json()["type"], &cleared.json()["data"]["id"]),
        (&json!("alert.cleared"), &content["data"]["id"])
    );
    assert!(cleared.is_signed_by(SECRET.as_bytes()) && cleared.header("webhook-id") != webhook);
    cleared.status(204);
    let waiting =
        async || engine::store::notify::outbound_posts::pending(&server.running.app.pool).await.expect("a number");
    until(async || waiting().await == 0).await;
    assert!(receiver.now().is_none(), "each once");
    program.terminate().await;
    server.stop().await;
}
