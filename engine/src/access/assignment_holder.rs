//! Holders of assignments: credentials of workers, and those of the executors of Treeline itself, which no token has.

use std::sync::Arc;

use uuid::Uuid;

use crate::access::caller::Caller;

/// Credential of the builtin executor.
pub(crate) const BUILTIN: Uuid = Uuid::from_u128(0x0000_b017_1000_7000_8000_0000_0000_0001);

/// Credential of push delivery.
pub(crate) const PUSH: Uuid = Uuid::from_u128(0x0000_b017_1000_7000_8000_0000_0000_0002);

/// Credential that ends an assignment, and the types that its token may work on; `None` means all.
#[derive(Clone, Debug)]
pub(crate) struct Holder {
    pub(crate) credential_id: Uuid,
    pub(crate) types: Option<Arc<Vec<String>>>,
}

impl Holder {
    pub(crate) fn of(caller: &Caller) -> Self {
        Self { credential_id: caller.credential_id, types: caller.work_types.clone().map(Arc::new) }
    }

    /// Same rights, as holder of pushed assignments.
    pub(crate) fn as_push_executor(&self) -> Self {
        Self { credential_id: PUSH, types: self.types.clone() }
    }
}
