//! Who is asking: bearer tokens of services, cookie sessions of people, one-time links.
//!
//! Everything that reads a secret is here; handlers only see a [`Caller`]. A caller is looked up
//! once and then remembered for at most ten seconds, so that a busy worker does not cost a query a
//! request; after a quarter of that its token is looked up again beside its requests, which do not wait.
//! What takes rights away is counted in the database; each server looks four times a second and forgets
//! everybody when the count has moved, so nothing that was revoked opens anything a second later.

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

/// How long a caller is remembered without asking the database.
const REMEMBERED_FOR: Duration = Duration::from_secs(10);

/// How many callers are remembered; beyond it, all are forgotten.
const REMEMBERED_AT_MOST: usize = 10_000;

/// A caller, as the database had it then.
#[derive(Debug)]
struct Remembered {
    caller: Caller,
    since: Instant,
    /// Somebody is asking the database again.
    is_asked: bool,
}

/// What the server keeps in memory about credentials.
pub struct Auth {
    remembered: Mutex<HashMap<Hash, Remembered>>,
    /// The only bootstrap token that counts: the one this server was started with.
    bootstrap: Option<Hash>,
    cookie: SessionCookie,
    /// Failed sign-ins of late.
    attempts: Attempts,
    passwords: Passwords,
    /// Turns at the database for those who try secrets.
    throttle_slots: Semaphore,
    /// OpenID Connect providers, as they were found lately.
    providers: oidc::Known,
    /// How often rights were taken away, as far as this server knows.
    changes: watch::Sender<i64>,
    /// Rights of the credentials of ongoing work.
    known: Mutex<HashMap<Uuid, still_valid::Known>>,
    lookups: Coalescer<still_valid::Lookup>,
}

impl Auth {
    /// `secure`: whether people reach the server by https.
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

    /// A caller who is remembered, and whether the database is to be asked again by now, which is said once.
    fn recall(&self, hash: &Hash) -> Option<(Caller, bool)> {
        let mut remembered = self.remembered.lock().unwrap_or_else(PoisonError::into_inner);
        let known = remembered.get_mut(hash).filter(|known| known.since.elapsed() < REMEMBERED_FOR)?;
        let is_due = known.since.elapsed() >= REMEMBERED_FOR / 4 && !std::mem::replace(&mut known.is_asked, true);
        Some((known.caller.clone(), is_due))
    }

    /// Remembers a caller, unless rights were taken away since `seen`, before which the database was asked.
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

    /// Makes the next request with this credential ask the database.
    fn forget(&self, hash: &Hash) {
        self.remembered.lock().unwrap_or_else(PoisonError::into_inner).remove(hash);
    }

    /// Forgets every caller, if the count of changes has moved.
    fn note_changes(&self, count: i64) {
        let mut remembered = self.remembered.lock().unwrap_or_else(PoisonError::into_inner);
        let moved = self.changes.send_if_modified(|before| std::mem::replace(before, count) != count);
        if moved {
            remembered.clear();
        }
    }

    /// Moves whenever rights were taken away from anybody.
    pub fn changes(&self) -> watch::Receiver<i64> {
        self.changes.subscribe()
    }
}

/// Looks whether rights were taken away since the last look, and acts on it.
pub async fn look_for_changes(app: &App) -> Result<()> {
    app.auth.note_changes(store::changes(&app.pool).await?);
    Ok(())
}
