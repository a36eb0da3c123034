//! Exchanges and queues: all names and arguments in one place.
//!
//! Everything is declared repeatedly, which is free if it exists and restores what was deleted. Arguments of an
//! existing name must never change: the broker would refuse the declaration.

use domain::notify::broker_messages;
use lapin::{
    Channel, ExchangeKind,
    options::{ExchangeDeclareOptions, QueueBindOptions, QueueDeclareOptions},
    types::{AMQPValue, FieldTable, ShortString},
};

/// Maximum number of announcements in a queue without consumers; the oldest are dropped first.
const MAX_QUEUED: i64 = 10_000;

/// Arguments of a durable queue that survives the loss of a node.
fn quorum() -> FieldTable {
    let mut arguments = FieldTable::default();
    arguments.insert("x-queue-type".into(), AMQPValue::LongString("quorum".into()));
    arguments
}

/// Declares the exchanges and the queues of announcements.
pub(super) async fn declare(channel: &Channel) -> lapin::Result<()> {
    let durable = ExchangeDeclareOptions { durable: true, ..ExchangeDeclareOptions::default() };
    let none = FieldTable::default;
    channel.exchange_declare(broker_messages::ITEMS_EXCHANGE.into(), ExchangeKind::Direct, durable, none()).await?;
    for name in [broker_messages::DEAD_LETTERS, broker_messages::COMPLETED_TREES] {
        // Routed by type, so that custom queues can bind to some types only.
        channel.exchange_declare(name.into(), ExchangeKind::Topic, durable, none()).await?;
        let mut arguments = quorum();
        arguments.insert("x-max-length".into(), AMQPValue::LongLongInt(MAX_QUEUED));
        channel.queue_declare(name.into(), QueueDeclareOptions::durable(), arguments).await?;
        channel.queue_bind(name.into(), name.into(), "#".into(), QueueBindOptions::default(), none()).await?;
    }
    Ok(())
}

/// Declares and binds the queue of a job type. Returns the number of messages in it.
pub(super) async fn declare_queue(channel: &Channel, job_type: &str) -> lapin::Result<u32> {
    let name = ShortString::from(broker_messages::queue_name(job_type));
    let queue = channel.queue_declare(name.clone(), QueueDeclareOptions::durable(), quorum()).await?;
    bind(channel, name, job_type).await?;
    Ok(queue.message_count())
}

/// Uses a queue that exists with other arguments as it is. Returns the number of messages in it.
pub(super) async fn find_queue(channel: &Channel, job_type: &str) -> lapin::Result<u32> {
    let name = ShortString::from(broker_messages::queue_name(job_type));
    let passive = QueueDeclareOptions { passive: true, ..QueueDeclareOptions::default() };
    let queue = channel.queue_declare(name.clone(), passive, FieldTable::default()).await?;
    bind(channel, name, job_type).await?;
    Ok(queue.message_count())
}

async fn bind(channel: &Channel, queue: ShortString, job_type: &str) -> lapin::Result<()> {
    let options = QueueBindOptions::default();
    channel
        .queue_bind(queue, broker_messages::ITEMS_EXCHANGE.into(), job_type.into(), options, FieldTable::default())
        .await
}
