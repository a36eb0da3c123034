//! Spans of attempts and of items, sent when they have ended: only then is known how they ended, and any server may
//! record that.

use std::{
    collections::HashMap,
    time::{Duration, SystemTime},
};

use domain::{ItemState, dispatch::traceparent::Traceparent, id::Uuid, item::EndedAs};
use opentelemetry::{
    KeyValue,
    trace::{Span as _, SpanBuilder, SpanKind, Status},
};
use opentelemetry_sdk::trace::SdkTracer;
use tokio::sync::mpsc;

use super::{Sender, begin_as, span_of};
use crate::App;
use engine::{
    EndedAttempt,
    store::dispatch::traces::{self, TracedItem},
    task::unless_silent,
};

/// Attempts whose items are read with one statement.
const BATCH: usize = 1_000;

/// Sends the spans of ended attempts until the sender is closed, and then those that are left.
pub(crate) fn spawn(app: &App, mut ended: mpsc::Receiver<EndedAttempt>) {
    let Some(Sender { tracer, closing, tasks, .. }) = app.traces.0.clone() else { return };
    let pool = app.pool.clone();
    tasks.spawn(async move {
        let mut batch = Vec::with_capacity(BATCH);
        loop {
            let n = tokio::select! {
                n = ended.recv_many(&mut batch, BATCH) => n,
                () = closing.cancelled(), if !ended.is_closed() => {
                    ended.close();
                    continue;
                }
            };
            if n == 0 {
                break;
            }
            // They have just been committed.
            let now = SystemTime::now();
            let ids: Vec<Uuid> = batch.iter().map(|attempt| attempt.item_id).collect();
            match unless_silent(traces::of_items(&pool, &ids)).await.and_then(|items| Ok(items?)) {
                Ok(items) => send(&tracer, &batch, items, now),
                Err(error) => tracing::warn!(%error, "reading the traces of ended items failed, their spans are lost"),
            }
            batch.clear();
        }
    });
}

/// Sends the spans of these attempts, and those of the items that ended with them.
fn send(tracer: &SdkTracer, attempts: &[EndedAttempt], items: Vec<TracedItem>, end: SystemTime) {
    let items: HashMap<Uuid, TracedItem> = items.into_iter().map(|item| (item.id, item)).collect();
    for attempt in attempts {
        let Some(item) = items.get(&attempt.item_id) else { continue };
        let Some(stored) = item.traceparent.as_deref().and_then(|text| text.parse::<Traceparent>().ok()) else {
            continue;
        };
        let mut span = begin_as(
            tracer,
            span_of(attempt.assignment_id),
            SpanBuilder::from_name(format!("attempt {}", item.job_type))
                .with_kind(SpanKind::Internal)
                .with_start_time(earlier(end, attempt.seconds))
                .with_attributes([
                    KeyValue::new("treeline.item.id", item.id.to_string()),
                    KeyValue::new("treeline.assignment.id", attempt.assignment_id.to_string()),
                    KeyValue::new("treeline.ended_as", attempt.ended_as.as_str()),
                ]),
            stored.at(span_of(item.id)),
        );
        if !matches!(attempt.ended_as, EndedAs::Succeeded | EndedAs::Released) {
            span.set_status(Status::error(attempt.ended_as.as_str()));
        }
        span.add_event_with_timestamp(attempt.ended_as.as_str(), end, Vec::new());
        span.end_with_timestamp(end);
        // The attempt that the outcome names: an earlier one must not end the item a second time.
        if item.last_assignment.is_none_or(|last| last == attempt.assignment_id) {
            send_item(tracer, item, stored, end);
        }
    }
}

fn send_item(tracer: &SdkTracer, item: &TracedItem, stored: Traceparent, end: SystemTime) {
    let Some(state) = item.state.and_then(ItemState::from_code) else { return };
    let mut span = begin_as(
        tracer,
        span_of(item.id),
        SpanBuilder::from_name(format!("item {}", item.job_type))
            .with_kind(SpanKind::Internal)
            .with_start_time(SystemTime::from(item.created_at).min(end))
            .with_attributes([
                KeyValue::new("treeline.item.id", item.id.to_string()),
                KeyValue::new("treeline.job.id", item.job_id.to_string()),
                KeyValue::new("treeline.item.state", state.as_str()),
            ]),
        stored,
    );
    if state != ItemState::Succeeded {
        span.set_status(Status::error(state.as_str()));
    }
    span.end_with_timestamp(end);
}

fn earlier(end: SystemTime, seconds: f64) -> SystemTime {
    Duration::try_from_secs_f64(seconds).ok().and_then(|before| end.checked_sub(before)).unwrap_or(end)
}
