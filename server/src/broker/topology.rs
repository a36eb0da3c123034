//! Exchanges and queues: every name and every argument, in one place.
//!
//! All of it is declared again and again, which costs nothing where it is there and brings back what
//! somebody deleted. Arguments of an existing name must never change: the broker would refuse them.

use domain::wake;
use lapin::{
    Channel, ExchangeKind,
    options::{ExchangeDeclareOptions, QueueBindOptions, QueueDeclareOptions},
    types::{AMQPValue, FieldTable, ShortString},
};

/// Announcements that are kept for those who do not listen just now; the oldest go first.
const KEPT: i64 = 10_000;

/// A durable queue that survives the loss of a node.
fn quorum() -> FieldTable {
    let mut arguments = FieldTable::default();
    arguments.insert("x-queue-type".into(), AMQPValue::LongString("quorum".into()));
    arguments
}

/// The exchanges, and the queues of announcements.
pub(super) async fn declare(channel: &Channel) -> lapin::Result<()> {
    let durable = ExchangeDeclareOptions { durable: true, ..ExchangeDeclareOptions::default() };
    let none = FieldTable::default;
    channel.exchange_declare(wake::ITEMS.into(), ExchangeKind::Direct, durable, none()).await?;
    for name in [wake::DEAD, wake::COMPLETED] {
        // By type, so that a queue of somebody's own can be bound to some types only.
        channel.exchange_declare(name.into(), ExchangeKind::Topic, durable, none()).await?;
        let mut arguments = quorum();
        arguments.insert("x-max-length".into(), AMQPValue::LongLongInt(KEPT));
        channel.queue_declare(name.into(), QueueDeclareOptions::durable(), arguments).await?;
        channel.queue_bind(name.into(), name.into(), "#".into(), QueueBindOptions::default(), none()).await?;
    }
    Ok(())
}

/// The queue of a job type, bound. Returns how many messages wait in it.
pub(super) async fn declare_queue(channel: &Channel, job_type: &str) -> lapin::Result<u32> {
    let name = ShortString::from(wake::queue(job_type));
    let queue = channel.queue_declare(name.clone(), QueueDeclareOptions::durable(), quorum()).await?;
    bind(channel, name, job_type).await?;
    Ok(queue.message_count())
}

/// The same where the queue exists with arguments that are not ours: it is used as it is.
pub(super) async fn find_queue(channel: &Channel, job_type: &str) -> lapin::Result<u32> {
    let name = ShortString::from(wake::queue(job_type));
    let passive = QueueDeclareOptions { passive: true, ..QueueDeclareOptions::default() };
    let queue = channel.queue_declare(name.clone(), passive, FieldTable::default()).await?;
    bind(channel, name, job_type).await?;
    Ok(queue.message_count())
}

async fn bind(channel: &Channel, queue: ShortString, job_type: &str) -> lapin::Result<()> {
    let options = QueueBindOptions::default();
    channel.queue_bind(queue, wake::ITEMS.into(), job_type.into(), options, FieldTable::default()).await
}
