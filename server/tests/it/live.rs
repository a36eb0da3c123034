//! Event stream: a snapshot, then absolute changes, until the end; never for strangers.

use futures::StreamExt as _;
use reqwest::Method;
use serde_json::{Value, json};

use crate::support::{Api, Server};

/// Reads events until one matches; returns all of them with their names.
pub(crate) async fn listen(api: &Api, path: &str, last: impl Fn(&str, &Value) -> bool) -> Vec<(String, Value)> {
    let response = api.request(Method::GET, path).send().await.expect("a stream");
    assert_eq!(response.status(), 200);
    assert_eq!(response.headers()["content-type"], "text/event-stream");
    assert_eq!(response.headers()["x-accel-buffering"], "no");
    let mut bytes = response.bytes_stream();
    let mut text = String::new();
    let mut events = Vec::new();
    while let Some(part) = bytes.next().await {
        text.push_str(std::str::from_utf8(&part.expect("bytes")).expect("text"));
        while let Some(end) = text.find("\n\n") {
            let block: String = text.drain(..end + 2).collect();
            let field = |name: &str| block.lines().find_map(|line| line.strip_prefix(name)).map(str::trim);
            let (Some(name), Some(data)) = (field("event:"), field("data:")) else { continue };
            let data: Value = serde_json::from_str(data).expect("JSON");
            let done = last(name, &data);
            events.push((name.to_owned(), data));
            if done {
                return events;
            }
        }
    }
    events
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn job_stream_ends_with_final_state_on_any_server() {
    let server = Server::start().await;
    let other = server.another().await;
    server.put("/api/v1/job-types/a", json!({})).await.expect(201);
    let items: Vec<Value> = (0..400).map(|n| json!({"payload": n})).collect();
    let job = server.post("/api/v1/jobs", json!({"type": "a", "sealed": true, "items": items})).await.expect(201);
    let path = format!("/api/v1/jobs/{}/events", job["id"].as_str().expect("an id"));
    let finished = |name: &str, data: &Value| name == "change" && data["jobs"][0]["status"] == "completed";

    let work = async {
        loop {
            let claim = json!({"worker_id": "w", "types": ["a"], "max": 20});
            let claimed = other.post("/api/v1/assignments", claim).await.expect(200)["assignments"].clone();
            let endings: Vec<Value> = claimed
                .as_array()
                .expect("assignments")
                .iter()
                .map(|a| json!({"assignment_id": a["id"], "result": {}}))
                .collect();
            if endings.is_empty() {
                return;
            }
            other.post("/api/v1/assignments/finish", json!({"endings": endings})).await.expect(200);
        }
    };
    let (events, elsewhere, ()) = tokio::join!(listen(&server, &path, finished), listen(&other, &path, finished), work);
    for events in [events, elsewhere] {
        assert_eq!(events[0].0, "snapshot");
        assert_eq!(events[0].1["item_count"], 400);
        let versions: Vec<i64> = events
            .iter()
            .map(|(name, data)| if name == "snapshot" { data } else { &data["jobs"][0] })
            .filter_map(|job| job["version"].as_i64())
            .collect();
        assert!(versions.is_sorted(), "{versions:?}");
        let last = &events.last().expect("events").1["jobs"][0];
        assert_eq!((&last["counts"]["succeeded"], &last["percent"]), (&json!(400), &json!(100)));
        assert!(last.get("children").is_none(), "a change carries no children");
    }
    let stranger = server.service("stranger", &["jobs:read", "jobs:write"]).await;
    stranger.get(&path).await.expect_problem(404, "not_found");
    server.stranger().get(&path).await.expect_problem(401, "unauthenticated");
    other.stop().await;
    server.stop().await;
}

#[tokio::test]
async fn job_stream_shows_item_progress_and_bye() {
    let server = Server::start().await;
    server.put("/api/v1/job-types/a", json!({})).await.expect(201);
    let job = server
        .post("/api/v1/jobs", json!({"type": "a", "sealed": true, "items": [{"payload": "secret"}]}))
        .await
        .expect(201);
    let path = format!("/api/v1/jobs/{}/events", job["id"].as_str().expect("an id"));
    let claimed = server.post("/api/v1/assignments", json!({"worker_id": "w", "types": ["a"]})).await.expect(200);
    let assignment_id = claimed["assignments"][0]["id"].as_str().expect("an assignment id").to_owned();
    let heartbeat = async {
        let progress = json!({"progress": {"done": 3, "total": 10, "message": "reading"}});
        server.post(&format!("/api/v1/assignments/{assignment_id}/heartbeat"), progress).await.expect(200);
    };
    let three = |_: &str, data: &Value| data["items"][0]["progress"]["done"] == 3;
    let (events, ()) = tokio::join!(listen(&server, &path, three), heartbeat);
    let item = &events.last().expect("events").1["items"][0];
    assert_eq!((&item["progress"]["total"], &item["progress"]["message"]), (&json!(10), &json!("reading")));
    assert!(
        !item.to_string().contains("secret") && !item.to_string().contains(&assignment_id),
        "neither payload nor assignment id"
    );

    let api = server.clone();
    let open = tokio::sync::Notify::new();
    let until_bye = |name: &str, _: &Value| {
        open.notify_one();
        name == "bye"
    };
    let (events, ()) = tokio::join!(listen(&api, &path, until_bye), async {
        open.notified().await;
        server.stop().await;
    });
    assert_eq!(events.last().map(|(name, _)| name.as_str()), Some("bye"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn roots_stream_is_visible_to_owner_and_staff() {
    let server = Server::start().await;
    let other = server.another().await;
    server.put("/api/v1/job-types/a", json!({})).await.expect(201);
    let shop = server.service("shop", &["jobs:read", "jobs:write"]).await;
    let bakery = server.service("bakery", &["jobs:read", "jobs:write"]).await;
    let job = json!({"type": "a", "sealed": true, "items": [{"payload": 1}]});
    let first = shop.post("/api/v1/jobs", job.clone()).await.expect(201)["id"].clone();
    let (own, all) = (tokio::sync::Notify::new(), tokio::sync::Notify::new());
    let removed = |data: &Value| data["removed"].as_array().is_some_and(|gone| gone.contains(&first));
    let is_gone = |open: &tokio::sync::Notify, name: &str, data: &Value| {
        if name == "snapshot" {
            open.notify_one();
        }
        name == "change" && removed(data)
    };
    let work = async {
        own.notified().await;
        all.notified().await;
        bakery.post("/api/v1/jobs", job.clone()).await.expect(201);
        shop.post("/api/v1/jobs", job.clone()).await.expect(201);
        // On another server, so that it takes a hint.
        let claim = json!({"worker_id": "w", "types": ["a"], "max": 1});
        let claimed = other.post("/api/v1/assignments", claim).await.expect(200)["assignments"][0].clone();
        assert_eq!(claimed["item"]["root_id"], first);
        let end = format!("/api/v1/assignments/{}/result", claimed["id"].as_str().expect("an id"));
        other.post(&end, json!({})).await.expect(200);
        let path = format!("/api/v1/jobs/{}", first.as_str().expect("an id"));
        while shop.get(&path).await.expect(200)["tree"]["status"] != "completed" {}
        shop.delete(&path).await.expect(204);
    };
    let (mine, everybodys, ()) = tokio::join!(
        listen(&shop, "/api/v1/events", |name, data| is_gone(&own, name, data)),
        listen(&server, "/api/v1/events", |name, data| is_gone(&all, name, data)),
        work
    );
    for (events, owners) in [(&mine, &["shop"][..]), (&everybodys, &["bakery", "shop"])] {
        assert_eq!(events[0].0, "snapshot");
        assert_eq!((&events[0].1["jobs"][0]["id"], events[0].1["jobs"].as_array().map(Vec::len)), (&first, Some(1)));
        let jobs: Vec<&Value> = events.iter().flat_map(|event| event.1["jobs"].as_array().expect("jobs")).collect();
        let seen: std::collections::BTreeSet<&str> =
            jobs.iter().filter_map(|job| job["owner"]["name"].as_str()).collect();
        assert_eq!(seen.into_iter().collect::<Vec<_>>(), owners);
        assert!(jobs.iter().all(|job| job.get("children").is_none()), "in brief");
        let versions: Vec<i64> =
            jobs.iter().filter(|job| job["id"] == first).filter_map(|job| job["version"].as_i64()).collect();
        assert!(versions.is_sorted() && !versions.is_empty(), "{versions:?}");
    }
    server.stranger().get("/api/v1/events").await.expect_problem(401, "unauthenticated");
    let worker = server.service("worker", &["work"]).await;
    worker.get("/api/v1/events").await.expect_problem(403, "forbidden");
    other.stop().await;
    server.stop().await;
}
