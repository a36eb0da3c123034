//! Dependency graph of a tree: parents, feeds and `after`. Fixed at creation, so it is cached in memory.

use std::{collections::HashMap, sync::Arc};

use domain::{Document, tree::feed::Feed};
use sqlx::PgExecutor;
use uuid::Uuid;

use crate::store::tree::definitions::{self, PlanRow};

/// Jobs of a tree, the root first.
#[derive(Debug)]
pub(crate) struct DependencyGraph {
    pub(crate) root_id: Uuid,
    pub(crate) jobs: Vec<GraphJob>,
}

/// Job of a tree; refers to other jobs by their index.
#[derive(Debug)]
pub(crate) struct GraphJob {
    pub(crate) job_key: i64,
    pub(crate) job_id: Uuid,
    pub(crate) key: String,
    pub(crate) parent: Option<usize>,
    pub(crate) feed: Option<Arc<Feed>>,
    pub(crate) after: Vec<usize>,
    /// True if any outcome of the jobs in `after` releases it.
    pub(crate) after_any: bool,
}

impl DependencyGraph {
    fn of(root_id: Uuid, rows: Vec<PlanRow>) -> Self {
        let positions: HashMap<Uuid, usize> = rows.iter().enumerate().map(|(at, row)| (row.job_id, at)).collect();
        let keys: HashMap<String, usize> = rows.iter().enumerate().map(|(at, row)| (row.key.clone(), at)).collect();
        let jobs = rows
            .into_iter()
            .map(|row| {
                let mut after: Vec<usize> = row.after.iter().filter_map(|key| keys.get(key).copied()).collect();
                after.sort_unstable();
                after.dedup();
                GraphJob {
                    job_key: row.job_key,
                    job_id: row.job_id,
                    key: row.key,
                    parent: row.parent_id.and_then(|id| positions.get(&id).copied()),
                    // The feed was validated when the tree was created.
                    feed: row.feed.and_then(|text| Feed::parse(&Document::trusted(text)).ok()).map(Arc::new),
                    after,
                    after_any: row.after_outcome.as_deref() == Some("any"),
                }
            })
            .collect();
        Self { root_id, jobs }
    }

    /// Job state row ids of all jobs, ascending.
    pub(crate) fn job_keys(&self) -> Vec<i64> {
        let mut job_keys: Vec<i64> = self.jobs.iter().map(|job| job.job_key).collect();
        job_keys.sort_unstable();
        job_keys
    }

    /// Job state row id of the root.
    pub(crate) fn root_job_key(&self) -> i64 {
        self.jobs.first().map_or(0, |root| root.job_key)
    }

    /// Index of the job with this job state row id.
    pub(crate) fn position(&self, job_key: i64) -> Option<usize> {
        self.jobs.iter().position(|job| job.job_key == job_key)
    }

    /// Indexes of the jobs that this one feeds.
    pub(crate) fn fed_by(&self, at: usize) -> impl Iterator<Item = usize> + '_ {
        self.jobs
            .iter()
            .enumerate()
            .filter(move |(_, job)| job.parent == Some(at) && job.feed.is_some())
            .map(|(n, _)| n)
    }

    /// Indexes of the jobs that wait for this one.
    pub(crate) fn waiting_for(&self, at: usize) -> impl Iterator<Item = usize> + '_ {
        self.jobs.iter().enumerate().filter(move |(_, job)| job.after.contains(&at)).map(|(n, _)| n)
    }

    /// Indexes of the job and its descendants.
    pub(crate) fn subtree(&self, at: usize) -> Vec<usize> {
        // Parents come before their children.
        let mut inside = vec![false; self.jobs.len()];
        for n in 0..self.jobs.len() {
            inside[n] = n == at || self.jobs[n].parent.is_some_and(|parent| inside[parent]);
        }
        (0..self.jobs.len()).filter(|&n| inside[n]).collect()
    }

    /// Indexes of the job and its ancestors.
    pub(crate) fn with_ancestors(&self, at: usize) -> Vec<usize> {
        std::iter::successors(Some(at), |&n| self.jobs[n].parent).collect()
    }
}

/// Reads trees in the order of `root_ids`. A deleted tree has no jobs.
pub(crate) async fn read(
    executor: impl PgExecutor<'_>,
    root_ids: &[Uuid],
) -> Result<Vec<DependencyGraph>, sqlx::Error> {
    let mut rows: HashMap<Uuid, Vec<PlanRow>> = HashMap::new();
    for row in definitions::plans(executor, root_ids).await? {
        rows.entry(row.root_id).or_default().push(row);
    }
    Ok(root_ids.iter().map(|id| DependencyGraph::of(*id, rows.remove(id).unwrap_or_default())).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(n: u128, parent: Option<u128>, key: &str, feed: bool, after: &[&str]) -> PlanRow {
        PlanRow {
            root_id: Uuid::from_u128(1),
            job_key: n as i64,
            job_id: Uuid::from_u128(n),
            parent_id: parent.map(Uuid::from_u128),
            key: key.to_owned(),
            feed: feed.then(|| "{}".to_owned()),
            after: after.iter().map(|&key| key.to_owned()).collect(),
            after_outcome: None,
        }
    }

    #[test]
    fn a_graph_knows_its_dependencies() {
        let graph = DependencyGraph::of(
            Uuid::from_u128(1),
            vec![
                row(1, None, "root", false, &[]),
                row(2, Some(1), "fed", true, &[]),
                row(3, Some(2), "deep", true, &[]),
                row(4, Some(1), "last", false, &["fed", "root"]),
            ],
        );
        assert_eq!(graph.fed_by(0).collect::<Vec<_>>(), [1]);
        assert_eq!(graph.waiting_for(1).collect::<Vec<_>>(), [3]);
        assert_eq!(graph.jobs[3].after, [0, 1]);
        assert_eq!(graph.subtree(1), [1, 2]);
        assert_eq!(graph.with_ancestors(2), [2, 1, 0]);
    }
}
