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

use crate::{App, error::Result, flush::Coalescer, store::people as store};

mod attempts;
mod bootstrap;
mod caller;
mod client_address;
mod cookies;
mod device;
pub(crate) mod envelope;
mod extract;
pub mod factors;
pub mod links;
pub mod oidc;
pub mod origin;
pub mod passwords;
pub mod people;
pub mod proxy_header;
pub mod second_stage;
mod secrets;
pub mod sessions;
pub mod step_up;
mod still_valid;
pub mod throttle;
pub mod tokens;
mod viewer;
mod worker;

pub use attempts::{Attempts, Key};
pub use bootstrap::{BOOTSTRAP_SERVICE, ensure_bootstrap_token};
pub use caller::{Caller, Role, Scope};
pub use client_address::{ClientAddress, TrustedProxies, network_of};
pub use cookies::SessionCookie;
pub use extract::{CallerSlot, KnownCaller, MaybeCaller, SeenCaller};
pub use passwords::{Passwords, Queue};
pub use secrets::{Hash, hash_of, new_secret};
pub use still_valid::{Ongoing, Rights, rights_of, still_valid};
pub use viewer::{SharedTree, Viewer};
pub use worker::Worker;

/// Time for which a caller is cached without asking the database.
const REMEMBERED_FOR: Duration = Duration::from_secs(10);

/// Maximum number of cached callers; beyond it, the cache is cleared.
const REMEMBERED_AT_MOST: usize = 10_000;

/// Caller as read from the database.
#[derive(Debug)]
struct Remembered {
    caller: Caller,
    since: Instant,
    /// True while a background refresh is running.
    is_asked: bool,
}

/// In-memory state about credentials.
pub struct Auth {
    remembered: Mutex<HashMap<Hash, Remembered>>,
    /// Hash of the only accepted bootstrap token: the one this server was started with.
    bootstrap: Option<Hash>,
    cookie: SessionCookie,
    /// Recent failed sign-ins.
    attempts: Attempts,
    passwords: Passwords,
    /// Database slots for sign-in attempts.
    throttle_slots: Semaphore,
    /// Cached metadata of OpenID Connect providers.
    providers: oidc::Known,
    /// Counter of revocations, as last read by this server.
    changes: watch::Sender<i64>,
    /// Rights of the credentials of ongoing work.
    known: Mutex<HashMap<Uuid, still_valid::Known>>,
    lookups: Coalescer<still_valid::Lookup>,
}

impl Auth {
    /// `secure`: true if people reach the server over https.
    pub fn new(bootstrap: Option<Hash>, secure: bool, pool: PgPool) -> Self {
        Self {
            remembered: Mutex::default(),
            bootstrap,
            cookie: SessionCookie::new(secure),
            attempts: Attempts::default(),
            passwords: Passwords::default(),
            throttle_slots: Semaphore::new(throttle::AT_ONCE),
            providers: oidc::Known::default(),
            changes: watch::Sender::new(0),
            known: Mutex::default(),
            lookups: Coalescer::start(still_valid::Lookup(pool), 1),
        }
    }

    /// The cookie that carries a session.
    pub const fn cookie(&self) -> SessionCookie {
        self.cookie
    }

    /// Returns a cached caller, and true if it is due for a refresh; the flag is returned once.
    fn recall(&self, hash: &Hash) -> Option<(Caller, bool)> {
        let mut remembered = self.remembered.lock().unwrap_or_else(PoisonError::into_inner);
        let known = remembered.get_mut(hash).filter(|known| known.since.elapsed() < REMEMBERED_FOR)?;
        let is_due = known.since.elapsed() >= REMEMBERED_FOR / 4 && !std::mem::replace(&mut known.is_asked, true);
        Some((known.caller.clone(), is_due))
    }

    /// Caches a caller, unless the revocation counter has moved since `seen`, its value before the lookup.
    fn remember(&self, hash: Hash, caller: Caller, seen: i64) {
        let mut remembered = self.remembered.lock().unwrap_or_else(PoisonError::into_inner);
        if *self.changes.borrow() != seen {
            return;
        }
        if remembered.len() >= REMEMBERED_AT_MOST {
            remembered.clear();
        }
        remembered.insert(hash, Remembered { caller, since: Instant::now(), is_asked: false });
    }

    /// Removes a credential from the cache, so that the next request reads the database.
    fn forget(&self, hash: &Hash) {
        self.remembered.lock().unwrap_or_else(PoisonError::into_inner).remove(hash);
    }

    /// Clears the cache if the revocation counter has moved.
    fn note_changes(&self, count: i64) {
        let mut remembered = self.remembered.lock().unwrap_or_else(PoisonError::into_inner);
        let moved = self.changes.send_if_modified(|before| std::mem::replace(before, count) != count);
        if moved {
            remembered.clear();
        }
    }

    /// Receiver that changes whenever rights are revoked.
    pub fn changes(&self) -> watch::Receiver<i64> {
        self.changes.subscribe()
    }
}

/// Reads the revocation counter and clears the cache if it has moved.
pub async fn look_for_changes(app: &App) -> Result<()> {
    app.auth.note_changes(store::changes(&app.pool).await?);
    Ok(())
}
