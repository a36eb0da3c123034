//! Summaries of trees for watched lists of jobs, without a visibility check.

use std::collections::HashMap;

use domain::{Job, tree::change::Roots};
use uuid::Uuid;

use crate::{
    access::caller::Caller,
    error::{Error, Result},
    store::query::{
        item_views,
        job_list::{self, Anchor, JobQuery},
        job_views,
    },
};

use super::{super::Engine, JobFilter, tree_view};

/// Number of trees whose jobs are read together; a tree has at most a thousand jobs.
const TREES_AT_ONCE: usize = 20;

/// Summary of a tree.
pub struct TreeSummary {
    pub root_id: Uuid,
    pub owner_id: Uuid,
    /// Root without children; `None` if the tree is deleted.
    pub root: Option<Job>,
}

impl Engine {
    /// Newest trees visible to the caller, as JSON of a [`Roots`].
    pub async fn newest_of(&self, caller: &Caller, n: i64) -> Result<String> {
        let filter = JobFilter { root: Some(true), ..JobFilter::default() };
        let (jobs, _) = self.list_jobs(caller, &filter, false, None, n).await?;
        serde_json::to_string(&Roots { jobs, removed: Vec::new() }).map_err(|e| Error::Broken(e.to_string()))
    }

    /// Newest trees of all owners.
    pub async fn newest_roots(&self, n: i64) -> Result<Vec<Uuid>> {
        let query = JobQuery { anchor: Anchor::Roots, limit: n, ..JobQuery::default() };
        let found = job_list::list(self.0.core.pools.reads().await, &query).await?;
        Ok(found.iter().map(|job| job.2).collect())
    }

    /// Summaries of these trees, and the ids of those not reached because the others are large. Trees that never
    /// existed are left out.
    pub async fn tree_summaries(&self, root_ids: &[Uuid]) -> Result<(Vec<TreeSummary>, Vec<Uuid>)> {
        let pool = self.0.core.pools.reads().await;
        let mut read = Vec::with_capacity(root_ids.len());
        let mut rows = 0;
        for (at, part) in root_ids.chunks(TREES_AT_ONCE).enumerate() {
            if rows >= job_list::MAX_SCANNED as usize {
                return Ok((read, root_ids[at * TREES_AT_ONCE..].to_vec()));
            }
            let views = job_views::of_roots(pool, part).await?;
            rows += views.len();
            let owners: HashMap<Uuid, Uuid> = views.iter().map(|view| (view.root_id, view.owner_id)).collect();
            for job in tree_view::build(&views) {
                let Some(&owner_id) = owners.get(&job.root_id) else { continue };
                read.push(TreeSummary { root_id: job.root_id, owner_id, root: Some(Job { children: None, ..job }) });
            }
            for &root_id in part.iter().filter(|root_id| !owners.contains_key(root_id)) {
                if let Some(owner_id) = item_views::deleted_job_owner(pool, root_id).await? {
                    read.push(TreeSummary { root_id, owner_id, root: None });
                }
            }
        }
        Ok((read, Vec::new()))
    }
}
