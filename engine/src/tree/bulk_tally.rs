//! Counting of processed members; each is counted once.
//!
//! Changes are counted in the same transaction: a crash leaves both or neither, and if two servers process one
//! member, the second rolls back and continues without it. The same happens if the operation was stopped in the
//! meantime. Refused cancellations and deletions of jobs are counted afterwards.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use domain::Code;
use sqlx::PgPool;
use uuid::Uuid;

use crate::{
    Core,
    error::{Error, Result},
    store::{
        Tx,
        operator::bulk::members::{self, Counts, Member},
        tree::completion as tree_states,
    },
    tree::{completion, dependency_graph::DependencyGraph},
};

/// Outcome for a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MemberOutcome {
    Processed,
    /// Refused, with the code.
    Skipped(&'static str),
    Errored,
}

/// Members of one operation that are counted in one transaction.
#[derive(Clone, Debug)]
pub(crate) struct Tally {
    bulk_id: Uuid,
    /// Members and the roots of their trees.
    members: BTreeMap<Uuid, Uuid>,
    /// Outcome of the members that were not processed.
    exceptions: BTreeMap<Uuid, MemberOutcome>,
}

impl Tally {
    /// Tally of members that all count as processed unless another outcome is set.
    pub(crate) fn of(bulk_id: Uuid, members: &[Member]) -> Self {
        let members = members.iter().map(|member| (member.member_id, member.root_id)).collect();
        Self { bulk_id, members, exceptions: BTreeMap::new() }
    }

    /// Counts this member as skipped.
    pub(crate) fn skip(&mut self, member: Uuid, reason: &'static str) {
        self.count(member, MemberOutcome::Skipped(reason));
    }

    pub(crate) fn count(&mut self, member: Uuid, outcome: MemberOutcome) {
        self.exceptions.insert(member, outcome);
    }

    /// Keeps only the members that have not been counted yet.
    pub(crate) async fn uncounted(mut self, pool: &PgPool) -> Result<Self> {
        let ids: Vec<Uuid> = self.members.keys().copied().collect();
        let open: BTreeSet<Uuid> = members::uncounted(pool, self.bulk_id, &ids).await?.into_iter().collect();
        self.members.retain(|member, _| open.contains(member));
        Ok(self)
    }

    /// True if nothing is still to be counted.
    pub(crate) fn is_empty(&self) -> bool {
        self.members.is_empty()
    }

    /// True if a member is still to be counted.
    pub(crate) fn has(&self, member: Uuid) -> bool {
        self.members.contains_key(&member)
    }

    /// Roots of the members' trees. If the operation may hold them, lock their job state rows before [`Self::write`].
    pub(crate) fn roots(&self) -> BTreeSet<Uuid> {
        self.members.values().copied().collect()
    }

    /// Counts the members in the action's transaction. `plans` contains their trees. Fails if a member was counted in
    /// the meantime or the operation was stopped: the action must then be rolled back.
    pub(crate) async fn write(
        &self,
        core: &Core,
        tx: &mut Tx,
        graphs: &BTreeMap<Uuid, Arc<DependencyGraph>>,
    ) -> Result<()> {
        let ids: Vec<Uuid> = self.members.keys().copied().collect();
        if members::mark(tx, self.bulk_id, &ids).await? != ids.len() as u64 {
            return Err(Error::Conflict("another server has counted a member"));
        }
        let mut members_by_tree: BTreeMap<Uuid, i64> = BTreeMap::new();
        for root_id in self.members.values() {
            *members_by_tree.entry(*root_id).or_default() += 1;
        }
        let (roots, numbers): (Vec<Uuid>, Vec<i64>) = members_by_tree.into_iter().unzip();
        let finished_trees = members::hold_less(tx, self.bulk_id, &roots, &numbers).await?;
        if !finished_trees.is_empty() {
            let finished_trees = members::drop_holds(tx, self.bulk_id, &finished_trees).await?;
            let graphs: Vec<&DependencyGraph> =
                finished_trees.iter().filter_map(|root_id| graphs.get(root_id).map(AsRef::as_ref)).collect();
            completion::release_holds(core, tx, &graphs).await?;
        }
        if !members::count(tx, self.bulk_id, &self.counts()).await? {
            return Err(Error::refuse(Code::OperationOver, "The operation was stopped."));
        }
        Ok(())
    }

    /// Counts the members in a separate transaction.
    pub(crate) async fn write_alone(&self, core: &Arc<Core>) -> Result<()> {
        let roots: Vec<Uuid> = self.roots().into_iter().collect();
        let graphs = core.graphs.of_all(&core.pools.read, roots.iter().copied()).await?;
        let mut tx = crate::store::begin(&core.pools.hot).await?;
        // Job state rows are locked before members here too, because holds may be released.
        let mut job_keys: Vec<i64> = graphs.values().map(|graph| graph.root_job_key()).collect();
        job_keys.sort_unstable();
        tree_states::lock(&mut tx, &job_keys).await?;
        self.write(core, &mut tx, &graphs).await?;
        crate::store::commit(tx).await?;
        core.live.touch(&roots);
        Ok(())
    }

    fn counts(&self) -> Counts {
        let mut counts = Counts::default();
        for member in self.members.keys() {
            match self.exceptions.get(member).unwrap_or(&MemberOutcome::Processed) {
                MemberOutcome::Processed => counts.processed += 1,
                MemberOutcome::Skipped(reason) => *counts.skipped.entry(reason).or_default() += 1,
                MemberOutcome::Errored => counts.errored += 1,
            }
        }
        counts
    }
}
