//! RabbitMQ: the only room that knows it.
//!
//! It carries wake-ups and announcements and decides nothing: it is given letters and says which of them
//! were confirmed. One supervisor makes the connection, its channels and all exchanges and queues from
//! nothing, as often as it takes. The address may hold a password and shows nowhere.

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
    wake::{TreeCompleted, WakeUp},
};
use lapin::uri::{AMQPScheme, AMQPUri};
use time::OffsetDateTime;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use link::{Fault, Link};

/// The pauses between two attempts to connect; a third of it more or less, so that servers do not come in step.
const SHORTEST: Duration = Duration::from_millis(250);
const LONGEST: Duration = Duration::from_secs(4);
/// Seconds between two signs of life, where the address does not say otherwise: a connection that is cut without
/// a word is noticed after two.
const HEARTBEAT: u16 = 5;

/// What the log leaves out unless asked: that the broker is away is said once, here.
pub const QUIET: &str = "lapin=off";

/// What a letter is about, and so where it goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Subject {
    Item,
    Dead,
    Completed,
}

/// A message to be published.
#[derive(Clone, Debug)]
pub struct Letter {
    pub(crate) subject: Subject,
    pub(crate) job_type: String,
    body: String,
}

impl Letter {
    /// An item can be claimed, or is dead.
    pub fn about_item(subject: Subject, wake_up: &WakeUp) -> Self {
        Self { subject, job_type: wake_up.job_type.clone(), body: json(wake_up) }
    }

    /// A tree is complete.
    pub fn completed(tree: &TreeCompleted) -> Self {
        Self { subject: Subject::Completed, job_type: tree.job_type.clone(), body: json(tree) }
    }
}

fn json(value: &impl serde::Serialize) -> String {
    serde_json::to_string(value).unwrap_or_default()
}

/// How the broker stands, as this server sees it.
#[derive(Clone, Debug)]
pub struct Standing {
    pub is_up: bool,
    /// Since when it has been so.
    pub since: Time,
    /// For how long.
    pub lasts: Duration,
    /// Why it is away, in words.
    pub fault: Option<String>,
    /// Messages that wait, by job type, as last seen.
    pub queues: BTreeMap<String, u32>,
}

/// The broker of one server. Cheap to clone.
#[derive(Clone)]
pub struct Broker(Arc<Inner>);

struct Inner {
    uri: AMQPUri,
    /// Host and port, for logs and alerts.
    place: String,
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
    /// Reads the address. Nothing is connected before [`Broker::run`].
    ///
    /// # Errors
    /// Where it is none; the message does not repeat it.
    pub fn at(url: &str) -> anyhow::Result<Self> {
        let mut uri: AMQPUri = url.parse().map_err(|_| {
            anyhow!("AMQP_URL is not an address of RabbitMQ, such as amqp://user:password@host:5672/vhost")
        })?;
        // `amqp://host/` means the vhost of that name, as everybody but the letter of the grammar has it.
        if uri.vhost.is_empty() {
            "/".clone_into(&mut uri.vhost);
        }
        uri.query.heartbeat.get_or_insert(HEARTBEAT);
        if uri.scheme == AMQPScheme::AMQPS {
            // Ring is ours, once a process; whoever installed another before keeps it.
            let _ = rustls::crypto::ring::default_provider().install_default();
        }
        let place = format!("{}:{}", uri.authority.host, uri.authority.port);
        let since = (OffsetDateTime::now_utc(), Instant::now());
        let state = Mutex::new(State { is_up: false, since, fault: None, queues: BTreeMap::new() });
        Ok(Self(Arc::new(Inner { uri, place, link: watch::Sender::new(None), state })))
    }

    /// Host and port.
    pub fn place(&self) -> &str {
        &self.0.place
    }

    /// Keeps a connection, until shutdown.
    pub async fn run(self, shutdown: CancellationToken) {
        let mut pause = SHORTEST;
        loop {
            let Some(opened) = shutdown.run_until_cancelled(Link::open(&self.0.uri)).await else { return };
            match opened {
                Ok(link) => {
                    let link = Arc::new(link);
                    self.now(None);
                    self.0.link.send_replace(Some(Arc::clone(&link)));
                    tracing::info!(broker = self.0.place, "RabbitMQ is there");
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
                    self.now(Some(&Fault::Lost));
                }
                Err(fault) => self.now(Some(&fault)),
            }
            let jittered = pause.mul_f64(rand::random_range(0.67..1.33));
            if shutdown.run_until_cancelled(tokio::time::sleep(jittered)).await.is_none() {
                return;
            }
            pause = (pause * 2).min(LONGEST);
        }
    }

    /// Notes how the broker stands now.
    fn now(&self, fault: Option<&Fault>) {
        let mut state = self.0.state.lock().unwrap_or_else(PoisonError::into_inner);
        let is_up = fault.is_none();
        if let Some(fault) = fault
            && (state.is_up || state.fault.is_none())
        {
            tracing::warn!(broker = self.0.place, %fault, "RabbitMQ is away; workers are woken without it");
        }
        if state.is_up != is_up {
            state.since = (OffsetDateTime::now_utc(), Instant::now());
        }
        state.is_up = is_up;
        state.fault = fault.map(ToString::to_string);
    }

    /// How it stands.
    pub fn standing(&self) -> Standing {
        let state = self.0.state.lock().unwrap_or_else(PoisonError::into_inner);
        Standing {
            is_up: state.is_up,
            since: Time(state.since.0),
            lasts: state.since.1.elapsed(),
            fault: state.fault.clone(),
            queues: state.queues.clone(),
        }
    }

    /// Whether letters can be sent now.
    pub fn is_up(&self) -> bool {
        self.0.link.borrow().is_some()
    }

    /// Resolves when letters can be sent.
    pub async fn up(&self) {
        let mut link = self.0.link.subscribe();
        // The sender lives as long as this does.
        let _ = link.wait_for(Option::is_some).await;
    }

    fn link(&self) -> Option<Arc<Link>> {
        self.0.link.borrow().clone()
    }

    /// Declares the queue of a type; returns how many messages wait in it, `None` where the broker is away.
    pub async fn declare_queue(&self, job_type: &str) -> Option<u32> {
        let depth = self.link()?.declare_queue(job_type).await;
        match depth {
            Ok(depth) => {
                let mut state = self.0.state.lock().unwrap_or_else(PoisonError::into_inner);
                state.queues.insert(job_type.to_owned(), depth);
                Some(depth)
            }
            Err(fault) => {
                tracing::debug!(broker = self.0.place, %fault, job_type, "a queue was not declared");
                None
            }
        }
    }

    /// Forgets the queues of types that are not among these.
    pub fn keep_queues(&self, job_types: &[&str]) {
        let mut state = self.0.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.queues.retain(|name, _| job_types.contains(&name.as_str()));
    }

    /// How many messages waited in the queue of a type when it was last declared; `None`: it has not been yet.
    pub fn depth(&self, job_type: &str) -> Option<u32> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner).queues.get(job_type).copied()
    }

    /// Publishes letters and waits until the broker has confirmed them. By letter: whether it did. What it
    /// returned as having no queue was not sent: that queue is declared again before the next attempt.
    pub async fn send(&self, letters: &[Letter]) -> Vec<bool> {
        let Some(link) = self.link() else { return vec![false; letters.len()] };
        let (sent, fault) = link.send(letters).await;
        let confirmed = sent.confirmed.iter().filter(|confirmed| **confirmed).count();
        metrics::counter!("treeline_broker_published_total").increment(confirmed as u64);
        metrics::counter!("treeline_broker_returned_total").increment(sent.returned as u64);
        metrics::counter!("treeline_broker_nacked_total").increment(sent.nacked as u64);
        if let Some(fault) = fault {
            let unconfirmed = letters.len() - confirmed - sent.returned - sent.nacked;
            metrics::counter!("treeline_broker_unconfirmed_total").increment(unconfirmed as u64);
            tracing::debug!(broker = self.0.place, %fault, unconfirmed, "letters were not confirmed");
        }
        if sent.returned > 0 {
            let mut state = self.0.state.lock().unwrap_or_else(PoisonError::into_inner);
            for (letter, _) in letters.iter().zip(&sent.confirmed).filter(|(_, confirmed)| !**confirmed) {
                state.queues.remove(&letter.job_type);
            }
            drop(state);
            if letters.iter().any(|letter| letter.subject != Subject::Item) {
                // What is declared with the connection may be what is missing.
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
        assert_eq!(broker.place(), "mq.example:5673");
        assert_eq!(broker.0.uri.vhost, "/");
        assert_eq!(Broker::at("amqp://mq.example/").expect("an address").0.uri.vhost, "/");
        assert_eq!(Broker::at("amqp://mq.example/work").expect("an address").0.uri.vhost, "work");
        for bad in ["http://me:secret@mq.example", "mq.example:5672", "amqp://me:secret@mq.example:port"] {
            let refused = Broker::at(bad).err().expect("no address").to_string();
            assert!(!refused.contains("secret"), "{refused}");
        }
    }
}
