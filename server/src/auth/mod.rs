//! Authentication: bearer tokens of services, cookie sessions of people, one-time links.
//!
//! All code that reads secrets is here; handlers only see a [`Caller`]. A caller is cached for at most ten seconds, so
//! that a busy worker does not cost one query per request; after a quarter of that time it is refreshed in the
//! background without delaying requests. Revocations increment a counter in the database; each server polls it four
//! times a second and clears its cache when it changes, so a revoked credential stops working within a second.

use std::{
    collections::HashMap,
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

use sqlx::PgPool;
use tokio::sync::{Semaphore, watch};
use uuid::Uuid;

use crate::App;
use engine::{
    access::caller::Caller,
    error::Result,
    flush::Coalescer,
    secrets::Hash,
    store::{access::people as store, batches_at_once},
};

mod bootstrap;
mod client_address;
mod cookies;
mod device;
pub(crate) mod envelope;
pub mod factors;
pub(crate) mod lookup;
pub mod oidc;
pub mod passwords;
pub mod people;
pub mod proxy_header;
pub mod second_stage;
pub mod sessions;
pub mod sign_in_links;
pub mod step_up;
mod still_valid;
pub mod throttle;
pub mod tokens;

pub use bootstrap::{BOOTSTRAP_SERVICE, ensure_bootstrap_token};
pub(crate) use bootstrap::{keep_bootstrap_token, revoke_old_bootstrap_tokens};
pub use client_address::ClientAddress;
pub use cookies::SessionCookie;
pub use passwords::{Passwords, Queue};
pub use still_valid::{Ongoing, still_valid};
pub use throttle::{Attempts, Key};

/// Time for which a caller is cached without asking the database.
const CACHE_LIFETIME: Duration = Duration::from_secs(10);

/// Time for which a credential or share link counts as known, so that it is looked up also beside a flood of strangers.
const KNOWN_LIFETIME: Duration = Duration::from_mins(10);

/// Maximum number of cached callers, and of share links; beyond it, the cache is cleared.
const CACHE_SIZE: usize = 10_000;

/// Caller as read from the database.
#[derive(Debug)]
struct CachedCaller {
    caller: Caller,
    since: Instant,
    /// True while a background refresh is running.
    is_refreshing: bool,
}

/// In-memory state about credentials.
pub struct Auth {
    callers: Mutex<HashMap<Hash, CachedCaller>>,
    /// Share links in use, by the hash of their secret, with the time of the last lookup.
    shares: Mutex<HashMap<Hash, Instant>>,
    /// Hash of the only accepted bootstrap token: the one this server was started with.
    bootstrap: Option<Hash>,
    cookie: SessionCookie,
    /// Recent failed sign-ins.
    attempts: Attempts,
    passwords: Passwords,
    /// Database slots for sign-in attempts.
    throttle_slots: Semaphore,
    /// Cached metadata of OpenID Connect providers.
    providers: oidc::ProviderCache,
    /// Counter of revocations, as last read by this server.
    changes: watch::Sender<i64>,
    /// Rights of the credentials of ongoing work.
    rights_cache: Mutex<HashMap<Uuid, still_valid::CachedRights>>,
    lookups: Coalescer<still_valid::Lookup>,
    /// Slot for lookups of credentials from addresses with too many refused requests.
    pub(crate) stranger_lookups: Semaphore,
}

impl Auth {
    /// `secure`: true if people reach the server over https.
    pub fn new(bootstrap: Option<Hash>, secure: bool, pool: &PgPool) -> Self {
        Self {
            callers: Mutex::default(),
            shares: Mutex::default(),
            bootstrap,
            cookie: SessionCookie::new(secure),
            attempts: Attempts::default(),
            passwords: Passwords::default(),
            throttle_slots: Semaphore::new(throttle::AT_ONCE),
            providers: oidc::ProviderCache::default(),
            changes: watch::Sender::new(0),
            rights_cache: Mutex::default(),
            lookups: Coalescer::start(still_valid::Lookup(pool.clone()), batches_at_once(pool)),
            stranger_lookups: Semaphore::new(1),
        }
    }

    /// The cookie that carries a session.
    pub const fn cookie(&self) -> SessionCookie {
        self.cookie
    }

    /// Returns a cached caller, and true if it is due for a refresh; the flag is returned once.
    fn cached_caller(&self, hash: &Hash) -> Option<(Caller, bool)> {
        let mut callers = self.callers.lock().unwrap_or_else(PoisonError::into_inner);
        let cached = callers.get_mut(hash).filter(|cached| cached.since.elapsed() < CACHE_LIFETIME)?;
        let is_due =
            cached.since.elapsed() >= CACHE_LIFETIME / 4 && !std::mem::replace(&mut cached.is_refreshing, true);
        Some((cached.caller.clone(), is_due))
    }

    /// Returns true if the credential or share link was valid recently. Decides nothing but who is looked up at all.
    pub(crate) fn was_valid_recently(&self, hash: &Hash) -> bool {
        let callers = self.callers.lock().unwrap_or_else(PoisonError::into_inner);
        let since = callers.get(hash).map(|cached| cached.since);
        drop(callers);
        let since = since.or_else(|| self.shares.lock().unwrap_or_else(PoisonError::into_inner).get(hash).copied());
        since.is_some_and(|since| since.elapsed() < KNOWN_LIFETIME)
    }

    /// Remembers a share link that is valid.
    pub(crate) fn note_share(&self, hash: Hash) {
        let mut shares = self.shares.lock().unwrap_or_else(PoisonError::into_inner);
        if shares.len() >= CACHE_SIZE && !shares.contains_key(&hash) {
            shares.clear();
        }
        shares.insert(hash, Instant::now());
    }

    /// Caches a caller, unless the revocation counter has moved since `seen`, its value before the lookup.
    fn cache_caller(&self, hash: Hash, caller: Caller, seen: i64) {
        let mut callers = self.callers.lock().unwrap_or_else(PoisonError::into_inner);
        if *self.changes.borrow() != seen {
            return;
        }
        if callers.len() >= CACHE_SIZE {
            callers.clear();
        }
        callers.insert(hash, CachedCaller { caller, since: Instant::now(), is_refreshing: false });
    }

    /// Removes a credential or share link that is not valid anymore: it counts as unknown.
    pub(crate) fn forget(&self, hash: &Hash) {
        self.callers.lock().unwrap_or_else(PoisonError::into_inner).remove(hash);
        self.shares.lock().unwrap_or_else(PoisonError::into_inner).remove(hash);
    }

    /// Clears the cache if the revocation counter has moved.
    fn note_changes(&self, count: i64) {
        let mut callers = self.callers.lock().unwrap_or_else(PoisonError::into_inner);
        let moved = self.changes.send_if_modified(|before| std::mem::replace(before, count) != count);
        if moved {
            callers.clear();
        }
    }

    /// Receiver that changes whenever rights are revoked.
    pub fn changes(&self) -> watch::Receiver<i64> {
        self.changes.subscribe()
    }
}

/// Reads the revocation counter and clears the cache if it has moved.
pub async fn look_for_changes(app: &App) -> Result<()> {
    app.auth.note_changes(store::changes(&app.pools.credentials).await?);
    Ok(())
}
