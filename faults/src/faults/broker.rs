//! Faults of RabbitMQ: unavailable, killed, emptied, repeated messages, unhealthy. They change when a worker claims,
//! never what it gets.
//!
//! Nodes come from the server's own tests: private, on free ports. One node is shared by all faults that do not damage
//! it.

mod ill; // memory alarm, consumer timeout, silence

use std::{
    collections::HashSet,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use anyhow::{Context as _, Result, ensure};
use domain::wake;
use futures::{FutureExt as _, StreamExt as _};
use lapin::{
    BasicProperties, Channel, Connection, ConnectionProperties, Consumer,
    options::{BasicConsumeOptions, BasicPublishOptions, QueueBindOptions, QueueDeclareOptions},
    types::FieldTable,
};
use rand::seq::SliceRandom as _;

use super::{Played, Story, clients::here, end, scaled};
use crate::{
    load::{Load, TYPES},
    stage::{House, Setting, Stage, postgres::free_port},
};

#[path = "../../../server/tests/it/support/rabbit.rs"]
#[expect(dead_code, reason = "the server's tests use the rest of it")]
mod rabbit;

use rabbit::Node;

pub(super) const FAULTS: &[(&str, Story)] = &[
    ("F21", |house| never_there(house).boxed()),
    ("F22", |house| killed_brokers(house).boxed()),
    ("F23", |house| emptied_queues(house).boxed()),
    ("F24", |house| repeated_messages(house).boxed()),
    ("F25", |house| here(house, ill::alarmed)),
    ("F26", |house| here(house, ill::impatient)),
    ("F27", |house| here(house, ill::silent)),
];

/// Options for servers and workers that use this broker.
fn listening(url: &str) -> Setting {
    let environment = [("AMQP_URL", url), ("TREELINE_BROKER_RESEND_SECONDS", "1")];
    let environment = environment.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    Setting { environment, amqp: Some(url.to_owned()), work_ms: 10, ..Setting::default() }
}

/// Number of items: half as many as elsewhere, because without messages work waits for the next poll.
fn offered(house: &House) -> usize {
    house.items / 2
}

/// Creates a virtual host. Returns its address, and the value that keeps it alive.
pub(super) async fn a_vhost() -> (String, rabbit::Vhost) {
    let vhost = rabbit::vhost().await;
    (vhost.url.clone(), vhost)
}

fn queue(name: &str) -> String {
    format!("treeline.items.{name}")
}

/// F21: a broker that never runs.
async fn never_there(house: &House) -> Result<Played> {
    let stage = Stage::set(house, listening(&format!("amqp://127.0.0.1:{}", free_port()?))).await?;
    let load = stage.load(Load::of(offered(house), house.seed))?;
    end(house, stage, load, "a broker that is never there".to_owned()).await
}

/// F22: the broker is killed and started again.
async fn killed_brokers(house: &House) -> Result<Played> {
    let mut node = Node::new();
    node.start().await;
    let mut stage = Stage::set(house, listening(&node.url())).await?;
    node.root().attached(&queue("plain"), 4).await;
    let load = stage.load(Load { calls_a_second: Some(4.0), ..Load::of(offered(house), house.seed) })?;
    let (rounds, mut longest) = (scaled(house, 2, 50), Duration::ZERO);
    for _ in 0..rounds {
        node.kill();
        tokio::time::sleep(Duration::from_secs(1)).await;
        node.start().await;
        // Panics after 15 s, which fails the fault: the consumers did not reconnect.
        longest = longest.max(node.root().attached(&queue("plain"), 4).await);
    }
    let done = format!(
        "the broker killed and started again, {rounds} times; all 4 consumers back after at most {:.1} s",
        longest.as_secs_f64()
    );
    stage.keep_until_judged(Box::new(node));
    end(house, stage, load, done).await
}

/// F23: queues are purged and deleted all the time.
async fn emptied_queues(house: &House) -> Result<Played> {
    let vhost = rabbit::vhost().await;
    let mut stage = Stage::set(house, listening(&vhost.url)).await?;
    vhost.attached(&queue("plain"), 4).await;
    let vhost = Arc::new(vhost);
    let mut load = stage.load(Load::of(offered(house), house.seed))?;
    let times = stage
        .disturb(&mut load, 20, Duration::from_millis(150), |_, times| {
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
    vhost.attached(&queue("plain"), 4).await;
    let (purged, deleted) = (times - times / 10, times / 10);
    let done = format!("every queue purged {purged} times and deleted {deleted} times; all consumers came back");
    end(house, stage, load, done).await
}

/// F24: every message ten times and in no order, among garbage.
async fn repeated_messages(house: &House) -> Result<Played> {
    let vhost = rabbit::vhost().await;
    let stage = Stage::set(house, listening(&vhost.url)).await?;
    vhost.attached(&queue("plain"), 4).await;
    let (_connection, channel, copies) = overhear(&vhost.url).await?;
    let sent = Arc::new(AtomicUsize::new(0));
    let repeating = tokio::spawn(repeat(channel, copies, Arc::clone(&sent)));
    let load = stage.load(Load::of(offered(house) / 2, house.seed))?;
    let played = end(house, stage, load, String::new()).await?;
    ensure!(!repeating.is_finished(), "the messages were not repeated: {:?}", repeating.await);
    repeating.abort();
    let sent = sent.load(Ordering::Relaxed);
    ensure!(sent > 0, "nothing was repeated");
    Ok(Played {
        done: format!("{sent} messages more: each nine times again in no order, a tenth of it garbage"),
        ..played
    })
}

/// Subscribes to all messages about items.
async fn overhear(url: &str) -> Result<(Connection, Channel, Consumer)> {
    let connection = Connection::connect(url, ConnectionProperties::default()).await?;
    let channel = connection.create_channel().await?;
    let options = QueueDeclareOptions { exclusive: true, ..QueueDeclareOptions::default() };
    let heard = channel.queue_declare("".into(), options, FieldTable::default()).await?;
    let name = heard.name().clone();
    for key in TYPES {
        let bind = QueueBindOptions::default();
        channel.queue_bind(name.clone(), wake::ITEMS.into(), key.into(), bind, FieldTable::default()).await?;
    }
    let consume = BasicConsumeOptions { no_ack: true, ..BasicConsumeOptions::default() };
    let copies = channel.basic_consume(name, "".into(), consume, FieldTable::default()).await?;
    Ok((connection, channel, copies))
}

/// Repeats each new message nine times, and counts the copies. Messages that a server resends are not repeated: it
/// resends them every second while work waits, so their number would explode.
async fn repeat(channel: Channel, mut copies: Consumer, sent: Arc<AtomicUsize>) -> Result<()> {
    const GARBAGE: [&[u8]; 4] = [b"", b"\xff\xfe", b"{\"item_id\":7}", b"[[[["];
    let mut heard: Vec<(String, Vec<u8>)> = Vec::new();
    let mut known: HashSet<Vec<u8>> = HashSet::new();
    while let Some(copy) = copies.next().await {
        let copy = copy.context("a message")?;
        if !known.insert(copy.data.clone()) {
            continue;
        }
        heard.push((copy.routing_key.to_string(), copy.data));
        if heard.len() < 20 {
            continue;
        }
        let mut again: Vec<(String, Vec<u8>)> = (0..9).flat_map(|_| heard.clone()).collect();
        let garbage = || GARBAGE[rand::random_range(0..GARBAGE.len())].to_vec();
        again.extend((0..heard.len()).map(|_| ("plain".to_owned(), garbage())));
        again.shuffle(&mut rand::rng());
        for (key, data) in again {
            let (options, properties) = (BasicPublishOptions::default(), BasicProperties::default());
            // Publish to the queue, not to the exchange, where this program would receive the copies again.
            channel.basic_publish("".into(), queue(&key).into(), options, &data, properties).await?;
            sent.fetch_add(1, Ordering::Relaxed);
        }
        heard.clear();
    }
    Ok(())
}
