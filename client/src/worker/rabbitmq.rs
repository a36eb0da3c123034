//! Wake-ups from RabbitMQ; the loop claims the items that they name.
//!
//! A separate task keeps one connection with a consumer per job type, and reconnects after any error. Every message is
//! acknowledged at once: it is only a hint, and the server decides. After one second at capacity the worker cancels
//! its consumers, so that other workers receive the messages. Errors never reach the loop: it only gets fewer
//! wake-ups.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use domain::{
    id::Uuid,
    notify::broker_messages::{self, WakeUp},
};
use futures::{
    StreamExt,
    stream::{self, BoxStream},
};
use lapin::{
    Connection, ConnectionProperties, Event,
    message::Delivery,
    options::{BasicAckOptions, BasicConsumeOptions, BasicNackOptions, BasicQosOptions},
    types::FieldTable,
    uri::{AMQPScheme, AMQPUri},
};
use tokio::{
    sync::mpsc,
    time::{sleep, timeout},
};
use tokio_util::task::AbortOnDropHandle;

use crate::error::{Error, Result};

/// Maximum number of unacknowledged messages per consumer, and of wake-ups that wait for the loop.
const PREFETCH: usize = 256;
/// Time at capacity after which the consumers are cancelled.
const FULL_TIMEOUT: Duration = Duration::from_secs(1);
/// Timeout of calls to the broker.
const BROKER_TIMEOUT: Duration = Duration::from_secs(5);
/// Interval of connection checks; usually a lost connection is reported sooner.
const CONNECTION_CHECK: Duration = Duration::from_secs(1);
/// Shortest and longest pause between two attempts to connect.
const MIN_RECONNECT_PAUSE: Duration = Duration::from_millis(250);
const MAX_RECONNECT_PAUSE: Duration = Duration::from_secs(2);
/// Default heartbeat interval of the AMQP connection in seconds.
const HEARTBEAT_SECONDS: u16 = 5;

/// Address of the broker. Its debug output is empty, because it may contain a password.
#[derive(Clone)]
pub(super) struct Address(AMQPUri);

impl std::fmt::Debug for Address {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("***")
    }
}

impl Address {
    pub(super) fn parse(url: &str) -> Result<Self> {
        let mut uri: AMQPUri = url.parse().map_err(|_| {
            let expected = "amqp://user:password@host:5672/vhost";
            Error::Configuration(format!("The address of RabbitMQ is none; expected {expected}"))
        })?;
        // `amqp://host/` means the vhost of that name.
        if uri.vhost.is_empty() {
            "/".clone_into(&mut uri.vhost);
        }
        uri.query.heartbeat.get_or_insert(HEARTBEAT_SECONDS);
        if uri.scheme == AMQPScheme::AMQPS {
            // Once per process; a provider that was installed earlier stays.
            let _ = rustls::crypto::ring::default_provider().install_default();
        }
        Ok(Self(uri))
    }
}

/// Receiver of wake-ups.
pub(super) struct WakeUpReceiver {
    pub(super) items: mpsc::Receiver<Uuid>,
    state: Arc<State>,
    _task: AbortOnDropHandle<()>,
}

#[derive(Default)]
struct State {
    is_attached: AtomicBool,
    unreadable: AtomicU64,
}

impl WakeUpReceiver {
    /// Starts receiving wake-ups for these types.
    pub(super) fn open(address: Address, types: Vec<String>, slots: usize) -> Self {
        let (sender, items) = mpsc::channel(slots.clamp(1, PREFETCH));
        let state = Arc::new(State::default());
        let listener =
            Listener { address, types, prefetch: slots.clamp(1, PREFETCH) as u16, sender, state: Arc::clone(&state) };
        Self { items, state, _task: AbortOnDropHandle::new(tokio::spawn(listener.run())) }
    }

    /// True if the consumers are attached, as far as known.
    pub(super) fn is_attached(&self) -> bool {
        self.state.is_attached.load(Ordering::Relaxed)
    }

    /// Number of unreadable messages.
    pub(super) fn unreadable(&self) -> u64 {
        self.state.unreadable.load(Ordering::Relaxed)
    }
}

struct Listener {
    address: Address,
    types: Vec<String>,
    prefetch: u16,
    sender: mpsc::Sender<Uuid>,
    state: Arc<State>,
}

/// Messages of all consumers; yields `None` when one of them has ended.
type Deliveries = stream::SelectAll<BoxStream<'static, Option<lapin::Result<Delivery>>>>;

/// Reason for the end of consuming.
enum EndReason {
    /// The worker is at capacity.
    Full,
    Lost(String),
}

impl Listener {
    async fn run(self) {
        let broker_address = format!("{}:{}", self.address.0.authority.host, self.address.0.authority.port);
        let mut pause = MIN_RECONNECT_PAUSE;
        let mut was_lost = false;
        loop {
            let (was_attached, end) = self.attach().await;
            if was_attached {
                pause = MIN_RECONNECT_PAUSE;
            }
            match end {
                EndReason::Full => {
                    was_lost = false;
                    // Waits for a free slot; the permit itself is not used.
                    if self.sender.reserve().await.is_err() {
                        return;
                    }
                    continue;
                }
                EndReason::Lost(reason) if was_attached || !was_lost => {
                    tracing::warn!(
                        broker = broker_address,
                        reason,
                        "broker connection lost; polling the server instead"
                    );
                }
                EndReason::Lost(reason) => tracing::debug!(broker = broker_address, reason, "broker still unreachable"),
            }
            was_lost = true;
            sleep(pause.mul_f64(rand::random_range(0.67..1.33))).await;
            pause = (pause * 2).min(MAX_RECONNECT_PAUSE);
        }
    }

    /// Connects, consumes, and forwards wake-ups until an error or capacity ends it. The flag is true if it connected.
    async fn attach(&self) -> (bool, EndReason) {
        let (connection, mut consumers) = match timeout(BROKER_TIMEOUT, self.consume()).await {
            Ok(Ok(consuming)) => consuming,
            Ok(Err(error)) => return (false, EndReason::Lost(error.to_string())),
            Err(_) => return (false, EndReason::Lost("it does not answer".to_owned())),
        };
        self.state.is_attached.store(true, Ordering::Relaxed);
        tracing::debug!(types = self.types.join(","), "broker connected");
        let end = tokio::select! {
            end = self.forward(&mut consumers) => end,
            () = connection_lost(&connection) => EndReason::Lost("the connection is lost".to_owned()),
        };
        self.state.is_attached.store(false, Ordering::Relaxed);
        // Closing the connection requeues delivered messages that are not acknowledged.
        let _ = timeout(BROKER_TIMEOUT, connection.close(200, "bye".into())).await;
        (true, end)
    }

    async fn consume(&self) -> lapin::Result<(Connection, Deliveries)> {
        let properties = ConnectionProperties::default().with_connection_name("treeline-worker".into());
        let connection = Connection::connect_uri(self.address.0.clone(), properties).await?;
        let mut consumers = Vec::with_capacity(self.types.len());
        for job_type in &self.types {
            // One channel per consumer, because a missing queue closes its channel.
            let channel = connection.create_channel().await?;
            channel.basic_qos(self.prefetch, BasicQosOptions::default()).await?;
            let queue = broker_messages::queue_name(job_type).as_str().into();
            let options = BasicConsumeOptions::default();
            let consumer = channel.basic_consume(queue, "".into(), options, FieldTable::default()).await?;
            // The `None` reports the end of this consumer, which would otherwise go unnoticed among the others.
            consumers.push(consumer.map(Some).chain(stream::iter([None])).boxed());
        }
        Ok((connection, stream::select_all(consumers)))
    }

    async fn forward(&self, consumers: &mut Deliveries) -> EndReason {
        loop {
            let delivery = match consumers.next().await {
                Some(Some(Ok(delivery))) => delivery,
                Some(Some(Err(error))) => return EndReason::Lost(error.to_string()),
                Some(None) | None => return EndReason::Lost("the broker has ended the consumers".to_owned()),
            };
            let Some(item_id) = self.read(&delivery) else {
                if let Err(reason) = acknowledge(&delivery).await {
                    return EndReason::Lost(reason);
                }
                continue;
            };
            let Ok(permit) = timeout(FULL_TIMEOUT, self.sender.reserve()).await else {
                let back = BasicNackOptions { requeue: true, ..BasicNackOptions::default() };
                let _ = timeout(BROKER_TIMEOUT, delivery.acker.nack(back)).await;
                return EndReason::Full;
            };
            // The loop is gone.
            let Ok(permit) = permit else { return EndReason::Full };
            if let Err(reason) = acknowledge(&delivery).await {
                return EndReason::Lost(reason);
            }
            permit.send(item_id);
        }
    }

    fn read(&self, delivery: &Delivery) -> Option<Uuid> {
        let read: Option<WakeUp> = serde_json::from_slice(&delivery.data).ok();
        if read.is_none() {
            self.state.unreadable.fetch_add(1, Ordering::Relaxed);
            tracing::debug!(bytes = delivery.data.len(), "unreadable broker message");
        }
        read.map(|wake_up| wake_up.item_id)
    }
}

async fn acknowledge(delivery: &Delivery) -> std::result::Result<(), String> {
    match timeout(BROKER_TIMEOUT, delivery.acker.ack(BasicAckOptions::default())).await {
        Ok(Ok(_)) => Ok(()),
        Ok(Err(error)) => Err(error.to_string()),
        Err(_) => Err("an acknowledgement was not taken".to_owned()),
    }
}

/// Resolves when the connection is lost. A task that waits for a message, or for its acknowledgement to be sent, does
/// not always notice.
async fn connection_lost(connection: &Connection) {
    let mut events = connection.events_listener().boxed();
    while connection.status().connected() {
        match timeout(CONNECTION_CHECK, events.next()).await {
            // A closed channel does not end the connection; its consumer reports it.
            Ok(Some(Event::Error(error))) if !error.is_amqp_soft_error() => return,
            Ok(None) => return,
            Ok(Some(_)) | Err(_) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_shows_nothing_of_itself() {
        let address = Address::parse("amqp://me:secret@mq.example/work").expect("an address");
        assert!(!format!("{address:?}").contains("secret"));
        assert_eq!(Address::parse("amqp://mq.example/").expect("an address").0.vhost, "/");
        let refused = Address::parse("http://me:secret@mq.example").expect_err("no address").to_string();
        assert!(!refused.contains("secret"), "{refused}");
    }
}
