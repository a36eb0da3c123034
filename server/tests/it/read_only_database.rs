//! A database that stops accepting writes: a primary that became a standby, or that was made read-only. Requests get 503
//! meanwhile, and the server recovers without a restart.

use std::sync::atomic::{AtomicBool, Ordering};

use reqwest::Method;
use serde_json::{Value, json};
use sqlx::Executor as _;

use crate::support::{Answer, Api, Database, Server, moment, run, until};

/// Sends a sealed tree with one item under its Idempotency-Key.
async fn create(server: &Server, key: &str) -> Answer {
    let tree = json!({"type": "a", "name": key, "sealed": true, "items": [{"payload": key}]});
    Answer::of(server.request(Method::POST, "/api/v1/jobs").header("idempotency-key", key).json(&tree)).await
}

/// Expects the answer of a server whose database cannot be used.
fn expect_unavailable(answer: &Answer) {
    answer.expect_problem(503, "database_unavailable");
    let seconds: u32 = answer.headers["retry-after"].to_str().expect("text").parse().expect("seconds");
    assert!((1..=5).contains(&seconds), "{seconds}");
}

async fn names(server: &Server) -> Vec<Value> {
    let jobs = server.get("/api/v1/jobs").await.expect(200);
    let mut names: Vec<Value> =
        jobs["data"].as_array().expect("a list").iter().map(|job| job["name"].clone()).collect();
    names.sort_by_key(ToString::to_string);
    names
}

/// As after a fail-over when the server reaches the former primary, which is now a standby: connections break, and each
/// new one is read-only.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn read_only_database_is_unavailable_until_it_accepts_writes() {
    let database = Database::create().await;
    let (admin, name) = (database.admin.clone(), database.name.clone());
    let server = Server::on(database, |_| {}).await;
    server.put("/api/v1/job-types/a", json!({})).await.expect(201);
    create(&server, "before").await.expect(201);

    run(&admin, format!("alter database {name} set default_transaction_read_only = on")).await;
    let connections = format!("select pg_terminate_backend(pid) from pg_stat_activity where datname = '{name}'");
    run(&admin, connections).await;
    expect_unavailable(&create(&server, "meanwhile").await);
    for path in ["/readyz", "/api/v1/jobs"] {
        expect_unavailable(&server.get(path).await);
    }

    run(&admin, format!("alter database {name} reset default_transaction_read_only")).await;
    until(async || server.get("/readyz").await.status == 200).await;
    until(async || server.get("/api/v1/jobs").await.status == 200).await;
    assert_eq!(names(&server).await, ["before"], "a request answered 503 left something behind, or something is lost");
    // Its other connections may not be replaced yet: it says that nothing was done.
    until(async || create(&server, "meanwhile").await.status != 503).await;
    create(&server, "meanwhile").await.expect(202);
    assert_eq!(names(&server).await, ["before", "meanwhile"]);
    server.stop().await;
}

/// A connection can outlive the demotion of its primary. One request notices it; then no such connection is used again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn connections_to_a_demoted_primary_are_replaced_after_one_rejected_write() {
    let server = Server::start().await;
    server.put("/api/v1/job-types/a", json!({})).await.expect(201);
    create(&server, "before").await.expect(201);

    // A background task that writes first notices it instead of the request; then all is demoted again.
    let mut written = 1;
    let rejected = loop {
        demote(&server).await;
        let answer = create(&server, &format!("noticed by a task {written}")).await;
        if answer.status != 201 {
            break answer;
        }
        written += 1;
        assert!(written < 20, "no request has noticed a demoted primary");
    };
    expect_unavailable(&rejected);
    for n in 0..10 {
        create(&server, &format!("after {n}")).await.expect(201);
        server.put(&format!("/api/v1/job-types/b{n}"), json!({})).await.expect(201);
    }
    assert_eq!(names(&server).await.len(), written + 10);
    server.stop().await;
}

/// Makes all connections of the server's pools read-only.
async fn demote(server: &Server) {
    let pools = &server.running.app.pools;
    for pool in [&pools.hot, &pools.read] {
        let mut connections = Vec::new();
        for _ in 0..pool.options().get_max_connections() {
            let mut connection = pool.acquire().await.expect("a connection");
            connection.execute("set default_transaction_read_only = on").await.expect("it becomes read-only");
            connections.push(connection);
        }
    }
}

/// P19: the host of the database vanishes without closing connections, and its successor has its address. What was asked
/// of the old host is answered 503, and then everything works without a restart.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn vanished_database_host_is_noticed_within_half_a_minute() {
    let server = Server::start().await;
    server.put("/api/v1/job-types/a", json!({"backoff": {"min_seconds": 1}})).await.expect(201);
    create(&server, "first").await.expect(201);
    let (program, proxy) = server.spawn_program_behind_proxy().await;
    let api = &program.api;
    // Whose tokens are looked up again every few seconds, more at once than there are connections for it.
    let mut others = Vec::new();
    for name in ["one", "two", "three"] {
        let token = server.service(name, &["jobs:read"]).await;
        others.push(api.clone().with_token(token.token()));
    }
    // Each page reads three times, and goes without an answer that takes longer than a moment.
    let (visitor, grace) = (Api::new(&api.url("")), server.person("Grace", "support").await);
    let page = async || Answer::of(visitor.request(Method::GET, "/jobs").header("cookie", grace.cookie())).await.status;
    let pages = async || futures::future::join_all((0..10).map(|_| page())).await;
    // From now on, the program alone runs all background tasks.
    server.running.app.shutdown.cancel();
    let claim = async || api.post("/api/v1/assignments", json!({"worker_id": "w", "types": ["a"]})).await;
    let claimed = claim().await.expect(200)["assignments"][0].clone();
    let assignment = format!("/api/v1/assignments/{}", claimed["id"].as_str().expect("an id"));
    // Opens the connection that is lost.
    api.post(&format!("{assignment}/heartbeat"), json!({})).await.expect(200);
    let use_all = async || {
        futures::future::join_all(others.iter().map(|other| other.get("/api/v1/job-types"))).await;
    };
    use_all().await;
    // Until they are due to be looked up.
    tokio::time::sleep(std::time::Duration::from_secs(3)).await;
    // These open all connections for pages.
    assert!(pages().await.iter().all(|status| *status == 200));

    proxy.vanish();
    let _ =
        tokio::time::timeout(std::time::Duration::from_millis(500), futures::future::join(pages(), use_all())).await;
    let done = AtomicBool::new(false);
    let in_use = async {
        while !done.load(Ordering::Relaxed) {
            use_all().await;
            moment().await;
        }
    };
    // A client that gives up leaves a connection that waits.
    let upload = async || {
        let request = api.request(Method::POST, "/api/v1/uploads?filename=a.csv").header("idempotency-key", "the file");
        Answer::of(request.header("content-type", "text/csv").body("a,b\n1,2\n")).await.status
    };
    let repeated = async {
        let _ = tokio::time::timeout(std::time::Duration::from_millis(500), upload()).await;
        // A server that is not asked again for a minute may hold the key, but it answers.
        until(async || [201, 409].contains(&upload().await.as_u16())).await;
        done.store(true, Ordering::Relaxed);
    };
    let recovered = async {
        let lost = api.post(&format!("{assignment}/heartbeat"), json!({})).await;
        // Unless background tasks had every connection that was open: then it has opened one to the successor.
        if lost.status != 200 {
            expect_unavailable(&lost);
        }
        until(async || api.get("/api/v1/jobs").await.status == 200).await;
        until(async || page().await == 200).await;
        until(async || api.post(&format!("{assignment}/heartbeat"), json!({})).await.status == 200).await;
        // Its retry is due in a second, which a background task must find.
        let failure = json!({"error": {"message": "once more"}});
        until(async || api.post(&format!("{assignment}/failure"), failure.clone()).await.status != 503).await;
        until(async || claim().await.json()["assignments"][0]["attempt"] == 2).await;
    };
    tokio::join!(in_use, repeated, recovered);
    program.kill().await;
    server.stop().await;
}

/// P19: after a database that was not running for eleven seconds, sign-ins and heartbeats work within eight. What opens
/// connections in advance must not hold the only one of a pool while it waits for longer and longer.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn connections_are_opened_soon_after_an_outage() {
    let server = Server::start().await;
    server.put("/api/v1/job-types/a", json!({})).await.expect(201);
    create(&server, "first").await.expect(201);
    let unknown = server.service("uncached", &["jobs:read"]).await;
    let (program, proxy) = server.spawn_program_behind_proxy().await;
    let api = &program.api;
    let claimed = api.post("/api/v1/assignments", json!({"worker_id": "w", "types": ["a"]})).await.expect(200);
    let id = claimed["assignments"][0]["id"].as_str().expect("an id").to_owned();
    let heartbeat = async || api.post(&format!("/api/v1/assignments/{id}/heartbeat"), json!({})).await.status;
    assert_eq!(heartbeat().await, 200);

    let port = proxy.close_port().await;
    tokio::time::sleep(std::time::Duration::from_secs(11)).await;
    proxy.open_port(port);
    let returned = std::time::Instant::now();
    until(async || api.get("/readyz").await.status == 200).await;
    until(async || api.clone().with_token(unknown.token()).get("/api/v1/jobs").await.status == 200).await;
    until(async || heartbeat().await == 200).await;
    assert!(returned.elapsed().as_secs() < 8, "it took {:?}", returned.elapsed());
    program.kill().await;
    server.stop().await;
}
