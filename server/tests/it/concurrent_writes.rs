//! Crossing transactions in a forced order: the second has executed everything but its last statement when the first
//! commits. These tests cover only the guards of that last statement; random races are in `races` and `pairs`.

use std::time::Duration;

use domain::Document;
use engine::{SplitBatch, SplitRow};
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};
use sqlx::{PgPool, Postgres, Transaction};
use tokio::task::JoinHandle;

use crate::support::{Answer, Api, Server, invariants};

fn id(value: &Value) -> String {
    value["id"].as_str().expect("an id").to_owned()
}

/// Locks the state row of a job: others wait for it in order of arrival.
pub(crate) async fn lock_job(pool: &PgPool, job: &str) -> Transaction<'static, Postgres> {
    let mut transaction = pool.begin().await.expect("a transaction");
    sqlx::query("select 1 from job_state where job_key = (select job_key from job where id::text = $1) for update")
        .bind(job)
        .execute(&mut *transaction)
        .await
        .expect("the gate");
    transaction
}

/// Number of sessions that wait for a lock.
pub(crate) async fn waiting(pool: &PgPool) -> i64 {
    let all = "select count(*) from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'";
    sqlx::query_scalar(all).fetch_one(pool).await.expect("a count")
}

/// Sends a request, and waits until it blocks.
async fn send(pool: &PgPool, api: &Api, path: String, body: Value, waiting: i64) -> JoinHandle<Answer> {
    let request = api.request(Method::POST, &path).json(&body);
    let answer = tokio::spawn(Answer::of(request));
    while self::waiting(pool).await < waiting {
        assert!(!answer.is_finished(), "{path} did not wait: {:?}", answer.await);
        crate::support::moment().await;
    }
    answer
}

/// Claims the available items of type `a`.
async fn claim_all(api: &Api) -> Vec<Value> {
    let claim = json!({"worker_id": "w", "types": ["a"], "max": 10});
    let claimed = api.post("/api/v1/assignments", claim).await.expect(200);
    claimed["assignments"].as_array().expect("assignments").clone()
}

/// P13: a worker's request that crosses a cancel of its job is refused or ends the item as canceled, without other
/// effects.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn writes_concurrent_with_cancel_are_refused() {
    let server = Server::start().await;
    let pool = &server.running.app.pool;
    server.put("/api/v1/job-types/a", json!({})).await.expect(201);
    for act in ["failure", "release", "result", "claim", "add"] {
        let job = id(&server.post("/api/v1/jobs", json!({"type": "a", "items": [{}, {}]})).await.expect(201));
        let claim = json!({"worker_id": "w", "types": ["a"]});
        let claimed = server.post("/api/v1/assignments", claim.clone()).await.expect(200)["assignments"][0].clone();
        let assignment_path = |verb: &str| format!("/api/v1/assignments/{}/{verb}", id(&claimed));
        let (path, body) = match act {
            "failure" => (assignment_path(act), json!({"error": {"message": "again"}, "retry_after_seconds": 60})),
            "claim" => ("/api/v1/assignments".to_owned(), claim.clone()),
            "add" => (format!("/api/v1/jobs/{job}/items"), json!([{}, {}])),
            _ => (assignment_path(act), json!({})),
        };

        let job_lock = lock_job(pool, &job).await;
        let cancel = send(pool, &server, format!("/api/v1/jobs/{job}/cancel"), json!({}), 1).await;
        let late = send(pool, &server, path, body, 2).await;
        job_lock.commit().await.expect("the job state is unlocked");
        cancel.await.expect("no panic").expect(200);
        let late = late.await.expect("no panic");
        match act {
            "failure" | "release" => assert_eq!(late.expect(200)["item_state"], "cancelled", "{act}"),
            "claim" => assert_eq!(late.expect(200)["assignments"], json!([])),
            _ => drop(late.expect_problem(409, "job_cancelled")),
        }

        if ["claim", "add"].contains(&act) {
            server.post(&assignment_path("release"), json!({})).await.expect(200);
        }
        let job = server.get(&format!("/api/v1/jobs/{job}")).await.expect(200);
        assert_eq!((&job["status"], &job["outcome"]), (&json!("completed"), &json!("cancelled")), "{act}");
        assert_eq!((&job["counts"]["cancelled"], &job["item_count"]), (&json!(2), &json!(2)), "{act}");
        let again = Answer::of(server.request(Method::POST, "/api/v1/assignments").json(&claim)).await;
        assert_eq!((again.status, &again.json()["assignments"]), (StatusCode::OK, &json!([])), "{act}");
        let root = [id(&job)];
        assert_eq!(invariants::check(pool, Some(&root), Duration::from_secs(30)).await, Ok(()), "{act}");
    }
    server.stop().await;
}

/// A cancellation that waits for a file cursor or a deadline does not hold the job state that the other transaction locks
/// next.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn cancel_locks_file_cursors_and_deadlines_before_job_states() {
    let server = Server::start().await;
    let pool = &server.running.app.pool;
    server.put("/api/v1/job-types/a", json!({})).await.expect(201);
    let upload = id(&server.post_text("/api/v1/uploads?filename=a.csv", "text/csv", "n\n1\n").await.expect(201));
    for (table, act) in
        [("import_cursor", "cancel"), ("import_cursor", "failure"), ("deadline", "cancel"), ("deadline", "failure")]
    {
        let job = json!({"type": "a", "items": [{}], "expires_at": "2099-01-01T00:00:00Z"});
        let job = id(&server.post("/api/v1/jobs", job).await.expect(201));
        let claimed = claim_all(&server).await;
        let assignment = |verb: &str| format!("/api/v1/assignments/{}/{verb}", id(&claimed[0]));
        if table == "import_cursor" {
            // No task can read its head, so none moves it.
            sqlx::query(
                "insert into import_cursor (job_key, job_id, upload_id, format, head, byte_offset, line)
                 select job_key, id, $2::uuid, 'csv', 'unreadable', 100, 5 from job where id = $1::uuid",
            )
            .bind(&job)
            .bind(&upload)
            .execute(pool)
            .await
            .expect("a file half read");
        }
        let (path, body) = if act == "cancel" {
            (format!("/api/v1/jobs/{job}/cancel"), json!({}))
        } else {
            (assignment(act), json!({"error": {"message": "no account"}, "cancel_tree": true}))
        };
        let of_job = "where job_key = (select job_key from job where id::text = $1)";
        let mut other = pool.begin().await.expect("a transaction");
        let lock = format!("select 1 from {table} {of_job} for update");
        let locked = sqlx::query(sqlx::AssertSqlSafe(lock)).bind(&job).execute(&mut *other).await;
        assert_eq!(locked.expect("a lock").rows_affected(), 1, "{table}");
        let cancel = send(pool, &server, path, body, 1).await;
        let lock = format!("select 1 from job_state {of_job} for update nowait");
        let locked = sqlx::query(sqlx::AssertSqlSafe(lock)).bind(&job).execute(&mut *other).await;
        locked.unwrap_or_else(|error| panic!("{table}, {act}: {error}"));
        other.commit().await.expect("all is unlocked");
        cancel.await.expect("no panic").expect(200);
        if act == "cancel" {
            server.post(&assignment("release"), json!({})).await.expect(200);
        }
        let job = server.get(&format!("/api/v1/jobs/{job}")).await.expect(200);
        assert_eq!((&job["status"], &job["outcome"]), (&json!("completed"), &json!("cancelled")), "{table}, {act}");
    }
    server.stop().await;
}

/// P14: the second of two claims counts what the first has taken, even before it is committed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn concurrency_cap_counts_uncommitted_claims() {
    let server = Server::start().await;
    let pool = &server.running.app.pool;
    server.put("/api/v1/job-types/a", json!({"concurrency": 2})).await.expect(201);
    let other = server.another().await;
    let job = id(&server.post("/api/v1/jobs", json!({"type": "a", "items": [{}, {}, {}, {}]})).await.expect(201));
    let claim = json!({"worker_id": "w", "types": ["a"], "max": 2});
    let job_lock = lock_job(pool, &job).await;
    let first = send(pool, &server, "/api/v1/assignments".to_owned(), claim.clone(), 1).await;
    let second = send(pool, &other, "/api/v1/assignments".to_owned(), claim, 2).await;
    job_lock.commit().await.expect("the job state is unlocked");
    let mut got = [0, 0];
    for (got, answer) in got.iter_mut().zip([first, second]) {
        let answer = answer.await.expect("no panic").expect(200);
        *got = answer["assignments"].as_array().expect("assignments").len();
    }
    assert_eq!(got, [2, 0]);
    other.stop().await;
    server.stop().await;
}

/// P9: of two items that join one serialize queue concurrently, the second waits behind the first.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn concurrent_joins_of_a_serialize_queue_are_ordered() {
    let server = Server::start().await;
    let pool = &server.running.app.pool;
    server.put("/api/v1/job-types/a", json!({})).await.expect(201);
    let other = server.another().await;
    other.put("/api/v1/job-types/a", json!({})).await.expect(200);
    let mut jobs = Vec::new();
    for _ in 0..2 {
        jobs.push(id(&server.post("/api/v1/jobs", json!({"type": "a"})).await.expect(201)));
    }
    let item = json!([{"serialize_key": "k"}]);
    // The first has its place in the queue and waits for its job.
    let job_lock = lock_job(pool, &jobs[0]).await;
    let first = send(pool, &server, format!("/api/v1/jobs/{}/items", jobs[0]), item.clone(), 1).await;
    let second = send(pool, &other, format!("/api/v1/jobs/{}/items", jobs[1]), item, 2).await;
    job_lock.commit().await.expect("the job state is unlocked");
    for answer in [first, second] {
        answer.await.expect("no panic").expect(200);
    }
    for (job, state) in jobs.iter().zip(["available", "blocked"]) {
        let items = server.get(&format!("/api/v1/items?job={job}")).await.expect(200);
        assert_eq!(items["data"][0]["state"], state);
    }
    other.stop().await;
    server.stop().await;
}

/// `serialize-key`: a serialize queue that gets an item while the sweep of empty ones runs is not deleted.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn serialize_queue_that_gets_an_item_during_the_sweep_is_not_deleted() {
    // No sweep but the one below.
    let server = Server::start_with(|config| config.roles = "web".parse().expect("a role")).await;
    let (app, pool) = (&server.running.app, &server.running.app.pool);
    server.put("/api/v1/job-types/a", json!({})).await.expect(201);
    let item = |key: &str, payload: i64| json!({"serialize_key": key, "payload": payload});
    let job = json!({"type": "a", "items": [item("first", 1), item("second", 2)]});
    let path = format!("/api/v1/jobs/{}/items", id(&server.post("/api/v1/jobs", job).await.expect(201)));
    // The second queue is empty then; the first is not.
    for assignment in claim_all(&server).await.iter().filter(|it| it["item"]["payload"] == 2) {
        server.post(&format!("/api/v1/assignments/{}/result", id(assignment)), json!({})).await.expect(200);
    }
    // The sweep waits where it reads the entry of the first queue: it has its snapshot, and no lock of the second queue.
    for statement in [
        "alter table serialize_queue_entry rename to stored_entry",
        "create function wait_in_sweep() returns boolean language plpgsql as $$ begin
           if current_query() like '%next_position > 1%' then
             perform pg_advisory_xact_lock_shared(1);
           end if;
           return true;
         end $$",
        "create view serialize_queue_entry as select * from stored_entry where wait_in_sweep()",
    ] {
        sqlx::query(statement).execute(pool).await.expect(statement);
    }
    let mut lock = pool.begin().await.expect("a transaction");
    sqlx::query("select pg_advisory_xact_lock(1)").execute(&mut *lock).await.expect("the lock");
    let add = async {
        crate::support::until(async || waiting(pool).await == 1).await;
        server.post(&path, json!([item("second", 3)])).await.expect(200);
        lock.rollback().await.expect("the end of the lock");
    };
    let (swept, ()) = tokio::join!(app.engine.sweep_serialize_queues(), add);
    swept.expect("the sweep");

    server.post(&path, json!([item("second", 4)])).await.expect(200);
    let payloads: Vec<Value> = claim_all(&server).await.iter().map(|it| it["item"]["payload"].clone()).collect();
    assert_eq!(payloads, [json!(3)], "the next item of its key waits for it");
    server.stop().await;
}

/// `serialize-key`: an item whose serialize queue is swept while the item is added gets a new one.
#[tokio::test]
async fn item_is_added_although_its_serialize_queue_is_swept_meanwhile() {
    let server = Server::start_with(|config| config.roles = "web".parse().expect("a role")).await;
    server.put("/api/v1/job-types/a", json!({})).await.expect(201);
    let path =
        format!("/api/v1/jobs/{}/items", id(&server.post("/api/v1/jobs", json!({"type": "a"})).await.expect(201)));
    let item = json!([{"serialize_key": "k"}]);
    server.post(&path, item.clone()).await.expect(200);
    let claimed = claim_all(&server).await.remove(0);
    server.post(&format!("/api/v1/assignments/{}/result", id(&claimed)), json!({})).await.expect(200);
    // After the statement that creates missing queues, and before the one that reads their ids.
    for statement in [
        "create function sweep_old_queues() returns trigger language plpgsql as $$ begin
           delete from serialize_queue where next_position > 1;
           return null;
         end $$",
        "create trigger sweep_old_queues after insert on serialize_queue
           for each statement execute function sweep_old_queues()",
    ] {
        sqlx::query(statement).execute(&server.running.app.pool).await.expect(statement);
    }
    server.post(&path, item).await.expect(200);
    assert_eq!(claim_all(&server).await.len(), 1);
    server.stop().await;
}

/// `serialize-key`: an item that `after` releases while it is canceled leaves its queue under the queue's lock, so an
/// item that joins meanwhile is released.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn item_released_while_it_is_cancelled_leaves_its_queue_under_lock() {
    let server = Server::start().await;
    let pool = &server.running.app.pool;
    server.put("/api/v1/job-types/a", json!({})).await.expect(201);
    let behind_first = json!({"serialize_key": "k", "run_after": "2099-01-01T00:00:00Z"});
    let tree = json!({"type": "a", "key": "root", "items": [{}], "children": [
        {"type": "a", "key": "first", "sealed": true, "items": [{}]},
        {"type": "a", "key": "second", "sealed": true, "after": ["first"], "items": [behind_first]}]});
    let root = id(&server.post("/api/v1/jobs", tree).await.expect(201));
    let other = id(&server.post("/api/v1/jobs", json!({"type": "a"})).await.expect(201));
    let first_item =
        async |query: String| server.get(&format!("/api/v1/items?{query}")).await.expect(200)["data"][0].clone();

    // Claims pass over the item of the root; the cancellation waits for it.
    let mut item_lock = pool.begin().await.expect("a transaction");
    sqlx::query("select 1 from ready where item_id::text = $1 for update")
        .bind(id(&first_item(format!("job={root}")).await))
        .execute(&mut *item_lock)
        .await
        .expect("the item");
    let claim = json!({"worker_id": "w", "types": ["a"]});
    let claimed = server.post("/api/v1/assignments", claim).await.expect(200)["assignments"][0].clone();
    let filter = json!({"root": root, "state": ["available", "blocked"]});
    let cancel = json!({"action": "cancel", "target": "items", "filter": filter});
    let cancel = id(&server.post("/api/v1/bulk-operations", cancel).await.expect(202));
    crate::support::until(async || waiting(pool).await == 1).await;
    server.post(&format!("/api/v1/assignments/{}/result", id(&claimed)), json!({})).await.expect(200);
    let scheduled = format!("root={root}&state=scheduled");
    crate::support::until(async || first_item(scheduled.clone()).await.is_object()).await;

    let job_lock = lock_job(pool, &other).await;
    let behind = json!([{"serialize_key": "k"}]);
    let added = send(pool, &server, format!("/api/v1/jobs/{other}/items"), behind, 2).await;
    item_lock.commit().await.expect("the item is unlocked");
    let completed =
        async || server.get(&format!("/api/v1/bulk-operations/{cancel}")).await.expect(200)["state"] == "completed";
    let waits_for_queue = "select count(*) from pg_stat_activity where datname = current_database()
        and wait_event_type = 'Lock' and query like 'select id, next_position from serialize_queue%'";
    crate::support::until(async || {
        let waiting: i64 = sqlx::query_scalar(waits_for_queue).fetch_one(pool).await.expect("a count");
        waiting == 1 || completed().await
    })
    .await;
    job_lock.commit().await.expect("the job state is unlocked");
    added.await.expect("no panic").expect(200);
    crate::support::until(completed).await;
    assert_eq!(first_item(format!("job={other}")).await["state"], "available");
    server.stop().await;
}

/// `claiming`: items have unique positions in a job in the order of acceptance.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn concurrent_adds_get_distinct_positions() {
    let server = Server::start().await;
    let pool = &server.running.app.pool;
    server.put("/api/v1/job-types/a", json!({})).await.expect(201);
    let other = server.another().await;
    let job = id(&server.post("/api/v1/jobs", json!({"type": "a"})).await.expect(201));
    let path = format!("/api/v1/jobs/{job}/items");
    let job_lock = lock_job(pool, &job).await;
    let first = send(pool, &server, path.clone(), json!([{"payload": 1}, {"payload": 2}]), 1).await;
    let second = send(pool, &other, path, json!([{"payload": 3}, {"payload": 4}]), 2).await;
    job_lock.commit().await.expect("the job state is unlocked");
    for answer in [first, second] {
        answer.await.expect("no panic").expect(200);
    }
    let items = server.get(&format!("/api/v1/items?job={job}")).await.expect(200)["data"].clone();
    let places: Vec<&Value> = items.as_array().expect("items").iter().map(|item| &item["seq"]).collect();
    assert_eq!(places, [1, 2, 3, 4]);
    other.stop().await;
    server.stop().await;
}

/// `retention`: items released or retried during the deletion of their tree come too late.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_item_is_retried_in_a_tree_being_deleted() {
    let server = Server::start().await;
    let pool = &server.running.app.pool;
    server.put("/api/v1/job-types/a", json!({})).await.expect(201);
    let other = server.another().await;
    let job = id(&server.post("/api/v1/jobs", json!({"type": "a", "sealed": true, "items": [{}]})).await.expect(201));
    let claim = json!({"worker_id": "w", "types": ["a"]});
    let claimed = server.post("/api/v1/assignments", claim).await.expect(200)["assignments"][0].clone();
    let failure = json!({"error": {"message": "no"}, "retryable": false});
    server.post(&format!("/api/v1/assignments/{}/failure", id(&claimed)), failure).await.expect(200);

    let job_lock = lock_job(pool, &job).await;
    let delete = tokio::spawn(Answer::of(server.request(Method::DELETE, &format!("/api/v1/jobs/{job}"))));
    while waiting(pool).await < 1 {
        crate::support::moment().await;
    }
    let retry = send(pool, &other, format!("/api/v1/items/{}/retry", id(&claimed["item"])), json!({}), 2).await;
    job_lock.commit().await.expect("the job state is unlocked");
    assert_eq!(delete.await.expect("no panic").status, StatusCode::NO_CONTENT);
    let late = retry.await.expect("no panic");
    assert!([404, 410].contains(&late.status.as_u16()), "{}", late.text);
    let left = "select count(*) from ready";
    assert_eq!(sqlx::query_scalar::<_, i64>(left).fetch_one(pool).await.expect("a count"), 0);
    other.stop().await;
    server.stop().await;
}

/// `database-clock`: a propagation step is undone if another server has taken it meanwhile.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn maintenance_step_rolls_back_when_another_server_took_it() {
    let server = Server::start().await;
    let pool = &server.running.app.pool;
    server.put("/api/v1/job-types/a", json!({})).await.expect(201);
    let job = id(&server.post("/api/v1/jobs", json!({"type": "a", "items": [{}, {}]})).await.expect(201));
    let job_lock = lock_job(pool, &job).await;
    let cancel = send(pool, &server, format!("/api/v1/jobs/{job}/cancel"), json!({}), 1).await;
    // Next in line behind the cancel, and before the rows that follow it.
    let next = tokio::spawn({
        let (pool, job) = (pool.clone(), job.clone());
        async move { lock_job(&pool, &job).await }
    });
    while waiting(pool).await < 2 {
        crate::support::moment().await;
    }
    job_lock.commit().await.expect("the job state is unlocked");
    let mut job_lock = next.await.expect("no panic");
    cancel.await.expect("no panic").expect(200);
    while waiting(pool).await < 1 {
        crate::support::moment().await;
    }
    sqlx::query("update propagation set seq = 1000").execute(&mut *job_lock).await.expect("the walk is elsewhere");
    job_lock.commit().await.expect("the job state is unlocked");
    let count =
        |of: &'static str| async move { sqlx::query_scalar::<_, i64>(of).fetch_one(pool).await.expect("a count") };
    while count("select count(*) from propagation").await > 0 {
        crate::support::moment().await;
    }
    assert_eq!(count("select count(*) from ready").await, 2, "whoever moved the walk was to end them");
    server.stop().await;
}

/// P17: rows are added from the file's position, and only once, however many servers split it.
#[tokio::test]
async fn import_cursor_guards_against_duplicate_rows() {
    let server = Server::start().await;
    let app = &server.running.app;
    server.put("/api/v1/job-types/a", json!({})).await.expect(201);
    let upload = id(&server.post_text("/api/v1/uploads?filename=a.csv", "text/csv", "n\n1\n").await.expect(201));
    let job = id(&server.post("/api/v1/jobs", json!({"type": "a"})).await.expect(201));
    // No duty cuts the file: this story does.
    app.shutdown.cancel();
    sqlx::query(
        "insert into import_cursor (job_key, job_id, upload_id, format, head, byte_offset, line)
         select job_key, id, $2::uuid, 'csv', '{}', 100, 5 from job where id = $1::uuid",
    )
    .bind(&job)
    .bind(&upload)
    .execute(&app.pool)
    .await
    .expect("a file half cut");
    let batch = |from: i64| {
        let rows = vec![SplitRow { line: 5, payload: Document::null(), problem: None }];
        let job_id = job.parse().expect("an id");
        app.engine.add_split_batch(SplitBatch { job_id, from, to: 200, line: 6, rows, done: false, expected: None })
    };
    for (from, is_there) in [(0, false), (100, true), (100, false), (300, false)] {
        assert_eq!(batch(from).await.expect("an answer"), is_there, "from {from}");
    }
    let added = "select count(*) from item";
    assert_eq!(sqlx::query_scalar::<_, i64>(added).fetch_one(&app.pool).await.expect("a count"), 1);
    server.stop().await;
}

/// Constraints of the tables, by name, that the code never violates.
#[tokio::test]
async fn database_constraints_reject_invalid_rows() {
    let server = Server::start().await;
    let pool = &server.running.app.pool;
    server.put("/api/v1/job-types/a", json!({})).await.expect(201);
    let tree = json!({"type": "a", "items": [{"dedupe_key": "d"}, {}]});
    let job = id(&server.post("/api/v1/jobs", tree).await.expect(201));
    let claim = json!({"worker_id": "w", "types": ["a"]});
    server.post("/api/v1/assignments", claim).await.expect(200);
    for (statement, constraint) in [
        // P3: a second open assignment of an item.
        (
            "insert into lease (id, item_id, job_key, credential_id, started_at, last_heartbeat_at, lease_seconds, type_id,
               attempt, failures, negated_priority, worker_id)
             select gen_random_uuid(), item_id, job_key, credential_id, started_at, last_heartbeat_at, lease_seconds, type_id,
               attempt, failures, negated_priority, worker_id from lease",
            "lease_item",
        ),
        // P8: a dedupe key that another item has.
        ("insert into item_dedupe select job_key, key, gen_random_uuid() from item_dedupe", "item_dedupe_pkey"),
        // `completion`: fewer items than none.
        ("update job_state set n_running = n_running - 2 where n_running > 0", "job_state_counts"),
    ] {
        let refused = sqlx::query(statement).execute(pool).await.expect_err(constraint);
        let named = refused.as_database_error().and_then(|error| error.constraint()).map(str::to_owned);
        assert_eq!(named.as_deref(), Some(constraint), "{refused}");
    }
    let job = server.get(&format!("/api/v1/jobs/{job}")).await.expect(200);
    assert_eq!((&job["counts"]["running"], &job["counts"]["available"]), (&json!(1), &json!(1)));
    server.stop().await;
}
