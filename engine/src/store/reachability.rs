//! Work that may wait long for a connection because the pool is busy, but not because the database refuses connections or
//! is read-only: such a request is answered within two seconds, like every other. A pool reports both cases as the same timeout.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use sqlx::{ConnectOptions as _, Connection as _, postgres::PgConnectOptions};
use tokio::{
    sync::Mutex,
    time::{Instant, sleep, timeout},
};

use super::pools::ensure_writable;

/// Time after which waiting work has the database probed. With the probe, it is shorter than two seconds.
const PROBE_AFTER: Duration = Duration::from_millis(1_200);
/// Time for an answer. A database that gives none may be busy: the wait goes on.
const PROBE_TIMEOUT: Duration = Duration::from_millis(500);
/// Age up to which an answer holds for other work.
const PROBE_INTERVAL: Duration = Duration::from_millis(500);

/// Whether the database accepts connections and writes, probed with a connection of its own, and only while something waits. Cheap to
/// clone.
#[derive(Clone, Debug)]
pub struct Reachability(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    options: PgConnectOptions,
    /// Answer of the last probe. While it is true, work is not tried for long before the next probe.
    refuses: AtomicBool,
    probed_at: Mutex<Option<Instant>>,
}

impl Reachability {
    pub(super) fn new(options: PgConnectOptions) -> Self {
        Self(Arc::new(Shared { options, refuses: AtomicBool::new(false), probed_at: Mutex::new(None) }))
    }

    /// Runs work that may be dropped at any time. Returns `PoolTimedOut` within two seconds if the database refuses
    /// connections or is read-only.
    pub async fn unless_refused<T, E: From<sqlx::Error>>(
        &self,
        work: impl Future<Output = Result<T, E>>,
    ) -> Result<T, E> {
        let refused = async {
            let is_known = self.0.refuses.load(Ordering::Relaxed);
            sleep(if is_known { PROBE_TIMEOUT } else { PROBE_AFTER }).await;
            while !self.refuses().await {
                sleep(PROBE_INTERVAL).await;
            }
        };
        tokio::select! {
            biased;
            done = work => done,
            () = refused => Err(sqlx::Error::PoolTimedOut.into()),
        }
    }

    /// Returns true if the database refuses connections or is read-only. At most one probe runs at a time.
    async fn refuses(&self) -> bool {
        let mut probed_at = self.0.probed_at.lock().await;
        if probed_at.is_none_or(|at| at.elapsed() >= PROBE_INTERVAL) {
            let refuses = self.probe().await;
            self.0.refuses.store(refuses, Ordering::Relaxed);
            *probed_at = Some(Instant::now());
        }
        self.0.refuses.load(Ordering::Relaxed)
    }

    async fn probe(&self) -> bool {
        let connected = async {
            let mut connection = self.0.options.connect().await?;
            let writable = ensure_writable(&mut connection).await;
            // What happens to the connection decides nothing.
            tokio::spawn(timeout(PROBE_TIMEOUT, connection.close()));
            writable
        };
        match timeout(PROBE_TIMEOUT, connected).await {
            // 57P03: starting, stopping, or in recovery. Every other refusal comes from a database that works.
            Ok(Err(sqlx::Error::Database(error))) => error.code().is_some_and(|code| code.starts_with("57P")),
            Ok(Err(_)) => true,
            Ok(Ok(())) | Err(_) => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{future::pending, net::TcpListener};

    use super::*;

    fn reachability(port: u16) -> Reachability {
        Reachability::new(PgConnectOptions::new_without_pgpass().host("127.0.0.1").port(port))
    }

    #[tokio::test]
    async fn a_refusal_ends_the_wait_within_two_seconds_and_then_sooner() {
        // A port that was free a moment ago.
        let port = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr()).expect("a port").port();
        let database = reachability(port);
        for limit in [Duration::from_secs(2), Duration::from_secs(1)] {
            let began = Instant::now();
            let done: Result<(), sqlx::Error> = database.unless_refused(pending()).await;
            assert!(matches!(done, Err(sqlx::Error::PoolTimedOut)), "{done:?}");
            assert!(began.elapsed() < limit, "{:?}", began.elapsed());
        }
    }

    #[tokio::test]
    async fn a_database_that_gives_no_answer_is_waited_for() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let database = reachability(listener.local_addr().expect("bound").port());
        let work = database.unless_refused(pending::<Result<(), sqlx::Error>>());
        assert!(timeout(Duration::from_secs(3), work).await.is_err(), "still waits");
    }
}
