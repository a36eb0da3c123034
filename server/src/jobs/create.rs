//! New trees: checked as a whole, written with others that arrive at the same time, safe to ask for again.
//!
//! A tree is planned without the database, then handed to the flush. What it takes that can be taken
//! only once (an Idempotency-Key, an id, a dedupe key) is decided by the unique keys there; a tree that
//! loses comes back, and is answered by what has won. So there is one place that looks ([`Core::look`])
//! and one that writes, and neither trusts the other.

mod look; // what is there already
mod plan; // the tree as it was asked for
mod rows; // the rows of new trees
mod turns; // one request a key at a time
mod write; // the transaction

use std::sync::Arc;

use domain::{
    Code, Document, Job, Problem,
    api::{NewItem, NewJob},
};
use uuid::Uuid;

use crate::{
    auth::{Caller, Scope},
    error::{Error, Result},
    store::{audit::AuditRow, idempotency::KeyName, quotas::Usage},
};

use super::{Core, Engine, audit};
use look::Standing;
use plan::Node;
use write::Wrote;

pub use turns::Turn;
pub(super) use turns::Turns;
pub(super) use write::CreateBatch;

/// What keys of `POST /jobs` are used for.
const CALL: &str = "POST /jobs";

/// How often a tree that lost to something that is gone again is tried.
const TRIES: usize = 5;

/// A tree that is asked for.
#[derive(Clone, Debug)]
pub struct Creation {
    pub new: NewJob,
    /// The Idempotency-Key, and the SHA-256 of the body it came with.
    pub key: Option<(String, [u8; 32])>,
    /// SHA-256 of the body without its id, where the client names the root's id.
    pub body_hash: Option<[u8; 32]>,
    /// Types may insist on an Idempotency-Key.
    pub may_need_key: bool,
}

/// What came of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Made {
    /// A new tree.
    New(Uuid),
    /// The tree of an earlier request with the same key, not complete.
    UnderWay(Uuid),
    /// The tree of an earlier request with the same key or id.
    Already(Uuid),
}

impl Made {
    /// The root.
    pub const fn root_id(self) -> Uuid {
        match self {
            Self::New(id) | Self::UnderWay(id) | Self::Already(id) => id,
        }
    }
}

/// A tree on its way into the tables.
pub(super) struct Tree {
    owner_id: Uuid,
    nodes: Vec<Node>,
    body_hash: Option<Vec<u8>>,
    may_need_key: bool,
    /// The credential that asks, and whether it sees everybody's work.
    asked: (Uuid, bool),
    /// What the log says of it: staff who make trees are in it.
    deed: Option<AuditRow>,
}

impl Tree {
    fn root_id(&self) -> Uuid {
        self.nodes[0].id
    }
}

/// A key as a request brings it.
struct Asked {
    name: KeyName,
    fingerprint: Vec<u8>,
}

/// A tree with the key that is to name it.
pub(super) struct CreateCommand {
    tree: Arc<Tree>,
    key: Option<Take>,
}

/// A key to be taken.
struct Take {
    name: KeyName,
    fingerprint: Vec<u8>,
    from: Before,
}

/// What the key means until now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Before {
    /// Nobody has it.
    Nobody,
    /// It has lapsed; it named this tree, if any.
    Lapsed(Option<Uuid>),
    /// It names a tree that failed or was cancelled: the new one replays it.
    Failed(Uuid),
}

impl Engine {
    /// Creates a tree for a page and returns its root's id.
    pub async fn create_job(&self, caller: &Caller, new: NewJob) -> Result<Uuid> {
        let creation = Creation { new, key: None, body_hash: None, may_need_key: false };
        Ok(self.create_tree(caller, creation).await?.0.root_id())
    }

    /// Refuses a tree that brings too large a document, before anything is made of its body.
    pub fn check_sizes(&self, new: &NewJob) -> Result<(), Problem> {
        let core = &self.0.core;
        let mut open = vec![(new, String::new())];
        while let Some((job, pointer)) = open.pop() {
            core.fits(job.metadata.as_ref(), || format!("{pointer}/metadata"))?;
            core.fits(job.feed.as_ref(), || format!("{pointer}/feed"))?;
            core.fit(&job.items, || format!("{pointer}/items"))?;
            open.extend(job.children.iter().enumerate().map(|(n, child)| (child, format!("{pointer}/children/{n}"))));
        }
        Ok(())
    }

    /// The same for items, and for a payload that is given anew.
    pub fn check_item_sizes(&self, items: &[NewItem]) -> Result<(), Problem> {
        self.0.core.fit(items, String::new)
    }

    /// See [`Engine::check_item_sizes`].
    pub fn check_payload_size(&self, payload: Option<&Document>) -> Result<(), Problem> {
        self.0.core.fits(payload, || "/payload".to_owned())
    }

    /// Creates a tree, or finds the one that an earlier request with the same key or id has made
    /// (`dedupe-key`, `idempotency-key`). With the tree, where it was read already.
    pub async fn create_tree(&self, caller: &Caller, creation: Creation) -> Result<(Made, Option<Box<Job>>)> {
        caller.require(Scope::JobsWrite)?;
        let core = &self.0.core;
        let Creation { new, key, body_hash, may_need_key } = creation;
        let asked = key.map(|(key, fingerprint)| Asked {
            name: KeyName { owner_id: caller.owner_id, scope: new.initiated_by.clone().unwrap_or_default(), key },
            fingerprint: fingerprint.to_vec(),
        });
        let _turn = match &asked {
            Some(asked) => Some(core.turns.take(&asked.name).await),
            None => None,
        };
        // Before the body is looked at: what was accepted once is answered, whatever has changed since.
        let mut take = match &asked {
            Some(asked) => match core.look_at_key(asked).await? {
                Standing::There(made) => return Ok((made, None)),
                Standing::Free(take) => take,
            },
            None => None,
        };
        let nodes = self.plan(caller, new).await?;
        let tree = Arc::new(Tree {
            owner_id: caller.owner_id,
            deed: deed(caller, &nodes),
            nodes,
            body_hash: body_hash.map(|hash| hash.to_vec()),
            may_need_key,
            asked: (caller.credential_id, caller.sees_all()),
        });
        let items = tree.nodes.iter().map(|node| node.new.items.len() as i64).sum();
        let _taken = match core.quotas.take(caller.owner_id, Usage { trees: 1, items, bytes: 0 }).await {
            Ok(taken) => taken,
            // A request that was accepted once is answered again, whatever the owner has by now.
            Err(refused) => {
                return match core.look(&tree, asked.as_ref()).await? {
                    Standing::There(made) => Ok((made, None)),
                    Standing::Free(_) => Err(refused),
                };
            }
        };
        for _ in 0..TRIES {
            let command = CreateCommand { tree: Arc::clone(&tree), key: take };
            if let Wrote::Tree(made) = self.0.creations.run(command).await? {
                return Ok((Made::New(tree.root_id()), made));
            }
            take = match core.look(&tree, asked.as_ref()).await? {
                Standing::There(made) => return Ok((made, None)),
                Standing::Free(take) => take,
            };
        }
        Err(Error::Broken("a tree lost to something that was gone each time".to_owned()))
    }

    /// The tree laid out, with the heads of its files.
    async fn plan(&self, caller: &Caller, new: NewJob) -> Result<Vec<Node>> {
        let core = &self.0.core;
        if let Some(name) = self.unknown_type(&new) {
            self.types().find(&name).await?;
        }
        let mut nodes = plan::plan(new, &|name| core.types.get(name), &core.callbacks)?;
        for node in &mut nodes {
            if let Some(upload) = node.new.upload.clone() {
                let head = crate::uploads::read_head(&core.pools.read, &core.files, caller, &upload).await?;
                node.head = Some((upload, head));
            }
        }
        Ok(nodes)
    }

    /// The first type in a tree that this server has not heard of.
    fn unknown_type(&self, job: &NewJob) -> Option<String> {
        if self.types().get(&job.job_type).is_none() {
            return Some(job.job_type.clone());
        }
        job.children.iter().find_map(|child| self.unknown_type(child))
    }

    /// Removes Idempotency-Keys that have lapsed; returns how many.
    pub async fn sweep_idempotency(&self) -> Result<usize> {
        const BATCH: i64 = 500;
        let swept = crate::store::idempotency::sweep(&self.0.core.pools.read, BATCH).await?;
        Ok(usize::try_from(swept).unwrap_or(usize::MAX))
    }
}

/// The entry of a tree that a member of staff makes. What services and users make of their own is their work.
fn deed(caller: &Caller, nodes: &[Node]) -> Option<AuditRow> {
    let root = nodes.first().filter(|_| caller.role.is_some() && caller.sees_all())?;
    let items: usize = nodes.iter().map(|node| node.new.items.len()).sum();
    let named = root.new.name.as_ref().map(|name| format!(" {name:?}")).unwrap_or_default();
    let plural = |n: usize, word: &str| format!("{n} {word}{}", if n == 1 { "" } else { "s" });
    let (jobs, items) = (plural(nodes.len(), "job"), plural(items, "item"));
    let row = audit::row(caller, "job.create", caller.owner_id, None)?;
    Some(row.with_detail(format!("{}{named}: {jobs}, {items}", root.info.name)).about(root.id, root.id, None))
}

/// 422: the key stands for something else.
pub(super) fn reused() -> Problem {
    Problem::new(
        Code::IdempotencyKeyReused,
        "This Idempotency-Key was used with another body or for another call. Use a new key for a new request.",
    )
}
