//! Connection pools, separated by purpose, so that no kind of work can starve another.
//!
//! `hot` runs statements whose tables are empty when plans are made; its planner settings force index scans.
//! Transactions begin in tasks that no disconnect cancels, so a connection never returns to a pool inside a
//! transaction; the server-side timeouts are a safety net. All work of `hot` runs in such tasks. Work of the other pools
//! may be dropped at any time, so they test a connection when they take it back (`primary::may_be_used_again`), which
//! takes one more round trip.

use std::{str::FromStr, time::Duration};

use sqlx::{
    PgConnection, PgPool,
    postgres::{PgConnectOptions, PgPoolOptions},
};

use super::{reachability::Reachability, standby::Standby};
use crate::primary;

/// The pools of one server.
#[derive(Clone, Debug)]
pub struct Pools {
    /// Adding, claiming, ending.
    pub hot: PgPool,
    /// Heartbeats only: they must succeed under any load.
    pub heartbeats: PgPool,
    /// Pages, lists, background tasks, people.
    pub read: PgPool,
    /// Lookups of credentials, which lists must not delay.
    pub credentials: PgPool,
    /// Hints to other servers: one connection whose commits wait for no disk, as nothing is lost with them.
    pub hints: PgPool,
    /// Ends the long waits of `heartbeats` and `credentials` while the database refuses connections.
    pub reachability: Reachability,
    /// Hot standby for the reads of pages and lists, if there is one.
    pub standby: Option<Standby>,
}

/// Settings of every connection.
const SETTINGS: &[(&str, &str)] = &[
    ("application_name", "treeline"),
    ("timezone", "UTC"),
    ("jit", "off"),
    ("idle_in_transaction_session_timeout", "10s"),
    ("lock_timeout", "5s"),
    ("default_transaction_isolation", "read committed"),
];

/// Settings that keep the plans of the hot path on their indexes.
const PLANNER_SETTINGS: &[(&str, &str)] = &[
    ("plan_cache_mode", "force_generic_plan"),
    ("enable_seqscan", "off"),
    ("enable_hashjoin", "off"),
    ("enable_mergejoin", "off"),
    ("enable_bitmapscan", "off"),
    ("statement_timeout", "15s"),
];

/// Wait for a connection before a request is refused with `Retry-After`, within two seconds; heartbeats and the lookup of
/// callers may wait longer for a busy pool.
pub const WAIT: Duration = Duration::from_millis(1_800);
const HEARTBEATS_WAIT: Duration = Duration::from_secs(10);
const CREDENTIALS_WAIT: Duration = Duration::from_secs(5);
/// Idle time after which a connection is tested before it is used, because a firewall may have forgotten it, and the time
/// that it has to answer.
const TESTED_AFTER: Duration = Duration::from_mins(1);
const TEST_WAIT: Duration = Duration::from_secs(1);
/// Connections for hints: one that sends, one that receives, and those that received from a host that has vanished. sqlx
/// waits for its answer until the operating system gives up.
const HINTS: u32 = 4;
/// Longest wait for the connections in use when the pools are closed.
const CLOSE_WAIT: Duration = Duration::from_secs(5);
/// Wait for the database when a server starts, as it may be starting, too.
const START_WAIT: Duration = Duration::from_secs(30);

/// Number of batches that run at once on a pool of few connections: two, where one that hangs leaves a connection to the
/// other.
pub fn batches_at_once(pool: &PgPool) -> usize {
    pool.options().get_max_connections().min(2) as usize
}

/// A small pool for the owner of the schema, for migrations.
pub async fn owner_pool(url: &str) -> Result<PgPool, sqlx::Error> {
    let options = PgConnectOptions::from_str(url)?.options(SETTINGS.iter().copied());
    PgPoolOptions::new().max_connections(2).acquire_timeout(HEARTBEATS_WAIT).connect_with(options).await
}

/// Options of a pool whose connections can write. Waits for such a database as for one that starts.
fn options(size: u32) -> PgPoolOptions {
    PgPoolOptions::new()
        .max_connections(size)
        .test_before_acquire(false)
        .after_connect(|connection, _| Box::pin(ensure_writable(connection)))
        .before_acquire(|connection, times| {
            Box::pin(async move {
                let is_tested = times.idle_for >= TESTED_AFTER;
                Ok(!primary::is_suspect(times.age) && (!is_tested || primary::answers(connection, TEST_WAIT).await))
            })
        })
        .after_release(|_, times| Box::pin(async move { Ok(!primary::is_suspect(times.age)) }))
}

/// Options of a pool whose work may be dropped in the middle of a statement.
fn options_for_droppable_work(size: u32) -> PgPoolOptions {
    options(size).after_release(|connection, times| {
        Box::pin(async move { Ok(primary::may_be_used_again(connection, times.age).await) })
    })
}

/// Rejects a connection to a standby or to a database that was made read-only.
pub(super) async fn ensure_writable(connection: &mut PgConnection) -> Result<(), sqlx::Error> {
    let read_only: String = sqlx::query_scalar("show transaction_read_only").fetch_one(connection).await?;
    if read_only == "on" {
        return Err(sqlx::Error::Configuration("the database is read-only: not a primary".into()));
    }
    Ok(())
}

impl Pools {
    /// Connections of the pools that grow and shrink, in use and idle, for metrics.
    pub fn connections(&self) -> Vec<(&'static str, usize, usize)> {
        let own = [("hot", &self.hot), ("heartbeats", &self.heartbeats), ("read", &self.read)];
        let standby = self.standby.as_ref().map(|standby| ("standby", &standby.pool));
        let counted = own.into_iter().chain(standby).map(|(name, pool)| {
            let idle = pool.num_idle();
            (name, (pool.size() as usize).saturating_sub(idle), idle)
        });
        counted.collect()
    }

    /// Pool for reads that are shown and decide nothing: that of the standby, if there is one and it has all that the
    /// current request may expect, else `read`. What is read must not enter a cache that decisions share.
    pub async fn reads(&self) -> &PgPool {
        match &self.standby {
            // Boxed: every read of a page waits here, and without a standby there is nothing to wait for.
            Some(standby) if Box::pin(standby.is_chosen(&self.read)).await => &standby.pool,
            _ => &self.read,
        }
    }

    /// Adds the standby of this URL, with as many connections as `read` has.
    pub fn with_standby(self, url: &str) -> Result<Self, sqlx::Error> {
        let size = self.read.options().get_max_connections();
        Ok(Self { standby: Some(Standby::open(url, size, SETTINGS)?), ..self })
    }

    /// Opens pools of `size` connections in all, as soon as the database answers and can write. Fails when it does not
    /// within 30 seconds or rejects the server.
    pub async fn connect(url: &str, size: u32) -> Result<Self, sqlx::Error> {
        let base = PgConnectOptions::from_str(url)?.options(SETTINGS.iter().copied());
        options(1).acquire_timeout(START_WAIT).connect_with(base.clone()).await?.close().await;
        // Two, where lists have enough: one that hangs does not stop every heartbeat or sign-in.
        let heartbeats = (size / 8).max(if size < 13 { 1 } else { 2 });
        let credentials = (size / 16).max(if size < 20 { 1 } else { 2 });
        let rest = size.saturating_sub(heartbeats + credentials);
        let hot = (size / 2).min(rest.saturating_sub(3)).max(3);
        let read = rest.saturating_sub(hot).max(3);
        let tested = |size| options_for_droppable_work(size).acquire_timeout(WAIT);
        let planned = base.clone().options(PLANNER_SETTINGS.iter().copied()).statement_cache_capacity(200);
        Ok(Self {
            hot: options(hot).acquire_timeout(WAIT).connect_lazy_with(planned.clone()),
            heartbeats: tested(heartbeats).acquire_timeout(HEARTBEATS_WAIT).connect_lazy_with(planned),
            hints: tested(HINTS).connect_lazy_with(base.clone().options([("synchronous_commit", "off")])),
            credentials: tested(credentials)
                .acquire_timeout(CREDENTIALS_WAIT)
                .connect_lazy_with(base.clone().options([("statement_timeout", "5s")])),
            reachability: Reachability::new(base.clone()),
            read: tested(read).connect_lazy_with(
                // Capacity for every statement of the pages; a dropped statement is parsed and planned again.
                base.options([("statement_timeout", "10s")]).statement_cache_capacity(600),
            ),
            standby: None,
        })
    }

    /// Opens a connection of each pool without one in which requests should find it open: a lost one takes several round trips
    /// to replace. (sqlx's `min_connections` would occupy a place in the pool for minutes while the database is away, with
    /// pauses of up to a minute.)
    pub async fn open_in_advance(&self) -> Result<(), sqlx::Error> {
        for pool in [&self.heartbeats, &self.credentials, &self.read] {
            if pool.size() == 0 {
                pool.acquire().await?;
            }
        }
        Ok(())
    }

    /// Closes every connection. Those in use are waited for, but not for long: the database may be silent.
    pub async fn close(&self) {
        let own = [&self.hot, &self.heartbeats, &self.read, &self.credentials, &self.hints];
        let standby = self.standby.as_ref().map(|standby| &standby.pool);
        let closing = futures::future::join_all(own.into_iter().chain(standby).map(PgPool::close));
        if tokio::time::timeout(CLOSE_WAIT, closing).await.is_err() {
            tracing::warn!("some connections to the database are still in use: stopping without them");
        }
    }
}
