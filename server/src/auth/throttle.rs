//! Tries of a secret that a person knows: counted here at once, and in the database for all servers.
//!
//! [`begin`] refuses who has failed too often (429 with the time to wait); whoever checked the secret then says how it
//! went, and whoever says nothing has failed. Memory refuses without asking the database, so that a flood costs it
//! nothing; what passes has read the failures of the other servers, a try that costs an argon2 anyway.

use std::time::{Duration, Instant};

use domain::{Code, Problem};
use tokio::sync::SemaphorePermit;

use super::attempts::Key;
use crate::{App, error::Result, store::sign_in as store, task::in_task};

/// Statements about attempts that run at once, and the longest wait for a slot.
pub(super) const AT_ONCE: usize = 2;
const SLOT_TIMEOUT: Duration = Duration::from_secs(8);

/// A try that is under way.
#[derive(Debug)]
#[must_use = "say whether it succeeded"]
pub struct Try {
    keys: Vec<Key>,
    /// True if the database has failures that a success clears.
    is_stored: bool,
    /// True if attempts from this address or device failed recently.
    is_suspect: bool,
}

/// Counts a try; 429 `too_many_requests` where there were too many.
pub async fn begin(app: &App, keys: Vec<Key>) -> Result<Try> {
    let attempts = &app.auth.attempts;
    refuse(attempts.wait(&keys, Instant::now()))?;
    let hashes: Vec<Vec<u8>> = keys.iter().map(|key| key.hash().to_vec()).collect();
    let stored = {
        let _slot = slot(app).await?;
        store::failures(&app.pool, &hashes).await?
    };
    let now = Instant::now();
    let mut is_stored = false;
    for row in &stored {
        for key in keys.iter().filter(|key| key.hash()[..] == row.key[..]) {
            let age = Duration::try_from_secs_f64(row.age_seconds).unwrap_or_default();
            attempts.learn(*key, row.failures, age, now);
            is_stored |= key.is_personal();
        }
    }
    let is_suspect = attempts.is_suspect(&keys, now);
    attempts.begin(&keys, now).or_else(refuse)?;
    Ok(Try { keys, is_stored, is_suspect })
}

/// A slot for a statement: strangers who try secrets take no more connections of the database than there are slots.
async fn slot(app: &App) -> Result<SemaphorePermit<'_>> {
    let slot = tokio::time::timeout(SLOT_TIMEOUT, app.auth.throttle_slots.acquire()).await;
    slot.ok().and_then(std::result::Result::ok).ok_or_else(|| {
        let detail = "Too many people are signing in at once. Try again in a moment.";
        Problem { retry_after_seconds: Some(5), ..Problem::new(Code::TooManyRequests, detail) }.into()
    })
}

fn refuse(wait: Duration) -> Result<()> {
    if wait.is_zero() {
        return Ok(());
    }
    let seconds = u32::try_from(wait.as_secs()).unwrap_or(u32::MAX).saturating_add(1);
    let detail = "Too many failed sign-ins. Wait a little, then try again.";
    Err(Problem { retry_after_seconds: Some(seconds), ..Problem::new(Code::TooManyRequests, detail) }.into())
}

impl Try {
    /// Returns true if attempts from this address or device failed recently.
    pub const fn is_suspect(&self) -> bool {
        self.is_suspect
    }

    /// It did not fit: the other servers learn of it.
    pub async fn failed(self, app: &App) -> Result<()> {
        let pool = app.pool.clone();
        let mut keys = self.keys;
        // In one order everywhere: two that count the same failures never wait for each other in a circle.
        keys.sort_unstable_by_key(|key| *key.hash());
        let (hashes, forgiven): (Vec<Vec<u8>>, Vec<f64>) =
            keys.iter().map(|key| (key.hash().to_vec(), key.forgiven_after_seconds())).unzip();
        let _slot = slot(app).await?;
        in_task("counting a failed sign-in", async move { Ok(store::count(&pool, &hashes, &forgiven).await?) }).await
    }

    /// It did: what was counted is taken back.
    pub async fn succeeded(self, app: &App) -> Result<()> {
        app.auth.attempts.succeeded(&self.keys);
        if self.is_stored {
            let personal = self.keys.iter().filter(|key| key.is_personal());
            let hashes: Vec<Vec<u8>> = personal.map(|key| key.hash().to_vec()).collect();
            store::clear(&app.pool, &hashes).await?;
        }
        Ok(())
    }
}
