//! Number of dead items, shown in the sidebar of every staff page and read once for all pages.

use std::time::{Duration, Instant};

use tokio::{sync::Mutex, time::timeout};

use engine::{Engine, read_source::from_primary};

/// Age at which the number is read again.
const MAX_AGE: Duration = Duration::from_secs(2);
/// Time after which a page goes without it.
const TIMEOUT: Duration = Duration::from_millis(100);

/// Number of dead items of all owners, and when it was read.
#[derive(Debug, Default)]
pub struct DeadItemCount(Mutex<Option<(Instant, i64)>>);

impl DeadItemCount {
    /// Number of dead items of all owners, at most two seconds old. `None` if the database does not respond in
    /// time: the page shows the error, not the sidebar.
    pub(super) async fn dead(&self, engine: &Engine) -> Option<i64> {
        timeout(TIMEOUT, from_primary(self.read(engine))).await.ok().flatten()
    }

    /// Stores the number of a newer read, so that a page does not show an older one than the event that refreshed it.
    pub(crate) async fn set(&self, dead: i64) {
        *self.0.lock().await = Some((Instant::now(), dead));
    }

    async fn read(&self, engine: &Engine) -> Option<i64> {
        let mut cached = self.0.lock().await;
        if let Some((_, dead)) = cached.filter(|(at, _)| at.elapsed() < MAX_AGE) {
            return Some(dead);
        }
        let (_, dead) = engine.failures_of(None).await.ok()?;
        *cached = Some((Instant::now(), dead));
        Some(dead)
    }
}
