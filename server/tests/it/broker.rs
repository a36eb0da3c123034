//! P11: the broker changes latency only. Ten thousand items are worked off whatever becomes of the messages:
//! each once, none twice. And what is published is what the contract says.

use std::{
    collections::{BTreeSet, HashMap},
    time::{Duration, Instant},
};

use client::{Client, Document, Summary, Worker};
use domain::wake;
use futures::StreamExt as _;
use lapin::{
    BasicProperties, Channel, Connection, ConnectionProperties, Consumer,
    options::{
        BasicAckOptions, BasicConsumeOptions, BasicPublishOptions, ConfirmSelectOptions, QueueBindOptions,
        QueueDeclareOptions,
    },
    types::FieldTable,
};
use serde_json::{Value, json};
use server::config::{Config, broker::BrokerSettings};
use tokio::task::JoinHandle;

use crate::support::{
    Api, Server, TOKEN,
    rabbit::{self, Node},
};

const ALL: usize = 10_000;
const QUEUE: &str = "treeline.items.mail";

/// A server with this broker, which sends wake-ups again after a second.
fn with(url: &str) -> impl FnOnce(&mut Config) {
    let amqp_url = Some(url.parse().expect("a secret"));
    move |config| config.broker = BrokerSettings { amqp_url, broker_resend_seconds: 1 }
}

/// Two workers of the type `mail`, and the one job whose items they work on.
struct Mill {
    server: Server,
    job: String,
    added: usize,
    workers: Vec<(client::Drain, JoinHandle<client::Result<Summary>>)>,
}

impl Mill {
    async fn start(url: &str) -> Self {
        let server = Server::start_with(with(url)).await;
        server.put("/api/v1/job-types/mail", json!({})).await.expect(201);
        let job = server.post("/api/v1/jobs", json!({"type": "mail"})).await.expect(201);
        let job = format!("/api/v1/jobs/{}", job["id"].as_str().expect("an id"));
        let workers = (0..2).map(|n| worker(&server, url, n)).collect();
        Self { server, job, added: 0, workers }
    }

    async fn add(&mut self, n: usize) {
        self.server.post(&format!("{}/items", self.job), json!(vec![json!({}); n])).await.expect(200);
        self.added += n;
    }

    async fn succeeded(&self) -> usize {
        let job = self.server.get(&format!("{}?children=false", self.job)).await.expect(200);
        job["counts"]["succeeded"].as_u64().expect("a count") as usize
    }

    /// Waits until so many have succeeded.
    async fn until(&self, n: usize) {
        let began = Instant::now();
        while self.succeeded().await < n {
            assert!(began.elapsed() < Duration::from_mins(1), "{} of {n} after a minute", self.succeeded().await);
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// Everything is done: each item once, in one attempt, by one worker. Returns what the workers say.
    async fn finish(self) -> Summary {
        assert_eq!(self.added, ALL);
        self.server.post(&format!("{}/seal", self.job), json!({})).await.expect(200);
        self.until(ALL).await;
        let job = self.server.get(&self.job).await.expect(200);
        assert_eq!((&job["status"], &job["outcome"]), (&json!("completed"), &json!("succeeded")));
        assert_eq!((&job["counts"]["succeeded"], &job["item_count"]), (&json!(ALL), &json!(ALL)));
        let pool = &self.server.running.app.pool;
        let count = async |of: &'static str| sqlx::query_scalar::<_, i64>(of).fetch_one(pool).await.expect("a count");
        assert_eq!(count("select count(*) from outcome where state = 1 and attempt = 1").await, ALL as i64);
        assert_eq!(count("select count(*) from attempt").await, 0, "extra assignments");
        assert_eq!(count("select count(*) from lease").await, 0, "open assignments");
        let mut all = Summary::default();
        for (drain, worker) in self.workers {
            drain.begin();
            let summary = worker.await.expect("no panic").expect("the worker leaves");
            all.succeeded += summary.succeeded;
            all.unreadable += summary.unreadable;
            assert_eq!((summary.failed, summary.released, summary.unreported), (0, 0, 0), "{summary:?}");
        }
        assert_eq!(all.succeeded, ALL as u64);
        self.server.stop().await;
        all
    }
}

fn worker(server: &Api, url: &str, n: usize) -> (client::Drain, JoinHandle<client::Result<Summary>>) {
    let client = Client::new(&server.url(""), Some(TOKEN)).expect("a client");
    let worker = Worker::new(client, ["mail"]).concurrency(50).worker_id(format!("w{n}"));
    let worker = worker.rabbitmq(url).expect("an address");
    let drain = client::Drain::new();
    let handler = |_task| async { Ok(Document::empty_object()) };
    (drain.clone(), tokio::spawn(worker.run_until(drain, handler)))
}

/// A connection of a story's own.
async fn channel(url: &str) -> (Connection, Channel) {
    let connection = Connection::connect(url, ConnectionProperties::default()).await.expect("a connection");
    let channel = connection.create_channel().await.expect("a channel");
    channel.confirm_select(ConfirmSelectOptions::default()).await.expect("confirms");
    (connection, channel)
}

/// Hears what is published on an exchange, from now on.
async fn listen(channel: &Channel, exchange: &str, key: &str) -> Consumer {
    let options = QueueDeclareOptions { exclusive: true, ..QueueDeclareOptions::default() };
    let queue = channel.queue_declare("".into(), options, FieldTable::default()).await.expect("a queue");
    let name = queue.name().clone();
    let bind = QueueBindOptions::default();
    channel.queue_bind(name.clone(), exchange.into(), key.into(), bind, FieldTable::default()).await.expect("bound");
    let consume = BasicConsumeOptions { no_ack: true, ..BasicConsumeOptions::default() };
    channel.basic_consume(name, "".into(), consume, FieldTable::default()).await.expect("a consumer")
}

async fn next(consumer: &mut Consumer) -> lapin::message::Delivery {
    let next = tokio::time::timeout(Duration::from_secs(20), consumer.next()).await;
    next.expect("a message within 20 s").expect("the consumer lives").expect("a message")
}

fn body(delivery: &lapin::message::Delivery) -> Value {
    serde_json::from_slice(&delivery.data).expect("json")
}

async fn broker_stats(server: &Api) -> Value {
    server.get("/api/v1/stats").await.expect(200)["broker"].clone()
}

/// Waits until the server has declared what it needs.
async fn up(server: &Api) {
    while broker_stats(server).await["up"] != true {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ten_thousand_items_and_a_broker_that_never_comes() {
    let nobody = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("amqp://me:canary-in-the-url@{}", nobody.local_addr().expect("an address"));
    drop(nobody);
    let mut mill = Mill::start(&url).await;
    for _ in 0..4 {
        mill.add(ALL / 4).await;
    }
    mill.until(ALL).await;
    let stats = broker_stats(&mill.server).await;
    assert_eq!(stats["up"], false, "{stats}");
    assert!(stats["fault"].is_string() && !stats.to_string().contains("canary"), "{stats}");
    let metrics = mill.server.get("/metrics").await.text;
    assert!(metrics.contains("treeline_broker_up 0") && !metrics.contains("canary"), "{metrics}");
    let began = Instant::now();
    let alert = loop {
        let alerts = mill.server.get("/api/v1/alerts?kind=broker_away").await.expect(200)["data"].clone();
        if alerts != json!([]) {
            break alerts;
        }
        assert!(began.elapsed() < Duration::from_secs(20), "nobody was told");
        tokio::time::sleep(Duration::from_millis(100)).await;
    };
    assert!(alert[0]["count"] == 1 && !alert.to_string().contains("canary"), "{alert}");
    let staff = mill.server.person("ada", "support").await;
    let page = staff.get("/").await.text;
    assert!(page.contains("RabbitMQ") && page.contains("broker away") && !page.contains("canary"), "{page}");
    mill.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ten_thousand_items_and_a_broker_that_comes_late_and_is_killed_again_and_again() {
    let mut node = Node::new();
    let mut mill = Mill::start(&node.url()).await;
    mill.add(1_000).await;
    mill.until(500).await;
    node.start().await;
    let vhost = node.root();
    vhost.attached(QUEUE, 2).await;
    for round in 0..3 {
        mill.add(1_500).await;
        mill.until(mill.added - 1_000).await;
        node.kill();
        mill.add(1_500).await;
        mill.until(mill.added).await;
        node.start().await;
        let took = vhost.attached(QUEUE, 2).await;
        assert!(took < Duration::from_secs(15), "round {round}: {took:?}");
    }
    up(&mill.server).await;
    mill.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ten_thousand_items_and_queues_that_are_purged() {
    let vhost = rabbit::vhost().await;
    let mut mill = Mill::start(&vhost.url).await;
    vhost.attached(QUEUE, 2).await;
    while mill.added < ALL {
        mill.add(500).await;
        vhost.purge(QUEUE).await;
    }
    while mill.succeeded().await < ALL {
        vhost.purge(QUEUE).await;
    }
    mill.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ten_thousand_items_and_queues_that_are_deleted() {
    let vhost = rabbit::vhost().await;
    let mut mill = Mill::start(&vhost.url).await;
    vhost.attached(QUEUE, 2).await;
    for _ in 0..4 {
        mill.add(ALL / 8).await;
        vhost.delete(QUEUE).await;
        mill.add(ALL / 8).await;
        vhost.attached(QUEUE, 2).await;
    }
    vhost.serves(QUEUE).await;
    assert_eq!(vhost.queue(QUEUE).await["type"], "quorum");
    mill.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ten_thousand_items_and_every_message_ten_times_shuffled_with_garbage() {
    const GARBAGE: [&[u8]; 5] =
        [b"", b"\xff\xfe", b"{\"item_id\":7}", b"[[[[", b"{\"item_id\":\"nobody\",\"type\":\"mail\"}"];
    let vhost = rabbit::vhost().await;
    let mut mill = Mill::start(&vhost.url).await;
    vhost.attached(QUEUE, 2).await;
    let (_connection, channel) = channel(&vhost.url).await;
    let mut copies = listen(&channel, wake::ITEMS, "mail").await;
    let (mut heard, mut garbage) = (0, 0);
    let mut seen: Vec<Vec<u8>> = Vec::new();
    while mill.added < ALL {
        mill.add(1_000).await;
        while heard < mill.added {
            seen.push(next(&mut copies).await.data);
            heard += 1;
        }
        // Of everything heard so far, nine more of the latest thousand, in no order.
        let mut again: Vec<&[u8]> = (0..9).flat_map(|_| seen[seen.len() - 1_000..].iter().map(Vec::as_slice)).collect();
        again.extend(GARBAGE.iter().cycle().take(100));
        garbage += 100;
        for at in (1..again.len()).rev() {
            again.swap(at, rand::random_range(0..=at));
        }
        for bytes in again {
            let (options, properties) = (BasicPublishOptions::default(), BasicProperties::default());
            drop(channel.basic_publish("".into(), QUEUE.into(), options, bytes, properties).await.expect("sent"));
        }
        channel.wait_for_confirms().await.expect("confirmed");
    }
    mill.until(ALL).await;
    // Whatever is left is heard too.
    while vhost.queue(QUEUE).await["messages"] != 0 {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert_eq!(mill.finish().await.unreadable, garbage);
}

/// Spec §4: exchange, quorum queue, persistent messages; dead letters and complete trees are announced.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_published_is_what_the_contract_says() {
    let vhost = rabbit::vhost().await;
    let server = Server::start_with(with(&vhost.url)).await;
    server.put("/api/v1/job-types/mail", json!({"max_failures": 2, "backoff": {"min_seconds": 0}})).await.expect(201);
    up(&server).await;
    let (_connection, channel) = channel(&vhost.url).await;
    let mut items = listen(&channel, wake::ITEMS, "mail").await;
    let mut dead = listen(&channel, wake::DEAD, "mail").await;
    let mut completed = listen(&channel, wake::COMPLETED, "mail").await;

    let tree = json!({"type": "mail", "sealed": true, "items": [{"payload": 1}]});
    let job = server.post("/api/v1/jobs", tree).await.expect(201)["id"].clone();
    let woken = next(&mut items).await;
    assert_eq!(woken.properties.delivery_mode(), &Some(2), "persistent");
    let wake_up = body(&woken);
    assert_eq!((&wake_up["job_id"], &wake_up["type"]), (&job, &json!("mail")));
    assert_eq!(wake_up.as_object().expect("an object").len(), 3, "{wake_up}");
    let queue = vhost.queue(QUEUE).await;
    assert_eq!((&queue["type"], &queue["durable"]), (&json!("quorum"), &json!(true)), "{queue}");

    for attempt in 1..=2 {
        let claim = json!({"worker_id": "w", "item_ids": [wake_up["item_id"]]});
        let held = server.post("/api/v1/assignments", claim).await.expect(200)["assignments"][0].clone();
        assert_eq!(held["attempt"], attempt);
        let failure = json!({"error": {"message": "no"}});
        server
            .post(&format!("/api/v1/assignments/{}/failure", held["id"].as_str().expect("an id")), failure)
            .await
            .expect(200);
        if attempt == 1 {
            assert_eq!(body(&next(&mut items).await), wake_up, "due again, said again");
        }
    }
    assert_eq!(body(&next(&mut dead).await), wake_up);
    let said = body(&next(&mut completed).await);
    assert_eq!(said, json!({"job_id": job, "type": "mail", "completion": 1, "outcome": "failed"}));

    // A person gives it back; it succeeds, and the tree completes again.
    let item = format!("/api/v1/items/{}", wake_up["item_id"].as_str().expect("an id"));
    server.post(&format!("{item}/retry"), json!({"reason": "try again"})).await.expect(200);
    assert_eq!(body(&next(&mut items).await), wake_up);
    let claim = json!({"worker_id": "w", "types": ["mail"]});
    let held = server.post("/api/v1/assignments", claim).await.expect(200)["assignments"][0].clone();
    server
        .post(&format!("/api/v1/assignments/{}/result", held["id"].as_str().expect("an id")), json!({}))
        .await
        .expect(200);
    let said = body(&next(&mut completed).await);
    assert_eq!((&said["completion"], &said["outcome"]), (&json!(2), &json!("succeeded")));

    // Trees of several jobs, cancelled ones and empty ones complete too, each once.
    let two = json!({"type": "mail", "sealed": true, "children": [{"type": "mail", "key": "second", "sealed": true}]});
    let two = server.post("/api/v1/jobs", two).await.expect(201)["id"].clone();
    assert_eq!(body(&next(&mut completed).await)["job_id"], two);
    let open = server.post("/api/v1/jobs", json!({"type": "mail"})).await.expect(201)["id"].clone();
    server
        .post(&format!("/api/v1/jobs/{}/cancel", open.as_str().expect("an id")), json!({"reason": "no"}))
        .await
        .expect(200);
    let said = body(&next(&mut completed).await);
    assert_eq!((&said["job_id"], &said["outcome"]), (&open, &json!("cancelled")));
    while broker_stats(&server).await["outbox_waiting"] != 0 {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    server.stop().await;
}

/// Wake-ups that were lost are sent again, no item's within the pause, and none while the queue is long.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lost_wake_ups_are_sent_again_but_not_into_a_long_queue() {
    let vhost = rabbit::vhost().await;
    let server = Server::start_with(with(&vhost.url)).await;
    server.put("/api/v1/job-types/mail", json!({})).await.expect(201);
    up(&server).await;
    let (_connection, channel) = channel(&vhost.url).await;
    let mut copies = listen(&channel, wake::ITEMS, "mail").await;
    server.post("/api/v1/jobs", json!({"type": "mail", "items": vec![json!({}); 20]})).await.expect(201);
    let mut last: HashMap<String, (Instant, usize)> = HashMap::new();
    while last.len() < 20 || last.values().any(|(_, times)| *times < 4) {
        let item = body(&next(&mut copies).await)["item_id"].as_str().expect("an id").to_owned();
        let now = Instant::now();
        let (before, times) = last.get(&item).copied().unwrap_or((now, 0));
        // A little less than the second that the servers rest: messages come closer together than they went.
        assert!(times == 0 || now - before > Duration::from_millis(800), "again after {:?}", now - before);
        last.insert(item, (now, times + 1));
    }

    let fill = vec![b'x'; 8];
    vhost.serves(QUEUE).await;
    for _ in 0..10_000 {
        let (options, properties) = (BasicPublishOptions::default(), BasicProperties::default());
        drop(channel.basic_publish("".into(), QUEUE.into(), options, &fill, properties).await.expect("sent"));
    }
    channel.wait_for_confirms().await.expect("confirmed");
    let horizon = async || -> i64 {
        let of = "select extract(epoch from new_at)::bigint from wake_horizon";
        sqlx::query_scalar(of).fetch_one(&server.running.app.pool).await.expect("the horizon")
    };
    let deep = async || {
        broker_stats(&server).await["queues"].as_array().is_some_and(|queues| {
            queues.iter().any(|queue| queue["type"] == "mail" && queue["messages"].as_u64() >= Some(10_000))
        })
    };
    while !deep().await {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    // What was on its way when the queue grew long has come; from here on nothing does.
    let from = horizon().await;
    while horizon().await < from + 2 {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    while tokio::time::timeout(Duration::ZERO, copies.next()).await.is_ok() {}
    let from = horizon().await;
    while horizon().await < from + 4 {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert!(tokio::time::timeout(Duration::ZERO, copies.next()).await.is_err(), "sent into a long queue");
    vhost.purge(QUEUE).await;
    next(&mut copies).await;
    server.stop().await;
}

/// A server without a broker writes nothing down for one; its items are found by those who have one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_server_without_a_broker_adds_is_named_by_one_with() {
    let plain = Server::start().await;
    plain.put("/api/v1/job-types/mail", json!({})).await.expect(201);
    plain.post("/api/v1/jobs", json!({"type": "mail", "items": [{}, {}]})).await.expect(201);
    let rows = async || {
        let of = "select count(*) from outbox";
        sqlx::query_scalar::<_, i64>(of).fetch_one(&plain.running.app.pool).await.expect("a count")
    };
    assert_eq!(rows().await, 0);
    assert_eq!(broker_stats(&plain).await, Value::Null);
    let vhost = rabbit::vhost().await;
    let other = plain.another_with(with(&vhost.url)).await;
    up(&other).await;
    let (_connection, channel) = channel(&vhost.url).await;
    vhost.serves(QUEUE).await;
    let options = BasicConsumeOptions::default();
    let mut queue =
        channel.basic_consume(QUEUE.into(), "".into(), options, FieldTable::default()).await.expect("consumes");
    let mut found = BTreeSet::new();
    while found.len() < 2 {
        let message = next(&mut queue).await;
        message.acker.ack(BasicAckOptions::default()).await.expect("acknowledged");
        found.insert(body(&message)["item_id"].as_str().expect("an id").to_owned());
    }
    other.stop().await;
    plain.stop().await;
}
