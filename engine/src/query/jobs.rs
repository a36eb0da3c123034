//! Jobs and trees: single views, long polls, lists, and error groups.

use std::collections::{HashMap, HashSet};

use domain::{Code, Job, JobStatus, Outcome, Problem, Time, api::ErrorGroup, api::GroupState};
use serde::{Deserialize, Serialize};
use sqlx::PgPool;
use uuid::Uuid;

use crate::{
    access::caller::{Caller, Scope},
    error::{Error, Result},
    store::{
        enqueue::idempotency,
        query::{
            item_views,
            job_list::{self, Anchor, JobListRow, JobQuery},
            job_views::{self, GroupOrder, GroupQuery},
        },
    },
};

use super::{
    super::{Core, Engine},
    tree_view,
};

/// Filter of a job list. Bulk operations store it: a server that does not know a condition must refuse it instead of
/// applying the operation to more jobs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct JobFilter {
    /// Any of these ids; empty means all.
    #[serde(default)]
    pub ids: Vec<Uuid>,
    /// Roots only, or children only. With `true`, status and outcome are those of the tree.
    pub root: Option<bool>,
    pub root_id: Option<Uuid>,
    pub parent: Option<Uuid>,
    pub status: Option<JobStatus>,
    pub outcome: Option<Outcome>,
    pub job_type: Option<String>,
    pub owner: Option<String>,
    /// Only jobs that this owner created from files.
    pub uploaded_by: Option<Uuid>,
    pub initiated_by: Option<String>,
    pub dedupe_key: Option<String>,
    /// Idempotency-Key of the request that created the tree, while the key is stored.
    #[serde(default)]
    pub idempotency_key: Option<String>,
    pub replay_of: Option<Uuid>,
    /// Names and values of metadata; a value that is not text is compared as its JSON.
    pub metadata: Vec<(String, String)>,
    /// Part of a name, key or metadata.
    pub q: Option<String>,
    /// Open, without progress for an hour.
    pub stalled: Option<bool>,
    pub created_after: Option<Time>,
    pub created_before: Option<Time>,
}

/// Filter of error groups.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GroupFilter {
    /// Job with its descendants.
    pub job: Option<Uuid>,
    /// Without its descendants, as a list of the job's items.
    pub alone: bool,
    pub root: Option<Uuid>,
    pub job_type: Option<String>,
    /// Name of an owner.
    pub owner: Option<String>,
    /// Part of the message.
    pub q: Option<String>,
    /// Any of these states. Muted and resolved groups then include those without dead items.
    pub states: Option<Vec<GroupState>>,
    pub order: GroupOrder,
}

/// Maximum number of groups on a page.
const GROUPS: i64 = 50;
/// Number of listed jobs whose trees are read together; a tree has at most a thousand jobs.
const TREES_AT_ONCE: usize = 20;

impl Engine {
    /// Returns a job with its subtree, or without `children`. Returns 410 `job_removed` if it was deleted.
    pub async fn job(&self, caller: &Caller, id: Uuid, children: bool) -> Result<Job> {
        caller.require(Scope::JobsRead)?;
        self.changed_job(caller, id, children).await
    }

    /// Same, as the answer to a change: a caller that may change a job gets its new state even with only `jobs:write`.
    pub async fn changed_job(&self, caller: &Caller, id: Uuid, children: bool) -> Result<Job> {
        let info = self.visible_job(caller, id).await?;
        let mut job = self.read_tree(info.root_id, id).await?;
        if !children {
            job.children = None;
        }
        Ok(job)
    }

    /// Current subtree of a job, without a visibility check.
    pub async fn read_tree(&self, root_id: Uuid, id: Uuid) -> Result<Job> {
        let views = job_views::of_roots(self.0.core.pools.reads().await, &[root_id]).await?;
        tree_view::build(&views).into_iter().find_map(|root| tree_view::find(root, id)).ok_or_else(|| job_deleted(id))
    }

    /// Returns matching jobs, newest or oldest first, after a position (a job state row id), and the position after the
    /// last one if there may be more.
    pub async fn list_jobs(
        &self,
        caller: &Caller,
        filter: &JobFilter,
        oldest_first: bool,
        after: Option<i64>,
        limit: i64,
    ) -> Result<(Vec<Job>, Option<i64>)> {
        caller.require(Scope::JobsRead)?;
        let pool = self.0.core.pools.reads().await;
        let type_id = match &filter.job_type {
            Some(name) => match self.types().find(name).await? {
                Some(info) => Some(info.id),
                None => return Ok((Vec::new(), None)),
            },
            None => None,
        };
        let owner_id = caller.visible_owner().or(filter.uploaded_by);
        let anchor = match &filter.idempotency_key {
            Some(key) => {
                let mut made = idempotency::trees_of_key(pool, key, owner_id).await?;
                made.retain(|id| filter.ids.is_empty() || filter.ids.contains(id));
                Anchor::Ids(made)
            }
            None => anchor(filter, owner_id, type_id),
        };
        let query = JobQuery {
            anchor,
            oldest_first,
            behind: after,
            // One more shows whether a page follows.
            limit: limit + 1,
            owner_id,
            roots: filter.root,
            uploads_only: filter.uploaded_by.is_some(),
            root_id: filter.root_id,
            parent_id: filter.parent,
            replay_of: filter.replay_of,
            dedupe_key: filter.dedupe_key.clone(),
            type_id,
            owner_name: filter.owner.clone(),
            initiated_by: filter.initiated_by.clone(),
            text: filter.q.as_ref().map(|text| like_pattern(text)),
            metadata: filter.metadata.clone(),
            created_after: filter.created_after.map(|at| at.0),
            created_before: filter.created_before.map(|at| at.0),
            outcome: filter.outcome.map(Outcome::code),
            status: filter.status.map(|status| status.as_str().to_owned()),
            stalled: filter.stalled,
        };
        let mut found = job_list::list(pool, &query).await?;
        let read = found.len();
        found.truncate(usize::try_from(limit).unwrap_or_default());
        let looked_to = async { Ok(job_list::scan_end(pool, &query, read).await?) };
        let ((jobs, next), looked_to) = futures::try_join!(of_whole_trees(pool, &found), looked_to)?;
        let behind = if read > found.len() { found.last().map(|job| job.0) } else { looked_to };
        Ok((jobs, next.or(behind)))
    }

    /// Names of jobs that are stored and visible to the caller.
    pub async fn job_names(&self, caller: &Caller, ids: &[Uuid]) -> Result<HashMap<Uuid, String>> {
        caller.require(Scope::JobsRead)?;
        let pool = self.0.core.pools.reads().await;
        Ok(job_views::names(pool, ids, caller.visible_owner()).await?.into_iter().collect())
    }

    /// Error groups of a tree, or of a job below its root alone, the largest first, at most fifty.
    pub async fn error_groups(&self, caller: &Caller, job_id: Uuid) -> Result<Vec<ErrorGroup>> {
        let alone = self.visible_job(caller, job_id).await?.root_id != job_id;
        let filter = GroupFilter { job: Some(job_id), alone, order: GroupOrder::Largest, ..GroupFilter::default() };
        self.groups(caller, &filter, GROUPS).await
    }

    /// Error groups of a job, of a tree, or of everything visible to the caller.
    pub async fn groups(&self, caller: &Caller, filter: &GroupFilter, limit: i64) -> Result<Vec<ErrorGroup>> {
        caller.require(Scope::JobsRead)?;
        let pool = self.0.core.pools.reads().await;
        let query = GroupQuery {
            job_type: filter.job_type.clone(),
            text: filter.q.as_ref().map(|text| like_pattern(text)),
            owner_id: caller.visible_owner(),
            owner_name: filter.owner.clone(),
            order: filter.order,
            states: filter.states.as_ref().map(|states| states.iter().map(|state| state.code()).collect()),
            limit,
        };
        let mut wanted: Option<Vec<i64>> = None;
        for (id, whole_tree) in [(filter.job, false), (filter.root, true)] {
            let Some(id) = id else { continue };
            let inside = self.job_keys_of_groups(caller, filter, id, whole_tree).await?;
            wanted = Some(match wanted {
                Some(before) => before.into_iter().filter(|key| inside.contains(key)).collect(),
                None => inside,
            });
        }
        match wanted {
            None => Ok(job_views::owner_groups(pool, &query).await?.0),
            Some(job_keys) => Ok(job_views::error_groups(pool, &job_keys, &query).await?),
        }
    }

    /// Jobs whose groups a filter by one job or one tree shows.
    async fn job_keys_of_groups(
        &self,
        caller: &Caller,
        filter: &GroupFilter,
        id: Uuid,
        whole_tree: bool,
    ) -> Result<Vec<i64>> {
        let info = self.visible_job(caller, id).await?;
        let rows = job_views::of_roots(self.0.core.pools.reads().await, &[info.root_id]).await?;
        let tree = tree_view::build(&rows).into_iter().find_map(|root| tree_view::find(root, id));
        let job = tree.ok_or_else(|| job_deleted(id))?;
        let named = filter.owner.as_ref().is_none_or(|name| *name == job.owner.name);
        if !named || whole_tree && job.parent_id.is_some() {
            return Ok(Vec::new());
        }
        let alone = filter.alone && !whole_tree;
        let inside: HashSet<Uuid> = job.subtree().iter().map(|job| job.id).filter(|&of| !alone || of == id).collect();
        Ok(rows.iter().filter(|row| inside.contains(&row.id)).map(|row| row.job_key).collect())
    }
}

/// Most selective index for the filter.
fn anchor(filter: &JobFilter, owner_id: Option<Uuid>, type_id: Option<i32>) -> Anchor {
    if !filter.ids.is_empty() {
        return Anchor::Ids(filter.ids.clone());
    }
    if let Some(id) = filter.parent {
        return Anchor::Parent(id);
    }
    if let Some(id) = filter.root_id {
        return Anchor::Root(id);
    }
    if let Some(key) = &filter.dedupe_key {
        return Anchor::DedupeKey(key.clone());
    }
    if let Some(id) = filter.replay_of {
        return Anchor::ReplayOf(id);
    }
    if let Some(name) = &filter.initiated_by {
        return Anchor::Initiator(name.clone());
    }
    match (owner_id, type_id, filter.root) {
        (Some(id), _, Some(true)) => Anchor::OwnerRoots(id),
        (Some(id), _, Some(false)) => Anchor::OwnerChildren(id),
        (Some(id), _, None) => Anchor::Owner(id),
        (None, Some(id), _) => Anchor::Type(id),
        (None, None, Some(true)) => Anchor::Roots,
        (None, None, _) => Anchor::All,
    }
}

impl Core {
    /// Current state of whole trees, without a visibility check.
    pub(crate) async fn read_trees(&self, root_ids: &[Uuid]) -> Result<Vec<Job>> {
        Ok(tree_view::build(&job_views::of_roots(self.pools.reads().await, root_ids).await?))
    }

    /// Error for a missing job: removed for callers that were allowed to see it, else not found.
    pub(crate) async fn missing_job(&self, caller: &Caller, id: Uuid) -> Error {
        match item_views::deleted_job_owner(&self.pools.read, id).await {
            Ok(Some(owner)) if caller.visible_owner().is_none_or(|mine| mine == owner) => job_deleted(id),
            Ok(_) => Problem::not_found("job").into(),
            Err(error) => error.into(),
        }
    }
}

/// Problem 410 `job_removed`.
pub(crate) fn job_deleted(id: Uuid) -> Error {
    Error::refuse(Code::JobRemoved, format!("Job {id} was removed, with its tree."))
}

/// Pattern for `like` that finds the text anywhere.
pub(crate) fn like_pattern(text: &str) -> String {
    format!("%{}%", text.replace('\\', "\\\\").replace('%', "\\%").replace('_', "\\_"))
}

/// Reads listed jobs with the sums of their descendants. Whole trees are read, a few at a time, until enough rows have been
/// read; then the second value is the last listed row that was reached.
async fn of_whole_trees(pool: &PgPool, found: &[JobListRow]) -> Result<(Vec<Job>, Option<i64>)> {
    let mut by_id: HashMap<Uuid, Job> = HashMap::new();
    let (mut read, mut last) = (0, None);
    let mut jobs = Vec::with_capacity(found.len());
    for part in found.chunks(TREES_AT_ONCE) {
        if read >= job_list::MAX_SCANNED as usize {
            return Ok((jobs, last));
        }
        let mut roots: Vec<Uuid> = part.iter().map(|job| job.2).collect();
        roots.sort_unstable();
        roots.dedup();
        let views = job_views::of_roots(pool, &roots).await?;
        read += views.len();
        for root in tree_view::build(&views) {
            for job in root.subtree() {
                by_id.insert(job.id, Job { children: None, ..job.clone() });
            }
        }
        jobs.extend(part.iter().filter_map(|job| by_id.remove(&job.1)));
        last = part.last().map(|job| job.0);
    }
    Ok((jobs, None))
}
