//! Any set of topics over one connection: each starts with its snapshot, changes from other servers follow, and callers
//! only receive what they may see.

use std::{collections::HashMap, time::Duration};

use futures::{Stream, StreamExt as _};
use reqwest::Method;
use serde_json::{Value, json};
use tokio::time::{Instant, timeout};

use crate::{
    bulk::{claim, finish, id, kill},
    callbacks::{done, quick_server},
    support::{Api, Server, imports, receiver::Receiver},
};

/// Maximum wait for an event.
const SOON: Duration = Duration::from_secs(10);

/// Open connection.
pub(crate) struct Watching {
    bytes: std::pin::Pin<Box<dyn Stream<Item = reqwest::Result<bytes::Bytes>> + Send>>,
    text: String,
    /// Last event of each topic.
    last: HashMap<String, (String, Value)>,
}

impl Watching {
    pub(crate) async fn open(api: &Api, topics: &str) -> Self {
        let path = format!("/api/v1/events?topics={topics}");
        let response = api.request(Method::GET, &path).send().await.expect("a stream");
        assert_eq!(response.status(), 200, "{topics}");
        assert_eq!(response.headers()["content-type"], "text/event-stream");
        Self { bytes: Box::pin(response.bytes_stream()), text: String::new(), last: HashMap::new() }
    }

    /// Next event; `None` when the connection is closed.
    async fn next(&mut self) -> Option<(String, Value)> {
        loop {
            while let Some(end) = self.text.find("\n\n") {
                let block: String = self.text.drain(..end + 2).collect();
                let field = |name: &str| block.lines().find_map(|line| line.strip_prefix(name)).map(str::trim);
                if let (Some(name), Some(data)) = (field("event:"), field("data:")) {
                    let event: (String, Value) = (name.to_owned(), serde_json::from_str(data).expect("JSON"));
                    let topic = event.1["topic"].as_str().unwrap_or_default().to_owned();
                    self.last.insert(topic, event.clone());
                    return Some(event);
                }
            }
            let part = timeout(SOON, self.bytes.next()).await.expect("something is said")?;
            self.text.push_str(std::str::from_utf8(&part.ok()?).expect("text"));
        }
    }

    /// Waits for a matching event of a topic, starting with the last one received.
    pub(crate) async fn until(&mut self, topic: &str, wanted: impl Fn(&str, &Value) -> bool) -> Value {
        if let Some((_, data)) = self.last.get(topic).filter(|(name, data)| wanted(name, data)) {
            return data.clone();
        }
        timeout(SOON, async {
            loop {
                let (name, data) = self.next().await.expect("the connection goes on");
                if data["topic"] == topic && wanted(&name, &data) {
                    return data;
                }
            }
        })
        .await
        .unwrap_or_else(|_| panic!("{topic} never says so"))
    }

    async fn snapshot(&mut self, topic: &str) -> Value {
        let (name, data) = self.next().await.expect("an event");
        assert_eq!((name.as_str(), &data["topic"]), ("snapshot", &json!(topic)), "{data}");
        assert!(data["version"].as_i64().is_some_and(|version| version > 0), "{data}");
        data
    }

    /// Waits for the end of the connection; returns the events before it.
    async fn end(mut self) -> Vec<(String, Value)> {
        timeout(SOON, async {
            let mut events = Vec::new();
            while let Some(event) = self.next().await {
                events.push(event);
            }
            events
        })
        .await
        .expect("the connection ends")
    }
}

async fn one_item(api: &Api) -> Value {
    api.post("/api/v1/jobs", json!({"type": "a", "sealed": true, "items": [{"payload": {"n": 1}}]})).await.expect(201)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn failures_topic_reaches_owner_and_staff_on_any_server() {
    let server = Server::start().await;
    let other = server.another().await;
    server.put("/api/v1/job-types/a", json!({})).await.expect(201);
    let shop = server.service("shop", &["jobs:read", "jobs:write"]).await;
    let bakery = server.service("bakery", &["jobs:read", "jobs:write"]).await;
    let (mut own, mut stranger) =
        (Watching::open(&shop, "failures").await, Watching::open(&bakery, "failures,roots").await);
    let mut staff = Watching::open(&server, "failures").await;
    for watching in [&mut own, &mut staff] {
        let first = watching.snapshot("failures").await;
        assert_eq!((&first["groups"], &first["dead"]), (&json!([]), &json!(0)));
    }
    for n in 1..=3 {
        let job = one_item(&shop).await;
        // On the other server, so that it takes a hint.
        kill(&other, &claim(&other, "a", 1, 10).await[0]).await;
        for watching in [&mut own, &mut staff] {
            let now = watching.until("failures", |_, data| data["dead"] == n).await;
            let group = &now["groups"][0];
            assert_eq!((&group["count"], &group["message"]), (&json!(n), &json!("no account")));
            assert!(group["last_seen_at"].is_string() && group["sample_item_id"].is_string());
            let items = now["items"].as_array().expect("items");
            assert_eq!((items.len(), &items[0]["job_id"]), (n, &job["id"]), "the newest one first");
            assert_eq!((&items[0]["state"], &items[0]["payload"]), (&json!("dead"), &Value::Null));
        }
        if n == 3 {
            // Given back: it counts no more.
            let dead = server.get(&format!("/api/v1/items?job={}&state=dead", id(&job))).await.expect(200);
            let retry = format!("/api/v1/items/{}/retry", id(&dead["data"][0]));
            shop.post(&retry, json!({})).await.expect(200);
            own.until("failures", |_, data| data["dead"] == 2).await;
        }
    }
    // Its own failure is the first that the other one hears of.
    stranger.until("failures", |name, data| name == "snapshot" && data["dead"] == 0).await;
    server.put("/api/v1/job-types/b", json!({})).await.expect(201);
    let job = json!({"type": "b", "sealed": true, "items": [{"payload": 2}]});
    bakery.post("/api/v1/jobs", job).await.expect(201);
    kill(&server, &claim(&server, "b", 1, 10).await[0]).await;
    let first = stranger.until("failures", |name, _| name == "change").await;
    assert_eq!(first["items"].as_array().map(Vec::len), Some(1), "nobody else's items");
    assert_eq!((&first["dead"], &first["groups"][0]["type"]), (&json!(1), &json!("b")));
    other.stop().await;
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn item_topic_shows_progress_until_removed() {
    let server = Server::start().await;
    let other = server.another().await;
    server.put("/api/v1/job-types/a", json!({"steps": ["fetched", "stored"]})).await.expect(201);
    let job = one_item(&server).await;
    let claimed = claim(&other, "a", 1, 10).await[0].clone();
    let (assignment_id, item) = (id(&claimed), id(&claimed["item"]));
    let topic = format!("item:{item}");
    let mut watching = Watching::open(&server, &format!("{topic},job:{}", id(&job))).await;
    let first = watching.until(&topic, |name, _| name == "snapshot").await;
    assert_eq!(
        (&first["state"], &first["attempts"], &first["payload"]),
        (&json!("running"), &json!(1), &json!({"n": 1}))
    );
    assert!(!first.to_string().contains(&assignment_id), "no assignment id");
    let progress = json!({"progress": {"done": 3, "total": 10, "message": "reading"}});
    other.post(&format!("/api/v1/assignments/{assignment_id}/heartbeat"), progress).await.expect(200);
    let now = watching.until(&topic, |_, data| data["progress"]["done"] == 3).await;
    assert_eq!(now["progress"]["message"], "reading");
    let step = json!({"name": "fetched", "data": {"page": 7}});
    other.post(&format!("/api/v1/assignments/{assignment_id}/step"), step).await.expect(200);
    let now = watching.until(&topic, |_, data| data["step"]["name"] == "fetched").await;
    assert_eq!(now["step"]["data"], json!({"page": 7}));
    finish(&other, &claimed).await;
    let last = watching.until(&topic, |name, data| name == "change" && data["state"] == "succeeded").await;
    assert!(last["version"].as_i64() > first["version"].as_i64(), "{last}");
    let topic_of_job = format!("job:{}", id(&job));
    server.get(&format!("/api/v1/jobs/{}?wait_seconds=5", id(&job))).await.expect(200);
    server.delete(&format!("/api/v1/jobs/{}", id(&job))).await.expect(204);
    let mut deleted = vec![topic, topic_of_job];
    while !deleted.is_empty() {
        let (name, data) = watching.next().await.expect("the connection goes on");
        if name == "removed" {
            assert_eq!(data.as_object().map(serde_json::Map::len), Some(1), "its topic and no more: {data}");
            deleted.retain(|topic| data["topic"] != **topic);
        }
    }
    other.stop().await;
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn job_and_roots_topics_share_a_connection() {
    let server = Server::start().await;
    server.put("/api/v1/job-types/a", json!({})).await.expect(201);
    let job = one_item(&server).await;
    let topic = format!("job:{}", id(&job));
    let mut watching = Watching::open(&server, &format!("roots,{topic}")).await;
    let mut seen = [watching.next().await, watching.next().await].map(|event| event.expect("a snapshot"));
    seen.sort_by_key(|(_, data)| data["topic"].to_string());
    assert_eq!((seen[0].0.as_str(), &seen[0].1["id"], &seen[0].1["topic"]), ("snapshot", &job["id"], &json!(topic)));
    assert_eq!((seen[1].0.as_str(), &seen[1].1["jobs"][0]["id"]), ("snapshot", &job["id"]));
    let claimed = claim(&server, "a", 1, 10).await;
    let now = watching.until(&topic, |_, data| data["items"][0]["state"] == "running").await;
    assert!(now["version"].is_i64() && now["items"][0]["id"] == claimed[0]["item"]["id"], "{now}");
    finish(&server, &claimed[0]).await;
    watching.until(&topic, |_, data| data["jobs"][0]["status"] == "completed").await;
    let after = one_item(&server).await;
    watching.until("roots", |name, data| name == "change" && data["jobs"][0]["id"] == after["id"]).await;
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn uploads_operations_workers_types_and_overview_topics() {
    let server = Server::start().await;
    let other = server.another().await;
    server.put("/api/v1/job-types/a", json!({})).await.expect(201);
    let list = "imports,operations,workers,types,overview";
    let mut watching = Watching::open(&server, list).await;
    let mut names = Vec::new();
    for _ in 0..5 {
        let (name, data) = watching.next().await.expect("a snapshot");
        assert_eq!(name, "snapshot", "{data}");
        names.push(data["topic"].as_str().expect("a topic").to_owned());
    }
    names.sort();
    assert_eq!(names, ["imports", "operations", "overview", "types", "workers"]);

    other.put("/api/v1/job-types/b", json!({})).await.expect(201);
    let has =
        |data: &Value, name: &str| data["data"].as_array().is_some_and(|all| all.iter().any(|it| it["name"] == name));
    watching.until("types", |_, data| has(data, "b")).await;
    other.post("/api/v1/job-types/b/pause", json!({})).await.expect(200);
    let paused = |it: &Value| it["name"] == "b" && it["paused"] == true;
    watching.until("types", |_, data| data["data"].as_array().is_some_and(|all| all.iter().any(paused))).await;

    let upload = imports::upload(&server, "people.csv", "name\nann\nbob\n").await;
    let job = imports::import(&server, "a", &upload).await;
    watching.until("imports", |_, data| data["jobs"][0]["id"] == job["id"]).await;
    for claimed in claim(&server, "a", 2, 10).await {
        kill(&server, &claimed).await;
    }
    watching.until("imports", |_, data| data["jobs"][0]["counts"]["dead"] == 2).await;
    watching.until("workers", |_, data| data["data"][0]["worker_id"] == "w").await;
    watching.until("overview", |_, data| data["stats"]["data"][0]["counts"]["dead"] == 2).await;

    let retry =
        json!({"action": "retry", "target": "items", "filter": {"job": job["id"], "state": "dead"}, "reason": "try"});
    let created = other.post("/api/v1/bulk-operations", retry).await.expect(202);
    let through = |it: &Value| it["id"] == created["id"] && it["state"] == "completed";
    watching.until("operations", |_, data| data["data"].as_array().is_some_and(|all| all.iter().any(through))).await;
    other.stop().await;
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn deliveries_topic_shows_callbacks() {
    let server = quick_server().await;
    let mut receiver = Receiver::start().await;
    let owner = server.service("payroll", &["jobs:read", "jobs:write"]).await;
    let stranger = server.service("stranger", &["jobs:read"]).await;
    let (mut watching, mut nothing) =
        (Watching::open(&owner, "deliveries").await, Watching::open(&stranger, "deliveries").await);
    assert_eq!(watching.snapshot("deliveries").await["data"], json!([]));
    let job = done(&owner, json!({"url": receiver.url("/")})).await;
    let pending = watching.until("deliveries", |_, data| data["data"][0]["state"] == "pending").await;
    assert_eq!(pending["data"][0]["job_id"], job["id"]);
    receiver.next().await.text(200, "thank you");
    watching.until("deliveries", |_, data| data["data"][0]["state"] == "delivered").await;
    assert_eq!(nothing.snapshot("deliveries").await["data"], json!([]));
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn forbidden_and_unknown_topics() {
    let server = Server::start().await;
    server.put("/api/v1/job-types/a", json!({})).await.expect(201);
    let job = one_item(&server).await;
    let item = id(&claim(&server, "a", 1, 10).await[0]["item"]);
    let shop = server.service("shop", &["jobs:read", "jobs:write"]).await;
    let never = "0197a000-0000-7000-8000-000000000001";
    let topics = [format!("job:{}", id(&job)), format!("item:{item}"), format!("job:{never}"), format!("item:{never}")];
    let mut watching = Watching::open(&shop, &format!("{},overview,failures", topics.join(","))).await;
    let mut refused = Vec::new();
    for _ in 0..6 {
        let (name, data) = watching.next().await.expect("an event");
        if data["topic"] == "failures" {
            assert_eq!(name, "snapshot");
            continue;
        }
        assert_eq!((name.as_str(), data.as_object().map(serde_json::Map::len)), ("forbidden", Some(1)), "{data}");
        refused.push(data["topic"].as_str().expect("a topic").to_owned());
    }
    refused.sort();
    let mut expected: Vec<String> = topics.to_vec();
    expected.push("overview".to_owned());
    expected.sort();
    assert_eq!(refused, expected, "somebody else's is as what never was");

    // Staff may, and it is written down.
    let its = id(&one_item(&shop).await);
    let mut staff = Watching::open(&server, &format!("job:{its}")).await;
    staff.snapshot(&format!("job:{its}")).await;
    let log = server.get(&format!("/api/v1/audit?job={its}")).await.expect(200);
    assert!(log["data"].as_array().is_some_and(|all| all.iter().any(|row| row["action"] == "job.read")), "{log}");

    for bad in ["", "root", "roots,", "job:7", "roots,nothing"] {
        let problem = shop.get(&format!("/api/v1/events?topics={bad}")).await.expect_problem(400, "invalid_parameter");
        assert_eq!(problem["errors"][0]["pointer"], "?topics", "{bad}");
    }
    let many: Vec<String> = (0..65).map(|n| format!("item:0197a000-0000-7000-8000-{n:012}")).collect();
    shop.get(&format!("/api/v1/events?topics={}", many.join(","))).await.expect_problem(400, "invalid_parameter");
    server.stranger().get("/api/v1/events?topics=roots").await.expect_problem(401, "unauthenticated");
    let worker = server.service("worker", &["work"]).await;
    worker.get("/api/v1/events?topics=types").await.expect_problem(403, "forbidden");
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn event_stream_ends_with_its_credential_or_server() {
    let server = Server::start().await;
    let other = server.another().await;
    let created = json!({"service": "ci", "name": "t", "scopes": ["jobs:read"]});
    server.post("/api/v1/services", json!({"name": "ci"})).await.expect(201);
    let created = server.post("/api/v1/tokens", created).await.expect(201);
    let ci = other.stranger().with_token(created["secret"].as_str().expect("a secret"));
    let mut watching = Watching::open(&ci, "roots,failures,types").await;
    for _ in 0..3 {
        assert_eq!(watching.next().await.map(|event| event.0).as_deref(), Some("snapshot"));
    }
    let revoked = Instant::now();
    server.delete(&format!("/api/v1/tokens/{}", id(&created["token"]))).await.expect(204);
    let received_events = watching.end().await;
    assert!(received_events.iter().all(|(name, _)| name != "bye"), "{received_events:?}");
    assert!(revoked.elapsed() < Duration::from_secs(5), "{:?}", revoked.elapsed());

    let mut watching = Watching::open(&other, "failures").await;
    watching.snapshot("failures").await;
    let (received_events, ()) = tokio::join!(watching.end(), other.stop());
    assert_eq!(received_events.last().map(|(name, _)| name.as_str()), Some("bye"));
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_hundred_watchers_share_database_queries() {
    const WATCHERS: usize = 200;
    let server = Server::start().await;
    server.put("/api/v1/job-types/a", json!({})).await.expect(201);
    let began = Instant::now();
    let mut watching = Vec::new();
    for _ in 0..WATCHERS {
        watching.push(Watching::open(&server, "failures").await);
    }
    for watching in &mut watching {
        watching.snapshot("failures").await;
    }
    for _ in 0..5 {
        one_item(&server).await;
        kill(&server, &claim(&server, "a", 1, 10).await[0]).await;
    }
    for watching in &mut watching {
        watching.until("failures", |_, data| data["dead"] == 5).await;
    }
    // At most four times a second, however many watch.
    let most = 2 + u64::try_from(began.elapsed().as_millis() / 250).expect("a number");
    let reads = server.running.app.hub.view_reads();
    assert!(reads <= most && reads < WATCHERS as u64, "{reads} reads for {WATCHERS} watchers, at most {most}");
    drop(watching);
    // Nobody watches: nothing is read.
    while server.running.app.hub.open_views() > 0 {
        crate::support::moment().await;
    }
    let reads = server.running.app.hub.view_reads();
    one_item(&server).await;
    kill(&server, &claim(&server, "a", 1, 10).await[0]).await;
    assert_eq!(server.running.app.hub.view_reads(), reads);
    server.stop().await;
}
