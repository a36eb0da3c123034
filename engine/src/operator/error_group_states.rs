//! States of error groups (`error-group-states`): people mute, resolve and reopen them; failures and time open them.

use domain::{
    Time,
    api::{ErrorGroup, ErrorGroupPatch, GroupState},
    query::topic::Topic,
};
use time::OffsetDateTime;

use crate::{
    Engine,
    access::caller::{Caller, Scope},
    error::Result,
    query::{no_group, require_staff},
    store::{
        notify::audit::{self, AuditRow},
        operator::error_group_states,
        query::error_groups,
    },
    task::in_task,
};

impl Engine {
    /// Mutes, resolves or reopens an error group, over all owners. Returns the group. Staff only.
    pub async fn change_error_group(
        &self,
        caller: &Caller,
        job_type: &str,
        fingerprint: &str,
        patch: ErrorGroupPatch,
    ) -> Result<ErrorGroup> {
        caller.require(Scope::JobsWrite)?;
        require_staff(caller)?;
        let patch = patch.checked(Time(OffsetDateTime::now_utc()))?;
        let type_id = self.type_of_group(job_type).await?;
        let pool = &self.0.core.pools.read;
        let group = error_groups::find(pool, type_id, fingerprint).await?.ok_or_else(no_group)?;
        let row = AuditRow {
            reason: patch.note.clone(),
            ..AuditRow::by(caller, action(patch.state)).with_detail(detail(&group, &patch))
        };
        let (engine, by, fingerprint) = (self.clone(), caller.name.clone(), fingerprint.to_owned());
        in_task("changing an error group", async move {
            let core = &engine.0.core;
            let mut tx = crate::store::begin(&core.pools.read).await?;
            error_group_states::decide(&mut tx, type_id, &fingerprint, &patch, &by).await?;
            audit::record(&mut tx, &row).await?;
            crate::store::commit(tx).await?;
            core.live.changed(Topic::Failures);
            Ok(error_groups::find(&core.pools.read, type_id, &fingerprint).await?.ok_or_else(no_group)?)
        })
        .await
    }

    /// Opens muted groups whose time has come. Returns their number.
    pub async fn end_mutes(&self) -> Result<usize> {
        let ended = error_group_states::end_mutes(&self.0.core.pools.read).await?;
        if ended > 0 {
            self.0.core.live.changed(Topic::Failures);
        }
        Ok(usize::try_from(ended).unwrap_or(usize::MAX))
    }
}

const fn action(state: GroupState) -> &'static str {
    match state {
        GroupState::Muted => "error_group.mute",
        GroupState::Resolved => "error_group.resolve",
        GroupState::Open | GroupState::Regressed => "error_group.reopen",
    }
}

/// `invoices 3f2a: Account is closed; until 2026-11-26T09:00:00Z`.
fn detail(group: &ErrorGroup, patch: &ErrorGroupPatch) -> String {
    let until = patch.until.map(|until| format!("; until {}", until.to_rfc3339()));
    let failures = patch.failures.map(|n| format!("; for {n} failures"));
    let (until, failures) = (until.unwrap_or_default(), failures.unwrap_or_default());
    format!("{} {}: {}{until}{failures}", group.job_type, group.fingerprint, group.message)
}
