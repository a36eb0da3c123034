//! Faults of RabbitMQ: unavailable, killed, emptied, repeated messages, unhealthy. They change when a worker claims,
//! never what it gets.
//!
//! Nodes come from the server's own tests: private, on free ports. One node is shared by all faults that do not damage
//! it.

mod unhealthy; // memory alarm, consumer timeout, silence

use std::{
    collections::HashSet,
    panic::AssertUnwindSafe,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use anyhow::{Context as _, Result};
use domain::notify::broker_messages;
use futures::{FutureExt as _, StreamExt as _};
use lapin::{
    BasicProperties, Channel, Connection, ConnectionProperties, Consumer,
    options::{BasicConsumeOptions, BasicPublishOptions, QueueBindOptions, QueueDeclareOptions},
    types::FieldTable,
};
use rand::seq::SliceRandom as _;

use super::{Scenario, ScenarioOutcome, clients::on_this_thread, end, ensure_tested, scaled};
use crate::{
    fixture::{Fixture, FixtureOptions, RunContext, postgres::free_port},
    inconclusive::Inconclusive,
    workload::{TYPES, Workload},
};

#[path = "../../../../server/tests/it/support/rabbit.rs"]
#[expect(dead_code, reason = "the server's tests use the rest of it")]
mod rabbit;

use rabbit::{Node, Vhost};

pub(super) const FAULTS: &[(&str, Scenario)] = &[
    ("F21", |context| absent_broker(context).boxed()),
    ("F22", |context| killed_brokers(context).boxed()),
    ("F23", |context| emptied_queues(context).boxed()),
    ("F24", |context| repeated_messages(context).boxed()),
    ("F25", |context| on_this_thread(context, unhealthy::memory_alarm)),
    ("F26", |context| on_this_thread(context, unhealthy::consumer_timeout)),
    ("F27", |context| on_this_thread(context, unhealthy::silent)),
];

/// Number of workers, each of which has one consumer of each type.
const WORKERS: usize = 4;

/// Options for servers and workers that use this broker.
fn broker_options(url: &str) -> FixtureOptions {
    let environment = [("AMQP_URL", url), ("TREELINE_BROKER_RESEND_SECONDS", "1")];
    let environment = environment.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    let amqp = Some(url.to_owned());
    FixtureOptions { environment, amqp, workers: WORKERS, work_ms: 10, ..FixtureOptions::default() }
}

/// Number of items: half as many as elsewhere, because without messages work waits for the next poll.
fn workload_items(context: &RunContext) -> usize {
    context.items / 2
}

/// Creates a virtual host. Returns its address, and the value that keeps it alive.
pub(super) async fn a_vhost() -> Result<(String, Vhost)> {
    let vhost = marked(Inconclusive::Setup, rabbit::vhost()).await?;
    Ok((vhost.url.clone(), vhost))
}

/// Starts a node, for the first time or again.
async fn start(node: &mut Node) -> Result<()> {
    marked(Inconclusive::Setup, node.start()).await
}

/// Waits until every worker consumes the messages of a type, before the disturbance.
async fn connected(vhost: &Vhost) -> Result<Duration> {
    marked(Inconclusive::Setup, vhost.wait_for_consumers(&queue("plain"), WORKERS)).await
}

/// Waits until every worker consumes the messages of a type again. The limit is 15 s.
async fn reconnected(vhost: &Vhost) -> Result<Duration> {
    marked(Inconclusive::Timeout, vhost.wait_for_consumers(&queue("plain"), WORKERS)).await
}

/// Turns a panic of a helper, which the server's tests use too, into an error with this mark.
async fn marked<T>(mark: Inconclusive, helper: impl Future<Output = T>) -> Result<T> {
    AssertUnwindSafe(helper).catch_unwind().await.map_err(|panic| {
        let text = panic.downcast_ref::<String>().map(String::as_str);
        mark.error(text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("a panic"))
    })
}

fn queue(name: &str) -> String {
    format!("treeline.items.{name}")
}

/// F21: a broker that never runs.
async fn absent_broker(context: &RunContext) -> Result<ScenarioOutcome> {
    let fixture = Fixture::start(context, broker_options(&format!("amqp://127.0.0.1:{}", free_port()?))).await?;
    let workload = fixture.start_workload(Workload::of(workload_items(context), context.seed))?;
    end(context, fixture, workload, "RabbitMQ never available".to_owned()).await
}

/// F22: the broker is killed and started again.
async fn killed_brokers(context: &RunContext) -> Result<ScenarioOutcome> {
    let mut node = Node::new();
    start(&mut node).await?;
    let mut fixture = Fixture::start(context, broker_options(&node.url())).await?;
    connected(&node.root()).await?;
    let workload = fixture.start_workload(Workload {
        calls_a_second: Some(4.0),
        ..Workload::of(workload_items(context), context.seed)
    })?;
    let (rounds, mut longest) = (scaled(context, 2, 50), Duration::ZERO);
    for _ in 0..rounds {
        node.kill();
        tokio::time::sleep(Duration::from_secs(1)).await;
        start(&mut node).await?;
        longest = longest.max(reconnected(&node.root()).await?);
    }
    let done = format!(
        "RabbitMQ killed and restarted {rounds} times; all 4 consumers were back within {:.1} s",
        longest.as_secs_f64()
    );
    fixture.keep_alive(Box::new(node));
    end(context, fixture, workload, done).await
}

/// F23: queues are purged and deleted all the time.
async fn emptied_queues(context: &RunContext) -> Result<ScenarioOutcome> {
    let (url, vhost) = a_vhost().await?;
    let mut fixture = Fixture::start(context, broker_options(&url)).await?;
    connected(&vhost).await?;
    let vhost = Arc::new(vhost);
    let mut workload = fixture.start_workload(Workload::of(workload_items(context), context.seed))?;
    let times = fixture
        .disturb(&mut workload, 20, Duration::from_millis(150), |_, times| {
            let vhost = Arc::clone(&vhost);
            async move {
                for name in TYPES {
                    if times % 10 == 9 {
                        vhost.delete(&queue(name)).await;
                    } else {
                        vhost.purge(&queue(name)).await;
                    }
                }
                Ok(())
            }
            .boxed()
        })
        .await?;
    reconnected(&vhost).await?;
    let (purged, deleted) = (times - times / 10, times / 10);
    let done = format!("every queue purged {purged} times and deleted {deleted} times; all consumers came back");
    end(context, fixture, workload, done).await
}

/// F24: every message ten times and in no order, among garbage.
async fn repeated_messages(context: &RunContext) -> Result<ScenarioOutcome> {
    let (url, vhost) = a_vhost().await?;
    let fixture = Fixture::start(context, broker_options(&url)).await?;
    connected(&vhost).await?;
    let (_connection, channel, copies) = subscribe(&url).await.context(Inconclusive::Setup)?;
    let sent = Arc::new(AtomicUsize::new(0));
    let repeating = tokio::spawn(repeat(channel, copies, Arc::clone(&sent)));
    let workload = fixture.start_workload(Workload::of(workload_items(context) / 2, context.seed))?;
    let outcome = end(context, fixture, workload, String::new()).await?;
    ensure_tested(&outcome, !repeating.is_finished(), || "the messages were not repeated until the end".to_owned())?;
    repeating.abort();
    let sent = sent.load(Ordering::Relaxed);
    ensure_tested(&outcome, sent > 0, || "no message was repeated".to_owned())?;
    Ok(ScenarioOutcome {
        done: format!(
            "{sent} additional messages: each message repeated nine times in random order, a tenth of them garbage"
        ),
        ..outcome
    })
}

/// Subscribes to all messages about items.
async fn subscribe(url: &str) -> Result<(Connection, Channel, Consumer)> {
    let connection = Connection::connect(url, ConnectionProperties::default()).await?;
    let channel = connection.create_channel().await?;
    let options = QueueDeclareOptions { exclusive: true, ..QueueDeclareOptions::default() };
    let queue = channel.queue_declare("".into(), options, FieldTable::default()).await?;
    let name = queue.name().clone();
    for key in TYPES {
        let bind = QueueBindOptions::default();
        channel
            .queue_bind(name.clone(), broker_messages::ITEMS_EXCHANGE.into(), key.into(), bind, FieldTable::default())
            .await?;
    }
    let consume = BasicConsumeOptions { no_ack: true, ..BasicConsumeOptions::default() };
    let copies = channel.basic_consume(name, "".into(), consume, FieldTable::default()).await?;
    Ok((connection, channel, copies))
}

/// Repeats each new message nine times, and counts the copies. Messages that a server resends are not repeated: it
/// resends them every second while work waits, so their number would explode.
async fn repeat(channel: Channel, mut copies: Consumer, sent: Arc<AtomicUsize>) -> Result<()> {
    const GARBAGE: [&[u8]; 4] = [b"", b"\xff\xfe", b"{\"item_id\":7}", b"[[[["];
    let mut received: Vec<(String, Vec<u8>)> = Vec::new();
    let mut seen: HashSet<Vec<u8>> = HashSet::new();
    while let Some(copy) = copies.next().await {
        let copy = copy.context("a message")?;
        if !seen.insert(copy.data.clone()) {
            continue;
        }
        received.push((copy.routing_key.to_string(), copy.data));
        if received.len() < 20 {
            continue;
        }
        let mut copies_to_send: Vec<(String, Vec<u8>)> = (0..9).flat_map(|_| received.clone()).collect();
        let garbage = || GARBAGE[rand::random_range(0..GARBAGE.len())].to_vec();
        copies_to_send.extend((0..received.len()).map(|_| ("plain".to_owned(), garbage())));
        copies_to_send.shuffle(&mut rand::rng());
        for (key, data) in copies_to_send {
            let (options, properties) = (BasicPublishOptions::default(), BasicProperties::default());
            // Publish to the queue, not to the exchange, where this program would receive the copies again.
            channel.basic_publish("".into(), queue(&key).into(), options, &data, properties).await?;
            sent.fetch_add(1, Ordering::Relaxed);
        }
        received.clear();
    }
    Ok(())
}
