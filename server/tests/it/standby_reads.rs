//! Pages and lists that read from a streaming standby (`TREELINE_READ_URL`): they show everything that was acknowledged
//! before, and need the standby for nothing.

use std::sync::{
    Arc,
    atomic::{AtomicBool, AtomicU64, Ordering},
};

use serde_json::{Value, json};
use sqlx::{ConnectOptions as _, Connection as _, PgConnection};
use uuid::Uuid;

use crate::support::{Api, Database, Server, standby::Pair, until};

/// Counted requests by outcome: standby, behind, unavailable, repeated.
async fn outcomes(server: &Server) -> [u64; 4] {
    let text = server.get("/metrics").await.text;
    ["standby", "behind", "unavailable", "repeated"].map(|outcome| {
        let start = format!("treeline_standby_reads_total{{outcome=\"{outcome}\"}} ");
        text.lines().find_map(|line| line.strip_prefix(&start)?.parse().ok()).unwrap_or(0)
    })
}

/// Difference of two counts.
fn since(before: [u64; 4], after: [u64; 4]) -> [u64; 4] {
    std::array::from_fn(|n| after[n] - before[n])
}

/// Creates a job with this name.
async fn create(server: &Server, name: &str) -> Value {
    server
        .post("/api/v1/jobs", json!({"type": "a", "name": name, "sealed": true, "items": [{"payload": 1}]}))
        .await
        .expect(201)
}

/// Creates jobs and expects each in the next list, or in the next page of a person. Returns the text of their
/// searches, which no other statement contains.
async fn expect_own_writes(server: &Server, person: &Api, n: usize) -> String {
    let round = Uuid::now_v7().simple().to_string();
    for at in 0..n {
        let name = format!("{round}-{at}");
        let created = create(server, &name).await;
        if at % 5 == 4 {
            let page = person.get(&format!("/jobs?q={name}")).await;
            page.expect(200);
            assert!(page.text.contains(created["id"].as_str().expect("an id")), "{at}: the page is older than the job");
        } else {
            let list = server.get(&format!("/api/v1/jobs?q={name}")).await.expect(200);
            assert_eq!(list["data"][0]["id"], created["id"], "{at}: the list is older than the job");
        }
    }
    format!("'%{round}-")
}

/// Waits until a request reads from the standby again.
async fn until_used(server: &Server) {
    let before = outcomes(server).await;
    until(async || {
        server.get("/api/v1/jobs?limit=1").await.expect(200);
        since(before, outcomes(server).await)[0] > 0
    })
    .await;
}

/// Creates, claims and completes items, and reads them, until told to stop. Every request succeeds.
async fn work(server: Arc<Server>, stop: Arc<AtomicBool>, rounds: Arc<AtomicU64>) {
    server.put("/api/v1/job-types/worked", json!({})).await.expect(201);
    while !stop.load(Ordering::Relaxed) {
        let job =
            server.post("/api/v1/jobs", json!({"type": "worked", "sealed": true, "items": [{"payload": 1}]})).await;
        let path = format!("/api/v1/jobs/{}", job.expect(201)["id"].as_str().expect("an id"));
        assert_eq!(server.get(&path).await.expect(200)["counts"]["succeeded"], 0);
        let claim = json!({"worker_id": "w", "types": ["worked"], "max": 1});
        let claimed = server.post("/api/v1/assignments", claim).await.expect(200);
        let id = claimed["assignments"][0]["id"].as_str().expect("an item");
        server.post(&format!("/api/v1/assignments/{id}/result"), json!({"result": {}})).await.expect(200);
        let job = server.get(&path).await.expect(200);
        assert_eq!(job["counts"]["succeeded"], 1, "older than the result: {job}");
        server.get("/readyz").await.expect(200);
        rounds.fetch_add(1, Ordering::Relaxed);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn reads_from_a_standby_are_current_and_survive_its_loss() {
    let pair = tokio::task::block_in_place(Pair::start);
    let database = Database::create_in(pair.primary.url()).await;
    let (name, read_url) = (database.name.clone(), pair.standby_url(&database.name));
    let primary_url = database.admin.clone().database(&name).to_url_lossy().to_string();
    let server =
        Arc::new(Server::on(database, |config| config.read_url = Some(read_url.parse().expect("a secret"))).await);
    server.put("/api/v1/job-types/a", json!({})).await.expect(201);
    let person = server.person("reader", "admin").await;
    let (stop, rounds) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));

    // Nothing else is read: the counts and the logs of both servers say where each search ran.
    until_used(&server).await;
    let before = outcomes(&server).await;
    let searches = expect_own_writes(&server, &person, 50).await;
    let counted = since(before, outcomes(&server).await);
    let (on_primary, on_standby) = pair.statements(&searches).await;
    assert_eq!(counted.iter().sum::<u64>(), 50, "{counted:?}");
    // How many find the standby current depends on the load of the machine.
    assert!(counted[0] > 0 && on_standby as u64 >= counted[0], "{counted:?}, {on_standby} on the standby");
    assert!(on_primary as u64 <= 4 * (50 - counted[0]), "{counted:?}, {on_primary} on the primary");

    // Only the primary knows that something does not exist.
    let before = outcomes(&server).await;
    until(async || {
        server.get(&format!("/api/v1/items/{}", Uuid::now_v7())).await.expect_problem(404, "not_found");
        since(before, outcomes(&server).await)[3] > 0
    })
    .await;

    let working = tokio::spawn(work(Arc::clone(&server), Arc::clone(&stop), Arc::clone(&rounds)));
    let mut standby = PgConnection::connect_with(&pair.standby()).await.expect("the standby");
    let progress = async || {
        let before = rounds.load(Ordering::Relaxed);
        until(async || rounds.load(Ordering::Relaxed) > before + 1).await;
    };
    progress().await;

    // A standby that replays nothing is behind after the next commit.
    sqlx::raw_sql("select pg_wal_replay_pause()").execute(&mut standby).await.expect("a pause");
    until(async || {
        let state = sqlx::query_scalar::<_, String>("select pg_get_wal_replay_pause_state()");
        state.fetch_one(&mut standby).await.expect("a state") == "paused"
    })
    .await;
    create(&server, "not replayed").await;
    let before = outcomes(&server).await;
    let searches = expect_own_writes(&server, &person, 10).await;
    let counted = since(before, outcomes(&server).await);
    // At most one of the other task, which may have begun before that commit.
    assert!(counted[1] >= 10 && counted[0] <= 1, "{counted:?}");
    assert!(pair.statements(&searches).await.0 >= 10);
    progress().await;
    sqlx::raw_sql("select pg_wal_replay_resume()").execute(&mut standby).await.expect("no pause");
    until_used(&server).await;

    // Connections to it that break cost nobody an answer, and neither does its end.
    for _ in 0..5 {
        let ended = "select pg_terminate_backend(pid) from pg_stat_activity where application_name = 'treeline'";
        sqlx::raw_sql(ended).execute(&mut standby).await.expect("connections end");
        expect_own_writes(&server, &person, 3).await;
    }
    until_used(&server).await;
    let before = outcomes(&server).await;
    tokio::task::block_in_place(|| pair.kill_standby());
    expect_own_writes(&server, &person, 10).await;
    progress().await;
    let counted = since(before, outcomes(&server).await);
    assert!(counted[2] > 0 && counted[1] + counted[2] >= 10, "{counted:?}");
    tokio::task::block_in_place(|| pair.start_standby());
    until_used(&server).await;
    expect_own_writes(&server, &person, 10).await;
    progress().await;

    // A primary is not a standby.
    stop.store(true, Ordering::Relaxed);
    working.await.expect("all work succeeds");
    let misled = server.another_with(|config| config.read_url = Some(primary_url.parse().expect("a secret"))).await;
    let before = outcomes(&misled).await;
    expect_own_writes(&misled, &person, 10).await;
    let counted = since(before, outcomes(&misled).await);
    assert!(counted[2] >= 8, "{counted:?}");
    misled.stop().await;

    let server = Arc::into_inner(server).expect("the only one");
    server.stop().await;
    // Its database is dropped in the background, which needs the primary.
    let mut primary = PgConnection::connect(pair.primary.url()).await.expect("the primary");
    until(async || {
        let found = sqlx::query_scalar::<_, i64>("select count(*) from pg_database where datname = $1").bind(&name);
        found.fetch_one(&mut primary).await.expect("a number") == 0
    })
    .await;
}
