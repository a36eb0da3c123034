//! A worker: claims items, runs a handler for each, sends heartbeats, and reports the endings.
//!
//! This is its public interface. The loop is in `run` and its parts, the assignments it holds in `active`, reports to
//! the server in `report`, and wake-ups from RabbitMQ in `rabbitmq`. Messages are only hints: the assignment id from
//! the server decides (`fencing`), and a handler whose lease may be lost is stopped before the server can assign its
//! item to another worker (`lease-expiry`).
//!
//! An ending is reported, with at most 30 s between two reports, until Treeline answers it or says that the assignment is
//! closed; another answer, such as the 404 of a proxy, counts as none, and so does a refusal of the caller (401, 403, or
//! 421), which says nothing about the ending. If something on the way refuses only the report, for the length of a lease
//! while heartbeats are answered, a failure without its content is reported instead (`answer_refused`). Progress that is
//! refused on the way goes with later heartbeats until one is accepted.
//!
//! A failure of a handler that was told to stop was most likely caused by the stop: its item is released, and no failure is
//! counted, unless it is final (not retryable, or it cancels the tree) or the item is delivered `at_most_once`. A pause that
//! the failure asks for is that of the release. The SDKs do the same.

mod active;
mod claims;
mod endings;
mod heartbeats;
mod progress;
#[cfg(feature = "rabbitmq")]
mod rabbitmq;
#[cfg(not(feature = "rabbitmq"))]
#[path = "worker/no_rabbitmq.rs"]
mod rabbitmq;
mod report;
mod run;

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use domain::{
    Document,
    api::{
        AssignedItem, Assignment, FailureBody, Inputs, LogsAdded, LogsBody, NewLogLine, ReleaseBody, StepBody,
        WorkError,
    },
    event_wait::WaitBody,
    id::Uuid,
    item::{ItemProgress, Step},
};
use tokio_util::sync::CancellationToken;

use progress::{ProgressCell, printable};

use crate::{
    client::Client,
    error::{Error, Result},
};

/// Maximum number of items in one claim and in one batch of heartbeats.
const MAX_BATCH: usize = 1_000;

/// Time for which log lines are retried if the server certainly did not accept them.
const LOG_RETRY_TIMEOUT: Duration = Duration::from_secs(5);

/// Job types to claim, and the number of items at once.
#[derive(Clone, Debug)]
pub struct Worker {
    client: Client,
    types: Vec<String>,
    name: String,
    concurrency: usize,
    drain_limit: Duration,
    stop_grace: Duration,
    broker: Option<rabbitmq::Address>,
}

impl Worker {
    /// A worker for these job types, with one item at a time and 30 s to finish when it drains.
    pub fn new<T: Into<String>>(client: Client, types: impl IntoIterator<Item = T>) -> Self {
        Self {
            client,
            types: types.into_iter().map(Into::into).collect(),
            name: default_worker_id(),
            concurrency: 1,
            drain_limit: Duration::from_secs(30),
            stop_grace: Duration::from_secs(5),
            broker: None,
        }
    }

    /// Number of items to hold at once; at least 1.
    #[must_use]
    pub fn concurrency(mut self, items: usize) -> Self {
        self.concurrency = items.max(1);
        self
    }

    /// Name of the worker, which people see next to its items. Default: `host-process-random`.
    #[must_use]
    pub fn worker_id(mut self, id: impl Into<String>) -> Self {
        self.name = id.into();
        self
    }

    /// Time for which running items may continue after draining began; then they are stopped and released, or fail if they
    /// are delivered at most once.
    #[must_use]
    pub fn drain_limit(mut self, limit: Duration) -> Self {
        self.drain_limit = limit;
        self
    }

    /// Time for which a handler may continue after [`Task::stopped`] until it is dropped. Less
    /// where the lease ends sooner.
    #[must_use]
    pub fn stop_grace(mut self, grace: Duration) -> Self {
        self.stop_grace = grace;
        self
    }

    /// Receives wake-ups from RabbitMQ at this address, such as `amqp://user:password@host:5672/vhost`, and claims
    /// the items that they name. The worker also claims from the server every few seconds, and by long poll while the
    /// broker is unreachable: losing the broker costs time, not items.
    ///
    /// ```no_run
    /// # async fn example(client: client::Client) -> Result<(), client::Error> {
    /// use client::{Document, Worker};
    ///
    /// let worker = Worker::new(client, ["greet"]).rabbitmq("amqp://127.0.0.1:5672")?;
    /// worker.run(|_task| async { Ok(Document::empty_object()) }).await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// An invalid address; the message does not repeat it.
    #[cfg(feature = "rabbitmq")]
    pub fn rabbitmq(mut self, url: &str) -> Result<Self> {
        self.broker = Some(rabbitmq::Address::parse(url)?);
        Ok(self)
    }

    /// Name of the worker.
    pub fn id(&self) -> &str {
        &self.name
    }

    /// Works until SIGTERM or ctrl-C, then drains; at a second signal it drops everything.
    ///
    /// # Errors
    /// Permanent errors, such as a refused token or an unknown job type. Running items end first.
    pub async fn run<H, F>(self, handler: H) -> Result<Summary>
    where
        H: Fn(Task) -> F + Send + Sync + 'static,
        F: Future<Output = Result<Document, Unfinished>> + Send + 'static,
    {
        let drain =
            Drain::on_signals().map_err(|e| Error::Configuration(format!("Signals cannot be listened to: {e}")))?;
        self.run_until(drain, handler).await
    }

    /// Works until `drain` begins.
    ///
    /// # Errors
    /// As [`Worker::run`].
    pub async fn run_until<H, F>(self, drain: Drain, handler: H) -> Result<Summary>
    where
        H: Fn(Task) -> F + Send + Sync + 'static,
        F: Future<Output = Result<Document, Unfinished>> + Send + 'static,
    {
        let handler: run::Handler = Arc::new(move |task| Box::pin(handler(task)));
        run::Loop::new(self, handler).run(drain).await
    }
}

/// Tells a worker to stop.
#[derive(Clone, Debug, Default)]
pub struct Drain {
    begun: CancellationToken,
    forced: CancellationToken,
}

impl Drain {
    /// A drain that has not begun.
    pub fn new() -> Self {
        Self::default()
    }

    /// A drain that begins with the first SIGTERM or ctrl-C, and is forced with the second.
    pub fn on_signals() -> std::io::Result<Self> {
        use tokio::signal::unix::{SignalKind, signal};
        let mut terminate = signal(SignalKind::terminate())?;
        let mut interrupt = signal(SignalKind::interrupt())?;
        let drain = Self::new();
        let pulled = drain.clone();
        tokio::spawn(async move {
            for pull in [Self::begin, Self::force] {
                tokio::select! {
                    _ = terminate.recv() => {}
                    _ = interrupt.recv() => {}
                }
                pull(&pulled);
            }
        });
        Ok(drain)
    }

    /// Stops claiming. Running items may end within the drain limit; the rest are released, or fail if they are delivered
    /// at most once.
    pub fn begin(&self) {
        self.begun.cancel();
    }

    /// Drops all handlers at once; their leases expire.
    pub fn force(&self) {
        self.forced.cancel();
    }

    /// Resolves when draining has begun.
    pub async fn begun(&self) {
        self.begun.cancelled().await;
    }

    /// Resolves when it is forced.
    pub async fn forced(&self) {
        self.forced.cancelled().await;
    }
}

/// Counts of a worker.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct Summary {
    /// Results that were accepted.
    pub succeeded: u64,
    /// Failures that were accepted.
    pub failed: u64,
    /// Items released without a failure, and those that wait for an event.
    pub released: u64,
    /// Items whose assignment was closed before the worker ended it: canceled, timed out, lease lost.
    pub closed: u64,
    /// Items whose ending could not be reported before the worker stopped; their leases expire.
    pub unreported: u64,
    /// Messages from the broker that are not wake-ups.
    pub unreadable: u64,
}

/// Reason why a handler has no result.
#[derive(Clone, Debug, PartialEq)]
pub enum Unfinished {
    /// The attempt failed (`retry-budget`).
    Failed(FailureBody),
    /// The item is released without a failure.
    Released(ReleaseBody),
    /// The item waits for an event, which the next attempt has in [`Task::item`] (`waiting-for-events`).
    Waits(WaitBody),
}

impl Unfinished {
    /// Message and kind of the failure of work that was stopped and must not be released.
    pub(crate) const STOPPED: (&str, &str) = ("The worker was stopped before the item was done.", "worker_stopped");

    /// A failure with a message for people; retryable within the item's budget.
    pub fn failed(message: impl Into<String>) -> Self {
        Self::Failed(FailureBody {
            error: WorkError { message: message.into(), kind: None, detail: None },
            retryable: true,
            retry_after_seconds: None,
            cancel_tree: false,
        })
    }

    /// The end of work that was stopped before it was done. The worker releases its item, or makes it a failure if it is
    /// delivered at most once: its outcome is unknown.
    pub fn stopped() -> Self {
        Self::failed(Self::STOPPED.0).kind(Self::STOPPED.1)
    }

    /// A release, which does not count as a failure. The work must not have begun if the item is delivered at most once.
    pub const fn released() -> Self {
        Self::Released(ReleaseBody { retry_after_seconds: None })
    }

    /// A wait for an event of this name, without a timeout and a form.
    pub fn waits_for(event: impl Into<String>) -> Self {
        Self::Waits(WaitBody { name: event.into(), timeout_seconds: None, form: None })
    }

    /// Sets the kind of the error, which programs can match on.
    #[must_use]
    pub fn kind(mut self, kind: impl Into<String>) -> Self {
        if let Self::Failed(failure) = &mut self {
            failure.error.kind = Some(kind.into());
        }
        self
    }

    /// Makes the failure permanent: the item is dead at once.
    #[must_use]
    pub fn not_retryable(mut self) -> Self {
        if let Self::Failed(failure) = &mut self {
            failure.retryable = false;
        }
        self
    }

    /// Delays the next attempt by this pause; a wait for an event has none.
    #[must_use]
    pub fn retry_after(mut self, pause: Duration) -> Self {
        let seconds = Some(pause.as_secs_f64());
        match &mut self {
            Self::Failed(failure) => failure.retry_after_seconds = seconds,
            Self::Released(release) => release.retry_after_seconds = seconds,
            Self::Waits(_) => {}
        }
        self
    }
}

/// One item and its assignment, as a handler gets it.
#[derive(Clone, Debug)]
pub struct Task {
    assignment: Arc<Assignment>,
    client: Client,
    progress: Arc<ProgressCell>,
    stop: CancellationToken,
}

impl Task {
    /// The item: payload, keys, last step.
    pub fn item(&self) -> &AssignedItem {
        &self.assignment.item
    }

    /// The assignment id, which identifies this attempt when it ends.
    pub fn assignment_id(&self) -> Uuid {
        self.assignment.id
    }

    /// Number of this attempt, from 1.
    pub fn attempt(&self) -> i32 {
        self.assignment.attempt
    }

    /// Parent of the handler's own spans (W3C Trace Context), if the item was added within a trace. Send it as the
    /// header `traceparent`, or read it with the propagator of an OpenTelemetry SDK.
    pub fn traceparent(&self) -> Option<String> {
        self.item().traceparent.map(|at| at.to_string())
    }

    /// Results of the jobs that the item's job waited for (`after`), by key; none if it waited for
    /// none.
    pub fn inputs(&self) -> Option<&BTreeMap<String, Inputs>> {
        self.assignment.inputs.as_ref()
    }

    /// Reports progress. Cheap; the latest report is sent, at most once per second.
    pub fn progress(&self, progress: ItemProgress) {
        self.progress.set(progress);
    }

    /// Records a recovery point and its data (`steps`).
    pub async fn step(&self, name: impl Into<String>, data: Option<Document>) -> Result<Step> {
        self.client.step(self.assignment.id, &StepBody { name: name.into(), data }).await
    }

    /// Adds lines to the log of this attempt (`attempt-logs`): 1 to 1,000, all or none. Retried for five seconds while
    /// the server is busy or unreachable.
    pub async fn log(&self, lines: Vec<NewLogLine>) -> Result<LogsAdded> {
        self.client.with_retry_timeout(LOG_RETRY_TIMEOUT).log(self.assignment.id, &LogsBody { lines }).await
    }

    /// Resolves when the handler must stop: canceled, lease lost, or the worker is draining. A handler that has not
    /// ended shortly afterwards is dropped.
    pub async fn stopped(&self) {
        self.stop.cancelled().await;
    }

    /// True after [`Task::stopped`].
    pub fn is_stopped(&self) -> bool {
        self.stop.is_cancelled()
    }
}

fn default_worker_id() -> String {
    let system = rustix::system::uname();
    let host = printable(&system.nodename().to_string_lossy(), 60);
    format!("{host}-{}-{:04x}", std::process::id(), rand::random::<u16>())
}
