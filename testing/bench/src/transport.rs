//! One interface for engine calls and HTTP, and the work that is done through it.
//!
//! Workers only end items with a short result. They stop when all items have ended, and fail if an ending is refused,
//! so that no figure includes lost work.

use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::{Result, bail, ensure};
use client::Client;
use domain::{
    Document,
    api::{Assignment, Claim, Ending, FinishBody, Finished, NewItem, NewJob},
};
use engine::{AddOptions, Engine, access::caller::Caller};
use futures::future::try_join_all;
use uuid::Uuid;

use crate::bare::ADDED_AT_ONCE;

/// Access to the engine.
#[derive(Clone)]
pub(crate) enum Transport {
    /// Calls in this process.
    Engine(Engine, Caller),
    /// The API, with the public client.
    Http(Client),
}

/// Mode of draining.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DrainMode {
    pub(crate) workers: usize,
    /// Items of one call.
    pub(crate) batch: u32,
    /// Endings and the next claim in one call.
    pub(crate) fused: bool,
}

impl Transport {
    /// Creates a tree of one job.
    pub(crate) async fn create(&self, job_type: &str, items: Vec<NewItem>, sealed: bool) -> Result<Uuid> {
        let mut new = NewJob::of(job_type);
        new.items = items;
        new.sealed = sealed;
        self.create_tree(new).await
    }

    pub(crate) async fn create_tree(&self, new: NewJob) -> Result<Uuid> {
        Ok(match self {
            Self::Engine(engine, caller) => engine.create_job(caller, new, None).await?,
            Self::Http(client) => client.create_job(&new).await?.id,
        })
    }

    pub(crate) async fn add_once(&self, job: Uuid, items: Vec<NewItem>) -> Result<()> {
        let n = items.len() as i64;
        let added = match self {
            Self::Engine(engine, caller) => engine.add_items(caller, job, items, AddOptions::default()).await?,
            Self::Http(client) => client.add_items(job, &items, false).await?,
        };
        ensure!(added.accepted == n, "{} of {n} items were accepted", added.accepted);
        Ok(())
    }

    pub(crate) async fn claim(&self, claim: Claim) -> Result<Vec<Assignment>> {
        Ok(match self {
            Self::Engine(engine, caller) => engine.claim(caller, claim).await?.assignments,
            Self::Http(client) => client.claim(&claim).await?.assignments,
        })
    }

    pub(crate) async fn finish(&self, body: FinishBody) -> Result<Finished> {
        Ok(match self {
            Self::Engine(engine, caller) => engine.finish(caller, body).await?,
            Self::Http(client) => client.finish(&body).await?,
        })
    }

    /// Adds `n` items to a job, 5,000 per call, from two callers.
    pub(crate) async fn add(&self, job: Uuid, n: u64, payload: &str) -> Result<u64> {
        self.add_by(job, n, payload, 2, ADDED_AT_ONCE).await
    }

    /// Adds `n` items to a job, `at_once` per call, from several callers.
    pub(crate) async fn add_by(&self, job: Uuid, n: u64, payload: &str, callers: u64, at_once: u64) -> Result<u64> {
        let left = AtomicU64::new(n);
        try_join_all((0..callers).map(|_| async {
            loop {
                let part = take(&left, at_once);
                if part == 0 {
                    return Ok::<_, anyhow::Error>(());
                }
                self.add_once(job, items(part, payload)).await?;
            }
        }))
        .await?;
        Ok(n)
    }

    /// Creates `trees` sealed trees of `each` items, from 256 callers.
    pub(crate) async fn create_trees(&self, job_type: &str, trees: u64, each: u64, payload: &str) -> Result<u64> {
        let left = AtomicU64::new(trees);
        try_join_all((0..256).map(|_| async {
            while take(&left, 1) == 1 {
                self.create(job_type, items(each, payload), true).await?;
            }
            Ok::<_, anyhow::Error>(())
        }))
        .await?;
        Ok(trees * each)
    }

    /// Works until `n` items of a type have ended.
    pub(crate) async fn drain(&self, job_type: &str, n: u64, mode: DrainMode) -> Result<u64> {
        let ended = AtomicU64::new(0);
        try_join_all((0..mode.workers).map(|worker| self.work(worker, job_type, n, mode, &ended))).await?;
        Ok(n)
    }

    async fn work(&self, worker: usize, job_type: &str, n: u64, mode: DrainMode, ended: &AtomicU64) -> Result<()> {
        let claim = claim_of(&format!("w-{worker}"), job_type, mode.batch);
        let mut assignments: Vec<Assignment> = Vec::new();
        let mut in_vain = 0;
        while ended.load(Ordering::Relaxed) < n {
            if assignments.is_empty() {
                assignments = self.claim(claim.clone()).await?;
                if assignments.is_empty() {
                    // Other workers hold the rest.
                    in_vain += 1;
                    ensure!(
                        in_vain < 100_000,
                        "{} of {n} have ended, and there is no more",
                        ended.load(Ordering::Relaxed)
                    );
                    tokio::task::yield_now().await;
                    continue;
                }
            }
            let endings: Vec<Ending> = assignments.drain(..).map(|assignment| ending(assignment.id)).collect();
            let next = mode.fused.then(|| claim.clone());
            let finished = self.finish(FinishBody { endings, claim: next }).await?;
            if let Some(refused) = finished.endings.iter().find(|ending| ending.code.is_some()) {
                bail!("an ending was rejected: {refused:?}");
            }
            ended.fetch_add(finished.endings.len() as u64, Ordering::Relaxed);
            assignments = finished.assignments;
        }
        Ok(())
    }
}

/// A claim that does not wait.
pub(crate) fn claim_of(worker: &str, job_type: &str, most: u32) -> Claim {
    Claim {
        worker_id: worker.to_owned(),
        types: vec![job_type.to_owned()],
        item_ids: None,
        max: Some(most),
        wait_seconds: None,
        claim_id: None,
    }
}

/// Takes at most `n` from the remaining number.
fn take(left: &AtomicU64, n: u64) -> u64 {
    let took = left.try_update(Ordering::Relaxed, Ordering::Relaxed, |left| Some(left.saturating_sub(n)));
    took.map_or(0, |left| left.min(n))
}

fn items(n: u64, payload: &str) -> Vec<NewItem> {
    let item = NewItem { payload: Some(Document::trusted(payload.to_owned())), ..NewItem::default() };
    vec![item; n as usize]
}

/// Ending with a result.
pub(crate) fn ending(id: Uuid) -> Ending {
    Ending {
        assignment_id: id.into(),
        result: Some(Document::trusted(super::RESULT.to_owned())),
        error: None,
        retryable: true,
        retry_after_seconds: None,
        cancel_tree: false,
    }
}
