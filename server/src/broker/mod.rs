//! RabbitMQ client: the only module that depends on it.
//!
//! It publishes wake-ups and announcements and returns which of them were confirmed; it makes no decisions. One
//! supervisor creates the connection, its channels and all exchanges and queues, and recreates them after every fault.
//! The URL may contain a password and is never logged.

mod link;
mod topology;

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use anyhow::anyhow;
use domain::{
    Time,
    notify::broker_messages::{TreeCompleted, WakeUp},
};
use lapin::uri::{AMQPScheme, AMQPUri};
use time::OffsetDateTime;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use link::{Fault, Link};

/// Range of the pause between connection attempts; a third of jitter keeps servers from reconnecting in step.
const SHORTEST: Duration = Duration::from_millis(250);
const LONGEST: Duration = Duration::from_secs(4);
/// Default heartbeat interval in seconds, unless the URL sets one: a silently dropped connection is detected after two
/// intervals.
const HEARTBEAT: u16 = 5;

/// Default log filter: this module logs an unavailable broker once.
pub const QUIET: &str = "lapin=off";

/// Subject of a message, which determines its routing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Subject {
    Item,
    Dead,
    Completed,
}

/// Message to publish.
#[derive(Clone, Debug)]
pub struct BrokerMessage {
    pub(crate) subject: Subject,
    pub(crate) job_type: String,
    body: String,
}

impl BrokerMessage {
    /// Message about an item that is ready or dead.
    pub fn for_item(subject: Subject, wake_up: &WakeUp) -> Self {
        Self { subject, job_type: wake_up.job_type.clone(), body: json(wake_up) }
    }

    /// Message about a complete tree.
    pub fn completed(tree: &TreeCompleted) -> Self {
        Self { subject: Subject::Completed, job_type: tree.job_type.clone(), body: json(tree) }
    }
}

fn json(value: &impl serde::Serialize) -> String {
    serde_json::to_string(value).unwrap_or_default()
}

/// State of the broker as seen by this server.
#[derive(Clone, Debug)]
pub struct BrokerStatus {
    pub is_up: bool,
    /// Start of the current state.
    pub since: Time,
    /// Duration of the current state.
    pub lasts: Duration,
    /// Reason why the broker is unavailable.
    pub fault: Option<String>,
    /// Number of queued messages by job type, as last seen.
    pub queues: BTreeMap<String, u32>,
}

/// Broker of one server. Cheap to clone.
#[derive(Clone)]
pub struct Broker(Arc<Inner>);

struct Inner {
    uri: AMQPUri,
    /// Host and port, for logs and alerts.
    address: String,
    link: watch::Sender<Option<Arc<Link>>>,
    state: Mutex<State>,
}

struct State {
    is_up: bool,
    since: (OffsetDateTime, Instant),
    fault: Option<String>,
    queues: BTreeMap<String, u32>,
}

impl Broker {
    /// Parses the URL. Connects only in [`Broker::run`].
    ///
    /// # Errors
    /// If the URL is invalid; the message does not repeat it.
    pub fn at(url: &str) -> anyhow::Result<Self> {
        let mut uri: AMQPUri = url.parse().map_err(|_| {
            anyhow!("AMQP_URL is not an address of RabbitMQ, such as amqp://user:password@host:5672/vhost")
        })?;
        // `amqp://host/` means the vhost `/` by convention, although the grammar makes it empty.
        if uri.vhost.is_empty() {
            "/".clone_into(&mut uri.vhost);
        }
        uri.query.heartbeat.get_or_insert(HEARTBEAT);
        if uri.scheme == AMQPScheme::AMQPS {
            // Install ring once per process; a provider that was installed earlier stays.
            let _ = rustls::crypto::ring::default_provider().install_default();
        }
        let address = format!("{}:{}", uri.authority.host, uri.authority.port);
        let since = (OffsetDateTime::now_utc(), Instant::now());
        let state = Mutex::new(State { is_up: false, since, fault: None, queues: BTreeMap::new() });
        Ok(Self(Arc::new(Inner { uri, address, link: watch::Sender::new(None), state })))
    }

    /// Host and port.
    pub fn address(&self) -> &str {
        &self.0.address
    }

    /// Maintains a connection until shutdown.
    pub async fn run(self, shutdown: CancellationToken) {
        let mut pause = SHORTEST;
        loop {
            let Some(opened) = shutdown.run_until_cancelled(Link::open(&self.0.uri)).await else { return };
            match opened {
                Ok(link) => {
                    let link = Arc::new(link);
                    self.set_state(None);
                    self.0.link.send_replace(Some(Arc::clone(&link)));
                    tracing::info!(broker = self.0.address, "broker connected");
                    let opened_at = Instant::now();
                    let stays = shutdown.run_until_cancelled(link.broken()).await.is_some();
                    self.0.link.send_replace(None);
                    if !stays {
                        link.close().await;
                        return;
                    }
                    if opened_at.elapsed() > LONGEST {
                        pause = SHORTEST;
                    }
                    self.set_state(Some(&Fault::Lost));
                }
                Err(fault) => self.set_state(Some(&fault)),
            }
            let jittered = pause.mul_f64(rand::random_range(0.67..1.33));
            if shutdown.run_until_cancelled(tokio::time::sleep(jittered)).await.is_none() {
                return;
            }
            pause = (pause * 2).min(LONGEST);
        }
    }

    /// Updates the state of the broker.
    fn set_state(&self, fault: Option<&Fault>) {
        let mut state = self.0.state.lock().unwrap_or_else(PoisonError::into_inner);
        let is_up = fault.is_none();
        if let Some(fault) = fault
            && (state.is_up || state.fault.is_none())
        {
            tracing::warn!(broker = self.0.address, %fault, "broker disconnected, wake-ups continue by long polling");
        }
        if state.is_up != is_up {
            state.since = (OffsetDateTime::now_utc(), Instant::now());
        }
        state.is_up = is_up;
        state.fault = fault.map(ToString::to_string);
    }

    /// Returns the state of the broker.
    pub fn status(&self) -> BrokerStatus {
        let state = self.0.state.lock().unwrap_or_else(PoisonError::into_inner);
        BrokerStatus {
            is_up: state.is_up,
            since: Time(state.since.0),
            lasts: state.since.1.elapsed(),
            fault: state.fault.clone(),
            queues: state.queues.clone(),
        }
    }

    /// Returns true if messages can be sent.
    pub fn is_up(&self) -> bool {
        self.0.link.borrow().is_some()
    }

    /// Resolves when messages can be sent.
    pub async fn up(&self) {
        let mut link = self.0.link.subscribe();
        // The sender lives as long as `self`.
        let _ = link.wait_for(Option::is_some).await;
    }

    fn link(&self) -> Option<Arc<Link>> {
        self.0.link.borrow().clone()
    }

    /// Declares the queue of a type; returns the number of messages in it, `None` if the broker is unavailable.
    pub async fn declare_queue(&self, job_type: &str) -> Option<u32> {
        let depth = self.link()?.declare_queue(job_type).await;
        match depth {
            Ok(depth) => {
                let mut state = self.0.state.lock().unwrap_or_else(PoisonError::into_inner);
                state.queues.insert(job_type.to_owned(), depth);
                Some(depth)
            }
            Err(fault) => {
                tracing::debug!(broker = self.0.address, %fault, job_type, "queue declaration failed");
                None
            }
        }
    }

    /// Drops the cached depths of all other types' queues.
    pub fn retain_queues(&self, job_types: &[&str]) {
        let mut state = self.0.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.queues.retain(|name, _| job_types.contains(&name.as_str()));
    }

    /// Number of messages in the queue of a type at its last declaration; `None` before the first.
    pub fn depth(&self, job_type: &str) -> Option<u32> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner).queues.get(job_type).copied()
    }

    /// Publishes messages and waits for confirms. Returns by message whether it was confirmed. A message returned for a
    /// missing queue counts as unsent: that queue is declared again before the next attempt.
    pub async fn send(&self, messages: &[BrokerMessage]) -> Vec<bool> {
        let Some(link) = self.link() else { return vec![false; messages.len()] };
        let (sent, fault) = link.send(messages).await;
        let confirmed = sent.confirmed.iter().filter(|confirmed| **confirmed).count();
        metrics::counter!("treeline_broker_published_total").increment(confirmed as u64);
        metrics::counter!("treeline_broker_returned_total").increment(sent.returned as u64);
        metrics::counter!("treeline_broker_nacked_total").increment(sent.nacked as u64);
        if let Some(fault) = fault {
            let unconfirmed = messages.len() - confirmed - sent.returned - sent.nacked;
            metrics::counter!("treeline_broker_unconfirmed_total").increment(unconfirmed as u64);
            tracing::debug!(broker = self.0.address, %fault, unconfirmed, "messages not confirmed");
        }
        if sent.returned > 0 {
            let mut state = self.0.state.lock().unwrap_or_else(PoisonError::into_inner);
            for (message, _) in messages.iter().zip(&sent.confirmed).filter(|(_, confirmed)| !**confirmed) {
                state.queues.remove(&message.job_type);
            }
            drop(state);
            if messages.iter().any(|message| message.subject != Subject::Item) {
                // The objects declared at connect may be missing.
                link.mark_broken();
            }
        }
        sent.confirmed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_read_and_never_repeated() {
        let broker = Broker::at("amqp://me:secret@mq.example:5673").expect("an address");
        assert_eq!(broker.address(), "mq.example:5673");
        assert_eq!(broker.0.uri.vhost, "/");
        assert_eq!(Broker::at("amqp://mq.example/").expect("an address").0.uri.vhost, "/");
        assert_eq!(Broker::at("amqp://mq.example/work").expect("an address").0.uri.vhost, "work");
        for bad in ["http://me:secret@mq.example", "mq.example:5672", "amqp://me:secret@mq.example:port"] {
            let refused = Broker::at(bad).err().expect("no address").to_string();
            assert!(!refused.contains("secret"), "{refused}");
        }
    }
}
