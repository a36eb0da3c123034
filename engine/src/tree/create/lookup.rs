//! Lookup of existing parts of a requested tree: the same request, its ids, its dedupe keys, in this order
//! (`idempotency-key`).
//!
//! Read-only. A key that is free here may be taken a moment later; the writing transaction detects that.

use domain::{Code, Problem, problem::FieldProblem};

use crate::{
    enqueue::idempotency_keys::key_reused,
    error::Result,
    store::{enqueue::idempotency, tree::jobs},
};

use super::{CALL, Core, CreationOutcome, KeyState, KeyToTake, RequestedKey, Tree};

/// Result of the lookup.
pub(super) enum Lookup {
    /// Tree that an earlier request has created.
    Exists(CreationOutcome),
    /// No conflict; the key, if any, is to be taken as described.
    Free(Option<KeyToTake>),
}

/// Stored outcomes that count as failed: failed and canceled.
const FAILED: [i16; 2] = [3, 4];

impl Core {
    /// Looks up the Idempotency-Key only.
    pub(super) async fn look_up_key(&self, requested_key: &RequestedKey) -> Result<Lookup> {
        let take = |from| {
            Lookup::Free(Some(KeyToTake {
                name: requested_key.name.clone(),
                fingerprint: requested_key.fingerprint.clone(),
                from,
            }))
        };
        let Some(stored) = idempotency::find(&self.pools.read, &requested_key.name).await? else {
            return Ok(take(KeyState::Unused));
        };
        if stored.lapsed() {
            return Ok(take(KeyState::Expired(stored.job_id)));
        }
        let Some(root_id) =
            stored.job_id.filter(|_| stored.call == CALL && stored.fingerprint == requested_key.fingerprint)
        else {
            return Err(key_reused().into());
        };
        if stored.deleted {
            return Err(Problem {
                id: Some(root_id),
                ..Problem::new(Code::JobRemoved, "The tree that this Idempotency-Key has made was removed.")
            }
            .into());
        }
        Ok(match stored.outcome {
            _ if !stored.complete => Lookup::Exists(CreationOutcome::InProgress(root_id)),
            Some(outcome) if FAILED.contains(&outcome) => take(KeyState::Failed(root_id)),
            _ => Lookup::Exists(CreationOutcome::Existing(root_id)),
        })
    }

    /// Looks up the Idempotency-Key, the ids and the dedupe keys.
    pub(super) async fn look_up(&self, tree: &Tree, requested_key: Option<&RequestedKey>) -> Result<Lookup> {
        let take = match requested_key {
            Some(requested_key) => match self.look_up_key(requested_key).await? {
                exists @ Lookup::Exists(_) => return Ok(exists),
                Lookup::Free(take) => take,
            },
            None => None,
        };
        if let Some(made) = self.look_up_ids(tree).await? {
            return Ok(Lookup::Exists(made));
        }
        let replaces = take.as_ref().and_then(|take| match take.from {
            KeyState::Failed(root_id) => Some(root_id),
            _ => None,
        });
        self.look_up_dedupe_keys(tree, replaces).await?;
        Ok(Lookup::Free(take))
    }

    /// Looks up ids chosen by the client. The same owner and body mean that the same request was repeated.
    async fn look_up_ids(&self, tree: &Tree) -> Result<Option<CreationOutcome>> {
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
            return Ok(Some(CreationOutcome::Existing(root.id)));
        }
        let Some(id) = root.or(used.first()).map(|used| used.id) else { return Ok(None) };
        let pointer = tree.nodes.iter().find(|node| node.id == id).map(|node| format!("{}/id", node.pointer));
        let detail = format!("The id {id} is that of another job, or was.");
        Err(Problem { id: Some(id), errors: field(pointer, &detail), ..Problem::new(Code::IdInUse, detail) }.into())
    }

    async fn look_up_dedupe_keys(&self, tree: &Tree, replaces: Option<uuid::Uuid>) -> Result<()> {
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
