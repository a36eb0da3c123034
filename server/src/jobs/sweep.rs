//! Item sweeps of the background tasks: lost leases, due items, expiry, incomplete completions, and claims that no one
//! woke. Each sweep is one bounded transaction and returns the number of rows found.

use std::sync::Arc;

use domain::ItemState;
use uuid::Uuid;

use crate::{
    error::{Error, Result},
    store::{
        claim_requests,
        contracts::TypeInfo,
        endings, gates,
        items::{self, BlockedRow, ReadyRow},
        lanes as stands, leases, settle as trees, uptime, waiting,
    },
    task::in_task,
};

use super::{
    Core, Engine,
    add::rows::final_row,
    cancel,
    ending::{self, EndingRows},
    fate::How,
    lanes, marks, settle, work,
};

/// Maximum number of rows in one sweep.
const SWEEP: i64 = 500;

impl Engine {
    /// Runs a sweep in its own task, so that a shutdown cannot interrupt its transaction.
    async fn sweep<F, R>(&self, run: impl FnOnce(Arc<Core>) -> F) -> Result<R>
    where
        F: Future<Output = Result<R>> + Send + 'static,
        R: Send + 'static,
    {
        in_task("a sweep", run(Arc::clone(&self.0.core))).await
    }

    /// Same as `sweep`, but runs again with the canceled jobs excluded when a batch meets some.
    async fn sweep_knowing<F>(&self, run: impl Fn(Arc<Core>, Vec<i64>) -> F + Send + 'static) -> Result<usize>
    where
        F: Future<Output = Result<usize>> + Send + 'static,
    {
        self.sweep(|core| async move {
            let mut cancelled: Vec<i64> = Vec::new();
            let mut conflicts = 0;
            loop {
                match run(Arc::clone(&core), cancelled.clone()).await {
                    Err(Error::JobsCancelled(gates)) if gates.iter().any(|gate| !cancelled.contains(gate)) => {
                        core.ghosts.met(&gates);
                        cancelled.extend(gates);
                        cancelled.sort_unstable();
                    }
                    Err(error) if error.is_conflict() && conflicts < 3 => conflicts += 1,
                    other => return other,
                }
            }
        })
        .await
    }

    /// Takes back assignments whose lease or run time is over (`lease-expiry`). Returns their number.
    pub async fn sweep_leases(&self) -> Result<usize> {
        self.sweep_knowing(|core, cancelled| async move {
            let mut tx = core.pools.read.begin().await?;
            let taken = leases::take_lost(&mut tx, SWEEP).await?;
            let n = taken.len();
            if n > 0 {
                let mut rows = EndingRows::knowing(&cancelled);
                let how = |type_id| if core.is_posted(type_id) { How::Unanswered } else { How::Lost };
                let ends = taken.into_iter().map(|row| (how(row.type_id), row)).map(|(how, row)| (row, how)).collect();
                ending::put_aside(&core, &mut tx, ends, &mut rows).await?;
                work::let_next_go(&core, &mut tx, &mut rows).await?;
                let done = work::close(&core, &mut tx, &mut rows).await?;
                crate::store::commit(tx).await?;
                done.after_commit(&core, &rows).await;
            }
            Ok(n)
        })
        .await
    }

    /// Makes due items available (`retry-budget`, `start-and-expiry`). Returns their number.
    pub async fn sweep_due(&self) -> Result<usize> {
        self.sweep_knowing(|core, cancelled| async move {
            let mut tx = core.pools.hot.begin().await?;
            let seen = waiting::due(&mut tx, SWEEP).await?;
            if seen.is_empty() {
                return Ok(0);
            }
            let lane_ids = lanes::lanes_of(&seen);
            if !lane_ids.is_empty() {
                stands::lock(&mut tx, &lane_ids).await?;
            }
            let mut ids: Vec<Uuid> = seen.iter().map(|seen| seen.item_id).collect();
            ids.sort_unstable();
            let due = waiting::take_due(&mut tx, &ids).await?;
            let heads = lanes::heads(&mut tx, &lane_ids).await?;
            let mut rows = EndingRows::knowing(&cancelled);
            let mut ready = Vec::with_capacity(due.len());
            let mut blocked = Vec::new();
            let mut ghosts = Vec::new();
            for row in due {
                let known = rows.is_cancelled(row.gate_id);
                if known {
                    rows.freed.extend(row.lane_id.map(|lane| (lane, row.item_id)));
                    ghosts.push(ghost(row.item_id, row.gate_id, row.attempts, row.failures));
                    continue;
                }
                let counts = &mut rows.delta(row.gate_id).counts;
                if row.retryable {
                    counts.retryable -= 1;
                } else {
                    counts.scheduled -= 1;
                }
                // Behind an older item of its serialize key: it keeps waiting, now for that item.
                if row.lane_id.is_some_and(|lane| heads.get(&lane).is_some_and(|head| *head != row.item_id)) {
                    counts.blocked += 1;
                    blocked.push(BlockedRow {
                        item_id: row.item_id,
                        gate_id: row.gate_id,
                        type_id: row.type_id,
                        rank: row.rank,
                        due_at: None,
                        expires_at: row.expires_at,
                        attempts: row.attempts,
                        failures: row.failures,
                        by_after: false,
                        lane_id: row.lane_id,
                    });
                    continue;
                }
                counts.available += 1;
                ready.push(ReadyRow {
                    item_id: row.item_id,
                    gate_id: row.gate_id,
                    type_id: row.type_id,
                    rank: row.rank,
                    turn: 0,
                    expires_at: row.expires_at,
                    attempts: row.attempts,
                    failures: row.failures,
                    lane_id: row.lane_id,
                });
            }
            endings::finish(&mut tx, &ghosts).await?;
            lanes::pass_on(&core, &mut tx, &mut rows).await?;
            items::block(&mut tx, &blocked).await?;
            rows.ready.extend(marks::make_ready_now(&core, &mut tx, ready).await?);
            let done = work::close(&core, &mut tx, &mut rows).await?;
            crate::store::commit(tx).await?;
            done.after_commit(&core, &rows).await;
            Ok(ids.len())
        })
        .await
    }

    /// Ends items whose expires_at passed before they could start (`start-and-expiry`). Returns their number.
    pub async fn sweep_expired(&self) -> Result<usize> {
        self.sweep_knowing(|core, cancelled| async move {
            let mut tx = core.pools.hot.begin().await?;
            let seen = waiting::expired(&mut tx, SWEEP).await?;
            if seen.is_empty() {
                return Ok(0);
            }
            let lane_ids = lanes::lanes_of(&seen);
            if !lane_ids.is_empty() {
                stands::lock(&mut tx, &lane_ids).await?;
            }
            let mut ids: Vec<Uuid> = seen.iter().map(|seen| seen.item_id).collect();
            ids.sort_unstable();
            let mut rows = EndingRows::knowing(&cancelled);
            let mut finals = Vec::new();
            for row in waiting::take(&mut tx, &ids, true).await? {
                rows.freed.extend(row.lane_id.map(|lane| (lane, row.item_id)));
                let mut end = ghost(row.item_id, row.gate_id, row.attempts, row.failures);
                if !rows.is_cancelled(row.gate_id) {
                    end.state = ItemState::Expired.code();
                    let counts = &mut rows.delta(row.gate_id).counts;
                    cancel::count_off(counts, row.was);
                    counts.expired += 1;
                }
                finals.push(end);
            }
            endings::finish(&mut tx, &finals).await?;
            lanes::pass_on(&core, &mut tx, &mut rows).await?;
            let done = work::close(&core, &mut tx, &mut rows).await?;
            crate::store::commit(tx).await?;
            done.after_commit(&core, &rows).await;
            Ok(finals.len())
        })
        .await
    }

    /// Seals jobs whose expires_at has passed (`start-and-expiry`). Returns their number.
    pub async fn sweep_deadlines(&self) -> Result<usize> {
        self.sweep_knowing(|core, cancelled| async move {
            let mut tx = core.pools.hot.begin().await?;
            let due = trees::due_deadlines(&mut tx, SWEEP).await?;
            let jobs = core.jobs.by_gates(&mut *tx, due.iter().copied()).await?;
            let mut rows = EndingRows::knowing(&cancelled);
            for &gate_id in &due {
                // A fed job is sealed when its parent is complete.
                let fed = jobs.get(&gate_id).is_none_or(|job| job.fed);
                if !fed && !rows.is_cancelled(gate_id) {
                    rows.delta(gate_id).seal = true;
                }
            }
            let done = work::close(&core, &mut tx, &mut rows).await?;
            crate::store::commit(tx).await?;
            done.after_commit(&core, &rows).await;
            Ok(due.len())
        })
        .await
    }

    /// Deletes empty serialize queues. Returns their number.
    pub async fn sweep_lanes(&self) -> Result<usize> {
        Ok(stands::sweep(&self.0.core.pools.read, SWEEP).await? as usize)
    }

    /// Completes jobs whose completion a crash interrupted. Returns their number.
    pub async fn sweep_settle(&self) -> Result<usize> {
        self.sweep(|core| async move {
            let open = gates::to_settle(&core.pools.read, SWEEP).await?;
            settle::settle_all(&core, &open).await;
            Ok(open.len())
        })
        .await
    }

    /// Wakes waiting claims that missed a wake-up. Returns the number of types with waiting items.
    pub async fn sweep_waiters(&self) -> Result<usize> {
        let core = &self.0.core;
        let types = core.waiters.types();
        if types.is_empty() {
            return Ok(0);
        }
        let waiting = items::waiting_types(&core.pools.read, &types).await?;
        for &type_id in &waiting {
            core.waiters.wake(type_id, 1);
        }
        Ok(waiting.len())
    }

    /// Wakes a claim; a hint that another server has added work of a type.
    pub fn wake(&self, type_id: i32) {
        self.0.core.waiters.wake(type_id, 1);
    }

    /// Seconds until the next deferred item is due; `None` when nothing is deferred.
    pub async fn next_due_seconds(&self) -> Result<Option<f64>> {
        Ok(items::next_due_seconds(&self.0.core.pools.read).await?)
    }

    /// Records that the service is up; after an outage, leases count from now. Returns true if there was an outage.
    pub async fn tick_uptime(&self) -> Result<bool> {
        Ok(uptime::tick(&self.0.core.pools.read).await?)
    }

    /// Deletes claim ids that will not be sent again.
    pub async fn forget_claims(&self) -> Result<u64> {
        Ok(claim_requests::forget(&self.0.core.pools.read).await?)
    }

    /// Job types with the builtin executor.
    pub fn builtin_types(&self) -> Vec<Arc<TypeInfo>> {
        let builtin = |info: &Arc<TypeInfo>| info.executor.kind == domain::job_type::ExecutorKind::Builtin;
        self.types().all().into_iter().filter(builtin).collect()
    }
}

/// Final row of an item whose job is canceled; the counters already include it.
fn ghost(item_id: Uuid, gate_id: i64, attempt: i32, failures: i32) -> endings::FinalRow {
    endings::FinalRow { attempt, failures, ..final_row(item_id, gate_id, ItemState::Cancelled, None) }
}
