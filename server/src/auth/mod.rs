//! Who is asking: bearer tokens of services, cookie sessions of people, one-time links (spec §8).
//!
//! Everything that reads a secret is here; handlers only see a [`Caller`]. A caller is looked up
//! once and then remembered for at most ten seconds, so that a busy worker does not cost a query a
//! request; a revoked credential stops within that time on every server, and at once on the server
//! that revoked it.

use std::{
    collections::HashMap,
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

mod attempts;
mod bootstrap;
mod caller;
mod cookies;
mod extract;
pub mod links;
pub mod origin;
mod secrets;
pub mod sessions;
pub mod tokens;

pub use attempts::Attempts;
pub use bootstrap::{BOOTSTRAP_SERVICE, ensure_bootstrap_token};
pub use caller::{Caller, Role, Scope};
pub use cookies::SessionCookie;
pub use extract::MaybeCaller;
pub use secrets::{Hash, hash_of, new_secret};

/// How long a caller is remembered without asking the database.
const REMEMBERED_FOR: Duration = Duration::from_secs(10);

/// How many callers are remembered; beyond it, all are forgotten.
const REMEMBERED_AT_MOST: usize = 10_000;

/// What the server keeps in memory about credentials.
#[derive(Debug)]
pub struct Auth {
    remembered: Mutex<HashMap<Hash, (Caller, Instant)>>,
    /// The only bootstrap token that counts: the one this server was started with.
    bootstrap: Option<Hash>,
    cookie: SessionCookie,
    /// Failed sign-ins of late.
    attempts: Attempts,
}

impl Auth {
    /// `secure`: whether people reach the server by https.
    pub fn new(bootstrap: Option<Hash>, secure: bool) -> Self {
        Self {
            remembered: Mutex::default(),
            bootstrap,
            cookie: SessionCookie::new(secure),
            attempts: Attempts::default(),
        }
    }

    /// The cookie that carries a session.
    pub const fn cookie(&self) -> SessionCookie {
        self.cookie
    }

    fn recall(&self, hash: &Hash) -> Option<Caller> {
        let remembered = self.remembered.lock().unwrap_or_else(PoisonError::into_inner);
        remembered.get(hash).filter(|(_, since)| since.elapsed() < REMEMBERED_FOR).map(|(caller, _)| caller.clone())
    }

    fn remember(&self, hash: Hash, caller: Caller) {
        let mut remembered = self.remembered.lock().unwrap_or_else(PoisonError::into_inner);
        if remembered.len() >= REMEMBERED_AT_MOST {
            remembered.clear();
        }
        remembered.insert(hash, (caller, Instant::now()));
    }

    /// Makes the next request with this credential ask the database.
    fn forget(&self, hash: &Hash) {
        self.remembered.lock().unwrap_or_else(PoisonError::into_inner).remove(hash);
    }
}
