//! One connection to the broker, from its making to its first fault.
//!
//! A link is never repaired: whatever goes wrong marks it as broken, and the supervisor makes another from
//! nothing. Every wait for the broker has a limit, as one under an alarm says nothing at all.

use std::{
    collections::HashSet,
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

use domain::wake;
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

use super::{Letter, Subject, topology};

/// How long a connection, a declaration and the confirms of a batch may take.
const ANSWER: Duration = Duration::from_secs(5);
const CONFIRMS: Duration = Duration::from_secs(10);
/// Messages on their way to the broker at once.
const AT_ONCE: usize = 1_000;

/// What went wrong with a link, in words without secrets.
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

/// What became of letters.
#[derive(Debug, Default)]
pub(super) struct Sent {
    /// By letter: confirmed, and not returned.
    pub(super) confirmed: Vec<bool>,
    /// Of letters that were returned: the types whose queues are to be declared again.
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

/// Declarations have a channel of their own: one that is refused closes it.
struct Declaring {
    channel: Channel,
    /// Types whose queues somebody else made, with other arguments.
    others: HashSet<String>,
}

impl Link {
    /// Connects, declares what does not depend on types, and makes sure that publishing is confirmed.
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
        let (connection, declaring, publishing) = timeout(ANSWER, open).await.map_err(|_| Fault::Silent)??;
        let link = Self {
            connection,
            publishing,
            declaring: Mutex::new(Declaring { channel: declaring, others: HashSet::new() }),
            is_broken: AtomicBool::new(false),
            broke: Notify::new(),
        };
        link.probe().await?;
        Ok(link)
    }

    /// Publishes to nobody, twice: a broker under an alarm accepts a connection, takes what it publishes first, and
    /// reads no further.
    async fn probe(&self) -> Result<(), Fault> {
        let probe = async {
            for _ in 0..2 {
                let (options, properties) = (BasicPublishOptions::default(), BasicProperties::default());
                let to = wake::ITEMS.into();
                self.publishing.basic_publish(to, "".into(), options, b"", properties).await?.await?;
            }
            Ok::<_, Fault>(())
        };
        timeout(ANSWER, probe).await.map_err(|_| Fault::Unconfirmed)?
    }

    /// Resolves when the link is of no use any more.
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
                    // A channel that is closed is not the connection; whoever needs it says so.
                    Some(Event::Error(error)) if !error.is_amqp_soft_error() => return,
                    None => return,
                    Some(_) => {}
                },
            }
        }
    }

    /// The supervisor is to make another.
    pub(super) fn mark_broken(&self) {
        self.is_broken.store(true, Ordering::Release);
        self.broke.notify_one();
    }

    /// Says goodbye, briefly.
    pub(super) async fn close(&self) {
        let _ = timeout(ANSWER, self.connection.close(200, "bye".into())).await;
    }

    /// Declares the queue of a type; returns how many messages wait in it.
    pub(super) async fn declare_queue(&self, job_type: &str) -> Result<u32, Fault> {
        let mut declaring = self.declaring.lock().await;
        let declare = async {
            if declaring.others.contains(job_type) {
                return topology::find_queue(&declaring.channel, job_type).await;
            }
            match topology::declare_queue(&declaring.channel, job_type).await {
                Err(error) if is_other(&error) => {
                    tracing::warn!(job_type, "a queue of this name has other arguments; it is used as it is");
                    declaring.channel = self.connection.create_channel().await?;
                    declaring.others.insert(job_type.to_owned());
                    topology::find_queue(&declaring.channel, job_type).await
                }
                other => other,
            }
        };
        let found = match timeout(ANSWER, declare).await {
            Ok(found) => found.map_err(Fault::from),
            Err(_) => Err(Fault::Silent),
        };
        found.inspect_err(|_| self.mark_broken())
    }

    /// Publishes letters, as many at once as may be on their way, and waits for what the broker says of them.
    /// What it says nothing of in time is not confirmed, and the link is broken.
    pub(super) async fn send(&self, letters: &[Letter]) -> (Sent, Option<Fault>) {
        let mut sent = Sent::default();
        let mut fault = None;
        for some in letters.chunks(AT_ONCE) {
            if fault.is_none()
                && let Err(error) = self.send_some(some, &mut sent).await
            {
                self.mark_broken();
                fault = Some(error);
            }
        }
        sent.confirmed.resize(letters.len(), false);
        (sent, fault)
    }

    async fn send_some(&self, letters: &[Letter], sent: &mut Sent) -> Result<(), Fault> {
        let until = Instant::now() + CONFIRMS;
        let before = sent.confirmed.len();
        let mut confirms: Vec<PublisherConfirm> = Vec::with_capacity(letters.len());
        for letter in letters {
            let published = timeout_at(until, self.publish(letter)).await.map_err(|_| Fault::Unconfirmed)?;
            confirms.push(published?);
        }
        sent.confirmed.resize(before + letters.len(), false);
        for (at, confirm) in confirms.into_iter().enumerate() {
            match timeout_at(until, confirm).await.map_err(|_| Fault::Unconfirmed)?? {
                Confirmation::Ack(None) => sent.confirmed[before + at] = true,
                Confirmation::Ack(Some(_)) => sent.returned += 1,
                Confirmation::Nack(_) => sent.nacked += 1,
                Confirmation::NotRequested => return Err(Fault::Lost),
            }
        }
        Ok(())
    }

    async fn publish(&self, letter: &Letter) -> lapin::Result<PublisherConfirm> {
        let exchange = match letter.subject {
            Subject::Item => wake::ITEMS,
            Subject::Dead => wake::DEAD,
            Subject::Completed => wake::COMPLETED,
        };
        // An announcement may have no listener; a wake-up has its queue.
        let options = BasicPublishOptions { mandatory: true, ..BasicPublishOptions::default() };
        let properties =
            BasicProperties::default().with_delivery_mode(PERSISTENT).with_content_type("application/json".into());
        let key = letter.job_type.as_str().into();
        self.publishing.basic_publish(exchange.into(), key, options, letter.body.as_bytes(), properties).await
    }
}

/// Survives a restart of the broker.
const PERSISTENT: u8 = 2;

/// Whether a declaration was refused because the name is taken with other arguments.
fn is_other(error: &lapin::Error) -> bool {
    matches!(error.kind(), ErrorKind::ProtocolError(error)
        if *error.kind() == AMQPErrorKind::Soft(AMQPSoftError::PRECONDITIONFAILED))
}
