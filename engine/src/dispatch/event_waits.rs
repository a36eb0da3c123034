//! Events for items that wait for one (`waiting-for-events`): from a program, or from a person who answers the form.
//!
//! The row of the waiting item is the guard: whoever takes it ends the wait, be it an event, the timeout, the expiry, or
//! a cancellation. So a wait ends once, whatever arrives at the same time. The timeout fires in `sweep::sweep_due`.

use std::sync::Arc;

use domain::{
    Code, Document, ItemState, Problem, Time,
    event_wait::{EventBody, EventForm, name_fault},
    identity::audit::Actor,
};
use uuid::Uuid;

use crate::{
    Core, Engine, KeyedCall,
    access::caller::{Caller, Scope},
    ending_batch::EndingRows,
    enqueue::low_water_marks,
    error::{Error, Result},
    notify::audit,
    query::item_state,
    store::{
        Tx,
        dispatch::event_waits::{self, LockedWait},
        enqueue::{
            idempotency,
            items::{self, ReadyRow},
        },
        notify::audit as audit_log,
        query::item_views,
        tree::job_states,
    },
    tree::finish_batch::finish_batch,
};

/// Answer stored with an Idempotency-Key: a repeat of the request gets the item as it is now.
const STORED_ANSWER: &str = "{}";

/// Validated event.
#[derive(Debug)]
struct Event {
    item_id: Uuid,
    root_id: Uuid,
    name: String,
    data: Option<Document>,
    by: Actor,
    key: Option<KeyedCall>,
    /// Begin of the wait that it answers; `None`: whichever wait there is.
    since: Option<Time>,
    audit_row: Option<audit_log::AuditRow>,
}

impl Engine {
    /// Sends an item the event that it waits for: it is available again, or scheduled if it was postponed meanwhile, and its
    /// next claim carries the event. 409 `not_waiting` or `other_event` if it does not wait for this event; 422 if the data
    /// does not fit the form. A repeat with the same key has no effect.
    pub async fn send_event(
        &self,
        caller: &Caller,
        item_id: Uuid,
        body: EventBody,
        key: Option<KeyedCall>,
    ) -> Result<()> {
        self.send(caller, item_id, body, key, None).await
    }

    /// Same for the answers to a form, which was shown for the wait that began at `since`: they never answer a later wait.
    pub async fn send_answer(
        &self,
        caller: &Caller,
        item_id: Uuid,
        body: EventBody,
        since: Option<Time>,
    ) -> Result<()> {
        self.send(caller, item_id, body, None, since).await
    }

    async fn send(
        &self,
        caller: &Caller,
        item_id: Uuid,
        body: EventBody,
        key: Option<KeyedCall>,
        since: Option<Time>,
    ) -> Result<()> {
        caller.require(Scope::JobsWrite)?;
        let job = self.job_of_item(caller, item_id).await?;
        if let Some(fault) = name_fault(&body.name) {
            return Err(Problem::invalid_body([fault]).into());
        }
        self.0.core.check_document_size(body.data.as_ref(), || "/data".to_owned())?;
        // An event is what the item asks for, so it needs no reason, whoever owns the work.
        let given = body.reason.as_deref().map(str::trim).filter(|reason| !reason.is_empty());
        let reason = given.map(|reason| audit::reason_for(caller, job.owner_id, Some(reason))).transpose()?.flatten();
        let audit_row = audit::row(caller, "item.event", job.owner_id, reason.as_deref());
        let audit_row = audit_row
            .map(|row| row.about(job.root_id, job.job_id, Some(item_id)).with_detail(format!("{:?}", body.name)));
        let event = Arc::new(Event {
            item_id,
            root_id: job.root_id,
            name: body.name,
            data: body.data,
            by: Actor { kind: caller.kind.into(), name: caller.name.clone() },
            key,
            since,
            audit_row,
        });
        self.0
            .core
            .in_task_with_retries("receiving an event", move |core| {
                let event = Arc::clone(&event);
                async move { receive(&core, &event).await }
            })
            .await
    }
}

/// Ends the wait of the item with this event, in one transaction.
async fn receive(core: &Core, event: &Event) -> Result<()> {
    if let Some(key) = &event.key
        && core.stored_call(key).await?.is_some()
    {
        return Ok(());
    }
    let mut tx = crate::store::begin(&core.pools.hot).await?;
    if let Some(key) = &event.key
        && !core.take_call(&mut tx, key).await?
    {
        return Err(Error::Conflict("an Idempotency-Key was taken by another request"));
    }
    let Some(wait) = event_waits::lock(&mut tx, event.item_id).await? else {
        return Err(not_waiting(core, event.item_id).await?);
    };
    let data = checked_data(&wait, event)?;
    refuse_ended_job(core, &mut tx, &wait, event.item_id).await?;
    let postponed_to = event_waits::receive(&mut tx, event.item_id, data.text(), &event.by).await?;
    let mut rows = EndingRows::default();
    let counts = &mut rows.delta(wait.job_key).counts;
    counts.waiting_for_event -= 1;
    let row = ReadyRow {
        item_id: event.item_id,
        job_key: wait.job_key,
        type_id: wait.type_id,
        negated_priority: wait.negated_priority,
        fair_turn: 0,
        expires_at: wait.expires_at,
        attempts: wait.attempts,
        failures: wait.failures,
        serialize_queue_id: wait.serialize_queue_id,
    };
    if let Some(due_at) = postponed_to {
        counts.scheduled += 1;
        items::defer(&mut tx, &[row.scheduled(due_at)]).await?;
    } else {
        counts.available += 1;
        rows.ready.extend(low_water_marks::make_ready_now(core, &mut tx, vec![row]).await?);
    }
    let effects = finish_batch(core, &mut tx, &mut rows).await?;
    if let Some(audit_row) = &event.audit_row {
        audit_log::record(&mut tx, audit_row).await?;
    }
    if let Some(key) = &event.key {
        idempotency::answer(&mut *tx, &key.name, Some(200), STORED_ANSWER).await?;
    }
    crate::store::commit(tx).await?;
    effects.after_commit(core, &rows).await;
    core.live.touch(&[event.root_id]);
    Ok(())
}

/// Data of the event, if it is what the item waits for.
fn checked_data(wait: &LockedWait, event: &Event) -> Result<Document, Problem> {
    if wait.expired {
        return Err(Problem::new(Code::ItemExpired, "Its expires_at has passed: it waits no longer."));
    }
    if wait.name != event.name {
        return Err(Problem {
            item_state: Some(ItemState::WaitingForEvent),
            ..Problem::new(Code::OtherEvent, format!("The item waits for the event {:?}.", wait.name))
        });
    }
    if event.since.is_some_and(|since| since.to_string() != Time(wait.began_at).to_string()) {
        return Err(Problem {
            item_state: Some(ItemState::WaitingForEvent),
            ..Problem::new(
                Code::NotWaiting,
                "This was answered in the meantime. The item waits again; look at the new questions first.",
            )
        });
    }
    let form: Option<EventForm> = wait.form.as_deref().and_then(|form| serde_json::from_str(form).ok());
    let Some(form) = form else { return Ok(event.data.clone().unwrap_or_else(Document::null)) };
    let data = event.data.clone().unwrap_or_else(Document::empty_object);
    let faults = form.data_faults(&data, "/data");
    if faults.is_empty() { Ok(data) } else { Err(Problem::invalid_body(faults)) }
}

/// Refuses an event for an item whose job has ended it; the row may still follow.
async fn refuse_ended_job(core: &Core, tx: &mut Tx, wait: &LockedWait, item_id: Uuid) -> Result<()> {
    let job_state = job_states::lock(tx, &[wait.job_key]).await?.pop();
    match job_state {
        None => Err(Error::refuse(Code::JobRemoved, "The job was removed.")),
        Some(job_state) if job_state.deleted => Err(Error::refuse(Code::JobRemoved, "The job was removed.")),
        Some(job_state) if job_state.cancelled => {
            Err(Error::refuse(Code::JobCancelled, "The job, or one above it, is canceled."))
        }
        Some(job_state) if job_state.after_failed => Err(not_waiting(core, item_id).await?),
        Some(_) => Ok(()),
    }
}

/// 409 `not_waiting` with the state of the item.
async fn not_waiting(core: &Core, item_id: Uuid) -> Result<Error> {
    let view = item_views::items(&core.pools.read, &[item_id], false).await?.pop();
    let Some(state) = view.map(|view| item_state(&view)) else { return Ok(Problem::not_found("item").into()) };
    if state == ItemState::WaitingForEvent {
        // It began to wait after this request had looked.
        return Ok(Error::Conflict("an item moved"));
    }
    let problem = Problem::new(
        Code::NotWaiting,
        format!("The item does not wait for an event: it is {}. Nothing was changed.", state.as_str()),
    );
    Ok(Problem { item_state: Some(state), ..problem }.into())
}
