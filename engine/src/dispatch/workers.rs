//! Workers that sent claims: recorded in memory, and written in one batch every few seconds.
//!
//! Nothing depends on this data: it is for people and alerts. A crash loses a few seconds of it.

use std::{
    collections::{BTreeMap, HashMap},
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

use domain::{Item, Problem, Time, api::Worker, item::EndedAs};
use scopeguard::{ScopeGuard, guard};
use sqlx::PgPool;
use uuid::Uuid;

use crate::{
    Core, Engine,
    access::caller::{Caller, Scope},
    error::Result,
    store::{
        dispatch::{
            worker_history,
            workers::{self, SeenRow, WorkerRow},
        },
        page_range::NamedOrder,
    },
};

/// Maximum number of workers recorded between two writes; names are untrusted and could be any number.
const ROOM: usize = 10_000;
/// Maximum number of claimed items that are shown of a worker.
const CLAIMED: i64 = 50;

/// Workers seen since the last write, and the time of the last claim of each type on this server.
#[derive(Default)]
pub(crate) struct Workers(Mutex<SeenWorkers>);

#[derive(Default)]
struct SeenWorkers {
    workers: BTreeMap<(Uuid, String), (Uuid, Vec<String>, Instant)>,
    /// By type: time of the last claim, and true if it is written.
    last_claims: HashMap<String, (Instant, bool)>,
}

impl Workers {
    /// Records that a worker with this credential sent a claim for these types.
    pub(crate) fn seen(&self, owner_id: Uuid, credential_id: Uuid, worker_id: &str, types: &[String]) {
        let now = Instant::now();
        let mut seen = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for name in types {
            seen.last_claims.insert(name.clone(), (now, false));
        }
        let key = (credential_id, worker_id.to_owned());
        if seen.workers.len() < ROOM || seen.workers.contains_key(&key) {
            let types = if types.is_empty() {
                seen.workers.get(&key).map(|known_types| known_types.1.clone()).unwrap_or_default()
            } else {
                types.to_vec()
            };
            seen.workers.insert(key, (owner_id, types, now));
        }
    }

    /// Seconds since the last claim for the type on this server; `None` without any.
    pub(crate) fn seconds_since_claim(&self, name: &str) -> Option<f64> {
        let seen = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        seen.last_claims.get(name).map(|(at, _)| at.elapsed().as_secs_f64())
    }

    /// Rows to be written: workers, and types with the seconds since their last claim, both sorted.
    fn take(&self) -> (Vec<SeenRow>, Vec<(String, f64)>) {
        let mut seen = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let rows = std::mem::take(&mut seen.workers)
            .into_iter()
            .map(|((credential_id, worker_id), (owner_id, types, at))| SeenRow {
                credential_id,
                worker_id,
                owner_id,
                types,
                age: at.elapsed().as_secs_f64(),
            })
            .collect();
        let mut last_claims: Vec<(String, f64)> = Vec::new();
        for (name, (at, written)) in &mut seen.last_claims {
            if !std::mem::replace(written, true) {
                last_claims.push((name.clone(), at.elapsed().as_secs_f64()));
            }
        }
        last_claims.sort_by(|a, b| a.0.cmp(&b.0));
        (rows, last_claims)
    }

    /// Records again what was taken at this time and could not be written. What was seen since is newer.
    fn put_back(&self, (rows, last_claims): (Vec<SeenRow>, Vec<(String, f64)>), taken_at: Instant) {
        let mut seen = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for row in rows {
            let at = taken_at.checked_sub(Duration::from_secs_f64(row.age)).unwrap_or(taken_at);
            if seen.workers.len() < ROOM {
                seen.workers.entry((row.credential_id, row.worker_id)).or_insert((row.owner_id, row.types, at));
            }
        }
        for (name, _) in last_claims {
            if let Some((_, written)) = seen.last_claims.get_mut(&name) {
                *written = false;
            }
        }
    }

    /// Writes all recorded workers. If they cannot be written, they stay, also if this future is dropped.
    async fn write(&self, pool: &PgPool) -> Result<usize> {
        let taken_at = Instant::now();
        let taken = guard(self.take(), |taken| self.put_back(taken, taken_at));
        let (rows, last_claims) = &*taken;
        let n = rows.len();
        if n > 0 {
            workers::record_seen(pool, rows).await?;
        }
        if !last_claims.is_empty() {
            let (names, ages): (Vec<String>, Vec<f64>) = last_claims.iter().cloned().unzip();
            workers::record_claims(pool, &names, &ages).await?;
        }
        drop(ScopeGuard::into_inner(taken));
        Ok(n)
    }
}

/// A worker with what it does.
#[derive(Clone, Debug)]
pub struct WorkerDetails {
    pub worker: Worker,
    pub first_seen_at: Time,
    /// Items that it holds, longest first.
    pub claimed: Vec<Item>,
    /// Its last failed attempts, newest first.
    pub errors: Vec<WorkerError>,
}

/// A failed attempt of a worker.
#[derive(Clone, Debug)]
pub struct WorkerError {
    pub item_id: Uuid,
    pub ended_at: Time,
    pub ended_as: Option<EndedAs>,
    /// First 500 characters.
    pub message: String,
}

/// Last worker of a page: time when it was first seen, name, and credential.
pub type WorkerPosition = (Time, String, Uuid);

impl Engine {
    /// Records a worker's claim. Called with every claim; needs no statement.
    pub fn record_worker(&self, caller: &Caller, worker_id: &str, types: &[String]) {
        if worker_id.is_empty() || worker_id.len() > 200 || worker_id.contains('\0') {
            return;
        }
        let known_types: Vec<String> = types.iter().filter(|name| self.types().get(name).is_some()).cloned().collect();
        self.0.core.workers.seen(caller.owner_id, caller.credential_id, worker_id, &known_types);
    }

    /// Writes the recorded workers. Returns their number.
    pub async fn write_seen_workers(&self) -> Result<usize> {
        self.0.core.write_seen_workers().await
    }

    /// Deletes workers that have not been seen for a day.
    pub async fn delete_old_workers(&self) -> Result<u64> {
        Ok(workers::forget(&self.0.core.pools.read).await?)
    }

    /// Returns workers in the given order, after a position: all of them for staff, its own for a service.
    pub async fn workers(
        &self,
        caller: &Caller,
        order: NamedOrder,
        behind: Option<WorkerPosition>,
        limit: i64,
    ) -> Result<Vec<(WorkerPosition, Worker)>> {
        caller.require(Scope::Work).or_else(|_| caller.require(Scope::JobsRead))?;
        let core = &self.0.core;
        core.write_seen_workers().await?;
        let behind = behind.map(|(at, name, credential)| (at.0, name, credential));
        let rows = workers::list(&core.pools.read, caller.visible_owner(), order, behind.as_ref(), limit).await?;
        Ok(rows
            .into_iter()
            .map(|row| ((Time(row.first_seen_at), row.worker_id.clone(), row.credential_id), worker(row)))
            .collect())
    }

    /// Returns a worker with the items that it holds and its last errors. Only for callers that see all owners' work.
    pub async fn worker(&self, caller: &Caller, credential_id: Uuid, worker_id: &str) -> Result<WorkerDetails> {
        Self::require_statistics(caller)?;
        let core = &self.0.core;
        let pool = &core.pools.read;
        core.write_seen_workers().await?;
        self.write_activity_counters().await?;
        let missing = || Problem::not_found("worker");
        let row = workers::one(pool, credential_id, worker_id).await?.ok_or_else(missing)?;
        let ids = workers::claimed_items(pool, credential_id, worker_id, CLAIMED).await?;
        let mut claimed = core.views(&ids, false).await?;
        // Items that have ended since are no longer claimed.
        claimed.retain(|item| item.assignment.is_some());
        let errors = worker_history::errors(pool, credential_id, worker_id).await?;
        let errors = errors.into_iter().map(|row| WorkerError {
            item_id: row.item_id,
            ended_at: Time(row.ended_at),
            ended_as: EndedAs::from_code(row.ended_as),
            message: row.message,
        });
        let errors = errors.collect();
        Ok(WorkerDetails { first_seen_at: Time(row.first_seen_at), worker: worker(row), claimed, errors })
    }
}

fn worker(row: WorkerRow) -> Worker {
    Worker {
        worker_id: row.worker_id,
        owner: row.owner,
        types: row.types,
        open: row.open,
        last_seen_at: Time(row.last_seen_at),
    }
}

impl Core {
    async fn write_seen_workers(&self) -> Result<usize> {
        self.workers.write(&self.pools.read).await
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt as _;

    use super::*;

    #[tokio::test]
    async fn workers_stay_if_their_write_is_dropped() {
        let pool = PgPool::connect_lazy("postgres://nobody@127.0.0.1:1/nothing").expect("a pool");
        let workers = Workers::default();
        workers.seen(Uuid::nil(), Uuid::nil(), "w", &["mail".to_owned()]);
        assert!(workers.write(&pool).now_or_never().is_none(), "it waits for the database");
        let (rows, last_claims) = workers.take();
        assert_eq!(
            (rows.len(), rows[0].worker_id.as_str(), rows[0].types.as_slice()),
            (1, "w", ["mail".to_owned()].as_slice())
        );
        assert_eq!((last_claims.len(), last_claims[0].0.as_str()), (1, "mail"));
    }
}
