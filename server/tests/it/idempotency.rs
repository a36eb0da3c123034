//! Repeated requests (`idempotency-key`): one tree per key, the first response again, streams that resume after the
//! last commit.

use futures::future::join_all;
use reqwest::Method;
use serde_json::{Value, json};

use crate::support::{Answer, Api, Server, until};

fn id(value: &Value) -> String {
    value["id"].as_str().expect("an id").to_owned()
}

async fn start() -> Server {
    let server = Server::start().await;
    server.put("/api/v1/job-types/a", json!({})).await.expect(201);
    server
}

async fn post(api: &Api, path: &str, key: &str, body: &Value) -> Answer {
    Answer::of(api.request(Method::POST, path).header("idempotency-key", key).json(body)).await
}

async fn create(api: &Api, key: &str, body: &Value) -> Answer {
    post(api, "/api/v1/jobs", key, body).await
}

async fn stream(api: &Api, job: &str, key: &str, text: &str) -> Answer {
    let request = api.request(Method::POST, &format!("/api/v1/jobs/{job}/items"));
    let request = request.header("idempotency-key", key).header("content-type", "application/x-ndjson");
    Answer::of(request.body(text.to_owned())).await
}

/// Claims and finishes all work of type `a`.
async fn work(api: &Api, verb: &str, body: Value) {
    let claim = json!({"worker_id": "w", "types": ["a"], "max": 100});
    let claimed = api.post("/api/v1/assignments", claim).await.expect(200);
    for assignment in claimed["assignments"].as_array().expect("assignments") {
        api.post(&format!("/api/v1/assignments/{}/{verb}", id(assignment)), body.clone()).await.expect(200);
    }
}

async fn jobs(api: &Api) -> usize {
    api.get("/api/v1/jobs?limit=1000").await.expect(200)["data"].as_array().expect("jobs").len()
}

async fn count(api: &Api, job: &str) -> Value {
    api.get(&format!("/api/v1/jobs/{job}")).await.expect(200)["item_count"].clone()
}

#[tokio::test]
async fn repeated_creation_returns_the_current_state_of_the_tree() {
    let server = start().await;
    let body = json!({"type": "a", "sealed": true, "items": [{"payload": 1}]});
    let first = create(&server, "k", &body).await.expect(201);
    let again = create(&server, "k", &body).await;
    assert_eq!(again.headers["location"], format!("/api/v1/jobs/{}", id(&first)));
    assert_eq!(again.expect(202), first);
    // Equal JSON in another order and spelling.
    let spelled = r#"{"items":[{"payload":1.0}],"sealed":true,"type":"\u0061"}"#;
    let request = server.request(Method::POST, "/api/v1/jobs").header("idempotency-key", "k");
    Answer::of(request.header("content-type", "application/json").body(spelled)).await.expect(202);

    work(&server, "result", json!({})).await;
    let done = create(&server, "k", &body).await.expect(200);
    assert_eq!((&done["id"], &done["status"]), (&first["id"], &json!("completed")));
    let other = json!({"type": "a", "sealed": true, "items": [{"payload": 2}]});
    create(&server, "k", &other).await.expect_problem(422, "idempotency_key_reused");
    assert_eq!(jobs(&server).await, 1);
    server.stop().await;
}

#[tokio::test]
async fn failed_tree_releases_its_idempotency_key() {
    let server = start().await;
    let body = json!({"type": "a", "sealed": true, "dedupe_key": "d", "items": [{"payload": 1}]});
    let first = create(&server, "k", &body).await.expect(201);
    work(&server, "failure", json!({"error": {"message": "no"}, "retryable": false})).await;

    // Many at once: one new tree, which the others find under way.
    let created = join_all((0..8).map(|_| create(&server, "k", &body))).await;
    let mut new = created.iter().filter(|answer| answer.status == 201);
    let second = new.next().expect("a new tree").json();
    assert!(new.next().is_none());
    assert!(
        created.iter().filter(|answer| answer.status != 201).all(|answer| answer.expect(202)["id"] == second["id"])
    );
    assert_ne!(second["id"], first["id"]);
    // Its dedupe key has gone over.
    assert_eq!((&second["replay_of"], &second["dedupe_key"]), (&first["id"], &json!("d")));
    let old = server.get(&format!("/api/v1/jobs/{}", id(&first))).await.expect(200);
    assert_eq!((&old["superseded_by"], &old["outcome"]), (&second["id"], &json!("failed")));
    let taken = server.post("/api/v1/jobs", body).await.expect_problem(409, "duplicate");
    assert_eq!(taken["id"], second["id"]);
    server.stop().await;
}

#[tokio::test]
async fn idempotency_key_is_scoped_to_owner() {
    let server = start().await;
    let body = json!({"type": "a"});
    let of = |name: &str| json!({"type": "a", "initiated_by": name});
    let first = create(&server, "k", &body).await.expect(201);
    let second = create(&server, "k", &of("u-1")).await.expect(201);
    let third = create(&server, "k", &of("u-2")).await.expect(201);
    let other = server.service("other", &["jobs:read", "jobs:write"]).await;
    let fourth = create(&other, "k", &body).await.expect(201);
    let mut ids = [id(&first), id(&second), id(&third), id(&fourth)];
    ids.sort_unstable();
    assert!(ids.windows(2).all(|pair| pair[0] != pair[1]));
    assert_eq!(create(&server, "k", &of("u-1")).await.expect(202)["id"], second["id"]);
    server.stop().await;
}

#[tokio::test]
async fn failed_validation_stores_no_idempotency_key() {
    let server = start().await;
    server.put("/api/v1/job-types/strict", json!({"payload_schema": {"type": "integer"}})).await.expect(201);
    for bad in [
        json!({"type": "nobody"}),
        json!({"type": "a", "priority": 101}),
        json!({"type": "strict", "items": [{"payload": "text"}]}),
    ] {
        assert!(create(&server, "k", &bad).await.status.is_client_error());
    }
    create(&server, "k", &json!({"type": "a"})).await.expect(201);
    for bad in ["", &"x".repeat(256)] {
        create(&server, bad, &json!({"type": "a"})).await.expect_problem(400, "invalid_parameter");
    }
    server.stop().await;
}

#[tokio::test]
async fn job_type_requires_idempotency_key() {
    let server = start().await;
    server.put("/api/v1/job-types/safe", json!({"require_idempotency_key": true})).await.expect(201);
    let body = json!({"type": "a", "children": [{"type": "safe"}]});
    server.post("/api/v1/jobs", body.clone()).await.expect_problem(400, "idempotency_key_required");
    create(&server, "k", &body).await.expect(201);
    server.post("/api/v1/jobs", json!({"type": "a"})).await.expect(201);
    // An id can be put again as well as a key.
    server.put("/api/v1/jobs/0190a5e0-0000-7000-8000-00000000000d", body).await.expect(201);
    server.stop().await;
}

/// P10: 64 identical requests create one tree per key, on two servers.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn concurrent_identical_requests_create_one_tree() {
    let server = start().await;
    let other = server.another().await;
    other.get("/api/v1/job-types/a").await.expect(200);
    let body = json!({"type": "a", "items": [{"payload": 1}], "children": [{"type": "a", "feed": {}}]});
    let apis: [&Api; 2] = [&server, &other];
    let requests = (0..64 * 6).map(|n| {
        let (api, key, body) = (apis[n % 2], format!("k-{}", n % 6), &body);
        async move { (n % 6, create(api, &key, body).await) }
    });
    let mut trees: [Vec<String>; 6] = Default::default();
    let mut new = [0; 6];
    for (key, answer) in join_all(requests).await {
        assert!([201, 202].contains(&answer.status.as_u16()), "{}", answer.text);
        new[key] += usize::from(answer.status == 201);
        trees[key].push(id(&answer.json()));
    }
    assert_eq!(new, [1; 6]);
    for tree in &mut trees {
        tree.dedup();
        assert_eq!(tree.len(), 1);
    }
    assert_eq!(jobs(&server).await, 12);
    other.stop().await;
    server.stop().await;
}

#[tokio::test]
async fn idempotency_key_expires_after_window_and_completion() {
    let server = Server::start_with(|config| config.idempotency_window_seconds = 1).await;
    server.put("/api/v1/job-types/a", json!({})).await.expect(201);
    let body = json!({"type": "a", "sealed": true, "items": [{"payload": 1}]});
    let empty = json!({"type": "a", "sealed": true});
    let open = create(&server, "open", &body).await.expect(201);
    let complete = create(&server, "complete", &empty).await.expect(201);
    assert_eq!(create(&server, "complete", &empty).await.expect(200)["id"], complete["id"]);
    // Asked until it is answered by a new tree: then the window has passed.
    while create(&server, "complete", &empty).await.status == 200 {}

    // That of the other, which is older, has passed as well; but its tree is open.
    assert_eq!(create(&server, "open", &body).await.expect(202)["id"], open["id"]);
    work(&server, "result", json!({})).await;
    let second = create(&server, "open", &body).await.expect(201);
    assert_eq!((&second["replay_of"], second["id"] == open["id"]), (&Value::Null, false));
    assert_eq!(create(&server, "open", &body).await.expect(202)["id"], second["id"]);

    // What has lapsed is swept; what has not, stays.
    let engine = &server.running.app.engine;
    while engine.sweep_idempotency().await.expect("a sweep") == 0 {}
    assert_eq!(create(&server, "open", &body).await.expect(202)["id"], second["id"]);
    create(&server, "complete", &json!({"type": "a"})).await.expect(201);
    server.stop().await;
}

#[tokio::test]
async fn repeated_item_array_is_added_once() {
    let server = start().await;
    let job = id(&server.post("/api/v1/jobs", json!({"type": "a"})).await.expect(201));
    let path = format!("/api/v1/jobs/{job}/items");
    let items = json!([{"payload": 1}, {"payload": 2}]);
    let added = json!({"accepted": 2, "duplicates": 0, "merged": 0, "sealed": false});
    let created = join_all((0..16).map(|_| post(&server, &path, "k", &items))).await;
    assert!(created.iter().all(|answer| answer.expect(200) == added));
    assert_eq!(count(&server, &job).await, 2);
    post(&server, &path, "k", &json!([{"payload": 3}])).await.expect_problem(422, "idempotency_key_reused");
    let sealing = format!("{path}?seal=true");
    post(&server, &sealing, "k", &items).await.expect_problem(422, "idempotency_key_reused");
    // A key that made a tree does not stand for items.
    create(&server, "t", &json!({"type": "a"})).await.expect(201);
    post(&server, &path, "t", &items).await.expect_problem(422, "idempotency_key_reused");

    // The last ones seal: again is the first answer, not `job_sealed`.
    let last = post(&server, &sealing, "last", &items).await.expect(200);
    assert_eq!(last["sealed"], true);
    assert_eq!(post(&server, &sealing, "last", &items).await.expect(200), last);
    assert_eq!(count(&server, &job).await, 4);
    // What is refused leaves the key free.
    post(&server, &path, "late", &items).await.expect_problem(409, "job_sealed");
    let open = id(&server.post("/api/v1/jobs", json!({"type": "a"})).await.expect(201));
    post(&server, &format!("/api/v1/jobs/{open}/items"), "late", &items).await.expect(200);
    server.stop().await;
}

#[tokio::test]
async fn repeated_item_stream_resumes_after_committed_items() {
    let server = start().await;
    let job = id(&server.post("/api/v1/jobs", json!({"type": "a"})).await.expect(201));
    let line = |n: usize| format!("{{\"payload\": {n}}}\n");
    let whole: String = (0..3_500).map(line).collect();
    let half: String = (0..2_300).map(line).collect();

    // A bad line stops it: what came before is in.
    let broken = stream(&server, &job, "k", &format!("{half}oops\n")).await.expect_problem(422, "invalid_body");
    assert_eq!((&broken["accepted"], &broken["line"]), (&json!(2_300), &json!(2_301)));
    let again = stream(&server, &job, "k", &format!("{half}oops\n")).await.expect_problem(422, "invalid_body");
    assert_eq!((&again["accepted"], &again["line"]), (&json!(2_300), &json!(2_301)));
    assert_eq!(count(&server, &job).await, 2_300);
    // Another beginning is another stream.
    let other = whole.replacen("\"payload\": 7}", "\"payload\": 8}", 1);
    stream(&server, &job, "k", &other).await.expect_problem(422, "idempotency_key_reused");
    assert_eq!(count(&server, &job).await, 2_300);

    let done = stream(&server, &job, "k", &whole).await.expect(200);
    assert_eq!(done, json!({"accepted": 3_500, "duplicates": 0, "merged": 0, "sealed": false}));
    assert_eq!(stream(&server, &job, "k", &whole).await.expect(200), done);
    // Equal lines in another spelling, with blanks at the end.
    assert_eq!(stream(&server, &job, "k", &format!("{}\n\n", whole.replace(": ", ":"))).await.expect(200), done);
    assert_eq!(count(&server, &job).await, 3_500);
    for other in [format!("{whole}{}", line(1)), half] {
        stream(&server, &job, "k", &other).await.expect_problem(422, "idempotency_key_reused");
    }
    assert_eq!(count(&server, &job).await, 3_500);
    server.stop().await;
}

/// The same stream on several connections to two servers at once: every row is added once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn concurrent_identical_item_streams_are_added_once() {
    let server = start().await;
    let other = server.another().await;
    let job = id(&server.post("/api/v1/jobs", json!({"type": "a"})).await.expect(201));
    let whole: String = (0..4_200).map(|n| format!("{{\"payload\":{n}}}\n")).collect();
    let apis: [&Api; 2] = [&server, &other];
    let answers = join_all((0..6).map(|n| stream(apis[n % 2], &job, "k", &whole))).await;
    for answer in &answers {
        assert_eq!(answer.expect(200)["accepted"], 4_200);
    }
    assert_eq!(count(&server, &job).await, 4_200);
    other.stop().await;
    server.stop().await;
}

#[tokio::test]
async fn other_creations_are_idempotent() {
    let server = start().await;
    for (path, body) in [
        ("/api/v1/job-types", json!({"name": "once"})),
        ("/api/v1/services", json!({"name": "once"})),
        ("/api/v1/tokens", json!({"service": "once", "name": "t", "scopes": ["work"]})),
    ] {
        let many = join_all((0..8).map(|_| post(&server, path, path, &body))).await;
        let first = many[0].expect(201);
        assert!(many.iter().all(|answer| answer.expect(201) == first));
        assert_eq!(post(&server, path, path, &body).await.expect(201), first);
        let mut other = body.clone();
        other["name"] = json!("other");
        post(&server, path, path, &other).await.expect_problem(422, "idempotency_key_reused");
    }
    // What was refused may be sent again under the same key.
    let body = json!({"service": "later", "name": "t", "scopes": ["work"]});
    assert!(post(&server, "/api/v1/tokens", "again", &body).await.status.is_client_error());
    server.post("/api/v1/services", json!({"name": "later"})).await.expect(201);
    post(&server, "/api/v1/tokens", "again", &body).await.expect(201);

    let upload = |text: &'static str| {
        let request = server.request(Method::POST, "/api/v1/uploads?filename=a.csv").header("idempotency-key", "file");
        Answer::of(request.header("content-type", "text/csv").body(text))
    };
    let first = upload("a,b\n1,2\n").await.expect(201);
    assert_eq!(upload("a,b\n1,2\n").await.expect(201), first);
    upload("a,b\n1,3\n").await.expect_problem(422, "idempotency_key_reused");
    server.stop().await;
}

#[tokio::test]
async fn request_in_progress_on_another_server_is_refused_with_retry_after() {
    let server = start().await;
    let other = server.another().await;
    let pool = &server.running.app.pool;
    let mut delay = pool.begin().await.expect("a transaction");
    sqlx::query("lock table job_type in share mode").execute(&mut *delay).await.expect("nobody writes types");
    let create = async |api: &Api| post(api, "/api/v1/job-types", "slow", &json!({"name": "slow"})).await;
    let repeated = async {
        let begun = "select count(*) from idempotency where call = 'POST /job-types' and status is null";
        until(async || sqlx::query_scalar::<_, i64>(begun).fetch_one(pool).await.expect("a count") == 1).await;
        let refused = create(&other).await;
        refused.expect_problem(409, "duplicate");
        assert_eq!(refused.headers["retry-after"], "1");
        delay.rollback().await.expect("types are written");
    };
    let (first, ()) = tokio::join!(create(&server), repeated);
    assert_eq!(create(&other).await.expect(201), first.expect(201));
    other.stop().await;
    server.stop().await;
}

/// Simulates a server killed between creating a resource and storing its response: the database refuses the second, and
/// so the first.
#[tokio::test]
async fn creation_without_storable_response_is_rolled_back() {
    let server = start().await;
    let pool = &server.running.app.pool;
    server.post("/api/v1/services", json!({"name": "keyed"})).await.expect(201);
    let job = id(&server.post("/api/v1/jobs", json!({"type": "a"})).await.expect(201));
    let person = server.post("/api/v1/users", json!({"name": "Ada", "email": "ada@example.org"})).await.expect(201);
    let person = person["id"].as_str().expect("an id");
    let calls = [
        ("/api/v1/job-types".to_owned(), json!({"name": "halved"})),
        ("/api/v1/services".to_owned(), json!({"name": "halved"})),
        ("/api/v1/tokens".to_owned(), json!({"service": "keyed", "name": "halved", "scopes": ["work"]})),
        ("/api/v1/users".to_owned(), json!({"name": "Bob", "email": "bob@example.org"})),
        (format!("/api/v1/users/{person}/sign-in-link"), json!({"reason": "forgotten"})),
        (format!("/api/v1/jobs/{job}/share"), json!({})),
    ];
    let resumable = || {
        let request = server.request(Method::POST, "/api/v1/uploads/resumable?filename=a.csv");
        Answer::of(request.header("idempotency-key", "resumable").header("upload-length", 5))
    };
    let things = "select (select count(*) from job_type) + (select count(*) from owner) + (select count(*) from token)
       + (select count(*) from sign_in_link) + (select count(*) from share) + (select count(*) from upload_partial)
       + (select count(*) from audit)";
    let before: i64 = sqlx::query_scalar(things).fetch_one(pool).await.expect("a count");

    for statement in [
        "create function no_answers() returns trigger language plpgsql as $$ begin raise exception 'no room'; end $$",
        "create trigger no_answers before update of status on idempotency
           for each row when (new.status is not null) execute function no_answers()",
    ] {
        sqlx::query(statement).execute(pool).await.expect("the database refuses answers");
    }
    for (path, body) in &calls {
        assert!(post(&server, path, path, body).await.status.is_server_error(), "{path}");
    }
    assert!(resumable().await.status.is_server_error());
    let after: i64 = sqlx::query_scalar(things).fetch_one(pool).await.expect("a count");
    assert_eq!(after, before, "something was made that nobody was told of");

    sqlx::query("drop trigger no_answers on idempotency").execute(pool).await.expect("it takes them again");
    for (path, body) in &calls {
        let first = post(&server, path, path, body).await.expect(201);
        assert_eq!(post(&server, path, path, body).await.expect(201), first, "{path}");
    }
    assert_eq!(resumable().await.expect(201), resumable().await.expect(201));
    server.stop().await;
}
