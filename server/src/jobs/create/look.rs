//! Lookup of existing parts of a requested tree: the same request, its ids, its dedupe keys, in this order
//! (`idempotency-key`).
//!
//! Read-only. A key that is free here may be taken a moment later; the writing transaction detects that.

use domain::{Code, Problem, problem::FieldProblem};

use crate::{
    error::Result,
    store::{idempotency, jobs},
};

use super::{Asked, Before, CALL, Core, Made, Take, Tree, reused};

/// Result of the lookup.
pub(super) enum Standing {
    /// Tree that an earlier request has created.
    There(Made),
    /// No conflict; the key, if any, is to be taken as described.
    Free(Option<Take>),
}

/// Stored outcomes that count as failed: failed and canceled.
const FAILED: [i16; 2] = [3, 4];

impl Core {
    /// Looks up the Idempotency-Key only.
    pub(super) async fn look_at_key(&self, asked: &Asked) -> Result<Standing> {
        let take = |from| {
            Standing::Free(Some(Take { name: asked.name.clone(), fingerprint: asked.fingerprint.clone(), from }))
        };
        let Some(stored) = idempotency::find(&self.pools.read, &asked.name).await? else {
            return Ok(take(Before::Nobody));
        };
        if stored.lapsed() {
            return Ok(take(Before::Lapsed(stored.job_id)));
        }
        let Some(root_id) = stored.job_id.filter(|_| stored.call == CALL && stored.fingerprint == asked.fingerprint)
        else {
            return Err(reused().into());
        };
        if stored.removed {
            return Err(Problem {
                id: Some(root_id),
                ..Problem::new(Code::JobRemoved, "The tree that this Idempotency-Key has made was removed.")
            }
            .into());
        }
        Ok(match stored.outcome {
            _ if !stored.complete => Standing::There(Made::UnderWay(root_id)),
            Some(outcome) if FAILED.contains(&outcome) => take(Before::Failed(root_id)),
            _ => Standing::There(Made::Already(root_id)),
        })
    }

    /// Looks up the Idempotency-Key, the ids and the dedupe keys.
    pub(super) async fn look(&self, tree: &Tree, asked: Option<&Asked>) -> Result<Standing> {
        let take = match asked {
            Some(asked) => match self.look_at_key(asked).await? {
                there @ Standing::There(_) => return Ok(there),
                Standing::Free(take) => take,
            },
            None => None,
        };
        if let Some(made) = self.look_at_ids(tree).await? {
            return Ok(Standing::There(made));
        }
        let replaces = take.as_ref().and_then(|take| match take.from {
            Before::Failed(root_id) => Some(root_id),
            _ => None,
        });
        self.look_at_dedupe_keys(tree, replaces).await?;
        Ok(Standing::Free(take))
    }

    /// Looks up ids chosen by the client. The same owner and body mean that the same request was repeated.
    async fn look_at_ids(&self, tree: &Tree) -> Result<Option<Made>> {
        let named: Vec<_> = tree.nodes.iter().filter_map(|node| node.new.id).collect();
        if named.is_empty() {
            return Ok(None);
        }
        let used = jobs::ids_in_use(&self.pools.read, &named).await?;
        let root = used.iter().find(|used| used.id == tree.root_id());
        if let Some(root) = root
            && root.is_root
            && root.owner_id == tree.owner_id
            && root.body_hash.is_some()
            && root.body_hash == tree.body_hash
        {
            return Ok(Some(Made::Already(root.id)));
        }
        let Some(id) = root.or(used.first()).map(|used| used.id) else { return Ok(None) };
        let pointer = tree.nodes.iter().find(|node| node.id == id).map(|node| format!("{}/id", node.pointer));
        let detail = format!("The id {id} is that of another job, or was.");
        Err(Problem { id: Some(id), errors: field(pointer, &detail), ..Problem::new(Code::IdInUse, detail) }.into())
    }

    async fn look_at_dedupe_keys(&self, tree: &Tree, replaces: Option<uuid::Uuid>) -> Result<()> {
        let keys: Vec<_> = tree.nodes.iter().filter_map(|node| node.dedupe(tree.owner_id)).collect();
        if keys.is_empty() {
            return Ok(());
        }
        for (key, holder) in jobs::holders(&self.pools.read, &keys).await? {
            // The dedupe keys of a replayed tree move to the new tree.
            let of = jobs::owner(&self.pools.read, holder).await?;
            if replaces.is_some() && of.map(|(root_id, _)| root_id) == replaces {
                continue;
            }
            let node = tree.nodes.iter().find(|node| node.dedupe(tree.owner_id).as_ref() == Some(&key));
            let detail = format!("The job {holder} has the dedupe key {:?} already.", key.key);
            let pointer = node.map(|node| format!("{}/dedupe_key", node.pointer));
            return Err(Problem {
                id: Some(holder),
                errors: field(pointer, &detail),
                ..Problem::new(Code::Duplicate, detail)
            }
            .into());
        }
        Ok(())
    }
}

fn field(pointer: Option<String>, detail: &str) -> Vec<FieldProblem> {
    pointer.map(|pointer| FieldProblem { pointer, detail: detail.to_owned() }).into_iter().collect()
}
