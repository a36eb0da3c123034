//! Roles: web, maintenance, push, and split as processes of their own on one database (`TREELINE_ROLES`).

use std::time::Duration;

use serde_json::{Value, json};
use server::config::Config;

use crate::{
    push::push_type,
    support::{
        Server,
        imports::{complete, import, lines, upload},
        receiver::Receiver,
    },
};

fn role(name: &str) -> impl FnOnce(&mut Config) {
    let roles = name.parse().expect("roles");
    move |config| {
        config.roles = roles;
        config.callback_allow = "127.0.0.1".parse().expect("a list");
    }
}

#[tokio::test]
async fn one_process_per_role_does_the_whole_work() {
    let web = Server::start_with(role("web")).await;
    let others = [
        web.another_with(role("maintenance")).await,
        web.another_with(role("push")).await,
        web.another_with(role("split")).await,
    ];
    let mut receiver = Receiver::start().await;

    // Split reads the file and validates its rows.
    let schema = json!({"type": "object", "properties": {"amount": {"type": "integer"}}});
    let spec =
        json!({"executor": {"kind": "builtin", "name": "validate"}, "max_failures": 1, "payload_schema": schema});
    web.put("/api/v1/job-types/rows", spec).await.expect(201);
    let file = upload(&web, "rows.csv", "name,amount\nAda,1\nBen,x\nCid,3\n").await;
    let job = complete(&web, &import(&web, "rows", &file).await).await;
    assert_eq!((&job["counts"]["succeeded"], &job["counts"]["dead"]), (&json!(2), &json!(1)), "{job}");
    assert_eq!(lines(&web, &job, "results").await.len(), 2);

    // Push posts items and the callback of their tree. Maintenance offers a failed item again.
    let more = json!({"max_failures": 2, "backoff": {"min_seconds": 0.2, "jitter": false}});
    push_type(&web, "mail", &receiver, more).await;
    let tree = json!({"type": "mail", "sealed": true, "items": [{"payload": {"to": "Ada"}}],
        "on_completed": {"url": receiver.url("/done")}});
    let job = web.post("/api/v1/jobs", tree).await.expect(201);
    for (path, status) in [("/work", 400), ("/work", 200), ("/done", 200)] {
        let post = receiver.next().await;
        assert_eq!(post.path, path);
        post.status(status);
    }
    assert_eq!(complete(&web, &job).await["counts"]["succeeded"], 1);

    for other in others {
        other.running.shutdown().await.expect("the process stops");
    }
    web.stop().await;
}

#[tokio::test]
async fn the_broker_is_shown_by_processes_that_are_not_connected() {
    let web = Server::start_with(|config| {
        config.roles = "web,push,split".parse().expect("roles");
        config.broker.amqp_url = Some("amqp://127.0.0.1:1/".parse().expect("a secret"));
    })
    .await;
    let broker = async || web.get("/api/v1/stats").await.expect(200)["broker"].clone();
    assert_eq!(broker().await["up"], true, "nobody says that it is away");
    // The process with the role says so.
    let engine = &web.running.app.engine;
    engine.report_broker("127.0.0.1:1", Some("connection refused")).await.expect("reported");
    let away = broker().await;
    assert_eq!(away["up"], false);
    assert!(away["fault"].as_str().is_some_and(|why| why.contains("connection refused")), "{away}");
    let admin = web.admin().await;
    assert!(admin.get("/").await.text.contains("Unreachable"));
    engine.clear_alert(domain::notify::alert::AlertKind::BrokerAway, "127.0.0.1:1").await.expect("cleared");
    assert_eq!(broker().await["up"], true);
    assert!(admin.get("/").await.text.contains("Workers are woken by messages"));
    web.stop().await;
}

#[tokio::test]
async fn a_process_without_web_serves_probes_and_metrics_only() {
    let web = Server::start_with(role("web")).await;
    let maintenance = web.another_with(role("maintenance,push,split")).await;
    assert_eq!(maintenance.running.sign_in_link, None);
    for path in ["/healthz", "/readyz"] {
        maintenance.stranger().get(path).await.expect(200);
    }
    maintenance.stranger().get("/metrics").await.expect_problem(401, "unauthenticated");
    assert!(maintenance.get("/metrics").await.text.contains("treeline_items"));
    for path in ["/api/v1/jobs", "/", "/sign-in"] {
        let refused = maintenance.get(path).await.expect_problem(404, "not_found");
        assert!(refused["detail"].as_str().is_some_and(|text| text.contains("TREELINE_ROLES")), "{refused}");
    }
    maintenance.running.shutdown().await.expect("the process stops");
    web.stop().await;
}

#[tokio::test]
async fn no_lease_is_lost_while_no_process_receives_heartbeats() {
    let web = Server::start_with(role("web")).await;
    web.put("/api/v1/job-types/slow", json!({"heartbeat_seconds": 1})).await.expect(201);
    web.post("/api/v1/jobs", json!({"type": "slow", "items": [{}]})).await.expect(201);
    let claim = json!({"worker_id": "w", "types": ["slow"]});
    let assignment = web.post("/api/v1/assignments", claim).await.expect(200)["assignments"][0].clone();
    let maintenance = web.another_with(role("maintenance,push,split")).await;
    let pool = maintenance.running.app.pool.clone();
    web.running.app.shutdown.cancel();

    // Past every second of the lease, with several sweeps.
    let overdue =
        "select greatest(last_heartbeat_at, resumed_at) + make_interval(secs => lease_seconds + 3) < clock_timestamp()
        from lease, uptime";
    let is_overdue =
        async || sqlx::query_scalar::<_, bool>(overdue).fetch_optional(&pool).await.expect("the query runs");
    while is_overdue().await != Some(true) {
        assert!(is_overdue().await.is_some(), "the lease is lost");
        tokio::time::sleep(Duration::from_millis(200)).await;
    }

    let again = maintenance.another_with(role("web")).await;
    let path = format!("/api/v1/assignments/{}/result", assignment["id"].as_str().expect("an id"));
    assert_eq!(again.post(&path, json!({"result": {}})).await.expect(200)["item_state"], Value::from("succeeded"));
    web.running.shutdown().await.expect("the process stops");
    maintenance.running.shutdown().await.expect("the process stops");
    again.stop().await;
}
