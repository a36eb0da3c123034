//! In-memory caches of job types and job definitions, so that the hot path does not query them.
//!
//! Types change while jobs run: they are read again every second and after every local change. A job's definition
//! changes only when a person edits it: the cache looks for edits every second and drops the edited jobs.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::{Arc, RwLock},
};

use sqlx::{PgExecutor, PgPool};
use time::OffsetDateTime;
use uuid::Uuid;

use crate::{
    error::Result,
    sealing::Sealer,
    store::contracts::{self, JobInfo, TypeInfo},
};

use super::plan::{self, Plan};

#[derive(Default)]
struct Types {
    by_name: HashMap<String, Arc<TypeInfo>>,
    by_id: HashMap<i32, Arc<TypeInfo>>,
}

/// Cache of all job types.
pub struct TypeCache {
    types: RwLock<Arc<Types>>,
    pool: PgPool,
    sealer: Sealer,
}

impl TypeCache {
    pub(super) async fn load(pool: &PgPool, sealer: &Sealer) -> Result<Self> {
        let cache = Self { types: RwLock::default(), pool: pool.clone(), sealer: sealer.clone() };
        cache.refresh_now().await?;
        Ok(cache)
    }

    /// Reads all types again.
    pub async fn refresh_now(&self) -> Result<()> {
        let mut fresh = Types::default();
        for info in contracts::types(&self.pool, &self.sealer).await? {
            let info = Arc::new(info);
            fresh.by_name.insert(info.name.clone(), Arc::clone(&info));
            fresh.by_id.insert(info.id, info);
        }
        *self.types.write().unwrap_or_else(std::sync::PoisonError::into_inner) = Arc::new(fresh);
        Ok(())
    }

    fn now(&self) -> Arc<Types> {
        Arc::clone(&self.types.read().unwrap_or_else(std::sync::PoisonError::into_inner))
    }

    /// Looks up a type by name.
    pub fn get(&self, name: &str) -> Option<Arc<TypeInfo>> {
        self.now().by_name.get(name).cloned()
    }

    /// Looks up a type by name; reads again if it is unknown, because another server may just have created it.
    pub async fn find(&self, name: &str) -> Result<Option<Arc<TypeInfo>>> {
        if let Some(known) = self.get(name) {
            return Ok(Some(known));
        }
        self.refresh_now().await?;
        Ok(self.get(name))
    }

    /// Looks up a type by its internal id.
    pub fn by_id(&self, id: i32) -> Option<Arc<TypeInfo>> {
        self.now().by_id.get(&id).cloned()
    }

    /// All types, sorted by name.
    pub fn all(&self) -> Vec<Arc<TypeInfo>> {
        let mut all: Vec<_> = self.now().by_id.values().cloned().collect();
        all.sort_by(|a, b| a.name.cmp(&b.name));
        all
    }
}

/// Cache of recently used job definitions.
#[derive(Default)]
pub(super) struct JobCache {
    jobs: RwLock<Jobs>,
    /// Time of the last check for edits, by the database clock.
    checked_at: RwLock<Option<OffsetDateTime>>,
}

/// Overlap of the checks for edits: a definition may have been read just before an edit was committed, and cached just
/// after the job was dropped.
const OVERLAP: time::Duration = time::Duration::seconds(10);

#[derive(Default)]
struct Jobs {
    by_gate: HashMap<i64, Arc<JobInfo>>,
    by_id: HashMap<Uuid, Arc<JobInfo>>,
}

/// Maximum number of cached definitions, of about a kilobyte each.
const ROOM: usize = 20_000;

impl JobCache {
    /// Caches a definition that was just read, or just written and committed.
    pub(super) fn keep(&self, info: Arc<JobInfo>) -> Arc<JobInfo> {
        let mut jobs = self.jobs.write().unwrap_or_else(std::sync::PoisonError::into_inner);
        if jobs.by_gate.len() >= ROOM {
            *jobs = Jobs::default();
        }
        jobs.by_gate.insert(info.gate_id, Arc::clone(&info));
        jobs.by_id.insert(info.job_id, Arc::clone(&info));
        info
    }

    /// Drops jobs that were edited.
    pub(super) fn forget(&self, gate_ids: &[i64]) {
        let mut jobs = self.jobs.write().unwrap_or_else(std::sync::PoisonError::into_inner);
        for gate_id in gate_ids {
            if let Some(job) = jobs.by_gate.remove(gate_id) {
                jobs.by_id.remove(&job.job_id);
            }
        }
    }

    /// Time from which to look for edits; `None` before the first check.
    pub(super) fn checked_at(&self) -> Option<OffsetDateTime> {
        let at = *self.checked_at.read().unwrap_or_else(std::sync::PoisonError::into_inner);
        at.map(|at| at - OVERLAP)
    }

    /// Records that edits up to this time have been processed.
    pub(super) fn checked(&self, at: OffsetDateTime) {
        *self.checked_at.write().unwrap_or_else(std::sync::PoisonError::into_inner) = Some(at);
    }

    pub(super) async fn by_id(&self, pool: &PgPool, id: Uuid) -> Result<Option<Arc<JobInfo>>, sqlx::Error> {
        let known = {
            let jobs = self.jobs.read().unwrap_or_else(std::sync::PoisonError::into_inner);
            jobs.by_id.get(&id).cloned()
        };
        match known {
            Some(job) => Ok(Some(job)),
            None => Ok(contracts::job_by_id(pool, id).await?.map(|job| self.keep(Arc::new(job)))),
        }
    }

    /// Owners of these jobs, as far as they are cached.
    pub(super) fn owners_of(&self, ids: &[Uuid]) -> HashMap<Uuid, Uuid> {
        let jobs = self.jobs.read().unwrap_or_else(std::sync::PoisonError::into_inner);
        ids.iter().filter_map(|id| Some((*id, jobs.by_id.get(id)?.owner_id))).collect()
    }

    /// Jobs by job state row id, read over the given connection if they are not cached.
    pub(super) async fn by_gates(
        &self,
        executor: impl PgExecutor<'_>,
        gate_ids: impl IntoIterator<Item = i64>,
    ) -> Result<HashMap<i64, Arc<JobInfo>>, sqlx::Error> {
        let mut found = HashMap::new();
        let mut missing = Vec::new();
        {
            let jobs = self.jobs.read().unwrap_or_else(std::sync::PoisonError::into_inner);
            for gate_id in gate_ids {
                match jobs.by_gate.get(&gate_id) {
                    Some(job) => {
                        found.insert(gate_id, Arc::clone(job));
                    }
                    None => missing.push(gate_id),
                }
            }
        }
        if !missing.is_empty() {
            for job in contracts::jobs_by_gate(executor, &missing).await? {
                found.insert(job.gate_id, self.keep(Arc::new(job)));
            }
        }
        Ok(found)
    }
}

/// Cache of the dependency graphs of recently used trees, which are fixed at creation.
#[derive(Default)]
pub(super) struct PlanCache {
    plans: RwLock<HashMap<Uuid, Arc<Plan>>>,
}

/// Maximum number of cached trees.
const PLAN_ROOM: usize = 2_000;

impl PlanCache {
    /// Returns the tree of a root whose creation is committed. Within a transaction, pass its own connection: a task
    /// that holds locks and waits for a second connection may deadlock with tasks that hold all connections and wait
    /// for the locks.
    pub(super) async fn of(&self, executor: impl PgExecutor<'_>, root_id: Uuid) -> Result<Arc<Plan>, sqlx::Error> {
        self.of_all(executor, [root_id]).await?.remove(&root_id).ok_or(sqlx::Error::RowNotFound)
    }

    /// Trees of these roots.
    pub(super) async fn of_all(
        &self,
        executor: impl PgExecutor<'_>,
        root_ids: impl IntoIterator<Item = Uuid>,
    ) -> Result<BTreeMap<Uuid, Arc<Plan>>, sqlx::Error> {
        let mut found = BTreeMap::new();
        let mut missing = Vec::new();
        // Each root once: many members name the same tree.
        let root_ids: BTreeSet<Uuid> = root_ids.into_iter().collect();
        {
            let plans = self.plans.read().unwrap_or_else(std::sync::PoisonError::into_inner);
            for root_id in root_ids {
                match plans.get(&root_id) {
                    Some(plan) => {
                        found.insert(root_id, Arc::clone(plan));
                    }
                    None => missing.push(root_id),
                }
            }
        }
        if !missing.is_empty() {
            let read = plan::read(executor, &missing).await?;
            let mut plans = self.plans.write().unwrap_or_else(std::sync::PoisonError::into_inner);
            if plans.len() + read.len() > PLAN_ROOM {
                plans.clear();
            }
            for plan in read.into_iter().map(Arc::new) {
                // A tree that does not exist is read again next time.
                if !plan.jobs.is_empty() {
                    plans.insert(plan.root_id, Arc::clone(&plan));
                }
                found.insert(plan.root_id, plan);
            }
        }
        Ok(found)
    }
}
