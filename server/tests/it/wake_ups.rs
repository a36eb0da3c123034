//! Messages on the broker: as the contract says, republished if lost, and never to a long queue.

use std::{
    collections::{BTreeSet, HashMap},
    time::{Duration, Instant},
};

use domain::notify::broker_messages;
use futures::StreamExt as _;
use lapin::{
    BasicProperties,
    options::{BasicAckOptions, BasicConsumeOptions, BasicPublishOptions, QueueDeclareOptions},
    types::FieldTable,
};
use serde_json::{Value, json};
use uuid::Uuid;

use crate::{
    broker::{QUEUE, body, broker_stats, channel, listen, next, with, worker},
    support::{Api, Server, rabbit},
};

/// Waits until the server has made its declarations.
async fn up(server: &Api) {
    while broker_stats(server).await["up"] != true {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// A worker that consumes wake-ups polls only every ten seconds: whatever it does sooner was caused by a message.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn broker_message_wakes_a_consuming_worker() {
    let vhost = rabbit::vhost().await;
    let server = Server::start_with(with(&vhost.url)).await;
    server.put("/api/v1/job-types/mail", json!({})).await.expect(201);
    let job = server.post("/api/v1/jobs", json!({"type": "mail"})).await.expect(201);
    let job = format!("/api/v1/jobs/{}", job["id"].as_str().expect("an id"));
    let (drain, worker) = worker(&server, &vhost.url, 0);
    vhost.wait_for_consumers(QUEUE, 1).await;
    let mut took = Vec::new();
    for n in 1..=12 {
        let began = Instant::now();
        server.post(&format!("{job}/items"), json!([{}])).await.expect(200);
        while server.get(&job).await.expect(200)["counts"]["succeeded"] != n {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        took.push(began.elapsed());
    }
    // The first may have been found by the look with which a worker begins.
    took.sort_unstable();
    assert!(took[took.len() - 2] < Duration::from_secs(2), "{took:?}");
    drain.begin();
    worker.await.expect("no panic").expect("the worker leaves");
    server.stop().await;
}

/// After a long outage the broker delivers many outdated messages: a waiting worker receives them all and keeps its
/// consumer.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn useless_messages_do_not_stop_consumers() {
    const STALE: usize = 3_000;
    let vhost = rabbit::vhost().await;
    let server = Server::start_with(with(&vhost.url)).await;
    server.put("/api/v1/job-types/mail", json!({})).await.expect(201);
    vhost.wait_until_running(QUEUE).await;
    let (_connection, channel) = channel(&vhost.url).await;
    for _ in 0..STALE {
        let stale = json!({"item_id": Uuid::now_v7(), "job_id": Uuid::now_v7(), "type": "mail"}).to_string();
        let (options, properties) = (BasicPublishOptions::default(), BasicProperties::default());
        drop(
            channel.basic_publish("".into(), QUEUE.into(), options, stale.as_bytes(), properties).await.expect("sent"),
        );
    }
    channel.wait_for_confirms().await.expect("confirmed");
    while vhost.queue(QUEUE).await["messages"] != STALE {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let (drain, worker) = worker(&server, &vhost.url, 0);
    let (mut fewest, mut since) = (STALE as i64, Instant::now());
    while fewest > 0 {
        tokio::time::sleep(Duration::from_millis(50)).await;
        let left = vhost.queue(QUEUE).await["messages"].as_i64().unwrap_or(fewest);
        if left < fewest {
            (fewest, since) = (left, Instant::now());
        }
        assert!(since.elapsed() < Duration::from_secs(20), "still {left}");
    }
    vhost.wait_for_consumers(QUEUE, 1).await;
    drain.begin();
    worker.await.expect("no panic").expect("the worker leaves");
    server.stop().await;
}

/// RabbitMQ objects: exchange, quorum queue, persistent messages; announcements of dead letters and complete trees.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn published_messages_match_the_contract() {
    let vhost = rabbit::vhost().await;
    let server = Server::start_with(with(&vhost.url)).await;
    server.put("/api/v1/job-types/mail", json!({"max_failures": 2, "backoff": {"min_seconds": 0}})).await.expect(201);
    up(&server).await;
    let (_connection, channel) = channel(&vhost.url).await;
    let mut items = listen(&channel, broker_messages::ITEMS_EXCHANGE, "mail").await;
    let mut dead = listen(&channel, broker_messages::DEAD_LETTERS, "mail").await;
    let mut completed = listen(&channel, broker_messages::COMPLETED_TREES, "mail").await;

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
        let claimed = server.post("/api/v1/assignments", claim).await.expect(200)["assignments"][0].clone();
        assert_eq!(claimed["attempt"], attempt);
        let failure = json!({"error": {"message": "no"}});
        server
            .post(&format!("/api/v1/assignments/{}/failure", claimed["id"].as_str().expect("an id")), failure)
            .await
            .expect(200);
        if attempt == 1 {
            assert_eq!(body(&next(&mut items).await), wake_up, "due again, said again");
        }
    }
    assert_eq!(body(&next(&mut dead).await), wake_up);
    let message = body(&next(&mut completed).await);
    assert_eq!(message, json!({"job_id": job, "type": "mail", "completion": 1, "outcome": "failed"}));

    // A person gives it back; it succeeds, and the tree completes again.
    let item = format!("/api/v1/items/{}", wake_up["item_id"].as_str().expect("an id"));
    server.post(&format!("{item}/retry"), json!({"reason": "try again"})).await.expect(200);
    assert_eq!(body(&next(&mut items).await), wake_up);
    let claim = json!({"worker_id": "w", "types": ["mail"]});
    let claimed = server.post("/api/v1/assignments", claim).await.expect(200)["assignments"][0].clone();
    server
        .post(&format!("/api/v1/assignments/{}/result", claimed["id"].as_str().expect("an id")), json!({}))
        .await
        .expect(200);
    let message = body(&next(&mut completed).await);
    assert_eq!((&message["completion"], &message["outcome"]), (&json!(2), &json!("succeeded")));

    // Trees of several jobs, cancelled ones and empty ones complete too, each once.
    let two = json!({"type": "mail", "sealed": true, "children": [{"type": "mail", "key": "second", "sealed": true}]});
    let two = server.post("/api/v1/jobs", two).await.expect(201)["id"].clone();
    assert_eq!(body(&next(&mut completed).await)["job_id"], two);
    let open = server.post("/api/v1/jobs", json!({"type": "mail"})).await.expect(201)["id"].clone();
    server
        .post(&format!("/api/v1/jobs/{}/cancel", open.as_str().expect("an id")), json!({"reason": "no"}))
        .await
        .expect(200);
    let message = body(&next(&mut completed).await);
    assert_eq!((&message["job_id"], &message["outcome"]), (&open, &json!("cancelled")));
    while broker_stats(&server).await["outbox_waiting"] != 0 {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    server.stop().await;
}

/// Lost wake-ups are republished, at most one per item per interval, and none while the queue is long.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lost_wake_ups_are_republished_unless_the_queue_is_long() {
    let vhost = rabbit::vhost().await;
    let server = Server::start_with(with(&vhost.url)).await;
    server.put("/api/v1/job-types/mail", json!({})).await.expect(201);
    up(&server).await;
    let (_connection, channel) = channel(&vhost.url).await;
    let mut copies = listen(&channel, broker_messages::ITEMS_EXCHANGE, "mail").await;
    server.post("/api/v1/jobs", json!({"type": "mail", "items": vec![json!({}); 20]})).await.expect(201);
    let mut last: HashMap<String, (Instant, usize)> = HashMap::new();
    while last.len() < 20 || last.values().any(|(_, times)| *times < 4) {
        let item = body(&next(&mut copies).await)["item_id"].as_str().expect("an id").to_owned();
        let now = Instant::now();
        let (before, times) = last.get(&item).copied().unwrap_or((now, 0));
        // Less than the second that the servers rest: messages may come closer together than they went.
        assert!(times == 0 || now - before > Duration::from_millis(500), "again after {:?}", now - before);
        last.insert(item, (now, times + 1));
    }

    let fill = vec![b'x'; 8];
    vhost.wait_until_running(QUEUE).await;
    for _ in 0..10_000 {
        let (options, properties) = (BasicPublishOptions::default(), BasicProperties::default());
        drop(channel.basic_publish("".into(), QUEUE.into(), options, &fill, properties).await.expect("sent"));
    }
    channel.wait_for_confirms().await.expect("confirmed");
    let horizon = async || -> i64 {
        let of = "select extract(epoch from new_at)::bigint from wake_up_horizon";
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

/// Items that their key holds back are announced when they may start: a worker that only claims the items that messages
/// name gets them all.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn items_parked_by_their_key_are_announced_when_they_may_start() {
    let vhost = rabbit::vhost().await;
    let server = Server::start_with(with(&vhost.url)).await;
    let spec = json!({"concurrency_by": {"key": "/customer", "limit": 1}});
    server.put("/api/v1/job-types/mail", spec).await.expect(201);
    up(&server).await;
    let (_connection, channel) = channel(&vhost.url).await;
    let mut copies = listen(&channel, broker_messages::ITEMS_EXCHANGE, "mail").await;
    let items = vec![json!({"payload": {"customer": "x"}}); 3];
    let job = server.post("/api/v1/jobs", json!({"type": "mail", "sealed": true, "items": items})).await.expect(201);
    let mut announced = BTreeSet::new();
    while announced.len() < 3 {
        announced.insert(body(&next(&mut copies).await)["item_id"].as_str().expect("an id").to_owned());
    }
    let claim = async |ids: &[String]| {
        let claim = json!({"worker_id": "w", "item_ids": ids});
        let claimed = server.post("/api/v1/assignments", claim).await.expect(200);
        claimed["assignments"].as_array().expect("assignments").clone()
    };
    let succeed = async |assignment: &Value| {
        let path = format!("/api/v1/assignments/{}/result", assignment["id"].as_str().expect("an id"));
        server.post(&path, json!({})).await.expect(200);
    };
    let first = claim(&announced.into_iter().collect::<Vec<_>>()).await;
    assert_eq!(first.len(), 1, "the others wait: {first:?}");
    succeed(&first[0]).await;
    let mut succeeded = 1;
    while succeeded < 3 {
        let named = body(&next(&mut copies).await)["item_id"].as_str().expect("an id").to_owned();
        for assignment in claim(&[named]).await {
            succeed(&assignment).await;
            succeeded += 1;
        }
    }
    let job = server.get(&format!("/api/v1/jobs/{}", job["id"].as_str().expect("an id"))).await.expect(200);
    assert_eq!(job["outcome"], "succeeded", "{job}");
    server.stop().await;
}

/// A queue of the same name with other arguments is used as it is.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn queue_with_different_arguments_is_used_unchanged() {
    let vhost = rabbit::vhost().await;
    let (_connection, channel) = channel(&vhost.url).await;
    let durable = QueueDeclareOptions::durable();
    channel.queue_declare(QUEUE.into(), durable, FieldTable::default()).await.expect("a classic queue");
    let server = Server::start_with(with(&vhost.url)).await;
    server.put("/api/v1/job-types/mail", json!({})).await.expect(201);
    let options = BasicConsumeOptions { no_ack: true, ..BasicConsumeOptions::default() };
    let mut queue =
        channel.basic_consume(QUEUE.into(), "".into(), options, FieldTable::default()).await.expect("a consumer");
    let job = server.post("/api/v1/jobs", json!({"type": "mail", "items": [{}]})).await.expect(201);
    for _ in 0..3 {
        assert_eq!(body(&next(&mut queue).await)["job_id"], job["id"]);
    }
    let stats = broker_stats(&server).await;
    assert_eq!(stats["up"], true, "{stats}");
    server.stop().await;
}

/// A server without a broker writes no outbox entries; servers with one find its items.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn items_added_without_broker_are_published_by_another_server() {
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
    vhost.wait_until_running(QUEUE).await;
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
