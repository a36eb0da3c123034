//! One connection to the broker, from connect to first fault.
//!
//! A link is never repaired: any fault marks it as broken, and the supervisor opens a new one. Every wait for the
//! broker has a timeout, because a broker under an alarm does not respond at all.

use std::{
    collections::HashSet,
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

use domain::notify::broker_messages;
use futures::{StreamExt as _, stream::BoxStream};
use lapin::{
    BasicProperties, Channel, Confirmation, Connection, ConnectionProperties, ErrorKind, Event, PublisherConfirm,
    options::{BasicPublishOptions, ConfirmSelectOptions},
    protocol::{AMQPErrorKind, AMQPSoftError},
    uri::AMQPUri,
};
use tokio::{
    sync::{Mutex, Notify},
    time::{Instant, timeout, timeout_at},
};

use super::{BrokerMessage, Subject, topology};

/// Timeouts of a connection or declaration, and of the confirms of a batch.
const REPLY_TIMEOUT: Duration = Duration::from_secs(5);
const CONFIRM_TIMEOUT: Duration = Duration::from_secs(10);
/// Maximum number of unconfirmed messages.
const MAX_UNCONFIRMED: usize = 1_000;

/// Fault of a link, described without secrets.
#[derive(Debug, thiserror::Error)]
pub(super) enum Fault {
    #[error("{0}")]
    Broker(#[from] lapin::Error),
    #[error("it does not answer")]
    Silent,
    #[error("it does not confirm what is published")]
    Unconfirmed,
    #[error("the connection is lost")]
    Lost,
}

/// Outcome of a batch of messages.
#[derive(Debug, Default)]
pub(super) struct PublishOutcome {
    /// By message: true if confirmed and not returned.
    pub(super) confirmed: Vec<bool>,
    /// Number of returned messages; the queues of their types are declared again.
    pub(super) returned: usize,
    pub(super) nacked: usize,
}

pub(super) struct Link {
    connection: Connection,
    publishing: Channel,
    declaring: Mutex<Declaring>,
    is_broken: AtomicBool,
    broke: Notify,
}

/// Channel for declarations: a refused declaration closes it.
struct Declaring {
    channel: Channel,
    /// Types whose queues exist with other arguments.
    mismatched: HashSet<String>,
}

impl Link {
    /// Connects, declares everything that does not depend on types, and verifies that publishing is confirmed.
    pub(super) async fn open(uri: &AMQPUri) -> Result<Self, Fault> {
        let properties = ConnectionProperties::default().with_connection_name("treeline-server".into());
        let open = async {
            let connection = Connection::connect_uri(uri.clone(), properties).await?;
            let declaring = connection.create_channel().await?;
            topology::declare(&declaring).await?;
            let publishing = connection.create_channel().await?;
            publishing.confirm_select(ConfirmSelectOptions::default()).await?;
            Ok::<_, Fault>((connection, declaring, publishing))
        };
        let (connection, declaring, publishing) = timeout(REPLY_TIMEOUT, open).await.map_err(|_| Fault::Silent)??;
        let link = Self {
            connection,
            publishing,
            declaring: Mutex::new(Declaring { channel: declaring, mismatched: HashSet::new() }),
            is_broken: AtomicBool::new(false),
            broke: Notify::new(),
        };
        link.probe().await?;
        Ok(link)
    }

    /// Publishes twice without a recipient: a broker under an alarm accepts a connection and the first publish, and
    /// then stops reading.
    async fn probe(&self) -> Result<(), Fault> {
        let probe = async {
            for _ in 0..2 {
                let (options, properties) = (BasicPublishOptions::default(), BasicProperties::default());
                let to = broker_messages::ITEMS_EXCHANGE.into();
                self.publishing.basic_publish(to, "".into(), options, b"", properties).await?.await?;
            }
            Ok::<_, Fault>(())
        };
        timeout(REPLY_TIMEOUT, probe).await.map_err(|_| Fault::Unconfirmed)?
    }

    /// Resolves when the link is unusable.
    pub(super) async fn broken(&self) {
        let mut events: BoxStream<'static, Event> = self.connection.events_listener().boxed();
        loop {
            let broke = self.broke.notified();
            if self.is_broken.load(Ordering::Acquire) || !self.connection.status().connected() {
                return;
            }
            tokio::select! {
                () = broke => {}
                event = events.next() => match event {
                    // A closed channel is not a closed connection; its users report the error.
                    Some(Event::Error(error)) if !error.is_amqp_soft_error() => return,
                    None => return,
                    Some(_) => {}
                },
            }
        }
    }

    /// Tells the supervisor to open a new link.
    pub(super) fn mark_broken(&self) {
        self.is_broken.store(true, Ordering::Release);
        self.broke.notify_one();
    }

    /// Closes the connection, with a short timeout.
    pub(super) async fn close(&self) {
        let _ = timeout(REPLY_TIMEOUT, self.connection.close(200, "bye".into())).await;
    }

    /// Declares the queue of a type; returns the number of messages in it.
    pub(super) async fn declare_queue(&self, job_type: &str) -> Result<u32, Fault> {
        let mut declaring = self.declaring.lock().await;
        let declare = async {
            if declaring.mismatched.contains(job_type) {
                return topology::find_queue(&declaring.channel, job_type).await;
            }
            match topology::declare_queue(&declaring.channel, job_type).await {
                Err(error) if is_argument_mismatch(&error) => {
                    tracing::warn!(job_type, "queue exists with other arguments, used as it is");
                    declaring.channel = self.connection.create_channel().await?;
                    declaring.mismatched.insert(job_type.to_owned());
                    topology::find_queue(&declaring.channel, job_type).await
                }
                other => other,
            }
        };
        let found = match timeout(REPLY_TIMEOUT, declare).await {
            Ok(found) => found.map_err(Fault::from),
            Err(_) => Err(Fault::Silent),
        };
        found.inspect_err(|_| self.mark_broken())
    }

    /// Publishes messages concurrently up to the limit and waits for their confirms. Messages without a timely confirm
    /// count as unconfirmed, and the link is marked as broken.
    pub(super) async fn send(&self, messages: &[BrokerMessage]) -> (PublishOutcome, Option<Fault>) {
        let mut outcome = PublishOutcome::default();
        let mut fault = None;
        for batch in messages.chunks(MAX_UNCONFIRMED) {
            if fault.is_none()
                && let Err(error) = self.publish_batch(batch, &mut outcome).await
            {
                self.mark_broken();
                fault = Some(error);
            }
        }
        outcome.confirmed.resize(messages.len(), false);
        (outcome, fault)
    }

    async fn publish_batch(&self, messages: &[BrokerMessage], outcome: &mut PublishOutcome) -> Result<(), Fault> {
        let until = Instant::now() + CONFIRM_TIMEOUT;
        let before = outcome.confirmed.len();
        let mut confirms: Vec<PublisherConfirm> = Vec::with_capacity(messages.len());
        for message in messages {
            let published = timeout_at(until, self.publish(message)).await.map_err(|_| Fault::Unconfirmed)?;
            confirms.push(published?);
        }
        outcome.confirmed.resize(before + messages.len(), false);
        for (at, confirm) in confirms.into_iter().enumerate() {
            match timeout_at(until, confirm).await.map_err(|_| Fault::Unconfirmed)?? {
                Confirmation::Ack(None) => outcome.confirmed[before + at] = true,
                Confirmation::Ack(Some(_)) => outcome.returned += 1,
                Confirmation::Nack(_) => outcome.nacked += 1,
                Confirmation::NotRequested => return Err(Fault::Lost),
            }
        }
        Ok(())
    }

    async fn publish(&self, message: &BrokerMessage) -> lapin::Result<PublisherConfirm> {
        let exchange = match message.subject {
            Subject::Item => broker_messages::ITEMS_EXCHANGE,
            Subject::Dead => broker_messages::DEAD_LETTERS,
            Subject::Completed => broker_messages::COMPLETED_TREES,
        };
        // An announcement may have no consumer; a wake-up has its queue.
        let options = BasicPublishOptions { mandatory: true, ..BasicPublishOptions::default() };
        let properties =
            BasicProperties::default().with_delivery_mode(PERSISTENT).with_content_type("application/json".into());
        let key = message.job_type.as_str().into();
        self.publishing.basic_publish(exchange.into(), key, options, message.body.as_bytes(), properties).await
    }
}

/// Delivery mode of messages that survive a restart of the broker.
const PERSISTENT: u8 = 2;

/// Returns true if a declaration was refused because the name exists with other arguments.
fn is_argument_mismatch(error: &lapin::Error) -> bool {
    matches!(error.kind(), ErrorKind::ProtocolError(error)
        if *error.kind() == AMQPErrorKind::Soft(AMQPSoftError::PRECONDITIONFAILED))
}
