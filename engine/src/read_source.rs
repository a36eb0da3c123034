//! Source of the reads of one request: the primary, or a standby that has everything that the request may expect.
//!
//! It lives in a task-local of the request's own task. Use cases that decide run in tasks of their own, or in requests
//! without a source, and therefore always read from the primary. It is separate from the pools because errors are
//! noted here, too. No SQL.

use std::sync::{
    Arc, Mutex, PoisonError,
    atomic::{AtomicUsize, Ordering},
};

use sqlx::error::DatabaseError;
use tokio::{sync::OnceCell, time::Instant};

tokio::task_local! {
    static SOURCE: Option<Arc<ReadSource>>;
}

/// `query_canceled`: a statement took too long, as it would on the primary.
const TOO_SLOW: &str = "57014";

/// Position of the primary at a moment. All commits that were acknowledged before are part of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Position {
    /// Position in the write-ahead log, as PostgreSQL writes it.
    pub(crate) lsn: String,
    /// Positions of different timelines cannot be compared.
    pub(crate) timeline: i32,
    /// Cluster and database, without which a position means nothing.
    pub(crate) system: i64,
    pub(crate) database: String,
}

/// Choice for one request, made with its first read.
#[derive(Clone, Debug)]
pub(crate) enum Choice {
    /// A standby that has replayed this position; every connection is asked about it until the time is over.
    Standby(Position, Instant),
    /// The primary, because the standby is behind or unavailable.
    Primary(Miss),
}

/// Reason why a standby was not used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Miss {
    Behind,
    Unavailable(String),
}

/// Source of the reads of one request.
#[derive(Debug, Default)]
pub struct ReadSource {
    pub(crate) choice: OnceCell<Choice>,
    /// What went wrong after the standby was chosen.
    miss: Mutex<Option<Miss>>,
    /// Number of its parts that read from the primary at the moment.
    on_primary: AtomicUsize,
}

/// Source of the current request; `None` means the primary.
pub(crate) fn current() -> Option<Arc<ReadSource>> {
    SOURCE.try_with(Clone::clone).ok().flatten()
}

/// Runs a part of a request whose reads come from the primary: it waits for changes, or serves other requests, too.
pub async fn from_primary<T>(part: impl Future<Output = T>) -> T {
    let _counted = current().map(OnPrimary::begin);
    SOURCE.scope(None, part).await
}

/// Counts a part of a request that reads from the primary while it runs.
struct OnPrimary(Arc<ReadSource>);

impl OnPrimary {
    fn begin(source: Arc<ReadSource>) -> Self {
        source.on_primary.fetch_add(1, Ordering::Relaxed);
        Self(source)
    }
}

impl Drop for OnPrimary {
    fn drop(&mut self) {
        self.0.on_primary.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Notes an error of a request that reads from a standby. Returns false if there is no such request.
pub(crate) fn note(error: &sqlx::Error) -> bool {
    let Some(source) = current().filter(|source| source.is_standby()) else { return false };
    let code = error.as_database_error().and_then(DatabaseError::code);
    if !matches!(error, sqlx::Error::RowNotFound) && code.as_deref() != Some(TOO_SLOW) {
        source.missed(Miss::Unavailable(error.to_string()));
    }
    true
}

/// Returns true if the current request is to be repeated on the primary: its errors are no incident.
pub(crate) fn is_to_repeat() -> bool {
    current().is_some_and(|source| source.miss().is_some())
}

impl ReadSource {
    /// Runs a request whose reads may come from a standby.
    pub async fn scope<T>(self: &Arc<Self>, request: impl Future<Output = T>) -> T {
        SOURCE.scope(Some(Arc::clone(self)), request).await
    }

    /// Returns true if the standby was chosen.
    pub fn is_standby(&self) -> bool {
        matches!(self.choice.get(), Some(Choice::Standby(..)))
    }

    /// Returns true if a part of the request reads from the primary at the moment.
    pub fn is_on_primary(&self) -> bool {
        self.on_primary.load(Ordering::Relaxed) > 0
    }

    /// Notes what went wrong with the standby; the first reason counts.
    pub(crate) fn missed(&self, miss: Miss) {
        self.miss.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(miss);
    }

    /// What went wrong with the standby, if anything.
    pub(crate) fn miss(&self) -> Option<Miss> {
        self.miss.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn standby() -> Arc<ReadSource> {
        let position = Position { lsn: "0/1".to_owned(), timeline: 1, system: 1, database: "a".to_owned() };
        let choice = OnceCell::new_with(Some(Choice::Standby(position, Instant::now())));
        Arc::new(ReadSource { choice, ..ReadSource::default() })
    }

    #[tokio::test]
    async fn errors_of_a_standby_stay_with_their_request() {
        assert!(!note(&sqlx::Error::PoolTimedOut), "no request");
        let unchosen = Arc::new(ReadSource::default());
        assert!(!unchosen.scope(async { note(&sqlx::Error::PoolTimedOut) }).await, "the primary's");
        let source = standby();
        source.scope(async { assert!(note(&sqlx::Error::RowNotFound) && !is_to_repeat(), "an answer") }).await;
        source.scope(async { assert!(note(&sqlx::Error::PoolTimedOut) && is_to_repeat()) }).await;
        source.missed(Miss::Behind);
        assert!(matches!(source.miss(), Some(Miss::Unavailable(_))), "the first reason");
    }

    #[tokio::test]
    async fn parts_and_tasks_of_a_request_read_from_the_primary() {
        let source = standby();
        let has_source = async || current().is_some();
        source
            .scope(async {
                assert!(has_source().await);
                assert!(!from_primary(has_source()).await && !source.is_on_primary());
                assert!(from_primary(async { source.is_on_primary() }).await);
                assert!(!tokio::spawn(async { current().is_some() }).await.expect("a task"));
                assert!(has_source().await);
            })
            .await;
    }
}
