//! Job types and job definitions in memory, so that the hot path does not read them.
//!
//! Types change while jobs run: they are read again every second and after every change made here. A
//! job's definition changes only when a person edits it, and may be kept until then: edits are looked
//! for every second, and what they touched is forgotten.

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

/// Every job type.
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

    /// A type by its name.
    pub fn get(&self, name: &str) -> Option<Arc<TypeInfo>> {
        self.now().by_name.get(name).cloned()
    }

    /// A type by its name; read again when it is not known, as another server may just have made it.
    pub async fn find(&self, name: &str) -> Result<Option<Arc<TypeInfo>>> {
        if let Some(known) = self.get(name) {
            return Ok(Some(known));
        }
        self.refresh_now().await?;
        Ok(self.get(name))
    }

    /// A type by its number.
    pub fn by_id(&self, id: i32) -> Option<Arc<TypeInfo>> {
        self.now().by_id.get(&id).cloned()
    }

    /// Every type, by name.
    pub fn all(&self) -> Vec<Arc<TypeInfo>> {
        let mut all: Vec<_> = self.now().by_id.values().cloned().collect();
        all.sort_by(|a, b| a.name.cmp(&b.name));
        all
    }
}

/// Job definitions that were needed lately.
#[derive(Default)]
pub(super) struct JobCache {
    jobs: RwLock<Jobs>,
    /// When edits were last looked for, by the database's clock.
    checked_at: RwLock<Option<OffsetDateTime>>,
}

/// Edits are looked for so far back again: a definition may have been read just before an edit was
/// committed, and kept just after it was forgotten.
const OVERLAP: time::Duration = time::Duration::seconds(10);

#[derive(Default)]
struct Jobs {
    by_gate: HashMap<i64, Arc<JobInfo>>,
    by_id: HashMap<Uuid, Arc<JobInfo>>,
}

/// About a kilobyte each.
const ROOM: usize = 20_000;

impl JobCache {
    /// Keeps a definition that was read, or written and committed, just now.
    pub(super) fn keep(&self, info: Arc<JobInfo>) -> Arc<JobInfo> {
        let mut jobs = self.jobs.write().unwrap_or_else(std::sync::PoisonError::into_inner);
        if jobs.by_gate.len() >= ROOM {
            *jobs = Jobs::default();
        }
        jobs.by_gate.insert(info.gate_id, Arc::clone(&info));
        jobs.by_id.insert(info.job_id, Arc::clone(&info));
        info
    }

    /// Forgets jobs that were edited.
    pub(super) fn forget(&self, gate_ids: &[i64]) {
        let mut jobs = self.jobs.write().unwrap_or_else(std::sync::PoisonError::into_inner);
        for gate_id in gate_ids {
            if let Some(job) = jobs.by_gate.remove(gate_id) {
                jobs.by_id.remove(&job.job_id);
            }
        }
    }

    /// From when on edits have to be looked for; `None` at first.
    pub(super) fn checked_at(&self) -> Option<OffsetDateTime> {
        let at = *self.checked_at.read().unwrap_or_else(std::sync::PoisonError::into_inner);
        at.map(|at| at - OVERLAP)
    }

    /// Edits up to this time were looked for.
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

    /// Whose these jobs are, as far as they are known here.
    pub(super) fn owners_of(&self, ids: &[Uuid]) -> HashMap<Uuid, Uuid> {
        let jobs = self.jobs.read().unwrap_or_else(std::sync::PoisonError::into_inner);
        ids.iter().filter_map(|id| Some((*id, jobs.by_id.get(id)?.owner_id))).collect()
    }

    /// The jobs that hold these gates, read over the given connection where they are not known.
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

/// Trees that were needed lately: what depends on what in them, fixed at their creation.
#[derive(Default)]
pub(super) struct PlanCache {
    plans: RwLock<HashMap<Uuid, Arc<Plan>>>,
}

/// Jobs of all trees together, about.
const PLAN_ROOM: usize = 2_000;

impl PlanCache {
    /// The tree of a root, whose creation must be committed. Within a transaction it is read over that one's
    /// own connection: who holds locks and waits for a second connection may wait for those who hold all of
    /// them and wait for the locks.
    pub(super) async fn of(&self, executor: impl PgExecutor<'_>, root_id: Uuid) -> Result<Arc<Plan>, sqlx::Error> {
        self.of_all(executor, [root_id]).await?.remove(&root_id).ok_or(sqlx::Error::RowNotFound)
    }

    /// The trees of these roots.
    pub(super) async fn of_all(
        &self,
        executor: impl PgExecutor<'_>,
        root_ids: impl IntoIterator<Item = Uuid>,
    ) -> Result<BTreeMap<Uuid, Arc<Plan>>, sqlx::Error> {
        let mut found = BTreeMap::new();
        let mut missing = Vec::new();
        // Each once: members of one tree name it again and again.
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
                // What is not there is asked for again.
                if !plan.jobs.is_empty() {
                    plans.insert(plan.root_id, Arc::clone(&plan));
                }
                found.insert(plan.root_id, plan);
            }
        }
        Ok(found)
    }
}
