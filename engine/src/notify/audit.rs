//! Rules for audit log entries and required reasons.
//!
//! Separate from the actions, so that all of them agree. Actions on another owner's work require a reason and are
//! recorded, whoever acts. On one's own work, a person's actions are recorded, a service's only if it gives a reason.
//! Entries are written in the action's transaction.

use std::sync::Arc;

use domain::{
    Code, Problem,
    identity::audit::{AuditEntry, LONGEST_REASON},
    limits::is_text,
};
use uuid::Uuid;

use crate::{
    Engine,
    access::caller::{Caller, Scope},
    error::Result,
    store::{
        notify::audit::{self, AuditQuery, AuditRow},
        operator::item_changes,
        tree::definitions::JobInfo,
    },
};

/// Reason to record for an action on this owner's work; blank counts as none. Returns 422 `reason_required` if there is
/// none and the work belongs to someone else.
pub fn reason_for(caller: &Caller, owner_id: Uuid, reason: Option<&str>) -> Result<Option<String>, Problem> {
    let reason = reason.map(str::trim).filter(|reason| !reason.is_empty());
    if reason.is_some_and(|reason| !is_text(reason, 1, LONGEST_REASON)) {
        let detail = format!("expected at most {LONGEST_REASON} characters");
        return Err(Problem::invalid_body([("/reason".to_owned(), detail)]));
    }
    if reason.is_none() && caller.owner_id != owner_id {
        return Err(Problem::new(
            Code::ReasonRequired,
            "This is somebody else's work: say why, as `reason`. It is kept in the audit log.",
        ));
    }
    Ok(reason.map(str::to_owned))
}

/// Audit log row for an action on this owner's work; `None` if it is not recorded. `action` is the object and the verb:
/// `job.delete`, `item.retry`.
pub fn row(caller: &Caller, action: &'static str, owner_id: Uuid, reason: Option<&str>) -> Option<AuditRow> {
    let recorded = caller.owner_id != owner_id || caller.role.is_some() || reason.is_some();
    recorded.then(|| AuditRow {
        owner_id: Some(owner_id),
        reason: reason.map(str::to_owned),
        ..AuditRow::by(caller, action)
    })
}

impl Engine {
    /// Job with this id, without a visibility check, for the log.
    pub async fn any_job(&self, id: Uuid) -> Result<Option<Arc<JobInfo>>> {
        let core = &self.0.core;
        Ok(core.jobs.by_id(&core.pools.read, id).await?)
    }

    /// Job of this item, without a visibility check, for the log.
    pub async fn any_job_of_item(&self, id: Uuid) -> Result<Option<Arc<JobInfo>>> {
        let core = &self.0.core;
        let Some(item) = item_changes::items(&core.pools.read, &[id]).await?.pop() else { return Ok(None) };
        Ok(core.jobs.by_job_keys(&core.pools.read, [item.job_key]).await?.remove(&item.job_key))
    }

    /// Audit log entries, newest first: all of them for staff, those about their own work for others.
    pub async fn audit(&self, caller: &Caller, query: AuditQuery) -> Result<Vec<AuditEntry>> {
        caller.require(Scope::JobsRead)?;
        let owner_id = caller.visible_owner();
        Ok(audit::list(self.0.core.pools.reads().await, &AuditQuery { owner_id, ..query }).await?)
    }
}

#[cfg(test)]
mod tests {
    use domain::job::OwnerKind;

    use super::*;
    use crate::access::caller::Role;

    fn caller(role: Option<Role>) -> Caller {
        Caller {
            owner_id: Uuid::from_u128(1),
            kind: if role.is_some() { OwnerKind::User } else { OwnerKind::Service },
            name: "ann".to_owned(),
            role,
            scopes: vec![Scope::Admin],
            credential_id: Uuid::nil(),
            work_types: None,
            must_change_password: false,
            enrolls: false,
            proxy_user: None,
            address: None,
        }
    }

    #[test]
    fn a_reason_is_required_for_the_work_of_others() {
        let (own, other) = (Uuid::from_u128(1), Uuid::from_u128(2));
        let ann = caller(Some(Role::Admin));
        assert_eq!(reason_for(&ann, own, None).expect("none needed"), None);
        assert_eq!(reason_for(&ann, other, Some("  a wish ")).expect("given").as_deref(), Some("a wish"));
        assert_eq!(reason_for(&ann, other, Some(" \n")).expect_err("blank").code, Code::ReasonRequired);
        assert_eq!(reason_for(&ann, own, Some(&"a".repeat(2_001))).expect_err("long").code, Code::InvalidBody);
    }

    #[test]
    fn a_service_acting_on_its_own_work_is_not_recorded() {
        let (own, other) = (Uuid::from_u128(1), Uuid::from_u128(2));
        assert!(row(&caller(None), "job.delete", own, None).is_none());
        assert!(row(&caller(None), "job.delete", own, Some("why")).is_some());
        assert!(row(&caller(None), "job.delete", other, None).is_some());
        assert!(row(&caller(Some(Role::User)), "job.delete", own, None).is_some());
    }
}
