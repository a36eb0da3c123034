//! Executors that are Treeline's own: what is built in, and posts to workers.
//!
//! They claim and end like any worker, under credentials that no token has. What was posted may be ended by
//! others: the worker that got it answers 202 and says later what came of it, with a token of its own. The
//! id that was posted carries a capability, which proves that the worker got it: with it, any token that may work on
//! the type is the holder, and without it none.

use std::{
    collections::{BTreeMap, HashMap},
    sync::{Arc, PoisonError, RwLock},
};

use domain::{
    Problem,
    api::Ended,
    assignment::{AssignmentId, lease_seconds},
    hold::Hold,
    job::OwnerKind,
    job_type::{ExecutorKind, PUSH_TIMEOUT_SECONDS},
};
use sqlx::PgExecutor;
use tokio::sync::oneshot;
use uuid::Uuid;

use crate::{
    auth::{Caller, Scope},
    error::Result,
    store::{contracts::TypeInfo, posted},
};

use super::{Core, Engine, ending::EndCommand};

/// The credential of the executors that are built in.
const BUILTIN: Uuid = Uuid::from_u128(0x0000_b017_1000_7000_8000_0000_0000_0001);

/// The credential of posts to workers.
pub(super) const PUSH: Uuid = Uuid::from_u128(0x0000_b017_1000_7000_8000_0000_0000_0002);

/// How long an executor that is built in holds an item: it ends a batch within milliseconds, or its
/// server has died, and then nobody should have to wait three minutes for the last rows of a file.
const BUILTIN_LEASE_SECONDS: f64 = 15.0;

/// How long an assignment of this type is held without a sign of life.
pub(super) fn lease_of(info: &TypeInfo) -> f64 {
    match info.executor.kind {
        ExecutorKind::Builtin => BUILTIN_LEASE_SECONDS,
        ExecutorKind::Push => info.executor.timeout_seconds.unwrap_or(PUSH_TIMEOUT_SECONDS),
        ExecutorKind::Pull => lease_seconds(info.heartbeat_seconds),
    }
}

/// Whether items of a type with this executor are this credential's to claim.
pub(super) fn may_claim(kind: ExecutorKind, credential_id: Uuid) -> bool {
    match kind {
        ExecutorKind::Pull => true,
        ExecutorKind::Builtin => credential_id == BUILTIN,
        ExecutorKind::Push => credential_id == PUSH,
    }
}

fn caller(credential_id: Uuid) -> Caller {
    Caller {
        owner_id: credential_id,
        kind: OwnerKind::Service,
        name: "treeline".to_owned(),
        role: None,
        scopes: vec![Scope::Work],
        credential_id,
        work_types: None,
        must_change_password: false,
        enrolls: false,
        proxy_user: None,
        address: None,
    }
}

/// Who ends an assignment, and which types their token may work on; `None` is all.
#[derive(Clone, Debug)]
pub(super) struct Holder {
    pub(super) credential_id: Uuid,
    types: Option<Arc<Vec<String>>>,
}

impl Holder {
    pub(super) fn of(caller: &Caller) -> Self {
        Self { credential_id: caller.credential_id, types: caller.work_types.clone().map(Arc::new) }
    }

    /// The same rights, with what was posted in hand.
    pub(super) fn of_posted(&self) -> Self {
        Self { credential_id: PUSH, types: self.types.clone() }
    }
}

impl Core {
    /// True if an id has the capability of the assignment, as only its worker was told it.
    fn proves(&self, id: AssignmentId) -> bool {
        id.capability.is_some_and(|capability| self.assignment_key.is_capability(id.id, &capability))
    }

    /// True if what became of an assignment may be told: of one that was pushed, to nobody without its capability.
    pub(super) fn may_know(&self, pushed: bool, id: AssignmentId, credential_id: Uuid) -> bool {
        !pushed || credential_id == PUSH || self.proves(id)
    }

    /// Of these assignments, those that were pushed, are open, and may be ended by this holder: their keys, in order.
    ///
    /// An id without the right capability is none of them. Where no id has one, nothing is asked of the database.
    pub(super) async fn lent<K>(
        &self,
        executor: impl PgExecutor<'_>,
        asked: impl IntoIterator<Item = (K, AssignmentId, &Holder)>,
    ) -> Result<Vec<K>> {
        let asked: Vec<(K, AssignmentId, &Holder)> = asked.into_iter().filter(|&(_, id, _)| self.proves(id)).collect();
        if asked.is_empty() {
            return Ok(Vec::new());
        }
        let fences: Vec<Uuid> = asked.iter().map(|(_, id, _)| id.id).collect();
        let open: HashMap<Uuid, i32> = posted::open_of(executor, &fences, PUSH).await?.into_iter().collect();
        let may_end = |id: AssignmentId, holder: &Holder| {
            let info = open.get(&id.id).and_then(|&type_id| self.types.by_id(type_id));
            info.is_some_and(|info| holder.types.as_ref().is_none_or(|types| types.contains(&info.name)))
        };
        Ok(asked.into_iter().filter(|&(_, id, holder)| may_end(id, holder)).map(|(key, ..)| key).collect())
    }

    /// Of the endings without an answer, the first for each pushed assignment that its holder may end: by assignment, the
    /// place of the command. One without the capability does not stand in the way of one that has it.
    pub(super) async fn lent_endings(
        &self,
        executor: impl PgExecutor<'_>,
        commands: &[&EndCommand],
        answers: &[Option<Result<Ended, Problem>>],
    ) -> Result<BTreeMap<Uuid, usize>> {
        let left = commands.iter().zip(answers).enumerate().filter(|(_, (_, answer))| answer.is_none());
        let left = left.map(|(at, (command, _))| {
            (at, AssignmentId { id: command.fence, capability: command.capability }, &command.holder)
        });
        let mut first = BTreeMap::new();
        for at in self.lent(executor, left).await? {
            first.entry(commands[at].fence).or_insert(at);
        }
        Ok(first)
    }

    /// Whether items of this type are posted to somebody.
    pub(super) fn is_posted(&self, type_id: i32) -> bool {
        self.types.by_id(type_id).is_some_and(|info| info.executor.kind == ExecutorKind::Push)
    }
}

impl Engine {
    /// Who the executors that are built in claim as.
    pub fn builtin_caller() -> Caller {
        caller(BUILTIN)
    }

    /// Who posts to workers claim as.
    pub fn push_caller() -> Caller {
        caller(PUSH)
    }

    /// The id of a pushed assignment as its worker is told: with the capability that ends it.
    pub fn pushed_id(&self, id: Uuid) -> AssignmentId {
        AssignmentId { id, capability: self.0.core.assignment_key.capability(id) }
    }

    /// A place in the line of those who wait for items of these types: resolves when there may be some. Taken
    /// before looking, it misses nothing.
    pub fn line(&self, types: &[i32]) -> oneshot::Receiver<()> {
        self.0.core.waiters.wait(types)
    }

    /// Which types' targets this server leaves alone for a while, and why. Replaces what was said before.
    pub fn targets_away(&self, holds: HashMap<i32, Hold>) {
        *self.0.core.away.0.write().unwrap_or_else(PoisonError::into_inner) = holds;
    }
}

/// Types whose target does not answer, by what this server has seen.
#[derive(Debug, Default)]
pub(super) struct Away(RwLock<HashMap<i32, Hold>>);

impl Away {
    pub(super) fn hold(&self, type_id: i32) -> Option<Hold> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).get(&type_id).cloned()
    }
}
