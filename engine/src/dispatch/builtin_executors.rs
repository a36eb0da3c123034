//! Executors of Treeline itself: the builtin one, and push delivery to workers.
//!
//! They claim and end like any worker, with credentials that no token has. Others may end a pushed assignment: its
//! worker answers 202 and later reports the outcome with its own token. The pushed id carries a capability, which
//! proves that the worker received it: with it, any token that may work on the type counts as the holder; without it,
//! none does.

use std::{
    collections::{BTreeMap, HashMap},
    sync::{PoisonError, RwLock},
};

use domain::{
    Problem,
    api::Ended,
    dispatch::{
        assignment::{AssignmentId, lease_seconds},
        waiting_reason::WaitingReason,
    },
    job::OwnerKind,
    job_type::{ExecutorKind, PUSH_TIMEOUT_SECONDS},
};
use sqlx::PgExecutor;
use tokio::sync::oneshot;
use uuid::Uuid;

use crate::{
    Core, Engine,
    access::{
        assignment_holder::{BUILTIN, Holder, PUSH},
        caller::{Caller, Scope},
    },
    ending_batch::EndCommand,
    error::Result,
    store::{dispatch::push_assignments, tree::definitions::TypeInfo},
};

/// Lease time of the builtin executor: it ends a batch within milliseconds unless its server has died, and in that case
/// the last rows of a file should not wait three minutes.
const BUILTIN_LEASE_SECONDS: f64 = 15.0;

/// Lease time of an assignment of this type, in seconds.
pub(crate) fn lease_of(info: &TypeInfo) -> f64 {
    match info.executor.kind {
        ExecutorKind::Builtin => BUILTIN_LEASE_SECONDS,
        ExecutorKind::Push => info.executor.timeout_seconds.unwrap_or(PUSH_TIMEOUT_SECONDS),
        ExecutorKind::Pull => lease_seconds(info.heartbeat_seconds),
    }
}

/// True if this credential may claim items of a type with this executor.
pub(crate) fn may_claim(kind: ExecutorKind, credential_id: Uuid) -> bool {
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

impl Core {
    /// True if the id carries the assignment's capability, which only its worker received.
    fn has_valid_capability(&self, id: AssignmentId) -> bool {
        id.capability.is_some_and(|capability| self.assignment_key.is_capability(id.id, &capability))
    }

    /// True if the outcome of the assignment may be revealed; for a pushed one this requires its capability.
    pub(crate) fn may_see_outcome(&self, pushed: bool, id: AssignmentId, credential_id: Uuid) -> bool {
        !pushed || credential_id == PUSH || self.has_valid_capability(id)
    }

    /// Keys of those assignments that were pushed, are open, and may be ended by this holder, in order.
    ///
    /// Ids without the right capability are left out. If no id has one, the database is not queried.
    pub(crate) async fn open_push_assignments<K>(
        &self,
        executor: impl PgExecutor<'_>,
        candidates: impl IntoIterator<Item = (K, AssignmentId, &Holder)>,
    ) -> Result<Vec<K>> {
        let candidates: Vec<(K, AssignmentId, &Holder)> =
            candidates.into_iter().filter(|&(_, id, _)| self.has_valid_capability(id)).collect();
        if candidates.is_empty() {
            return Ok(Vec::new());
        }
        let assignment_ids: Vec<Uuid> = candidates.iter().map(|(_, id, _)| id.id).collect();
        let open: HashMap<Uuid, i32> =
            push_assignments::open_of(executor, &assignment_ids, PUSH).await?.into_iter().collect();
        let may_end = |id: AssignmentId, holder: &Holder| {
            let info = open.get(&id.id).and_then(|&type_id| self.types.by_id(type_id));
            info.is_some_and(|info| holder.types.as_ref().is_none_or(|types| types.contains(&info.name)))
        };
        Ok(candidates.into_iter().filter(|&(_, id, holder)| may_end(id, holder)).map(|(key, ..)| key).collect())
    }

    /// Indexes of the first unanswered ending per pushed assignment whose holder may end it. Endings without the
    /// capability do not block later ones that have it.
    pub(crate) async fn open_push_endings(
        &self,
        executor: impl PgExecutor<'_>,
        commands: &[&EndCommand],
        answers: &[Option<Result<Ended, Problem>>],
    ) -> Result<BTreeMap<Uuid, usize>> {
        let left = commands.iter().zip(answers).enumerate().filter(|(_, (_, answer))| answer.is_none());
        let left = left.map(|(at, (command, _))| {
            (at, AssignmentId { id: command.assignment_id, capability: command.capability }, &command.holder)
        });
        let mut first = BTreeMap::new();
        for at in self.open_push_assignments(executor, left).await? {
            first.entry(commands[at].assignment_id).or_insert(at);
        }
        Ok(first)
    }

    /// True if items of this type are pushed to a worker.
    pub(crate) fn is_pushed(&self, type_id: i32) -> bool {
        self.types.by_id(type_id).is_some_and(|info| info.executor.kind == ExecutorKind::Push)
    }
}

impl Engine {
    /// Caller as which the builtin executor claims.
    pub fn builtin_caller() -> Caller {
        caller(BUILTIN)
    }

    /// Caller as which push delivery claims.
    pub fn push_caller() -> Caller {
        caller(PUSH)
    }

    /// Id of a pushed assignment as sent to its worker, including the capability that ends it.
    pub fn pushed_id(&self, id: Uuid) -> AssignmentId {
        AssignmentId { id, capability: self.0.core.assignment_key.capability(id) }
    }

    /// Registers a waiter for items of these types; resolves when there may be some. Register before querying, so that
    /// no wake-up is lost.
    pub fn register_waiter(&self, types: &[i32]) -> oneshot::Receiver<()> {
        self.0.core.waiters.wait(types)
    }

    /// Replaces the set of types whose push targets this server pauses, with the reasons.
    pub fn set_unreachable_targets(&self, holds: HashMap<i32, WaitingReason>) {
        *self.0.core.unreachable_targets.0.write().unwrap_or_else(PoisonError::into_inner) = holds;
    }
}

/// Types whose target did not answer this server.
#[derive(Debug, Default)]
pub(crate) struct UnreachableTargets(RwLock<HashMap<i32, WaitingReason>>);

impl UnreachableTargets {
    pub(crate) fn waiting_reason(&self, type_id: i32) -> Option<WaitingReason> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).get(&type_id).cloned()
    }
}
