//! Throttling of attempts on secrets that people know: counted in memory at once, and in the database for all servers.
//! The limits and delays are in `limits`.
//!
//! [`begin`] refuses a client with too many failures (429 with the time to wait); afterwards the caller reports the
//! outcome, and an attempt without a report counts as failed. Memory refuses without a query, so that a flood costs the
//! database nothing; other attempts read the failures of the other servers, which is cheap beside an argon2 check.

mod limits; // counters of this server, with their limits and delays

use std::time::{Duration, Instant};

use domain::{Code, Problem};
use tokio::sync::SemaphorePermit;

use crate::App;
use engine::{error::Result, store::access::sign_in as store, task::in_task};

pub use limits::{Attempts, Key};

/// Concurrent statements about attempts, and the longest wait for a slot.
pub(super) const AT_ONCE: usize = 2;
const SLOT_TIMEOUT: Duration = Duration::from_secs(8);

/// Attempt in progress.
#[derive(Debug)]
#[must_use = "say whether it succeeded"]
pub struct AttemptInProgress {
    keys: Vec<Key>,
    /// True if the database holds failures that a success clears.
    is_stored: bool,
    /// True if attempts from this address or device failed recently.
    is_suspect: bool,
}

/// Counts an attempt; 429 `too_many_requests` if there were too many.
pub async fn begin(app: &App, keys: Vec<Key>) -> Result<AttemptInProgress> {
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
    Ok(AttemptInProgress { keys, is_stored, is_suspect })
}

/// Acquires a slot for a statement: bounds the database connections that unauthenticated clients can use.
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

impl AttemptInProgress {
    /// Returns true if attempts from this address or device failed recently.
    pub const fn is_suspect(&self) -> bool {
        self.is_suspect
    }

    /// Reports a failure, also to the other servers.
    pub async fn failed(self, app: &App) -> Result<()> {
        let pool = app.pool.clone();
        let mut keys = self.keys;
        // One global order: two updates of the same failures never deadlock.
        keys.sort_unstable_by_key(|key| *key.hash());
        let (hashes, forgiven): (Vec<Vec<u8>>, Vec<f64>) =
            keys.iter().map(|key| (key.hash().to_vec(), key.forgiven_after_seconds())).unzip();
        let _slot = slot(app).await?;
        in_task("counting a failed sign-in", async move { Ok(store::count(&pool, &hashes, &forgiven).await?) }).await
    }

    /// Reports a success and takes back the counted failure.
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
