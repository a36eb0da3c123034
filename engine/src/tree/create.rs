//! Creation of trees: validated as a whole, written together with concurrent ones, and safe to repeat.
//!
//! A tree is planned without the database, then handed to the flush. Unique keys in the database decide who gets an
//! Idempotency-Key, an id or a dedupe key; a tree that loses is answered from the tree that won. So one place reads
//! ([`Core::look`]), one place writes, and neither trusts the other.

mod lookup; // lookup of existing trees
mod mapping; // column mappings and edited rows of imports
mod rows; // rows of new trees
mod tree_validation; // validation of a requested tree, and its jobs in order
mod write; // transaction

use std::sync::Arc;

use domain::{
    Code, Document, Job, Problem,
    api::{NewItem, NewJob},
    dispatch::traceparent::Traceparent,
};
use uuid::Uuid;

use crate::{
    Core, Engine,
    access::caller::{Caller, Role, Scope},
    error::{Error, Result},
    notify::audit,
    store::{access::quotas::Usage, enqueue::idempotency::KeyName, import::uploads, notify::audit::AuditRow},
    task::in_task,
};

use lookup::Lookup;
pub use mapping::fit_head;
use tree_validation::Node;
use write::WriteOutcome;

pub(crate) use write::CreateBatch;

/// Call name under which keys of `POST /jobs` are stored.
const CALL: &str = "POST /jobs";

/// Number of attempts for a tree that lost to a competitor that has disappeared again.
const TRIES: usize = 5;

/// Requested tree.
#[derive(Clone, Debug)]
pub struct Creation {
    pub new: NewJob,
    /// Idempotency-Key, and the SHA-256 of the request body.
    pub key: Option<(String, [u8; 32])>,
    /// SHA-256 of the body without its id, if the client chose the root's id.
    pub body_hash: Option<[u8; 32]>,
    /// True if a type may require an Idempotency-Key.
    pub may_need_key: bool,
    /// Trace context of the request.
    pub traceparent: Option<Traceparent>,
}

/// Outcome of a creation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CreationOutcome {
    /// New tree.
    New(Uuid),
    /// Tree of an earlier request with the same key, not complete yet.
    InProgress(Uuid),
    /// Tree of an earlier request with the same key or id.
    Existing(Uuid),
}

impl CreationOutcome {
    /// Id of the root.
    pub const fn root_id(self) -> Uuid {
        match self {
            Self::New(id) | Self::InProgress(id) | Self::Existing(id) => id,
        }
    }
}

/// Planned tree, ready to be written.
pub(crate) struct Tree {
    owner_id: Uuid,
    nodes: Vec<Node>,
    body_hash: Option<Vec<u8>>,
    may_need_key: bool,
    /// Requesting credential, and true if it may see all owners' work.
    requester: (Uuid, bool),
    traceparent: Option<Traceparent>,
    /// Audit log entries: one if staff create the tree, and one for each file of another owner.
    audit_rows: Vec<AuditRow>,
}

impl Tree {
    fn root_id(&self) -> Uuid {
        self.nodes[0].id
    }
}

/// Idempotency-Key as requested.
struct RequestedKey {
    name: KeyName,
    fingerprint: Vec<u8>,
}

/// Tree with the key that will name it.
pub(crate) struct CreateCommand {
    tree: Arc<Tree>,
    key: Option<KeyToTake>,
}

/// Key to be taken.
struct KeyToTake {
    name: KeyName,
    fingerprint: Vec<u8>,
    from: KeyState,
}

/// Current meaning of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum KeyState {
    /// Unused key.
    Unused,
    /// Expired key; it named this tree, if any.
    Expired(Option<Uuid>),
    /// Key of a tree that failed or was canceled: the new tree replays it.
    Failed(Uuid),
}

impl Engine {
    /// Creates a tree for a page and returns the id of its root.
    pub async fn create_job(&self, caller: &Caller, new: NewJob, traceparent: Option<Traceparent>) -> Result<Uuid> {
        let creation = Creation { new, key: None, body_hash: None, may_need_key: false, traceparent };
        Ok(self.create_tree(caller, creation).await?.0.root_id())
    }

    /// Refuses a tree with a document over the size limit, before anything else is done with its body.
    pub fn check_sizes(&self, new: &NewJob) -> Result<(), Problem> {
        let core = &self.0.core;
        let mut open = vec![(new, String::new())];
        while let Some((job, pointer)) = open.pop() {
            core.check_document_size(job.metadata.as_ref(), || format!("{pointer}/metadata"))?;
            core.check_document_size(job.feed.as_ref(), || format!("{pointer}/feed"))?;
            core.check_documents_size(&job.items, || format!("{pointer}/items"))?;
            open.extend(job.children.iter().enumerate().map(|(n, child)| (child, format!("{pointer}/children/{n}"))));
        }
        Ok(())
    }

    /// Same as `check_sizes`, for items.
    pub fn check_item_sizes(&self, items: &[NewItem]) -> Result<(), Problem> {
        self.0.core.check_documents_size(items, String::new)
    }

    /// Same as [`Engine::check_item_sizes`], for a single payload.
    pub fn check_payload_size(&self, payload: Option<&Document>) -> Result<(), Problem> {
        self.0.core.check_document_size(payload, || "/payload".to_owned())
    }

    /// Creates a tree, or finds the tree that an earlier request with the same key or id created (`dedupe-key`,
    /// `idempotency-key`). Returns the tree too if it was already read.
    pub async fn create_tree(
        &self,
        caller: &Caller,
        creation: Creation,
    ) -> Result<(CreationOutcome, Option<Box<Job>>)> {
        caller.require(Scope::JobsWrite)?;
        let core = &self.0.core;
        let Creation { new, key, body_hash, may_need_key, traceparent } = creation;
        let requested_key = key.map(|(key, fingerprint)| RequestedKey {
            name: KeyName { owner_id: caller.owner_id, scope: new.initiated_by.clone().unwrap_or_default(), key },
            fingerprint: fingerprint.to_vec(),
        });
        let _key_guard = match &requested_key {
            Some(requested_key) => Some(core.key_locks.take(&requested_key.name).await),
            None => None,
        };
        // Before the body is validated: an accepted request gets its answer again, whatever has changed since.
        let mut take = match &requested_key {
            Some(requested_key) => match core.look_up_key(requested_key).await? {
                Lookup::Exists(made) => return Ok((made, None)),
                Lookup::Free(take) => take,
            },
            None => None,
        };
        let nodes = self.planned_tree(caller, new).await?;
        let tree = Arc::new(Tree {
            owner_id: caller.owner_id,
            audit_rows: self.audit_rows(caller, &nodes).await?,
            nodes,
            body_hash: body_hash.map(|hash| hash.to_vec()),
            may_need_key,
            traceparent,
            requester: (caller.credential_id, caller.sees_all()),
        });
        // A file has at least one row.
        let items =
            tree.nodes.iter().map(|node| node.new.items.len() as i64 + i64::from(node.new.upload.is_some())).sum();
        let _taken = match core.quotas.take(caller.owner_id, Usage { trees: 1, items, bytes: 0 }).await {
            Ok(taken) => taken,
            // An accepted request gets its answer again, whatever the owner's usage is by now.
            Err(refused) => {
                return match core.look_up(&tree, requested_key.as_ref()).await? {
                    Lookup::Exists(made) => Ok((made, None)),
                    Lookup::Free(_) => Err(refused),
                };
            }
        };
        for _ in 0..TRIES {
            let command = CreateCommand { tree: Arc::clone(&tree), key: take };
            if let WriteOutcome::Tree(made) = self.0.creations.run(command).await? {
                return Ok((CreationOutcome::New(tree.root_id()), made));
            }
            take = match core.look_up(&tree, requested_key.as_ref()).await? {
                Lookup::Exists(made) => return Ok((made, None)),
                Lookup::Free(take) => take,
            };
        }
        Err(Error::Broken("a tree lost to something that was gone each time".to_owned()))
    }

    /// Refuses a tree as its creation would, without creating it. Keys in use are not refused.
    pub(crate) async fn check_tree(&self, caller: &Caller, new: NewJob) -> Result<()> {
        caller.require(Scope::JobsWrite)?;
        let nodes = self.planned_tree(caller, new).await?;
        let tree = Arc::new(Tree {
            owner_id: caller.owner_id,
            nodes,
            body_hash: None,
            may_need_key: false,
            traceparent: None,
            requester: (caller.credential_id, caller.sees_all()),
            audit_rows: Vec::new(),
        });
        let core = Arc::clone(&self.0.core);
        // In its own task: a client that disconnects cannot leave a transaction open.
        in_task("checking a tree", async move { write::check(&core, CreateCommand { tree, key: None }).await }).await
    }

    /// Plans the tree and reads the heads of its files.
    async fn planned_tree(&self, caller: &Caller, new: NewJob) -> Result<Vec<Node>> {
        let core = &self.0.core;
        if let Some(name) = self.unknown_type(&new) {
            self.types().find(&name).await?;
        }
        let mut nodes = tree_validation::validated_tree(new, &|name| core.types.get(name), &core.callbacks)?;
        for node in &mut nodes {
            if let Some(upload) = node.new.upload.clone() {
                refuse_role(caller, node)?;
                let head =
                    crate::import::upload_head::read_head(&core.pools.read, &core.files, &core.quotas, caller, &upload)
                        .await?;
                let (mapping, schema) = (node.new.mapping.clone(), node.info.payload_schema.as_deref());
                let head = fit_head(head, mapping, &node.new.edits, schema, &node.pointer)?;
                node.head = Some((upload, head));
            }
        }
        Ok(nodes)
    }

    /// Audit log entries for the creation of a tree. A caller who sees all work can create it from another owner's file,
    /// all of whose rows are then in the caller's own job.
    async fn audit_rows(&self, caller: &Caller, nodes: &[Node]) -> Result<Vec<AuditRow>> {
        let mut rows: Vec<AuditRow> = audit_row(caller, nodes).into_iter().collect();
        let files = nodes.iter().filter_map(|node| Some((node.id, node.head.as_ref()?.0.id)));
        for (job_id, file) in files.filter(|_| caller.sees_all()) {
            let owner_id = uploads::owner(&self.0.core.pools.read, file).await?;
            if let Some(owner_id) = owner_id.filter(|owner_id| *owner_id != caller.owner_id) {
                let row = AuditRow { owner_id: Some(owner_id), ..AuditRow::by(caller, "upload.read") };
                rows.push(row.with_detail(format!("upload {file}, for the job {job_id}")));
            }
        }
        Ok(rows)
    }

    /// First type in a tree that is not in this server's cache.
    fn unknown_type(&self, job: &NewJob) -> Option<String> {
        if self.types().get(&job.job_type).is_none() {
            return Some(job.job_type.clone());
        }
        job.children.iter().find_map(|child| self.unknown_type(child))
    }

    /// Deletes expired Idempotency-Keys; returns their number.
    pub async fn sweep_idempotency(&self) -> Result<usize> {
        const BATCH: i64 = 500;
        let swept = crate::store::enqueue::idempotency::sweep(&self.0.core.pools.read, BATCH).await?;
        Ok(usize::try_from(swept).unwrap_or(usize::MAX))
    }
}

/// Audit log entry for a tree created by staff. Trees that services and users create are not logged.
fn audit_row(caller: &Caller, nodes: &[Node]) -> Option<AuditRow> {
    let root = nodes.first().filter(|_| caller.role.is_some() && caller.sees_all())?;
    let items: usize = nodes.iter().map(|node| node.new.items.len()).sum();
    let named = root.new.name.as_ref().map(|name| format!(" {name:?}")).unwrap_or_default();
    let plural = |n: usize, word: &str| format!("{n} {word}{}", if n == 1 { "" } else { "s" });
    let (jobs, items) = (plural(nodes.len(), "job"), plural(items, "item"));
    let row = audit::row(caller, "job.create", caller.owner_id, None)?;
    Some(row.with_detail(format!("{}{named}: {jobs}, {items}", root.info.name)).about(root.id, root.id, None))
}

/// Refuses people whose role may not import files of the type.
fn refuse_role(caller: &Caller, node: &Node) -> Result<(), Problem> {
    let import = &node.info.import;
    if import.admits(caller.role.map(Role::as_str)) {
        return Ok(());
    }
    let roles = import.roles.as_deref().unwrap_or_default().join(", ");
    let roles = if roles.is_empty() { "none".to_owned() } else { roles };
    let detail = format!("Your role may not import files of the type {}. Roles that may: {roles}.", node.info.name);
    Err(Problem::new(Code::Forbidden, detail))
}
