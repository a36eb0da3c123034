//! Rounds of the limits, the engine in process and over HTTP, and the peers, with the same number of items.

use anyhow::Result;
use uuid::Uuid;

use crate::{
    Bench, PAYLOAD, bare,
    peers::PEERS,
    statistics::ratios::{APART, BARE_DRAINS, FUSED, HTTP_DRAIN},
    transport::DrainMode,
};

const ADD: &str = "add in process, 5,000 per call, 2 callers";
const ONE: DrainMode = DrainMode { workers: 64, batch: 1, fused: true };

/// Connections of the bare drains, and workers of the engine's drains.
const CONNECTIONS: [usize; 5] = [1, 2, 4, 8, 16];
const WORKERS: [usize; 3] = [2, 8, 16];

/// A hundred items a call.
pub(crate) const fn hundred(workers: usize, fused: bool) -> DrainMode {
    DrainMode { workers, batch: 100, fused }
}

impl Bench {
    /// Limits of HTTP, and of commits of one row.
    pub(crate) async fn limits(&mut self) -> Result<()> {
        let (bare, n) = (&self.bare, self.sizes.items);
        let body = serde_json::json!({"endings": [{"assignment_id": Uuid::nil(), "result": {"shipped": true}}]});
        for _ in 0..self.sizes.rounds {
            bare.reset().await?;
            bare.open_all(PAYLOAD).await?;
            let cost = self.meter.measure(bare.singles(n / 2, PAYLOAD)).await?;
            self.report.add("limit: one row a commit, 64 connections", cost);
            let cost = self.meter.measure(bare::http(n, body.clone())).await?;
            self.report.add("limit: HTTP with an empty handler, 64 connections", cost);
        }
        Ok(())
    }

    /// Measures the limits, the engine and the peers; the first one changes from round to round.
    pub(crate) async fn round(&mut self, round: usize) -> Result<()> {
        for turn in 0..3 + PEERS.len() {
            match (turn + round) % (3 + PEERS.len()) {
                0 => self.round_of_limits().await?,
                1 => self.round_in_process(round).await?,
                2 => self.round_over_http(round).await?,
                peer => self.peer(&PEERS[peer - 3]).await?,
            }
        }
        Ok(())
    }

    async fn round_of_limits(&mut self) -> Result<()> {
        let n = self.sizes.items;
        for (connections, what) in CONNECTIONS.into_iter().zip(BARE_DRAINS) {
            self.bare.reset().await?;
            let cost = self.meter.measure(self.bare.add(n, PAYLOAD)).await?;
            self.report.add("limit: bare INSERT, 5,000 per statement, 2 connections", cost);
            let cost = self.meter.measure(self.bare.drain(n, connections)).await?;
            self.report.add(what, cost);
        }
        Ok(())
    }

    async fn round_in_process(&mut self, round: usize) -> Result<()> {
        let (engine, n) = (self.engine.clone(), self.sizes.items);
        for (fused, names) in [(false, APART), (true, FUSED)] {
            for (workers, what) in WORKERS.into_iter().zip(names) {
                let (name, job) = self.filled(&engine, n, ADD).await?;
                self.begin_statements().await?;
                self.drained(&engine, &name, n, hundred(workers, fused), what).await?;
                self.end_statements(round, what).await?;
                self.client.seal(job).await?;
            }
        }
        Ok(())
    }

    async fn round_over_http(&mut self, round: usize) -> Result<()> {
        let (http, n) = (self.http.clone(), self.sizes.items);
        let (name, job) = self.filled(&http, n, "add over HTTP, 5,000 per request, 2 callers").await?;
        self.drained(&http, &name, n, hundred(8, true), HTTP_DRAIN).await?;
        self.client.seal(job).await?;
        if round == 0 {
            let (name, job) = self.job(&http).await?;
            http.add(job, n / 5, PAYLOAD).await?;
            self.drained(&http, &name, n / 5, ONE, "drain over HTTP, 1 per request, fused, 64 workers").await?;
        }
        Ok(())
    }
}
