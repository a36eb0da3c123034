//! Callback deliveries of complete trees: listing and resending (`completion-webhook`).
//!
//! `store::notify::deliveries` writes them when trees complete, and a background task (`maintenance::callbacks`) sends
//! them; nothing is sent here. A delivery outlives its tree, so it stores its owner itself.

use std::sync::Arc;

use domain::{
    Code, Problem,
    notify::delivery::{CallbackDelivery, DeliveryState},
    query::topic::Topic,
};
use uuid::Uuid;

use crate::{
    Engine,
    access::caller::{Caller, Scope},
    error::{Error, Result},
    store::{
        notify::{
            audit as audit_log,
            deliveries::{self, DeliveryQuery},
        },
        retention::deletion,
    },
    task::in_task,
};

use super::audit;

impl Engine {
    /// Returns matching deliveries, newest first: all of them for staff, those of their own trees for others.
    pub async fn deliveries(&self, caller: &Caller, query: DeliveryQuery) -> Result<Vec<CallbackDelivery>> {
        caller.require(Scope::JobsRead)?;
        let owner_id = caller.visible_owner();
        Ok(deliveries::list(self.0.core.pools.reads().await, &self.0.core.sealer, &DeliveryQuery { owner_id, ..query })
            .await?)
    }

    /// Deliveries of the tree of a job, newest first. Those of a deleted tree remain for thirty days; without any,
    /// returns 410.
    pub async fn job_deliveries(
        &self,
        caller: &Caller,
        job_id: Uuid,
        query: DeliveryQuery,
    ) -> Result<Vec<CallbackDelivery>> {
        caller.require(Scope::JobsRead)?;
        let pool = &self.0.core.pools.read;
        let location = deletion::find(pool, job_id).await?;
        let location =
            location.filter(|location| caller.visible_owner().is_none_or(|owner| owner == location.owner_id));
        let Some(location) = location else { return Err(Problem::not_found("job").into()) };
        let found =
            deliveries::list(pool, &self.0.core.sealer, &DeliveryQuery { job_id: Some(location.root_id), ..query })
                .await?;
        if location.is_deleted && found.is_empty() {
            return Err(Error::refuse(Code::JobRemoved, "The tree was removed, and it has called nobody lately."));
        }
        Ok(found)
    }

    /// Returns one delivery, and true if it is the caller's own. Returns 404 if it is not visible.
    pub async fn delivery(&self, caller: &Caller, id: Uuid) -> Result<(CallbackDelivery, bool)> {
        caller.require(Scope::JobsRead)?;
        let (delivery, owner_id) = self.visible_delivery(caller, id).await?;
        Ok((delivery, owner_id == caller.owner_id))
    }

    /// Sends a callback again now, then by the schedule from its start; a pending one becomes due now. Returns 409
    /// `not_resendable` if the tree has completed again since, with the id of the newest delivery, or if it no longer
    /// names a receiver.
    pub async fn resend(&self, caller: &Caller, id: Uuid, reason: Option<&str>) -> Result<CallbackDelivery> {
        caller.require(Scope::JobsWrite)?;
        let (delivery, owner_id) = self.visible_delivery(caller, id).await?;
        let reason = audit::reason_for(caller, owner_id, reason)?;
        let row = audit::row(caller, "delivery.resend", owner_id, reason.as_deref()).map(|row| audit_log::AuditRow {
            detail: Some(format!("the delivery {id}")),
            root_id: delivery.job_id,
            job_id: delivery.job_id,
            ..row
        });
        let core = Arc::clone(&self.0.core);
        // In its own task: a client that disconnects cannot leave a transaction open.
        let again = in_task("calling back again", async move {
            let mut tx = crate::store::begin(&core.pools.read).await?;
            let again = deliveries::resend(&mut tx, id).await?;
            if let Some(row) = row.filter(|_| again) {
                audit_log::record(&mut tx, &row).await?;
            }
            crate::store::commit(tx).await?;
            core.delivery_requested.notify_one();
            core.live.changed(Topic::Deliveries);
            Ok(again)
        })
        .await?;
        let (delivery, _) = self.visible_delivery(caller, id).await?;
        if again {
            return Ok(delivery);
        }
        let Some(job_id) = delivery.job_id else {
            let detail = if delivery.notice.is_some() {
                "The notice was deleted."
            } else {
                "The alert was cleared meanwhile, or the channel was deleted."
            };
            return Err(Error::refuse(Code::NotResendable, detail));
        };
        if delivery.state == DeliveryState::Superseded {
            let newest = deliveries::newest_of(&self.0.core.pools.read, job_id).await?;
            let detail = "The job completed again since: its newest webhook says how it ended.";
            return Err(Problem { id: newest, ..Problem::new(Code::NotResendable, detail) }.into());
        }
        Err(Error::refuse(Code::NotResendable, "The job has no webhook URL. Set one with PATCH."))
    }

    /// Resolves when a person has requested a callback. A hint: the background task also polls.
    pub async fn delivery_requested(&self) {
        self.0.core.delivery_requested.notified().await;
    }

    async fn visible_delivery(&self, caller: &Caller, id: Uuid) -> Result<(CallbackDelivery, Uuid)> {
        let found = deliveries::find(&self.0.core.pools.read, &self.0.core.sealer, id).await?;
        found
            .filter(|(_, owner_id)| caller.visible_owner().is_none_or(|owner| owner == *owner_id))
            .ok_or_else(|| Problem::not_found("delivery").into())
    }
}
