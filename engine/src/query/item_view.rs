//! Item view of the API, built from the stored row.

use std::sync::Arc;

use domain::{
    Document, Item, ItemState, Time,
    debounce::ItemDebounce,
    event_wait::{EventWait, ReceivedEvent},
    item::{Holder, ItemError, ItemProgress, Step, WaitingFor},
};
use time::OffsetDateTime;

use crate::store::{dispatch::event_waits, query::item_views::ItemView, tree::definitions::JobInfo};

/// State of a row.
pub(crate) fn state(view: &ItemView) -> ItemState {
    ItemState::from_code(view.state).unwrap_or(ItemState::Available)
}

/// True if the state follows from the job's decision, which is not yet propagated to the row.
fn decided_by_job(view: &ItemView) -> bool {
    view.ended_at.is_none() && state(view) == ItemState::Cancelled
}

/// Time of the last change of the item.
fn updated_at(view: &ItemView) -> OffsetDateTime {
    let decided = if decided_by_job(view) { view.job_cancelled_at } else { None };
    [
        view.ended_at,
        view.lease_started_at,
        view.last_heartbeat_at,
        view.attempt_ended_at,
        view.step_at,
        view.changed_at,
        view.event_at,
        view.cancel_requested_at,
        decided,
    ]
    .into_iter()
    .flatten()
    .fold(view.created_at, OffsetDateTime::max)
}

/// Version that changes with every change of the item: microseconds of the last change, times four, because some
/// transitions record no time (retried, released, due).
pub(crate) fn version(view: &ItemView) -> i64 {
    let micros = (updated_at(view).unix_timestamp_nanos() / 1_000) as i64;
    let step = match state(view) {
        state if state.is_final() => 0,
        ItemState::Blocked => 1,
        ItemState::Scheduled | ItemState::Retryable | ItemState::WaitingForEvent => 2,
        _ => 3,
    };
    micros.saturating_mul(4).saturating_add(step)
}

pub(crate) fn error(
    message: Option<String>,
    kind: Option<String>,
    detail: Option<String>,
    at: Option<OffsetDateTime>,
) -> Option<ItemError> {
    Some(ItemError { message: message?, kind, detail: detail.map(Document::trusted), at: Time(at?) })
}

/// Error of an item that has ended only by its job's decision so far.
fn decision(view: &ItemView) -> Option<ItemError> {
    let (message, kind) = if let Some(reason) = &view.job_cancel_reason {
        (reason.clone(), "cancelled")
    } else if view.after_failed {
        ("A job that it waited for did not end as asked for.".to_owned(), "after_failed")
    } else {
        return None;
    };
    Some(ItemError { message, kind: Some(kind.to_owned()), detail: None, at: Time(updated_at(view)) })
}

/// Reason for which the item's job was canceled, if that ended the item.
fn reason_of_job(view: &ItemView) -> Option<ItemError> {
    let is_of_job =
        view.job_cancel_reason.is_some() && view.job_cancelled_at.is_some_and(|at| view.ended_at >= Some(at));
    if state(view) == ItemState::Cancelled && is_of_job { decision(view) } else { None }
}

/// Event that the item waits for.
fn wait_of(view: &ItemView) -> Option<EventWait> {
    if state(view) != ItemState::WaitingForEvent {
        return None;
    }
    Some(EventWait {
        name: view.wait_name.clone()?,
        since: Time(view.wait_began_at?),
        until: view.due_at.map(Time),
        form: view.wait_form.as_deref().and_then(|form| serde_json::from_str(form).ok()),
    })
}

/// Event that ended its last wait.
fn event_of(view: &ItemView) -> Option<ReceivedEvent> {
    let sender = view.event_sender_kind.clone().zip(view.event_sender_name.clone());
    let timed_out = view.event_timed_out.unwrap_or(false);
    Some(event_waits::event(view.wait_name.clone()?, view.event_at?, timed_out, view.event_data.clone(), sender))
}

/// How the item waits, or waited, for later ones with its key.
fn debounce_of(view: &ItemView) -> Option<ItemDebounce> {
    Some(ItemDebounce {
        key: view.debounce_key.clone()?,
        seconds: view.debounce_seconds?.into(),
        max_seconds: view.debounce_max_seconds?.into(),
        merged: view.debounce_merged?,
        first_at: Time(view.debounce_first_at?),
        last_at: Time(view.debounce_last_at?),
        starts_by: Time(view.debounce_starts_by?),
    })
}

pub(crate) fn item(view: ItemView, job: &Arc<JobInfo>, waiting_for: Option<WaitingFor>) -> Item {
    let state = state(&view);
    let holder = match (view.lease_started_at, view.last_heartbeat_at, view.lease_expires_at) {
        (Some(since), Some(beat), Some(expires)) => Some(Holder {
            worker_id: view.worker_id.clone().unwrap_or_default(),
            since: Time(since),
            last_heartbeat_at: Time(beat),
            lease_expires_at: Time(expires),
        }),
        _ => None,
    };
    let progress = (view.progress_done.is_some() || view.progress_total.is_some() || view.progress_message.is_some())
        .then(|| ItemProgress {
            done: view.progress_done,
            total: view.progress_total,
            message: view.progress_message.clone(),
        });
    let updated_at = updated_at(&view);
    let version = version(&view);
    let (wait, event, debounce) = (wait_of(&view), event_of(&view), debounce_of(&view));
    let by_job = reason_of_job(&view);
    let last_error = match state {
        // Ended by an `after` condition that is valid again: it waits and has no error.
        ItemState::Blocked if view.ended_at.is_some() => None,
        _ if decided_by_job(&view) => decision(&view),
        _ => error(view.error_message, view.error_kind, view.error_detail, view.error_at).or(by_job),
    };
    let finished_at = if state.is_final() { Some(view.ended_at.unwrap_or(updated_at)) } else { None };
    Item {
        id: view.id,
        job_id: job.job_id,
        root_id: job.root_id,
        job_type: job.type_name.clone(),
        seq: view.seq,
        row: view.row,
        state,
        attempts: view.attempts,
        failures: view.failures,
        max_failures: job.max_failures,
        payload: view.payload.map(Document::trusted),
        original_payload: view.original_payload.map(Document::trusted),
        result: view.result.map(Document::trusted),
        progress,
        step: view.step_name.zip(view.step_data).map(|(name, data)| Step { name, data: Document::trusted(data) }),
        metadata: view.metadata.map_or_else(Document::empty_object, Document::trusted),
        dedupe_key: view.dedupe_key,
        serialize_key: view.serialize_key,
        priority: view.priority,
        run_after: view.run_after.map(Time),
        expires_at: view.expires_at.map(Time),
        retry_at: if state == ItemState::Retryable { view.due_at.map(Time) } else { None },
        created_at: Time(view.created_at),
        updated_at: Time(updated_at),
        finished_at: finished_at.map(Time),
        last_error,
        fed_by: view.fed_by,
        cancel_requested_at: view.cancel_requested_at.map(Time),
        assignment: holder,
        waiting_for,
        wait,
        event,
        superseded_by: view.superseded_by,
        debounce,
        version,
    }
}
