//! What the background duties do with items: lost leases, due items, expiry, unsettled jobs, and
//! claims that nobody woke. Each sweep is one bounded transaction and says how much it found.

use std::sync::Arc;

use domain::{ItemState, item::EndedAs};

use crate::{
    error::{Error, Result},
    store::{
        claim_requests,
        contracts::TypeInfo,
        endings::{self, FinalRow},
        gates,
        items::{self, ReadyRow},
        leases, uptime,
    },
};

use super::{
    Core, Engine,
    ending::{self, EndingRows},
    fate::How,
    settle, work,
};

/// Rows that one sweep takes.
const SWEEP: i64 = 500;

impl Engine {
    /// Runs a sweep in a task of its own, so that a shutdown cannot cut its transaction.
    async fn sweep<F, R>(&self, run: impl FnOnce(Arc<Core>) -> F) -> Result<R>
    where
        F: Future<Output = Result<R>> + Send + 'static,
        R: Send + 'static,
    {
        tokio::spawn(run(Arc::clone(&self.0.core))).await.map_err(|e| Error::Broken(e.to_string()))?
    }

    /// Takes back assignments whose lease or run time is over (rule 7). Returns how many.
    pub async fn sweep_leases(&self) -> Result<usize> {
        self.sweep(|core| async move {
            let mut tx = core.pools.read.begin().await?;
            let taken = leases::take_lost(&mut tx, SWEEP).await?;
            let n = taken.len();
            if n > 0 {
                let mut rows = EndingRows::default();
                let ends = taken.into_iter().map(|row| (row, How::Lost)).collect();
                ending::put_aside(&core, &mut tx, ends, &mut rows).await?;
                let done = work::close(&mut tx, &mut rows).await?;
                tx.commit().await?;
                done.after_commit(&core, &rows).await;
            }
            Ok(n)
        })
        .await
    }

    /// Makes due items available (rules 9 and 14). Returns how many.
    pub async fn sweep_due(&self) -> Result<usize> {
        self.sweep(|core| async move {
            let mut tx = core.pools.hot.begin().await?;
            let due = items::take_due(&mut tx, SWEEP).await?;
            let n = due.len();
            if n > 0 {
                let mut rows = EndingRows::default();
                let mut ready = Vec::with_capacity(n);
                for row in due {
                    let counts = &mut rows.deltas.entry(row.gate_id).or_default().counts;
                    if row.retryable {
                        counts.retryable -= 1;
                    } else {
                        counts.scheduled -= 1;
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
                    });
                }
                rows.ready = ending::make_ready_now(&core, &mut tx, ready).await?;
                let done = work::close(&mut tx, &mut rows).await?;
                tx.commit().await?;
                done.after_commit(&core, &rows).await;
            }
            Ok(n)
        })
        .await
    }

    /// Ends items whose expires_at passed before they could start (rule 14). Returns how many.
    pub async fn sweep_expired(&self) -> Result<usize> {
        self.sweep(|core| async move {
            let mut tx = core.pools.hot.begin().await?;
            let gone = items::take_expired(&mut tx, SWEEP).await?;
            let n = gone.len();
            if n > 0 {
                let mut rows = EndingRows::default();
                let mut finals = Vec::with_capacity(n);
                for row in gone {
                    let counts = &mut rows.deltas.entry(row.gate_id).or_default().counts;
                    match row.was {
                        0 => counts.available -= 1,
                        1 => counts.scheduled -= 1,
                        _ => counts.retryable -= 1,
                    }
                    counts.expired += 1;
                    finals.push(FinalRow {
                        item_id: row.item_id,
                        gate_id: row.gate_id,
                        lease: None,
                        attempt: row.attempts,
                        failures: row.failures,
                        state: ItemState::Expired.code(),
                        ended_as: None::<EndedAs>.map(EndedAs::code),
                        worker_id: None,
                        error: None,
                    });
                }
                endings::finish(&mut tx, &finals).await?;
                let done = work::close(&mut tx, &mut rows).await?;
                tx.commit().await?;
                done.after_commit(&core, &rows).await;
            }
            Ok(n)
        })
        .await
    }

    /// Settles jobs that a crash left unsettled. Returns how many.
    pub async fn sweep_settle(&self) -> Result<usize> {
        self.sweep(|core| async move {
            let open = gates::to_settle(&core.pools.read, SWEEP).await?;
            settle::settle_all(&core, &open).await;
            Ok(open.len())
        })
        .await
    }

    /// Wakes claims for which there is something that nobody woke them for. Returns how many types.
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

    /// A hint that another server has added work of a type.
    pub fn wake(&self, type_id: i32) {
        self.0.core.waiters.wake(type_id, 1);
    }

    /// Seconds until the next deferred item is due; `None` when nothing is deferred.
    pub async fn next_due_seconds(&self) -> Result<Option<f64>> {
        Ok(items::next_due_seconds(&self.0.core.pools.read).await?)
    }

    /// Says that service is up; leases count from here after an absence. Returns whether there was one.
    pub async fn tick_uptime(&self) -> Result<bool> {
        Ok(uptime::tick(&self.0.core.pools.read).await?)
    }

    /// Forgets claim ids that nobody will send again.
    pub async fn forget_claims(&self) -> Result<u64> {
        Ok(claim_requests::forget(&self.0.core.pools.read).await?)
    }

    /// The job types whose executor is built in.
    pub fn builtin_types(&self) -> Vec<Arc<TypeInfo>> {
        let builtin = |info: &Arc<TypeInfo>| info.executor.kind == domain::job_type::ExecutorKind::Builtin;
        self.types().all().into_iter().filter(builtin).collect()
    }
}
