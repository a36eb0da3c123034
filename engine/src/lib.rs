//! Engine of Treeline: what happens to jobs and items, and the only SQL.
//!
//! Each use case is written for a batch and runs as one transaction in its own task. `domain` decides the rules,
//! [`store`] holds the statements, and the modules between them, one for each subject, hold the use cases. Nothing here
//! knows HTTP, pages, or the broker: the server calls the engine and is told of changes by [`live_updates::LiveUpdates`].
//!
//! | module | holds |
//! |---|---|
//! | [`dispatch`] | claims, heartbeats, endings, leases, the decision after a failure, sweeps |
//! | [`enqueue`] | adding items, placement, dedupe, serialize queues, Idempotency-Keys |
//! | [`tree`] | creation, completion, dependencies, feeds, cancellation, schedules, share links |
//! | [`operator`] | retry, replay, edit, pin, bulk operations |
//! | [`retention`] | deletion of trees |
//! | [`import`] | files, from their bytes to rows |
//! | [`notify`] | broker messages, callbacks, alerts, error groups, audit |
//! | [`query`] | lists, views, search, statistics |
//!
//! **One lock order** everywhere; otherwise cancellation and completion deadlock:
//!
//! 1. keys (idempotency, dedupe, debounce), sorted
//! 2. job type (claims of limited types only); its rate windows and hints follow under this lock
//! 3. cursor of a file (`import_cursor`), then remembered mappings (`import_mapping`), sorted, then deadlines
//! 4. lease, then dedupe keys of items, then serialize queues by id
//! 5. outcomes that are undone, then ready, deferred, blocked rows: by item; claims skip locked rows and never wait
//! 6. job state rows by job state row id, which is topological within a tree (the root has the lowest)
//! 7. error groups: of jobs, of owners, then the decisions about them
//! 8. deliveries
//!
//! Serialize queues come before the rows waiting in them, so a transaction that takes waiting rows first reads without
//! locks. Serialize queues are created in commits of their own. Adding items locks their job state rows before it
//! inserts, because it needs sequence numbers of the job; it then only inserts rows that no one can wait for. Cursors
//! of propagation (`propagation`, `feed_remainder`) are written under the lock of the job state row.

pub mod access;
pub mod activity_counters; // counts of added and finished items, in process
pub mod addresses; // addresses that user-given URLs may reach
pub mod cache; // job types and job definitions in memory
pub mod dispatch;
pub mod ended_attempts; // attempts that have ended, for traces
pub mod ending_batch; // endings of attempts as requested, and their rows
pub mod enqueue;
pub mod error; // errors of use cases
pub mod error_counters; // failures by error group, in process
pub mod failpoints; // fault injection, in special builds
pub mod flush; // batches of concurrent requests
pub mod import;
pub mod live_updates; // announcements of changes
pub mod notify;
pub mod operator;
pub mod primary; // connections to a database that stopped accepting writes or answering
pub mod query;
pub mod quotas; // quotas and rate limits
pub mod read_source; // reads of a request, from the primary or a standby
pub mod retention;
pub mod schema; // validation of payloads
pub mod sealing; // secrets at rest
pub mod secrets; // generated secrets and their hashes
pub mod settings;
pub mod signing; // signatures of outgoing requests
pub mod store; // the only SQL
pub mod stored_response; // stored responses of idempotent requests
pub mod task; // tasks that survive client disconnects
pub mod tree;
pub mod type_refresh; // job types that change while jobs run

use std::sync::Arc;

use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use crate::{
    access::caller::Caller,
    addresses::Reach,
    error::Result,
    flush::Coalescer,
    import::files::Files,
    live_updates::LiveUpdates,
    quotas::Quotas,
    sealing::Sealer,
    signing::Key,
    store::{Pools, tree::definitions::JobInfo},
};

pub use cache::TypeCache;
pub use dispatch::{heartbeat_batch::check_progress, workers::WorkerPosition};
pub use ended_attempts::{EndedAttempt, EndedAttempts};
pub use ending_batch::EndingKind;
pub use enqueue::{
    add::{SplitBatch, SplitRow, rows::after_failed},
    idempotency_keys::{AddOptions, EarlierCall, KeyAdvance, KeyedCall, OnDuplicate, StreamPosition, key_reused, sum},
    key_locks::KeyGuard,
};
pub use notify::{
    alerts::{ALERTS, AlertThresholds},
    broker_messages::{OutboxBatch, OutboxMessage},
};
pub use operator::{bulk::BulkSelection, delegation::Requester, retry::Refused};
pub use query::{GroupFilter, ItemFilter, JobFilter, Span};
pub use tree::create::{Creation, CreationOutcome, fit_head};

/// Use cases over one database. Cheap to clone.
#[derive(Clone)]
pub struct Engine(Arc<Inner>);

struct Inner {
    core: Arc<Core>,
    work: Coalescer<dispatch::work_batch::WorkBatch>,
    adds: Coalescer<enqueue::add::AddBatch>,
    creations: Coalescer<tree::create::CreateBatch>,
    heartbeats: Coalescer<dispatch::heartbeat_batch::HeartbeatBatch>,
}

/// State shared by all use cases.
pub(crate) struct Core {
    pub(crate) pools: Pools,
    /// Told of every change after its commit.
    live: Arc<dyn LiveUpdates>,
    files: Files,
    types: TypeCache,
    jobs: cache::JobCache,
    graphs: cache::GraphCache,
    cancelled_jobs: tree::cancelled_jobs::CancelledJobs,
    schedules: tree::schedules::ScheduleWork,
    low_water_marks: enqueue::low_water_marks::LowWaterMarks,
    /// Turns of items that become available again or later than they came.
    returning_turns: enqueue::turn_counters::TurnCounters,
    /// Turns of trees at priorities other than 0.
    priority_turns: enqueue::turn_counters::TurnCounters,
    waiters: dispatch::waiting_claims::Waiters,
    workers: dispatch::workers::Workers,
    rate_limit_wakeups: dispatch::rate_limit_wakeups::RateLimitWakeups,
    hinted_limits: enqueue::limit_keys::HintedLimits,
    activity_counters: activity_counters::ActivityCounters,
    error_counters: error_counters::ErrorCounters,
    unreachable_targets: dispatch::builtin_executors::UnreachableTargets,
    /// Notified when a file waits to be split into items.
    split_requested: tokio::sync::Notify,
    /// Notified when a decision is to be propagated to rows.
    propagation_requested: tokio::sync::Notify,
    /// Notified when a tree is to be filled from another tree.
    replay_requested: tokio::sync::Notify,
    /// Notified when a bulk operation has work.
    bulk_requested: tokio::sync::Notify,
    /// Notified when a callback is to be sent again.
    delivery_requested: tokio::sync::Notify,
    /// Maximum size of one payload, in bytes.
    payload_limit: usize,
    /// Minimum time for which an Idempotency-Key is stored.
    window_seconds: f64,
    /// Addresses that completion callbacks may reach.
    callbacks: Reach,
    /// True if messages for the broker (claimable, dead, complete) are stored.
    has_broker: bool,
    quotas: Quotas,
    /// Queue of requests with the same Idempotency-Key, and of edits of the same job; they wait here before they take a
    /// connection.
    key_locks: enqueue::key_locks::KeyLocks,
    /// Slots for batches of items that follow edits of their jobs.
    edit_slots: tokio::sync::Semaphore,
    /// Edits of jobs that failed, which pause.
    failed_edits: operator::patch::FailedEdits,
    /// Seals callback receivers.
    sealer: Sealer,
    /// Signs and verifies the capabilities of pushed assignments.
    assignment_key: Key,
    /// Receiver of ended attempts.
    ended_attempts: EndedAttempts,
    /// Canceled when the server stops; waiting claims then return.
    shutdown: CancellationToken,
}

/// Settings of the engine.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Maximum size of one payload, in bytes.
    pub payload: usize,
    /// Minimum time for which an Idempotency-Key is stored.
    pub idempotency_window_seconds: f64,
    /// Addresses that completion callbacks may reach.
    pub callbacks: Reach,
    /// True if there is a broker to publish to.
    pub has_broker: bool,
    /// Quotas per owner.
    pub quotas: Quotas,
    /// Seals secrets before they are stored.
    pub sealer: Sealer,
    /// Signs and verifies the capabilities of pushed assignments.
    pub assignment_key: Key,
    /// Receiver of ended attempts.
    pub ended_attempts: EndedAttempts,
}

impl Engine {
    /// Builds the engine and loads the job types.
    pub async fn start(
        pools: Pools,
        live: Arc<dyn LiveUpdates>,
        files: Files,
        limits: Limits,
        shutdown: CancellationToken,
    ) -> Result<Self> {
        let types = TypeCache::load(&pools.read, &limits.sealer).await?;
        let core = Arc::new(Core {
            pools,
            live,
            files,
            types,
            jobs: cache::JobCache::default(),
            graphs: cache::GraphCache::default(),
            cancelled_jobs: tree::cancelled_jobs::CancelledJobs::default(),
            schedules: tree::schedules::ScheduleWork::default(),
            propagation_requested: tokio::sync::Notify::new(),
            replay_requested: tokio::sync::Notify::new(),
            bulk_requested: tokio::sync::Notify::new(),
            delivery_requested: tokio::sync::Notify::new(),
            low_water_marks: enqueue::low_water_marks::LowWaterMarks::default(),
            returning_turns: enqueue::turn_counters::TurnCounters::default(),
            priority_turns: enqueue::turn_counters::TurnCounters::default(),
            waiters: dispatch::waiting_claims::Waiters::default(),
            workers: dispatch::workers::Workers::default(),
            rate_limit_wakeups: dispatch::rate_limit_wakeups::RateLimitWakeups::default(),
            hinted_limits: enqueue::limit_keys::HintedLimits::default(),
            activity_counters: activity_counters::ActivityCounters::default(),
            error_counters: error_counters::ErrorCounters::default(),
            unreachable_targets: dispatch::builtin_executors::UnreachableTargets::default(),
            split_requested: tokio::sync::Notify::new(),
            payload_limit: limits.payload,
            window_seconds: limits.idempotency_window_seconds,
            callbacks: limits.callbacks,
            has_broker: limits.has_broker,
            quotas: limits.quotas,
            key_locks: enqueue::key_locks::KeyLocks::default(),
            edit_slots: tokio::sync::Semaphore::new(operator::patch::CONCURRENT_BATCHES),
            failed_edits: operator::patch::FailedEdits::default(),
            sealer: limits.sealer,
            assignment_key: limits.assignment_key,
            ended_attempts: limits.ended_attempts,
            shutdown,
        });
        // As many flushers as cores: more only add latency and make batches smaller.
        let cores = std::thread::available_parallelism().map_or(2, usize::from);
        let heartbeats = store::batches_at_once(&core.pools.heartbeats);
        Ok(Self(Arc::new(Inner {
            work: Coalescer::start(dispatch::work_batch::WorkBatch(Arc::clone(&core)), cores),
            adds: Coalescer::start(enqueue::add::AddBatch(Arc::clone(&core)), cores),
            creations: Coalescer::start(tree::create::CreateBatch(Arc::clone(&core)), cores),
            heartbeats: Coalescer::start(dispatch::heartbeat_batch::HeartbeatBatch(Arc::clone(&core)), heartbeats),
            core,
        })))
    }

    /// Cached job types, at most one second old.
    pub fn types(&self) -> &TypeCache {
        &self.0.core.types
    }

    /// Resolves when a file has been submitted for splitting. A hint: the splitter also polls.
    pub async fn split_requested(&self) {
        self.0.core.split_requested.notified().await;
    }

    /// Returns the job if it is visible to the caller, else `not_found`.
    pub async fn visible_job(&self, caller: &Caller, id: Uuid) -> Result<Arc<JobInfo>> {
        self.0.core.visible_job(caller, id).await
    }
}

impl Core {
    /// Announces changes of these jobs' trees, which were committed before: a failure only delays what pages show.
    async fn touch_jobs(&self, job_keys: impl IntoIterator<Item = i64>) {
        match self.jobs.by_job_keys(&self.pools.read, job_keys).await {
            Ok(jobs) => self.live.touch(&jobs.values().map(|job| job.root_id).collect::<Vec<_>>()),
            Err(error) => tracing::debug!(%error, "a change is shown later"),
        }
    }

    async fn visible_job(&self, caller: &Caller, id: Uuid) -> Result<Arc<JobInfo>> {
        let job = self.jobs.by_id(&self.pools.read, id).await?;
        match job {
            Some(job) if caller.visible_owner().is_none_or(|owner| owner == job.owner_id) => Ok(job),
            Some(_) => Err(domain::Problem::not_found("job").into()),
            None => Err(self.missing_job(caller, id).await),
        }
    }
}
