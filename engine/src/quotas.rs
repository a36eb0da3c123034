//! Quotas of owners and rate limits of callers.
//!
//! An admitted request does not wait for a count. A server caches for each owner the last count and later admissions;
//! only when their sum reaches the quota does a request wait for a new count, at most once a second. A new owner is
//! counted in the background. So a quota is exact for one server, and other servers may exceed it within a minute.
//! Workers' requests (`/assignments`) are neither counted nor delayed.

mod request_rate; // requests per time window

use std::{
    collections::HashMap,
    net::IpAddr,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use domain::{Code, Problem, job::OwnerKind};
use sqlx::PgPool;
use uuid::Uuid;

use crate::{
    access,
    addresses::network_of,
    error::Result,
    settings::quotas::QuotaSettings,
    store::access::quotas::{self as store, Usage},
    task::in_task,
};

pub use request_rate::{Policy, RateStatus};

/// Age at which a count is refreshed in the background, and before a refusal.
const COUNT_EVERY: Duration = Duration::from_mins(1);
const COUNT_AGAIN: Duration = Duration::from_secs(1);

/// Maximum cached owners, credentials and addresses; beyond it, those without requests in progress are dropped.
const CACHE_SIZE: usize = 20_000;

/// Concurrent heavy searches of one credential.
const MAX_SEARCHES: u32 = 4;

/// Open event streams of one share link.
const MAX_SHARE_STREAMS: u32 = 100;

/// Quotas of a server. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Quotas(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    settings: QuotaSettings,
    pool: PgPool,
    owners: Mutex<HashMap<Uuid, Owner>>,
    callers: Mutex<HashMap<Caller, CallerUsage>>,
}

/// Counts of an owner.
#[derive(Debug, Default)]
struct Owner {
    counted: Usage,
    /// Start and end of the last count.
    began_at: Option<Instant>,
    counted_at: Option<Instant>,
    /// Admitted and committed since the count began, and admitted but not committed.
    since: Usage,
    pending: Usage,
    is_counting: bool,
    requests: u32,
    streams: u32,
}

impl Owner {
    fn total(&self) -> Usage {
        self.counted + self.since + self.pending
    }

    fn is_idle(&self) -> bool {
        self.requests == 0 && self.streams == 0 && !self.is_counting && self.pending == Usage::default()
    }
}

/// Subject of a rate limit: a credential, or an address without one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Caller {
    Credential(Uuid),
    Address(IpAddr),
}

/// Recent requests of a caller.
#[derive(Debug, Default)]
struct CallerUsage {
    requests: request_rate::Window,
    searches: request_rate::Window,
    searching: u32,
}

/// Kind of a request, for the rate limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Full-text search: a list with `q`.
    Search,
    Other,
}

/// 429 of a request, with the rate limit that it exceeds, if it is one.
#[derive(Debug)]
pub struct RefusedRequest {
    pub problem: Box<Problem>,
    pub rate: Option<RateStatus>,
}

impl From<RateStatus> for RefusedRequest {
    fn from(rate: RateStatus) -> Self {
        Self { problem: Box::new(rate.refusal()), rate: Some(rate) }
    }
}

impl From<Problem> for RefusedRequest {
    fn from(problem: Problem) -> Self {
        Self { problem: Box::new(problem), rate: None }
    }
}

/// Counted request; dropped when its response starts.
#[derive(Debug)]
pub struct CountedRequest {
    quotas: Quotas,
    owner_id: Uuid,
    searching: Option<Uuid>,
}

/// Admitted work that is not yet committed; dropped on commit or failure.
#[derive(Debug)]
pub struct Taken {
    quotas: Quotas,
    owner_id: Uuid,
    more: Usage,
}

/// Counted event stream.
#[derive(Debug)]
pub struct OpenStream {
    quotas: Quotas,
    /// The owner, or the share link.
    counted_id: Uuid,
}

impl Quotas {
    pub fn new(settings: QuotaSettings, pool: PgPool) -> Self {
        Self(Arc::new(Inner { settings, pool, owners: Mutex::default(), callers: Mutex::default() }))
    }

    fn owners(&self) -> MutexGuard<'_, HashMap<Uuid, Owner>> {
        self.0.owners.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn callers(&self) -> MutexGuard<'_, HashMap<Caller, CallerUsage>> {
        self.0.callers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Admits more work of an owner, or refuses it with `quota_exceeded`. Keep the returned guard until the work is
    /// committed.
    pub async fn take(&self, owner_id: Uuid, more: Usage) -> Result<Taken> {
        if self.try_take(owner_id, more).is_some() {
            // The count may be outdated: trees complete and files are deleted.
            self.recount(owner_id).await?;
            if let Some(refused) = self.try_take(owner_id, more) {
                return Err(refused.into());
            }
        }
        Ok(Taken { quotas: self.clone(), owner_id, more })
    }

    /// Bytes that an owner may still store; exact if `wanted` bytes would exceed the quota.
    pub async fn bytes_left(&self, owner_id: Uuid, wanted: u64) -> Result<u64> {
        let limit = self.0.settings.stored_bytes.0;
        let left = || {
            let owners = self.owners();
            let owner = owners.get(&owner_id).filter(|owner| owner.counted_at.is_some())?;
            Some(limit.saturating_sub(owner.total().bytes.unsigned_abs()))
        };
        if let Some(now) = left().filter(|now| *now >= wanted) {
            return Ok(now);
        }
        self.recount(owner_id).await?;
        Ok(left().unwrap_or(limit))
    }

    /// Refusal of a file, with the remaining bytes and the limit.
    pub fn too_many_bytes(&self, left: u64) -> Problem {
        let limit = self.0.settings.stored_bytes;
        let used = limit.0.saturating_sub(left);
        exceeded(&format!("This file would not fit: {used} bytes are stored, and at most {} may be", limit.0))
    }

    fn try_take(&self, owner_id: Uuid, more: Usage) -> Option<Problem> {
        let settings = &self.0.settings;
        let mut owners = self.owners();
        if owners.len() >= CACHE_SIZE {
            owners.retain(|_, owner| !owner.is_idle());
        }
        let owner = owners.entry(owner_id).or_default();
        let after = owner.total() + more;
        let trees = i64::from(settings.open_trees);
        let items = i64::try_from(settings.waiting_items).unwrap_or(i64::MAX);
        if more.trees > 0 && after.trees > trees {
            let open = after.trees - more.trees;
            return Some(exceeded(&format!("{open} trees are open, and at most {trees} may be")));
        }
        if more.items > 0 && after.items > items {
            let waiting = after.items - more.items;
            return Some(exceeded(&format!(
                "{waiting} items wait; with these {} it would be {}, and at most {items} may",
                more.items, after.items
            )));
        }
        let left = settings.stored_bytes.0.saturating_sub((after.bytes - more.bytes).unsigned_abs());
        if more.bytes > 0 && more.bytes.unsigned_abs() > left {
            return Some(self.too_many_bytes(left));
        }
        owner.pending = owner.pending + more;
        let is_due = owner.counted_at.is_none_or(|at| at.elapsed() >= COUNT_EVERY) && !owner.is_counting;
        drop(owners);
        if is_due {
            let quotas = self.clone();
            tokio::spawn(async move {
                if let Err(error) = quotas.count(owner_id).await {
                    tracing::debug!(%error, "counting an owner's work failed");
                }
            });
        }
        None
    }

    /// Waits for a count that starts after this call, possibly up to a second later.
    async fn recount(&self, owner_id: Uuid) -> Result<()> {
        let now = Instant::now();
        loop {
            let pause = {
                let owners = self.owners();
                let owner = owners.get(&owner_id);
                let (began, ended) = owner.map_or((None, None), |owner| (owner.began_at, owner.counted_at));
                if began.is_some_and(|at| at >= now) && ended >= began {
                    return Ok(());
                }
                match owner {
                    Some(owner) if owner.is_counting => Duration::from_millis(10),
                    _ => ended.map_or(Duration::ZERO, |at| COUNT_AGAIN.saturating_sub(at.elapsed())),
                }
            };
            if pause.is_zero() {
                self.count(owner_id).await?;
            } else {
                tokio::time::sleep(pause).await;
            }
        }
    }

    /// Counts the work of an owner, unless a count is running.
    async fn count(&self, owner_id: Uuid) -> Result<()> {
        let before = {
            let mut owners = self.owners();
            let owner = owners.entry(owner_id).or_default();
            if std::mem::replace(&mut owner.is_counting, true) {
                return Ok(());
            }
            owner.began_at = Some(Instant::now());
            owner.since
        };
        // A separate task: a client disconnect must not leave the count unfinished.
        let (quotas, pool) = (self.clone(), self.0.pool.clone());
        in_task("counting an owner's work", async move {
            let is_over = CountEnd { quotas: &quotas, owner_id };
            let counted = store::usage(&pool, owner_id).await;
            drop(is_over);
            let mut owners = quotas.owners();
            let owner = owners.entry(owner_id).or_default();
            owner.counted = counted?;
            owner.counted_at = Some(Instant::now());
            // The count includes everything admitted before it.
            owner.since = owner.since - before;
            Ok(())
        })
        .await
    }

    /// Counts a request of an authenticated caller, as concurrent and against its rate. 429 beyond the limits.
    pub fn begin(
        &self,
        owner_id: Uuid,
        credential_id: Uuid,
        kind: Kind,
    ) -> Result<(CountedRequest, RateStatus), RefusedRequest> {
        let settings = &self.0.settings;
        let status = {
            let mut callers = self.callers();
            drop_idle(&mut callers);
            let busy = callers.entry(Caller::Credential(credential_id)).or_default();
            let all = busy.requests.count(Policy { name: "api", requests: settings.requests_per_minute })?;
            if kind == Kind::Search {
                let status = busy.searches.count(Policy { name: "search", requests: settings.searches_per_minute })?;
                if busy.searching >= MAX_SEARCHES {
                    return Err(too_many(&format!("{MAX_SEARCHES} searches of yours are under way.")).into());
                }
                busy.searching += 1;
                status
            } else {
                all
            }
        };
        let searching = (kind == Kind::Search).then_some(credential_id);
        let begun = CountedRequest { quotas: self.clone(), owner_id, searching };
        let mut owners = self.owners();
        let owner = owners.entry(owner_id).or_default();
        owner.requests += 1;
        let (requests, most) = (owner.requests, settings.requests);
        drop(owners);
        if requests > most {
            let problem = exceeded(&format!("{} requests are under way, and at most {most} may be", requests - 1));
            return Err(Problem { retry_after_seconds: Some(1), ..problem }.into());
        }
        Ok((begun, status))
    }

    /// Counts a request that was refused for lack of a valid credential. Returns the state of the address's limit.
    pub fn refused(&self, address: IpAddr) -> RateStatus {
        let mut callers = self.callers();
        drop_idle(&mut callers);
        let busy = callers.entry(Caller::Address(network_of(address))).or_default();
        let policy = Policy { name: "address", requests: self.0.settings.refusals_per_minute };
        busy.requests.count(policy).unwrap_or_else(|exceeded| exceeded)
    }

    /// Refuses an address with too many recent refusals, so that its requests are not read for a while.
    pub fn check_address(&self, address: IpAddr) -> Result<(), RateStatus> {
        let callers = self.callers();
        let Some(busy) = callers.get(&Caller::Address(network_of(address))) else { return Ok(()) };
        let policy = Policy { name: "address", requests: self.0.settings.refusals_per_minute };
        busy.requests.check(policy)
    }

    /// Counts an event stream while it is open. A service may have ten times as many as a person, because it shows its
    /// trees to its own users. The holders of a share link have few of their own, whoever they are, and none of the
    /// owner's.
    pub fn stream(&self, caller: &access::caller::Caller) -> Result<OpenStream, Problem> {
        let streams = self.0.settings.streams;
        let (counted_id, most) = match caller.kind {
            _ if caller.is_share() => (caller.credential_id, streams.min(MAX_SHARE_STREAMS)),
            OwnerKind::Service => (caller.owner_id, streams.saturating_mul(10)),
            OwnerKind::User => (caller.owner_id, streams),
        };
        let mut owners = self.owners();
        let owner = owners.entry(counted_id).or_default();
        if owner.streams >= most {
            let problem = exceeded(&format!("{} event streams are open, and at most {most} may be", owner.streams));
            return Err(Problem { retry_after_seconds: Some(10), ..problem });
        }
        owner.streams += 1;
        drop(owners);
        Ok(OpenStream { quotas: self.clone(), counted_id })
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        if let Some(owner) = self.quotas.owners().get_mut(&self.owner_id) {
            owner.pending = owner.pending - self.more;
            owner.since = owner.since + self.more;
        }
    }
}

impl Drop for CountedRequest {
    fn drop(&mut self) {
        if let Some(owner) = self.quotas.owners().get_mut(&self.owner_id) {
            owner.requests = owner.requests.saturating_sub(1);
        }
        let Some(credential_id) = self.searching else { return };
        if let Some(busy) = self.quotas.callers().get_mut(&Caller::Credential(credential_id)) {
            busy.searching = busy.searching.saturating_sub(1);
        }
    }
}

impl Drop for OpenStream {
    fn drop(&mut self) {
        if let Some(owner) = self.quotas.owners().get_mut(&self.counted_id) {
            owner.streams = owner.streams.saturating_sub(1);
        }
    }
}

fn drop_idle(callers: &mut HashMap<Caller, CallerUsage>) {
    if callers.len() >= CACHE_SIZE {
        callers.retain(|_, busy| busy.searching > 0 || busy.requests.is_open() || busy.searches.is_open());
    }
    // More callers than this per minute: callers with so few requests are far below any limit.
    if callers.len() >= CACHE_SIZE {
        callers.retain(|_, busy| busy.searching > 0);
    }
}

fn exceeded(what: &str) -> Problem {
    Problem { retry_after_seconds: Some(60), ..Problem::new(Code::QuotaExceeded, format!("{what}.")) }
}

fn too_many(what: &str) -> Problem {
    Problem { retry_after_seconds: Some(1), ..Problem::new(Code::TooManyRequests, what) }
}

/// End of a count, also of one that is given up because the database is silent.
struct CountEnd<'a> {
    quotas: &'a Quotas,
    owner_id: Uuid,
}

impl Drop for CountEnd<'_> {
    fn drop(&mut self) {
        self.quotas.owners().entry(self.owner_id).or_default().is_counting = false;
    }
}
