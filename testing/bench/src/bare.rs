//! Limits of PostgreSQL and HTTP on this machine for the bare work.
//!
//! An item waits, is leased, ended with a result, and counted, with narrow tables, small keys and none of the engine's
//! promises. The statements are the fastest that were found, so that the ratios are not flattering. This module uses
//! no code of the engine.

use std::time::Duration;

use anyhow::{Result, ensure};
use futures::future::try_join_all;
use sqlx::{
    PgPool,
    postgres::{PgConnectOptions, PgPoolOptions},
};

/// Items of one claim and of one ending.
pub(crate) const BATCH: i64 = 100;
/// Items of one insert.
pub(crate) const ADDED_AT_ONCE: u64 = 5_000;
/// Connections that each commit one row at a time.
const SINGLES: u32 = 64;

/// Planner settings, the same as those of the engine's connections.
const PLANNER_SETTINGS: &[(&str, &str)] = &[
    ("jit", "off"),
    ("plan_cache_mode", "force_generic_plan"),
    ("enable_seqscan", "off"),
    ("enable_hashjoin", "off"),
    ("enable_mergejoin", "off"),
    ("enable_bitmapscan", "off"),
];

const TABLES: &str = "
    drop schema if exists bare cascade;
    create schema bare;
    create table bare.item (id bigint primary key, job_id bigint not null, payload text not null);
    create table bare.ready (id bigint primary key);
    create table bare.lease (item_id bigint primary key, started_at timestamptz not null default now());
    create table bare.outcome (item_id bigint primary key, ended_at timestamptz not null default now(), result text);
    create table bare.counter (job_id bigint primary key, n_done bigint not null) with (fillfactor = 50);
    create table bare.single (id bigint generated always as identity primary key, payload text not null);
    insert into bare.counter values (1, 0);";

/// The bare tables in a database.
#[derive(Debug)]
pub(crate) struct Bare {
    pool: PgPool,
}

impl Bare {
    pub(crate) async fn connect(url: &str) -> Result<Self> {
        let options: PgConnectOptions = url.parse()?;
        let pool = PgPoolOptions::new()
            .max_connections(SINGLES)
            .test_before_acquire(false)
            .connect_with(options.options(PLANNER_SETTINGS.iter().copied()))
            .await?;
        Ok(Self { pool })
    }

    /// Empty tables.
    pub(crate) async fn reset(&self) -> Result<()> {
        sqlx::raw_sql(TABLES).execute(&self.pool).await?;
        Ok(())
    }

    /// Inserts `n` items, 5,000 per statement, over two connections.
    pub(crate) async fn add(&self, n: u64, payload: &str) -> Result<u64> {
        self.add_by(n, payload, 2, ADDED_AT_ONCE).await
    }

    /// Inserts `n` items, `at_once` per statement, over several connections.
    pub(crate) async fn add_by(&self, n: u64, payload: &str, connections: u64, at_once: u64) -> Result<u64> {
        let halves = (0..connections).map(|half| async move {
            let mut at = half * at_once;
            while at < n {
                let ids: Vec<i64> = (at..(at + at_once).min(n)).map(|id| id as i64).collect();
                let payloads = vec![payload; ids.len()];
                sqlx::query(
                    "with new as (insert into bare.item (id, job_id, payload)
                       select id, 1, payload from unnest($1::bigint[], $2::text[]) as new (id, payload) returning id)
                     insert into bare.ready (id) select id from new",
                )
                .bind(&ids)
                .bind(&payloads)
                .execute(&self.pool)
                .await?;
                at += connections * at_once;
            }
            Ok::<_, sqlx::Error>(())
        });
        try_join_all(halves).await?;
        Ok(n)
    }

    /// Claims and ends all items, 100 at a time, over several connections: two commits per batch.
    pub(crate) async fn drain(&self, n: u64, connections: usize) -> Result<u64> {
        let ended: u64 = try_join_all((0..connections).map(|_| self.drain_one())).await?.into_iter().sum();
        let counted: i64 = sqlx::query_scalar("select n_done from bare.counter").fetch_one(&self.pool).await?;
        ensure!(ended == n && counted as u64 == n, "{ended} ended and {counted} counted of {n}");
        Ok(n)
    }

    async fn drain_one(&self) -> Result<u64> {
        let (mut ended, mut low) = (0, 0_i64);
        let results = vec![super::RESULT; BATCH as usize];
        loop {
            let mut ids: Vec<i64> = sqlx::query_scalar(
                "with pick as materialized (
                   select ctid from bare.ready where id >= $1 order by id limit $2 for update skip locked),
                 gone as (delete from bare.ready where ctid = any(array(select ctid from pick)) returning id)
                 insert into bare.lease (item_id) select id from gone returning item_id",
            )
            .bind(low)
            .bind(BATCH)
            .fetch_all(&self.pool)
            .await?;
            if ids.is_empty() {
                if low == 0 {
                    return Ok(ended);
                }
                low = 0;
                continue;
            }
            ids.sort_unstable();
            low = (ids[0] - 5_000).max(0);
            let done = sqlx::query(
                "with gone as (delete from bare.lease where item_id = any($1) returning item_id),
                 stored as (insert into bare.outcome (item_id, result)
                   select item_id, ($2::text[])[width_bucket(item_id, $1)] from gone returning 1)
                 update bare.counter set n_done = n_done + (select count(*) from stored) where job_id = 1",
            )
            .bind(&ids)
            .bind(&results[..ids.len()])
            .execute(&self.pool)
            .await?;
            ensure!(done.rows_affected() == 1, "the counter is gone");
            ended += ids.len() as u64;
        }
    }

    /// Durations of commits of one row from a single connection, in milliseconds.
    pub(crate) async fn commit_times(&self, n: usize, payload: &str) -> Result<Vec<f64>> {
        let mut connection = self.pool.acquire().await?;
        let mut times = Vec::with_capacity(n);
        for _ in 0..n {
            let began = std::time::Instant::now();
            let insert = sqlx::query("insert into bare.single (payload) values ($1)").bind(payload);
            insert.execute(&mut *connection).await?;
            times.push(began.elapsed().as_secs_f64() * 1e3);
        }
        Ok(times)
    }

    /// Opens 64 connections, each with its statement prepared. No measurement includes that.
    pub(crate) async fn open_all(&self, payload: &str) -> Result<()> {
        let mut connections = try_join_all((0..SINGLES).map(|_| self.pool.acquire())).await?;
        for connection in &mut connections {
            sqlx::query("insert into bare.single (payload) values ($1)")
                .bind(payload)
                .execute(&mut **connection)
                .await?;
        }
        Ok(())
    }

    /// Commits one row at a time from 64 connections: the limit of a system with one commit per item.
    pub(crate) async fn singles(&self, n: u64, payload: &str) -> Result<u64> {
        let each = n / u64::from(SINGLES);
        let writers = (0..SINGLES).map(|_| async {
            for _ in 0..each {
                sqlx::query("insert into bare.single (payload) values ($1)").bind(payload).execute(&self.pool).await?;
            }
            Ok::<_, sqlx::Error>(())
        });
        try_join_all(writers).await?;
        Ok(each * u64::from(SINGLES))
    }
}

/// Requests of 64 clients to a server whose handler only reads and returns JSON.
pub(crate) async fn http(n: u64, body: serde_json::Value) -> Result<u64> {
    let listener = tokio::net::TcpListener::bind(("127.0.0.1", 0)).await?;
    let url = format!("http://{}/", listener.local_addr()?);
    let echo = |axum::Json(body): axum::Json<serde_json::Value>| async move { axum::Json(body) };
    let router = axum::Router::new().route("/", axum::routing::post(echo));
    let served = tokio::spawn(async move { axum::serve(listener, router).await });
    let client = reqwest::Client::builder().tls_certs_only([]).timeout(Duration::from_secs(30)).build()?;
    let body = serde_json::to_vec(&body)?;
    let each = n / u64::from(SINGLES);
    let clients = (0..SINGLES).map(|_| async {
        for _ in 0..each {
            let request = client.post(&url).header("content-type", "application/json").body(body.clone());
            request.send().await?.error_for_status()?.json::<serde_json::Value>().await?;
        }
        Ok::<_, reqwest::Error>(())
    });
    let done = try_join_all(clients).await;
    served.abort();
    done?;
    Ok(each * u64::from(SINGLES))
}
