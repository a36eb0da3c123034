//! A worker: claims items, runs a handler for each, keeps them alive, and reports what became of them.
//!
//! This is its public face; the loop is in `run` and its parts, what it holds in `held`, how endings
//! reach the server in `report`, what RabbitMQ says in `rabbit`. The worker trusts nothing it heard: the
//! server's assignment id decides (`fencing`), and a handler whose lease may have been lost is stopped before another
//! worker can be given its item (`lease-expiry`).

mod beats;
mod claims;
mod endings;
mod held;
mod progress;
#[cfg(feature = "rabbitmq")]
mod rabbit;
#[cfg(not(feature = "rabbitmq"))]
#[path = "worker/deaf.rs"]
mod rabbit;
mod report;
mod run;

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use domain::{
    Document,
    api::{
        AssignedItem, Assignment, FailureBody, Inputs, LogsAdded, LogsBody, NewLogLine, ReleaseBody, StepBody,
        WorkError,
    },
    id::Uuid,
    item::{ItemProgress, Step},
};
use tokio_util::sync::CancellationToken;

use progress::{ProgressCell, printable};

use crate::{
    client::Client,
    error::{Error, Result},
};

/// The most that one claim, and one batch of heartbeats, may name.
const MOST: usize = 1_000;

/// Time for which log lines are sent again if the server surely did not take them.
const LOG_PATIENCE: Duration = Duration::from_secs(5);

/// Job types to claim, and the number of items at once.
#[derive(Clone, Debug)]
pub struct Worker {
    client: Client,
    types: Vec<String>,
    name: String,
    concurrency: usize,
    drain_limit: Duration,
    stop_grace: Duration,
    broker: Option<rabbit::Address>,
}

impl Worker {
    /// A worker of these job types: one item at a time, 30 s to finish when it is told to stop.
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

    /// The name people see beside the items it holds. Unless said otherwise `host-process-random`.
    #[must_use]
    pub fn worker_id(mut self, id: impl Into<String>) -> Self {
        self.name = id.into();
        self
    }

    /// Time for which running items may continue after the worker was told to stop; then they are released.
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

    /// Listens to RabbitMQ at this address, such as `amqp://user:password@host:5672/vhost`: items are asked for
    /// as their wake-ups come. While nothing can be heard there, and every few seconds anyway, the worker asks
    /// the server as it always does: losing the broker costs time, not items.
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
    /// If it is not a valid address; the message does not repeat it.
    #[cfg(feature = "rabbitmq")]
    pub fn rabbitmq(mut self, url: &str) -> Result<Self> {
        self.broker = Some(rabbit::Address::parse(url)?);
        Ok(self)
    }

    /// The name this worker goes by.
    pub fn id(&self) -> &str {
        &self.name
    }

    /// Works until SIGTERM or ctrl-C, then drains; at a second signal it drops everything.
    ///
    /// # Errors
    /// Errors that do not go away: a refused token, an unknown job type. Running items end first.
    pub async fn run<H, F>(self, handler: H) -> Result<Summary>
    where
        H: Fn(Task) -> F + Send + Sync + 'static,
        F: Future<Output = Result<Document, Unfinished>> + Send + 'static,
    {
        let drain =
            Drain::on_signals().map_err(|e| Error::Configuration(format!("Signals cannot be listened to: {e}")))?;
        self.run_until(drain, handler).await
    }

    /// Works until `drain` says otherwise.
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
    /// One that no one has pulled yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Begins with the first SIGTERM or ctrl-C, and forces with the second.
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

    /// No more claims; what runs may end within the drain limit, the rest is given back.
    pub fn begin(&self) {
        self.begun.cancel();
    }

    /// Everything is dropped at once; leases run out by themselves.
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
    /// Items given back without a failure.
    pub released: u64,
    /// Items that were no longer this worker's when it ended them: cancelled, timed out, lease lost.
    pub closed: u64,
    /// Items whose ending could not be reported before the worker left; their leases run out.
    pub unreported: u64,
    /// Messages of the broker that were no wake-ups.
    pub unreadable: u64,
}

/// Reason why a handler has no result.
#[derive(Clone, Debug, PartialEq)]
pub enum Unfinished {
    /// The attempt failed (`retry-budget`).
    Failed(FailureBody),
    /// The item is given back without a failure.
    Released(ReleaseBody),
}

impl Unfinished {
    /// A failure with a message for people; retryable within the item's budget.
    pub fn failed(message: impl Into<String>) -> Self {
        Self::Failed(FailureBody {
            error: WorkError { message: message.into(), kind: None, detail: None },
            retryable: true,
            retry_after_seconds: None,
            cancel_tree: false,
        })
    }

    /// The item goes back as if it had not been taken.
    pub const fn released() -> Self {
        Self::Released(ReleaseBody { retry_after_seconds: None })
    }

    /// A word that programs can switch on.
    #[must_use]
    pub fn kind(mut self, kind: impl Into<String>) -> Self {
        if let Self::Failed(failure) = &mut self {
            failure.error.kind = Some(kind.into());
        }
        self
    }

    /// No further attempt can succeed: the item is dead at once.
    #[must_use]
    pub fn not_retryable(mut self) -> Self {
        if let Self::Failed(failure) = &mut self {
            failure.retryable = false;
        }
        self
    }

    /// Not to be offered again before this long.
    #[must_use]
    pub fn retry_after(mut self, pause: Duration) -> Self {
        let seconds = Some(pause.as_secs_f64());
        match &mut self {
            Self::Failed(failure) => failure.retry_after_seconds = seconds,
            Self::Released(release) => release.retry_after_seconds = seconds,
        }
        self
    }
}

/// One item in a handler's hands.
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

    /// The assignment id: whoever ends the assignment names it.
    pub fn assignment_id(&self) -> Uuid {
        self.assignment.id
    }

    /// Number of this attempt, from 1.
    pub fn attempt(&self) -> i32 {
        self.assignment.attempt
    }

    /// Results of the jobs that the item's job waited for (`after`), by key; none if it waited for
    /// none.
    pub fn inputs(&self) -> Option<&BTreeMap<String, Inputs>> {
        self.assignment.inputs.as_ref()
    }

    /// Says how far the item has come. Cheap; at most one a second is sent, always the latest.
    pub fn progress(&self, progress: ItemProgress) {
        self.progress.set(progress);
    }

    /// Records a recovery point and its data (`steps`).
    pub async fn step(&self, name: impl Into<String>, data: Option<Document>) -> Result<Step> {
        self.client.step(self.assignment.id, &StepBody { name: name.into(), data }).await
    }

    /// Adds lines to the log of this attempt (`attempt-logs`): 1 to 1,000, all or none. A server that is busy or away is
    /// tried again for five seconds.
    pub async fn log(&self, lines: Vec<NewLogLine>) -> Result<LogsAdded> {
        self.client.with_patience(LOG_PATIENCE).log(self.assignment.id, &LogsBody { lines }).await
    }

    /// Resolves when the work must end: cancelled, lease lost, or the worker is leaving. What is not
    /// over a little later is dropped where it stands.
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
