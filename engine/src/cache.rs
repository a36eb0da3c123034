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
use tokio::sync::{Mutex, Notify, futures::Notified};
use uuid::Uuid;

use crate::{
    error::Result,
    sealing::Sealer,
    store::tree::definitions::{self, JobInfo, TypeInfo},
    tree::dependency_graph::{self, DependencyGraph},
};

#[derive(Default)]
struct Types {
    by_name: HashMap<String, Arc<TypeInfo>>,
    by_id: HashMap<i32, Arc<TypeInfo>>,
}

/// Cache of all job types.
pub struct TypeCache {
    types: RwLock<Arc<Types>>,
    /// Notified when types were added or got another executor.
    executors_changed: Notify,
    /// Held while the types are read and put here: a slow reading must not replace a newer one.
    refreshing: Mutex<()>,
    pool: PgPool,
    sealer: Sealer,
}

impl TypeCache {
    pub(crate) async fn load(pool: &PgPool, sealer: &Sealer) -> Result<Self> {
        let cache = Self {
            types: RwLock::default(),
            executors_changed: Notify::new(),
            refreshing: Mutex::new(()),
            pool: pool.clone(),
            sealer: sealer.clone(),
        };
        cache.refresh_now().await?;
        Ok(cache)
    }

    /// Reads all types again.
    pub async fn refresh_now(&self) -> Result<()> {
        let _one_at_a_time = self.refreshing.lock().await;
        let mut fresh = Types::default();
        for info in definitions::types(&self.pool, &self.sealer).await? {
            let info = Arc::new(info);
            fresh.by_name.insert(info.name.clone(), Arc::clone(&info));
            fresh.by_id.insert(info.id, info);
        }
        let before = self.now();
        let changed = fresh.by_id.values().any(|info| {
            let executor = |info: &Arc<TypeInfo>| (info.executor.kind, info.executor.name);
            before.by_id.get(&info.id).map(executor) != Some(executor(info))
        });
        *self.types.write().unwrap_or_else(std::sync::PoisonError::into_inner) = Arc::new(fresh);
        if changed {
            self.executors_changed.notify_waiters();
        }
        Ok(())
    }

    /// Resolves when types are added or get another executor from now on.
    pub fn executors_changed(&self) -> Notified<'_> {
        self.executors_changed.notified()
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
        if let Some(cached) = self.get(name) {
            return Ok(Some(cached));
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
pub(crate) struct JobCache {
    jobs: RwLock<Jobs>,
    /// Time of the last check for edits, by the database clock.
    checked_at: RwLock<Option<OffsetDateTime>>,
}

/// Overlap of the checks for edits: a definition may have been read just before an edit was committed, and cached just
/// after the job was dropped.
const OVERLAP: time::Duration = time::Duration::seconds(10);

#[derive(Default)]
struct Jobs {
    by_job_key: HashMap<i64, Arc<JobInfo>>,
    by_id: HashMap<Uuid, Arc<JobInfo>>,
}

/// Maximum number of cached definitions, of about a kilobyte each.
const ROOM: usize = 20_000;

impl JobCache {
    /// Caches a definition that was just read, or just written and committed.
    pub(crate) fn insert(&self, info: Arc<JobInfo>) -> Arc<JobInfo> {
        let mut jobs = self.jobs.write().unwrap_or_else(std::sync::PoisonError::into_inner);
        if jobs.by_job_key.len() >= ROOM {
            *jobs = Jobs::default();
        }
        jobs.by_job_key.insert(info.job_key, Arc::clone(&info));
        jobs.by_id.insert(info.job_id, Arc::clone(&info));
        info
    }

    /// Drops jobs that were edited.
    pub(crate) fn forget(&self, job_keys: &[i64]) {
        let mut jobs = self.jobs.write().unwrap_or_else(std::sync::PoisonError::into_inner);
        for job_key in job_keys {
            if let Some(job) = jobs.by_job_key.remove(job_key) {
                jobs.by_id.remove(&job.job_id);
            }
        }
    }

    /// Time from which to look for edits; `None` before the first check.
    pub(crate) fn checked_at(&self) -> Option<OffsetDateTime> {
        let at = *self.checked_at.read().unwrap_or_else(std::sync::PoisonError::into_inner);
        at.map(|at| at - OVERLAP)
    }

    /// Records that edits up to this time have been processed.
    pub(crate) fn checked(&self, at: OffsetDateTime) {
        *self.checked_at.write().unwrap_or_else(std::sync::PoisonError::into_inner) = Some(at);
    }

    pub(crate) async fn by_id(&self, pool: &PgPool, id: Uuid) -> Result<Option<Arc<JobInfo>>, sqlx::Error> {
        let cached = {
            let jobs = self.jobs.read().unwrap_or_else(std::sync::PoisonError::into_inner);
            jobs.by_id.get(&id).cloned()
        };
        match cached {
            Some(job) => Ok(Some(job)),
            None => Ok(definitions::job_by_id(pool, id).await?.map(|job| self.insert(Arc::new(job)))),
        }
    }

    /// Owners of these jobs, as far as they are cached.
    pub(crate) fn owners_of(&self, ids: &[Uuid]) -> HashMap<Uuid, Uuid> {
        let jobs = self.jobs.read().unwrap_or_else(std::sync::PoisonError::into_inner);
        ids.iter().filter_map(|id| Some((*id, jobs.by_id.get(id)?.owner_id))).collect()
    }

    /// Jobs by job state row id, read over the given connection if they are not cached.
    pub(crate) async fn by_job_keys(
        &self,
        executor: impl PgExecutor<'_>,
        job_keys: impl IntoIterator<Item = i64>,
    ) -> Result<HashMap<i64, Arc<JobInfo>>, sqlx::Error> {
        let mut found = HashMap::new();
        let mut missing = Vec::new();
        {
            let jobs = self.jobs.read().unwrap_or_else(std::sync::PoisonError::into_inner);
            for job_key in job_keys {
                match jobs.by_job_key.get(&job_key) {
                    Some(job) => {
                        found.insert(job_key, Arc::clone(job));
                    }
                    None => missing.push(job_key),
                }
            }
        }
        if !missing.is_empty() {
            for job in definitions::jobs_by_key(executor, &missing).await? {
                found.insert(job.job_key, self.insert(Arc::new(job)));
            }
        }
        Ok(found)
    }
}

/// Cache of the dependency graphs of recently used trees, which are fixed at creation.
#[derive(Default)]
pub(crate) struct GraphCache {
    graphs: RwLock<HashMap<Uuid, Arc<DependencyGraph>>>,
}

/// Maximum number of cached trees.
const GRAPH_ROOM: usize = 2_000;

impl GraphCache {
    /// Returns the tree of a root whose creation is committed. Within a transaction, pass its own connection: a task
    /// that holds locks and waits for a second connection may deadlock with tasks that hold all connections and wait
    /// for the locks.
    pub(crate) async fn of(
        &self,
        executor: impl PgExecutor<'_>,
        root_id: Uuid,
    ) -> Result<Arc<DependencyGraph>, sqlx::Error> {
        self.of_all(executor, [root_id]).await?.remove(&root_id).ok_or(sqlx::Error::RowNotFound)
    }

    /// Trees of these roots.
    pub(crate) async fn of_all(
        &self,
        executor: impl PgExecutor<'_>,
        root_ids: impl IntoIterator<Item = Uuid>,
    ) -> Result<BTreeMap<Uuid, Arc<DependencyGraph>>, sqlx::Error> {
        let mut found = BTreeMap::new();
        let mut missing = Vec::new();
        // Each root once: many members name the same tree.
        let root_ids: BTreeSet<Uuid> = root_ids.into_iter().collect();
        {
            let graphs = self.graphs.read().unwrap_or_else(std::sync::PoisonError::into_inner);
            for root_id in root_ids {
                match graphs.get(&root_id) {
                    Some(graph) => {
                        found.insert(root_id, Arc::clone(graph));
                    }
                    None => missing.push(root_id),
                }
            }
        }
        if !missing.is_empty() {
            let read = dependency_graph::read(executor, &missing).await?;
            let mut graphs = self.graphs.write().unwrap_or_else(std::sync::PoisonError::into_inner);
            if graphs.len() + read.len() > GRAPH_ROOM {
                graphs.clear();
            }
            for graph in read.into_iter().map(Arc::new) {
                // A tree that does not exist is read again next time.
                if !graph.jobs.is_empty() {
                    graphs.insert(graph.root_id, Arc::clone(&graph));
                }
                found.insert(graph.root_id, graph);
            }
        }
        Ok(found)
    }
}
