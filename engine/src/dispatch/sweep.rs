//! Item sweeps of the background tasks: lost leases, due items, expiry, incomplete completions, and claims that no one
//! woke. Each sweep is one bounded transaction and returns the number of rows found.

use std::sync::Arc;

use domain::ItemState;
use uuid::Uuid;

use crate::{
    Core, Engine,
    ending_batch::EndingRows,
    enqueue::{add::rows::final_row, low_water_marks, serialize_queues},
    error::{Error, Result},
    store::{
        dispatch::{claim_requests, endings, event_waits, leases, uptime},
        enqueue::{
            items::{self, BlockedRow, DeferredRow, ReadyRow},
            pending_rows, serialize_queues as queue_rows,
        },
        tree::{completion as tree_states, definitions::TypeInfo, job_states, jobs},
    },
    task::{conflict_retries::CONFLICT_RETRIES, in_task},
    tree::{cancel, finish_batch},
};

use super::{assignment_endings, failure_outcome::EndCause};

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
    async fn sweep_excluding_cancelled<F>(
        &self,
        run: impl Fn(Arc<Core>, Vec<i64>) -> F + Send + 'static,
    ) -> Result<usize>
    where
        F: Future<Output = Result<usize>> + Send + 'static,
    {
        self.sweep(|core| async move {
            let mut cancelled: Vec<i64> = Vec::new();
            let mut conflicts = 0;
            loop {
                match run(Arc::clone(&core), cancelled.clone()).await {
                    Err(Error::JobsCancelled(job_keys))
                        if job_keys.iter().any(|job_key| !cancelled.contains(job_key)) =>
                    {
                        core.cancelled_jobs.insert(&job_keys);
                        cancelled.extend(job_keys);
                        cancelled.sort_unstable();
                    }
                    Err(error) if error.is_conflict() && conflicts < CONFLICT_RETRIES => conflicts += 1,
                    other => return other,
                }
            }
        })
        .await
    }

    /// Takes back assignments whose lease or run time is over (`lease-expiry`). Returns their number.
    pub async fn sweep_leases(&self) -> Result<usize> {
        self.sweep_excluding_cancelled(|core, cancelled| async move {
            let mut tx = crate::store::begin(&core.pools.read).await?;
            let taken = leases::take_lost(&mut tx, SWEEP).await?;
            let n = taken.len();
            if n > 0 {
                let mut rows = EndingRows::with_cancelled(&cancelled);
                let cause = |type_id| if core.is_pushed(type_id) { EndCause::Unanswered } else { EndCause::Lost };
                let ends =
                    taken.into_iter().map(|row| (cause(row.type_id), row)).map(|(cause, row)| (row, cause)).collect();
                assignment_endings::move_to_next_state(&core, &mut tx, ends, &mut rows).await?;
                finish_batch::release_next_items(&core, &mut tx, &mut rows).await?;
                let done = finish_batch::finish_batch(&core, &mut tx, &mut rows).await?;
                crate::store::commit(tx).await?;
                done.after_commit(&core, &rows).await;
            }
            Ok(n)
        })
        .await
    }

    /// Makes due items available (`retry-budget`, `start-and-expiry`), and those that no event reached in time
    /// (`waiting-for-events`), unless they were postponed meanwhile. Returns their number.
    pub async fn sweep_due(&self) -> Result<usize> {
        self.sweep_excluding_cancelled(|core, cancelled| async move {
            let mut tx = crate::store::begin(&core.pools.hot).await?;
            let seen = pending_rows::due(&mut tx, SWEEP).await?;
            if seen.is_empty() {
                return Ok(0);
            }
            let serialize_queue_ids = serialize_queues::serialize_queues_of(&seen);
            if !serialize_queue_ids.is_empty() {
                queue_rows::lock(&mut tx, &serialize_queue_ids).await?;
            }
            let mut ids: Vec<Uuid> = seen.iter().map(|seen| seen.item_id).collect();
            ids.sort_unstable();
            let due = pending_rows::take_due(&mut tx, &ids).await?;
            let heads = serialize_queues::heads(&mut tx, &serialize_queue_ids).await?;
            let mut rows = EndingRows::with_cancelled(&cancelled);
            let mut ready = Vec::with_capacity(due.len());
            let mut blocked = Vec::new();
            let mut cancelled_rows = Vec::new();
            let timed_out: Vec<Uuid> = due
                .iter()
                .filter(|row| row.for_event && !rows.is_cancelled(row.job_key))
                .map(|row| row.item_id)
                .collect();
            let postponed = event_waits::time_out(&mut tx, &timed_out).await?;
            let mut deferred = Vec::new();
            for row in due {
                let job_is_cancelled = rows.is_cancelled(row.job_key);
                if job_is_cancelled {
                    rows.freed.extend(row.serialize_queue_id.map(|queue_id| (queue_id, row.item_id)));
                    cancelled_rows.push(cancelled_row(row.item_id, row.job_key, row.attempts, row.failures));
                    continue;
                }
                let counts = &mut rows.delta(row.job_key).counts;
                if row.for_event {
                    counts.waiting_for_event -= 1;
                } else if row.retryable {
                    counts.retryable -= 1;
                } else {
                    counts.scheduled -= 1;
                }
                if let Some(&due_at) = postponed.get(&row.item_id) {
                    counts.scheduled += 1;
                    deferred.push(DeferredRow { due_at, for_event: false, ..row });
                    continue;
                }
                // Behind an older item of its serialize key: it keeps waiting, now for that item.
                if row
                    .serialize_queue_id
                    .is_some_and(|queue_id| heads.get(&queue_id).is_some_and(|head| *head != row.item_id))
                {
                    counts.blocked += 1;
                    blocked.push(BlockedRow {
                        item_id: row.item_id,
                        job_key: row.job_key,
                        type_id: row.type_id,
                        negated_priority: row.negated_priority,
                        due_at: None,
                        expires_at: row.expires_at,
                        attempts: row.attempts,
                        failures: row.failures,
                        by_after: false,
                        serialize_queue_id: row.serialize_queue_id,
                    });
                    continue;
                }
                counts.available += 1;
                ready.push(ReadyRow {
                    item_id: row.item_id,
                    job_key: row.job_key,
                    type_id: row.type_id,
                    negated_priority: row.negated_priority,
                    fair_turn: 0,
                    expires_at: row.expires_at,
                    attempts: row.attempts,
                    failures: row.failures,
                    serialize_queue_id: row.serialize_queue_id,
                });
            }
            endings::finish(&mut tx, &cancelled_rows).await?;
            // First: one of them may be the next item of a queue whose head was canceled.
            items::block(&mut tx, &blocked).await?;
            serialize_queues::release_next(&core, &mut tx, &mut rows).await?;
            items::defer(&mut tx, &deferred).await?;
            rows.ready.extend(low_water_marks::make_ready_now(&core, &mut tx, ready).await?);
            let done = finish_batch::finish_batch(&core, &mut tx, &mut rows).await?;
            crate::store::commit(tx).await?;
            done.after_commit(&core, &rows).await;
            Ok(ids.len())
        })
        .await
    }

    /// Ends items whose expires_at passed before they could start (`start-and-expiry`). Returns their number.
    pub async fn sweep_expired(&self) -> Result<usize> {
        self.sweep_excluding_cancelled(|core, cancelled| async move {
            let mut tx = crate::store::begin(&core.pools.hot).await?;
            let seen = pending_rows::expired(&mut tx, SWEEP).await?;
            if seen.is_empty() {
                return Ok(0);
            }
            let serialize_queue_ids = serialize_queues::serialize_queues_of(&seen);
            if !serialize_queue_ids.is_empty() {
                queue_rows::lock(&mut tx, &serialize_queue_ids).await?;
            }
            let mut ids: Vec<Uuid> = seen.iter().map(|seen| seen.item_id).collect();
            ids.sort_unstable();
            let mut rows = EndingRows::with_cancelled(&cancelled);
            let mut finals = Vec::new();
            let taken = pending_rows::take(&mut tx, &ids, true).await?;
            if let Err(error) = serialize_queues::check_locked(&taken, &serialize_queue_ids) {
                return Err(crate::store::roll_back(tx, error).await);
            }
            for row in taken {
                rows.freed.extend(row.serialize_queue_id.map(|queue_id| (queue_id, row.item_id)));
                let mut end = cancelled_row(row.item_id, row.job_key, row.attempts, row.failures);
                if !rows.is_cancelled(row.job_key) {
                    end.state = ItemState::Expired.code();
                    let counts = &mut rows.delta(row.job_key).counts;
                    cancel::subtract_waiting(counts, row.was);
                    counts.expired += 1;
                }
                finals.push(end);
            }
            endings::finish(&mut tx, &finals).await?;
            serialize_queues::release_next(&core, &mut tx, &mut rows).await?;
            let done = finish_batch::finish_batch(&core, &mut tx, &mut rows).await?;
            crate::store::commit(tx).await?;
            done.after_commit(&core, &rows).await;
            Ok(finals.len())
        })
        .await
    }

    /// Seals jobs whose expires_at has passed (`start-and-expiry`). Returns their number.
    pub async fn sweep_deadlines(&self) -> Result<usize> {
        self.sweep_excluding_cancelled(|core, cancelled| async move {
            let mut tx = crate::store::begin(&core.pools.hot).await?;
            let due = tree_states::due_deadlines(&mut tx, SWEEP).await?;
            let jobs = core.jobs.by_job_keys(&mut *tx, due.iter().copied()).await?;
            let imported = jobs::being_imported(&mut tx, &due).await?;
            let mut rows = EndingRows::with_cancelled(&cancelled);
            for &job_key in &due {
                // A fed job is sealed when its parent is complete, one that is filled from a file at the file's end: rows
                // that follow expire like the others.
                let filled = jobs.get(&job_key).is_none_or(|job| job.fed) || imported.contains(&job_key);
                if !filled && !rows.is_cancelled(job_key) {
                    rows.delta(job_key).seal = true;
                }
            }
            let done = finish_batch::finish_batch(&core, &mut tx, &mut rows).await?;
            crate::store::commit(tx).await?;
            done.after_commit(&core, &rows).await;
            Ok(due.len())
        })
        .await
    }

    /// Deletes empty serialize queues. Returns their number.
    pub async fn sweep_serialize_queues(&self) -> Result<usize> {
        self.sweep(|core| async move {
            let mut tx = crate::store::begin(&core.pools.read).await?;
            let deleted = queue_rows::sweep(&mut tx, SWEEP).await?;
            crate::store::commit(tx).await?;
            Ok(deleted as usize)
        })
        .await
    }

    /// Completes jobs whose completion a crash interrupted. Returns their number.
    pub async fn sweep_completion_checks(&self) -> Result<usize> {
        self.sweep(|core| async move {
            let open = job_states::pending_completion_checks(&core.pools.read, SWEEP).await?;
            core.complete_jobs(&open).await;
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
        Ok(waiting.len() + core.wake_hinted(&types).await?)
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
    pub async fn delete_old_claim_ids(&self) -> Result<u64> {
        Ok(claim_requests::forget(&self.0.core.pools.read).await?)
    }

    /// Job types with the builtin executor.
    pub fn builtin_types(&self) -> Vec<Arc<TypeInfo>> {
        let builtin = |info: &Arc<TypeInfo>| info.executor.kind == domain::job_type::ExecutorKind::Builtin;
        self.types().all().into_iter().filter(builtin).collect()
    }
}

/// Final row of an item whose job is canceled; the counters already include it.
fn cancelled_row(item_id: Uuid, job_key: i64, attempt: i32, failures: i32) -> endings::FinalRow {
    endings::FinalRow { attempt, failures, ..final_row(item_id, job_key, ItemState::Cancelled, None) }
}
