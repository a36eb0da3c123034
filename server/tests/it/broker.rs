//! P11: the broker changes latency only. All items are processed exactly once whatever happens to the messages.
//! `TREELINE_BROKER_ITEMS` says how many, in thousands. `wake_ups` tests the published messages.

use std::{
    sync::LazyLock,
    time::{Duration, Instant},
};

use client::{Client, Document, Summary, Worker};
use domain::notify::broker_messages;
use futures::StreamExt as _;
use lapin::{
    BasicProperties, Channel, Connection, ConnectionProperties, Consumer,
    options::{BasicConsumeOptions, BasicPublishOptions, ConfirmSelectOptions, QueueBindOptions, QueueDeclareOptions},
    types::FieldTable,
};
use serde_json::{Value, json};
use server::config::{Config, broker::BrokerSettings};
use tokio::task::JoinHandle;

use crate::support::{
    Api, Server, TOKEN,
    rabbit::{self, Node},
};

/// Number of items of a test: a multiple of a thousand.
static ALL: LazyLock<usize> = LazyLock::new(|| {
    let thousands = std::env::var("TREELINE_BROKER_ITEMS").map_or(2, |text| text.parse().expect("a number"));
    1_000 * thousands
});
/// Queue of the type `mail`.
pub(crate) const QUEUE: &str = "treeline.items.mail";

/// Settings with this broker and republication after one second.
pub(crate) fn with(url: &str) -> impl FnOnce(&mut Config) {
    let amqp_url = Some(url.parse().expect("a secret"));
    move |config| config.broker = BrokerSettings { amqp_url, broker_resend_seconds: 1 }
}

/// Two workers of the type `mail`, and the one job whose items they process.
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

    /// Waits until `n` items have succeeded. Fails if none does for half a minute.
    async fn until(&self, n: usize) {
        let (mut last, mut since) = (0, Instant::now());
        loop {
            let succeeded = self.succeeded().await;
            if succeeded >= n {
                return;
            }
            if succeeded > last {
                (last, since) = (succeeded, Instant::now());
            }
            assert!(since.elapsed() < Duration::from_secs(30), "{succeeded} of {n}, and no more for half a minute");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    /// Checks that each item is done, in one attempt, by one worker. Returns the workers' summary.
    async fn finish(self) -> Summary {
        assert_eq!(self.added, *ALL);
        self.server.post(&format!("{}/seal", self.job), json!({})).await.expect(200);
        self.until(*ALL).await;
        let job = self.server.get(&self.job).await.expect(200);
        assert_eq!((&job["status"], &job["outcome"]), (&json!("completed"), &json!("succeeded")));
        assert_eq!((&job["counts"]["succeeded"], &job["item_count"]), (&json!(*ALL), &json!(*ALL)));
        let pool = &self.server.running.app.pool;
        let count = async |of: &'static str| sqlx::query_scalar::<_, i64>(of).fetch_one(pool).await.expect("a count");
        assert_eq!(count("select count(*) from outcome where state = 1 and attempt = 1").await, *ALL as i64);
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
        assert_eq!(all.succeeded, *ALL as u64);
        self.server.stop().await;
        all
    }
}

pub(crate) fn worker(server: &Api, url: &str, n: usize) -> (client::Drain, JoinHandle<client::Result<Summary>>) {
    let client = Client::new(&server.url(""), Some(TOKEN)).expect("a client");
    let worker = Worker::new(client, ["mail"]).concurrency(50).worker_id(format!("w{n}"));
    let worker = worker.rabbitmq(url).expect("an address");
    let drain = client::Drain::new();
    let handler = |_task| async { Ok(Document::empty_object()) };
    (drain.clone(), tokio::spawn(worker.run_until(drain, handler)))
}

/// Opens a connection for one test.
pub(crate) async fn channel(url: &str) -> (Connection, Channel) {
    let connection = Connection::connect(url, ConnectionProperties::default()).await.expect("a connection");
    let channel = connection.create_channel().await.expect("a channel");
    channel.confirm_select(ConfirmSelectOptions::default()).await.expect("confirms");
    (connection, channel)
}

/// Consumes the messages of an exchange from now on.
pub(crate) async fn listen(channel: &Channel, exchange: &str, key: &str) -> Consumer {
    let options = QueueDeclareOptions { exclusive: true, ..QueueDeclareOptions::default() };
    let queue = channel.queue_declare("".into(), options, FieldTable::default()).await.expect("a queue");
    let name = queue.name().clone();
    let bind = QueueBindOptions::default();
    channel.queue_bind(name.clone(), exchange.into(), key.into(), bind, FieldTable::default()).await.expect("bound");
    let consume = BasicConsumeOptions { no_ack: true, ..BasicConsumeOptions::default() };
    channel.basic_consume(name, "".into(), consume, FieldTable::default()).await.expect("a consumer")
}

pub(crate) async fn next(consumer: &mut Consumer) -> lapin::message::Delivery {
    let next = tokio::time::timeout(Duration::from_secs(20), consumer.next()).await;
    next.expect("a message within 20 s").expect("the consumer lives").expect("a message")
}

pub(crate) fn body(delivery: &lapin::message::Delivery) -> Value {
    serde_json::from_slice(&delivery.data).expect("json")
}

pub(crate) async fn broker_stats(server: &Api) -> Value {
    server.get("/api/v1/stats").await.expect(200)["broker"].clone()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn items_are_done_once_without_a_broker() {
    let nobody = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("amqp://me:canary-in-the-url@{}", nobody.local_addr().expect("an address"));
    drop(nobody);
    let mut mill = Mill::start(&url).await;
    for _ in 0..4 {
        mill.add(*ALL / 4).await;
    }
    mill.until(*ALL).await;
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
    assert!(page.contains("RabbitMQ unreachable") && !page.contains("canary"), "{page}");
    mill.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn items_are_done_once_with_a_late_and_repeatedly_killed_broker() {
    let mut node = Node::new();
    let mut mill = Mill::start(&node.url()).await;
    let part = *ALL / 20;
    mill.add(2 * part).await;
    mill.until(part).await;
    node.start().await;
    let vhost = node.root();
    vhost.wait_for_consumers(QUEUE, 2).await;
    for round in 0..3 {
        mill.add(3 * part).await;
        mill.until(mill.added - 2 * part).await;
        node.kill();
        mill.add(3 * part).await;
        mill.until(mill.added).await;
        node.start().await;
        let took = vhost.wait_for_consumers(QUEUE, 2).await;
        assert!(took < Duration::from_secs(15), "round {round}: {took:?}");
    }
    mill.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn items_are_done_once_with_purged_queues() {
    let vhost = rabbit::vhost().await;
    let mut mill = Mill::start(&vhost.url).await;
    vhost.wait_for_consumers(QUEUE, 2).await;
    while mill.added < *ALL {
        mill.add(500).await;
        vhost.purge(QUEUE).await;
    }
    while mill.succeeded().await < *ALL {
        vhost.purge(QUEUE).await;
    }
    mill.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn items_are_done_once_with_deleted_queues() {
    let vhost = rabbit::vhost().await;
    let mut mill = Mill::start(&vhost.url).await;
    vhost.wait_for_consumers(QUEUE, 2).await;
    for _ in 0..4 {
        mill.add(*ALL / 8).await;
        vhost.delete(QUEUE).await;
        mill.add(*ALL / 8).await;
        vhost.wait_for_consumers(QUEUE, 2).await;
    }
    vhost.wait_until_running(QUEUE).await;
    assert_eq!(vhost.queue(QUEUE).await["type"], "quorum");
    mill.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn items_are_done_once_with_duplicated_shuffled_and_garbage_messages() {
    const GARBAGE: [&[u8]; 5] =
        [b"", b"\xff\xfe", b"{\"item_id\":7}", b"[[[[", b"{\"item_id\":\"nobody\",\"type\":\"mail\"}"];
    let vhost = rabbit::vhost().await;
    let mut mill = Mill::start(&vhost.url).await;
    vhost.wait_for_consumers(QUEUE, 2).await;
    let (_connection, channel) = channel(&vhost.url).await;
    let mut copies = listen(&channel, broker_messages::ITEMS_EXCHANGE, "mail").await;
    let (mut received, mut garbage) = (0, 0);
    let mut seen: Vec<Vec<u8>> = Vec::new();
    while mill.added < *ALL {
        mill.add(500).await;
        while received < mill.added {
            seen.push(next(&mut copies).await.data);
            received += 1;
        }
        // Of everything heard so far, nine more of the latest five hundred, in no order.
        let mut again: Vec<&[u8]> = (0..9).flat_map(|_| seen[seen.len() - 500..].iter().map(Vec::as_slice)).collect();
        again.extend(GARBAGE.iter().cycle().take(50));
        garbage += 50;
        for at in (1..again.len()).rev() {
            again.swap(at, rand::random_range(0..=at));
        }
        for bytes in again {
            let (options, properties) = (BasicPublishOptions::default(), BasicProperties::default());
            drop(channel.basic_publish("".into(), QUEUE.into(), options, bytes, properties).await.expect("sent"));
        }
        channel.wait_for_confirms().await.expect("confirmed");
    }
    mill.until(*ALL).await;
    // Whatever is left is heard too. The broker counts every few seconds: a count is new if the queue has worked since.
    let (began, first) = (Instant::now(), vhost.queue(QUEUE).await["reductions"].clone());
    loop {
        let queue = vhost.queue(QUEUE).await;
        if queue["messages"] == 0 && queue["reductions"] != first {
            break;
        }
        assert!(began.elapsed() < Duration::from_mins(1), "{queue}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert_eq!(mill.finish().await.unreadable, garbage);
}
