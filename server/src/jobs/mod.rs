//! The use-cases: everything that changes or reads jobs, items and assignments.
//!
//! Each is written for a batch and runs as one transaction in a task of its own. Rules are asked of
//! `domain`; statements live in `store`. Nothing here knows HTTP.
//!
//! **One lock order**, everywhere, or cancel and complete deadlock:
//!
//! 1. keys (idempotency, dedupe), sorted
//! 2. job type (capped claims only)
//! 3. the place in a file (`split`)
//! 4. lease, then dedupe keys of items, then lanes by id
//! 5. outcomes that are taken back, then ready, deferred, blocked: by item; claims skip what is locked and
//!    never wait
//! 6. gates, by gate id, which is topological within a tree (the root's gate is the lowest)
//! 7. error groups
//! 8. deliveries
//!
//! Lanes come before whatever waits in them, so who takes waiting rows looks first without locks. Lanes
//! are made in commits of their own. Adding items locks its gates before it inserts, as it needs places
//! in the job's sequence; it then only inserts rows that nobody can wait for. What records how far rows
//! have followed a decision (`carry`, `feed_rest`) is written under the gate.

mod add; // items in: from requests and from files
pub(crate) mod alerts; // what somebody should look at
pub(crate) mod audit; // who did what, and why
mod beat; // heartbeats and steps
mod bulk; // deeds over many
mod cache; // job types and job definitions in memory
mod cancel; // jobs with everything below them, and items
mod carry; // rows that follow a decision
mod claim; // the claiming half of a work batch
mod corrections; // corrected rows take the place of failed ones
mod create; // new trees
mod delegation; // work in the name of whoever asked
mod deliveries; // callbacks of complete trees
mod ending; // the ending half of a work batch
mod fate; // what becomes of an item without a result
mod feed; // items of a parent become items of its children
mod figures; // what comes in and ends, counted in process
mod form; // endings as they are asked for
mod ghosts; // cancelled jobs that are not swept yet
mod groups; // errors that read alike
mod intake; // items on their way into jobs
mod keys; // Idempotency-Keys of adding
mod lanes; // serialize keys
mod marks; // where claims start to look
mod outbox; // what is said on the broker
mod own; // executors that are Treeline's own
mod past; // assignments that are over
mod patch; // small edits by people
mod pin; // trees that are exempt from retention
mod plan; // what depends on what in a tree
mod prepare; // items checked before they are added
mod read; // views for pages and API
mod remove; // trees that go
mod replay; // trees and items made again
mod retry; // items that a person gives back
mod settle; // completion of trees of several jobs
mod share; // links to a tree
mod sweep; // what duties do: lost leases, due items, expiry
mod tend; // trees whose time has come
mod types; // job types that change while jobs run
#[cfg(feature = "failpoints")]
mod unfenced; // endings without a fence, in builds made to fail
mod wake; // waiting claims
mod work; // endings and claims in one transaction
mod workers; // who asked for work

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
    store::{Pools, contracts::JobInfo},
};

pub(crate) use add::rows::after_failed;
pub use add::{SplitBatch, SplitRow};
pub use alerts::{ALERTS, Worries};
pub use bulk::Wanted;
pub use cache::TypeCache;
pub use create::{Creation, Made, Turn};
pub use delegation::Asker;
pub use ending::EndingKind;
pub use keys::{Adding, InStream, KeyMove, KeyedCall, OnDuplicate, Once, key_reused, sum};
pub use outbox::{News, Parcel};
pub use read::{GroupFilter, ItemFilter, JobFilter};
pub use retry::Refused;
pub use workers::WorkerPlace;

/// The use-cases over one database. Cheap to clone.
#[derive(Clone)]
pub struct Engine(Arc<Inner>);

struct Inner {
    core: Arc<Core>,
    work: Coalescer<work::WorkBatch>,
    adds: Coalescer<add::AddBatch>,
    creations: Coalescer<create::CreateBatch>,
    beats: Coalescer<beat::BeatBatch>,
}

/// What every use-case needs.
pub(crate) struct Core {
    pub(crate) pools: Pools,
    hub: Hub,
    files: Files,
    types: TypeCache,
    jobs: cache::JobCache,
    plans: cache::PlanCache,
    ghosts: ghosts::Ghosts,
    marks: marks::Marks,
    waiters: wake::Waiters,
    workers: workers::Workers,
    figures: figures::Figures,
    away: own::Away,
    /// A file waits to be cut into items.
    split_asked: tokio::sync::Notify,
    /// Rows are to follow a decision.
    walk_asked: tokio::sync::Notify,
    /// A tree is to be filled from another.
    replay_asked: tokio::sync::Notify,
    /// A bulk operation has something to do.
    bulk_asked: tokio::sync::Notify,
    /// A callback is to be sent again.
    delivery_asked: tokio::sync::Notify,
    /// Bytes of one payload, at most.
    payload_limit: usize,
    /// How long an Idempotency-Key is remembered at least.
    window_seconds: f64,
    /// What completion callbacks may reach.
    callbacks: Reach,
    /// What becomes claimable, dead or complete is written down for the broker.
    has_broker: bool,
    quotas: Quotas,
    /// Requests with one Idempotency-Key take turns here, before any of them takes a connection.
    turns: create::Turns,
    /// Seals receivers of callbacks.
    sealer: Sealer,
    /// Makes and checks the capabilities of pushed assignments.
    assignment_key: Key,
    /// Cancelled when the server stops: claims wait no longer.
    shutdown: CancellationToken,
}

/// What the configuration says to the engine.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Bytes of one payload, at most.
    pub payload: usize,
    /// How long an Idempotency-Key is remembered at least.
    pub idempotency_window_seconds: f64,
    /// What completion callbacks may reach.
    pub callbacks: Reach,
    /// Whether there is a broker to be told of things.
    pub has_broker: bool,
    /// Quotas of an owner.
    pub quotas: Quotas,
    /// Seals secrets before they are stored.
    pub sealer: Sealer,
    /// Makes and checks the capabilities of pushed assignments.
    pub assignment_key: Key,
}

impl Engine {
    /// Builds the engine and reads the job types.
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
            plans: cache::PlanCache::default(),
            ghosts: ghosts::Ghosts::default(),
            walk_asked: tokio::sync::Notify::new(),
            replay_asked: tokio::sync::Notify::new(),
            bulk_asked: tokio::sync::Notify::new(),
            delivery_asked: tokio::sync::Notify::new(),
            marks: marks::Marks::default(),
            waiters: wake::Waiters::default(),
            workers: workers::Workers::default(),
            figures: figures::Figures::default(),
            away: own::Away::default(),
            split_asked: tokio::sync::Notify::new(),
            payload_limit: limits.payload,
            window_seconds: limits.idempotency_window_seconds,
            callbacks: limits.callbacks,
            has_broker: limits.has_broker,
            quotas: limits.quotas,
            turns: create::Turns::default(),
            sealer: limits.sealer,
            assignment_key: limits.assignment_key,
            shutdown,
        });
        // As many flushers as cores: more only adds latency and makes the batches smaller.
        let cores = std::thread::available_parallelism().map_or(2, usize::from);
        Ok(Self(Arc::new(Inner {
            work: Coalescer::start(work::WorkBatch(Arc::clone(&core)), cores),
            adds: Coalescer::start(add::AddBatch(Arc::clone(&core)), cores),
            creations: Coalescer::start(create::CreateBatch(Arc::clone(&core)), cores),
            beats: Coalescer::start(beat::BeatBatch(Arc::clone(&core)), 1),
            core,
        })))
    }

    /// The job types as they are now (at most a second old).
    pub fn types(&self) -> &TypeCache {
        &self.0.core.types
    }

    /// Resolves when a file was handed in to be cut into items. A hint: the splitter also looks by itself.
    pub async fn split_asked(&self) {
        self.0.core.split_asked.notified().await;
    }

    /// The job, if the caller may see it. Somebody else's is `not_found`.
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
