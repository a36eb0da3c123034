//! Use cases: everything that changes or reads jobs, items and assignments.
//!
//! Each use case is written for a batch and runs as one transaction in its own task. `domain` decides the rules;
//! `store` holds the statements. Nothing here knows HTTP.
//!
//! **One lock order** everywhere; otherwise cancellation and completion deadlock:
//!
//! 1. keys (idempotency, dedupe), sorted
//! 2. job type (capped claims only)
//! 3. cursor of a file (`import_cursor`), then remembered mappings (`import_mapping`), sorted
//! 4. lease, then dedupe keys of items, then serialize queues by id
//! 5. outcomes that are undone, then ready, deferred, blocked rows: by item; claims skip locked rows and never wait
//! 6. job state rows by job state row id, which is topological within a tree (the root has the lowest)
//! 7. error groups
//! 8. deliveries
//!
//! Serialize queues come before the rows waiting in them, so a transaction that takes waiting rows first reads without
//! locks. Serialize queues are created in commits of their own. Adding items locks their job state rows before it
//! inserts, because it needs sequence numbers of the job; it then only inserts rows that no one can wait for. Cursors
//! of propagation (`propagation`, `feed_remainder`) are written under the lock of the job state row.

mod activity_counters; // counts of added and finished items, in process
mod add; // adding items from requests and files
pub(crate) mod alerts; // conditions and events that need attention
mod already_closed; // assignments that are closed
mod assignment_endings; // ending half of a work batch
pub(crate) mod audit; // audit log: actor, action, reason
mod broker_messages; // messages to the broker
mod builtin_executors; // built-in executors
mod bulk; // bulk operations
mod cache; // job types and job definitions in memory
mod cancel; // canceling items, and jobs with their descendants
mod cancelled_jobs; // canceled jobs that are not swept yet
mod claim; // claiming half of a work batch
mod corrections; // corrected rows take the place of failed ones
mod create; // new trees
mod delegation; // work on behalf of the requester
mod deliveries; // callbacks of complete trees
mod dependency_graph; // dependency graph of a tree
mod ending_validation; // validation of requested endings
mod error_groups; // groups of similar errors
mod failure_outcome; // outcome of an item without a result
mod feed; // items of a parent become items of its children
mod heartbeat_batch; // heartbeats and steps
mod idempotency_keys; // Idempotency-Keys of adding items
mod item_intake; // items on their way into jobs
mod item_validation; // items checked before they are added
mod logs; // log lines of attempts
mod low_water_marks; // low-water marks of claims
mod patch; // small edits by people
mod propagation; // propagation of decisions to rows
mod read; // views for pages and API
mod replay; // replays of trees and items
mod retry; // retries requested by people
mod schedules; // trees created by cron expressions
mod serialize_queues; // serialize keys
mod share; // links to a tree
mod sweep; // sweeps of background tasks: lost leases, due items, expiry
mod tree_completion; // completion of trees of several jobs
mod tree_deletion; // deletion of trees
mod tree_maintenance; // maintenance of trees at their next check
mod tree_pinning; // trees that are exempt from retention
mod type_refresh; // job types that change while jobs run
mod waiting_claims; // waiting claims
#[cfg(feature = "failpoints")]
mod without_lease_check; // endings without a lease check, in fault-injection builds
mod work_batch; // endings and claims in one transaction
mod workers; // workers that sent claims

use std::sync::Arc;

use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use crate::{
    addresses::Reach,
    auth::Caller,
    error::Result,
    files::Files,
    flush::Coalescer,
    live::Hub,
    outbound::sign::Key,
    quotas::Quotas,
    sealing::Sealer,
    store::{Pools, definitions::JobInfo},
};

pub(crate) use add::rows::after_failed;
pub use add::{SplitBatch, SplitRow};
pub use alerts::{ALERTS, AlertThresholds};
pub use assignment_endings::EndingKind;
pub use broker_messages::{OutboxBatch, OutboxMessage};
pub use bulk::BulkSelection;
pub use cache::TypeCache;
pub(crate) use create::fit_head;
pub use create::{Creation, CreationOutcome, KeyGuard};
pub use delegation::Requester;
pub use idempotency_keys::{
    AddOptions, EarlierCall, KeyAdvance, KeyedCall, OnDuplicate, StreamPosition, key_reused, sum,
};
pub use read::{GroupFilter, ItemFilter, JobFilter, Span};
pub use retry::Refused;
pub use workers::WorkerPosition;

/// Use cases over one database. Cheap to clone.
#[derive(Clone)]
pub struct Engine(Arc<Inner>);

struct Inner {
    core: Arc<Core>,
    work: Coalescer<work_batch::WorkBatch>,
    adds: Coalescer<add::AddBatch>,
    creations: Coalescer<create::CreateBatch>,
    heartbeats: Coalescer<heartbeat_batch::HeartbeatBatch>,
}

/// State shared by all use cases.
pub(crate) struct Core {
    pub(crate) pools: Pools,
    hub: Hub,
    files: Files,
    types: TypeCache,
    jobs: cache::JobCache,
    graphs: cache::GraphCache,
    cancelled_jobs: cancelled_jobs::CancelledJobs,
    low_water_marks: low_water_marks::LowWaterMarks,
    waiters: waiting_claims::Waiters,
    workers: workers::Workers,
    activity_counters: activity_counters::ActivityCounters,
    unreachable_targets: builtin_executors::UnreachableTargets,
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
    /// Queue of requests with the same Idempotency-Key; they wait here before they take a connection.
    key_locks: create::KeyLocks,
    /// Seals callback receivers.
    sealer: Sealer,
    /// Signs and verifies the capabilities of pushed assignments.
    assignment_key: Key,
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
}

impl Engine {
    /// Builds the engine and loads the job types.
    pub async fn start(
        pools: Pools,
        hub: Hub,
        files: Files,
        limits: Limits,
        shutdown: CancellationToken,
    ) -> Result<Self> {
        let types = TypeCache::load(&pools.read, &limits.sealer).await?;
        let core = Arc::new(Core {
            pools,
            hub,
            files,
            types,
            jobs: cache::JobCache::default(),
            graphs: cache::GraphCache::default(),
            cancelled_jobs: cancelled_jobs::CancelledJobs::default(),
            propagation_requested: tokio::sync::Notify::new(),
            replay_requested: tokio::sync::Notify::new(),
            bulk_requested: tokio::sync::Notify::new(),
            delivery_requested: tokio::sync::Notify::new(),
            low_water_marks: low_water_marks::LowWaterMarks::default(),
            waiters: waiting_claims::Waiters::default(),
            workers: workers::Workers::default(),
            activity_counters: activity_counters::ActivityCounters::default(),
            unreachable_targets: builtin_executors::UnreachableTargets::default(),
            split_requested: tokio::sync::Notify::new(),
            payload_limit: limits.payload,
            window_seconds: limits.idempotency_window_seconds,
            callbacks: limits.callbacks,
            has_broker: limits.has_broker,
            quotas: limits.quotas,
            key_locks: create::KeyLocks::default(),
            sealer: limits.sealer,
            assignment_key: limits.assignment_key,
            shutdown,
        });
        // As many flushers as cores: more only add latency and make batches smaller.
        let cores = std::thread::available_parallelism().map_or(2, usize::from);
        Ok(Self(Arc::new(Inner {
            work: Coalescer::start(work_batch::WorkBatch(Arc::clone(&core)), cores),
            adds: Coalescer::start(add::AddBatch(Arc::clone(&core)), cores),
            creations: Coalescer::start(create::CreateBatch(Arc::clone(&core)), cores),
            heartbeats: Coalescer::start(heartbeat_batch::HeartbeatBatch(Arc::clone(&core)), 1),
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
    async fn visible_job(&self, caller: &Caller, id: Uuid) -> Result<Arc<JobInfo>> {
        self.0.core.visible_job(caller, id).await
    }
}

impl Core {
    async fn visible_job(&self, caller: &Caller, id: Uuid) -> Result<Arc<JobInfo>> {
        let job = self.jobs.by_id(&self.pools.read, id).await?;
        match job {
            Some(job) if caller.visible_owner().is_none_or(|owner| owner == job.owner_id) => Ok(job),
            Some(_) => Err(domain::Problem::not_found("job").into()),
            None => Err(self.missing_job(caller, id).await),
        }
    }
}
