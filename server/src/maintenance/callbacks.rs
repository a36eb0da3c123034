//! Deliveries: callbacks for complete trees (`completion-webhook`), which are signed posts, messages about alerts
//! (`alert-channels`), which `alert_channels` sends, and notices to people, which `notices` sends. Retried for a day, with the pauses
//! of `RetrySchedule` (`domain/src/notify/delivery.rs`).
//!
//! A delivery is leased for the duration of one attempt, posted without an open transaction, and its outcome is
//! recorded. After a server crash another server posts it again under the same id: delivery is at least once. Limits
//! per host and per owner keep receivers from delaying each other.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use bytes::Bytes;
use domain::{
    Counts, Document, Outcome, Time,
    api::OnCompleted,
    dispatch::traceparent::Traceparent,
    notify::{
        alert::AlertKind,
        delivery::{DeliveryState, NextStep, RetrySchedule, TryOutcome},
    },
    query::topic::Topic,
};
use opentelemetry::KeyValue;
use reqwest::{
    StatusCode,
    header::{ACCEPT, CONTENT_TYPE, HeaderMap, HeaderValue},
};
use serde::Serialize;
use time::OffsetDateTime;
use tokio::{sync::Notify, time::Instant};
use url::Url;
use uuid::Uuid;

use super::driver::backoff;
use crate::{
    App,
    outbound::{Fault, Reply, excerpt, named},
    traces::{OpenSpan, end_outbound, insert_traceparent},
};
use engine::{
    error::Result,
    live_updates::LiveUpdates as _,
    sealing::stored_secrets::open_target,
    signing::{Key, keys_of, stamp},
    store::notify::{
        alerts::RaiseRow,
        deliveries::{self, DeliveryCapacity, DeliveryContent, DeliveryResult, TakenDelivery, TreeContent},
    },
    task::unless_silent,
};

/// Maximum concurrent callbacks of this server: in total, per host, per owner. A host or an owner that uses half of its limit
/// is left out, and one query adds at most the other half, so no limit is exceeded.
const MAX_CONCURRENT: usize = 64;
const MAX_PER_HOST: usize = 8;
const MAX_PER_OWNER: usize = 32;

/// Poll interval when nothing is due.
const POLL_INTERVAL: Duration = Duration::from_millis(250);

/// Bytes of a response that are read, and characters that are stored.
const MAX_READ_BYTES: usize = 4_096;
const MAX_STORED_CHARS: usize = 1_000;

/// Delivers callbacks until shutdown, then waits for those in progress.
pub(super) async fn run(app: App) {
    let sender = Arc::new(CallbackSender {
        schedule: RetrySchedule {
            retry_seconds: app.config.outbound.callback_retry_seconds,
            give_up_seconds: app.config.outbound.callback_give_up_seconds,
        },
        timeout: Duration::from_secs_f64(app.config.outbound.callback_timeout_seconds),
        under_way: Mutex::default(),
        freed: Notify::new(),
        app,
    });
    let mut failures = 0_u32;
    while !sender.app.shutdown.is_cancelled() {
        let pause = match unless_silent(sender.start_due()).await.flatten() {
            Ok(found) => {
                failures = 0;
                // There may be more as soon as a slot is free.
                if found > 0 { Duration::ZERO } else { POLL_INTERVAL }
            }
            Err(error) => backoff("callbacks", POLL_INTERVAL, &mut failures, &error),
        };
        tokio::select! {
            () = sender.app.shutdown.cancelled() => {}
            () = sender.freed.notified(), if pause.is_zero() => {}
            () = tokio::time::sleep(pause.max(POLL_INTERVAL)) => {}
            () = sender.app.engine.delivery_requested() => {}
        }
    }
}

struct CallbackSender {
    app: App,
    schedule: RetrySchedule,
    timeout: Duration,
    under_way: Mutex<InProgress>,
    /// Signals that a delivery has ended.
    freed: Notify,
}

#[derive(Default)]
struct InProgress {
    all: usize,
    hosts: HashMap<String, usize>,
    owners: HashMap<Uuid, usize>,
}

/// Body of a callback.
#[derive(Serialize)]
struct Message<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    timestamp: Time,
    data: Data<'a>,
}

#[derive(Serialize)]
struct Data<'a> {
    job_id: Uuid,
    completion: i32,
    outcome: Option<Outcome>,
    counts: Counts,
    metadata: &'a Document,
}

/// Outcome of an attempt.
pub(super) struct AttemptOutcome {
    pub(super) tried: TryOutcome,
    /// Status of an HTTP response.
    pub(super) status: Option<StatusCode>,
    pub(super) error: Option<String>,
}

impl CallbackSender {
    /// Leases due callbacks and starts to post them. Returns their number.
    async fn start_due(self: &Arc<Self>) -> Result<usize> {
        let (capacity, hosts, owners) = self.capacity();
        if capacity.all == 0 {
            return Ok(0);
        }
        // Long enough for the slowest attempt and its record, so that no other server starts meanwhile.
        let hold = self.timeout.as_secs_f64() * 1.5 + 2.0;
        // From before the database read its clock (`TakenDelivery::now`), so a pause can only be longer than scheduled.
        let began = Instant::now();
        let taken = deliveries::take(&self.app.pool, capacity, &hosts, &owners, hold).await?;
        let n = taken.len();
        for taken in taken {
            self.count(&taken, true);
            let sender = Arc::clone(self);
            self.app.tasks.spawn(async move {
                if let Err(error) = unless_silent(sender.attempt(&taken, began)).await.flatten() {
                    tracing::warn!(%error, delivery = %taken.id, "recording a callback attempt failed, will retry");
                }
                sender.count(&taken, false);
                sender.freed.notify_one();
            });
        }
        Ok(n)
    }

    fn capacity(&self) -> (DeliveryCapacity, Vec<String>, Vec<Uuid>) {
        let now = self.under_way.lock().unwrap_or_else(PoisonError::into_inner);
        let all = MAX_CONCURRENT.saturating_sub(now.all);
        let hosts = now.hosts.iter().filter(|(_, n)| **n >= MAX_PER_HOST / 2).map(|(host, _)| host.clone()).collect();
        let owners = now.owners.iter().filter(|(_, n)| **n >= MAX_PER_OWNER / 2).map(|(id, _)| *id).collect();
        let capacity = DeliveryCapacity {
            all: all as i64,
            per_host: (MAX_PER_HOST / 2) as i64,
            per_owner: (MAX_PER_OWNER / 2) as i64,
        };
        (capacity, hosts, owners)
    }

    fn count(&self, taken: &TakenDelivery, begins: bool) {
        let mut now = self.under_way.lock().unwrap_or_else(PoisonError::into_inner);
        let now = &mut *now;
        if begins {
            now.all += 1;
            *now.hosts.entry(taken.host.clone()).or_default() += 1;
            *now.owners.entry(taken.owner_id).or_default() += 1;
            return;
        }
        now.all = now.all.saturating_sub(1);
        for n in [now.hosts.get_mut(&taken.host), now.owners.get_mut(&taken.owner_id)].into_iter().flatten() {
            *n = n.saturating_sub(1);
        }
        now.hosts.retain(|_, n| *n > 0);
        now.owners.retain(|_, n| *n > 0);
    }

    /// Sends one delivery, which was leased after `began`, and records the outcome.
    async fn attempt(&self, taken: &TakenDelivery, began: Instant) -> Result<()> {
        let (outcome, no_receiver) = match &taken.content {
            DeliveryContent::Tree(tree) => (self.call_back(taken, tree).await?, "The job has no webhook URL any more."),
            DeliveryContent::Alert(alert) => {
                let outcome = super::alert_channels::send(&self.app, taken, alert, self.timeout).await?;
                (outcome, "The channel was deleted or has another receiver now.")
            }
            DeliveryContent::Notice(notice) => {
                let outcome = super::notices::send(&self.app, taken, notice, self.timeout).await?;
                (outcome, "The job is gone, or the person may not see it or wants no such notices any more.")
            }
        };
        let Some(outcome) = outcome else {
            let error = Some(no_receiver.to_owned());
            let state = DeliveryState::Abandoned;
            let result = DeliveryResult { at: taken.now, status: None, error, state, next_try_at: None };
            return Ok(deliveries::record(&self.app.pool, taken, &result).await.map(drop)?);
        };
        let now = taken.now + began.elapsed();
        let next = self.schedule.next(outcome.tried, taken.round + 1, taken.began_at, now, rand::random());
        let (state, next_try_at) = match next {
            NextStep::RetryAt(at) => (DeliveryState::Pending, Some(at)),
            NextStep::Final(state) => (state, None),
        };
        // Before the record: a server that crashes in between repeats both the attempt and the alert.
        if matches!(state, DeliveryState::Failed | DeliveryState::Abandoned) {
            self.app.engine.raise_alert(abandoned_alert(taken, outcome.error.as_deref().unwrap_or_default())).await;
        }
        let status = outcome.status.map(|status| status.as_u16());
        let result = DeliveryResult { at: taken.now, status, error: outcome.error, state, next_try_at };
        deliveries::record(&self.app.pool, taken, &result).await?;
        self.app.hub.changed(Topic::Deliveries);
        // Whatever the alert was about: the receiver accepts messages again.
        if state == DeliveryState::Delivered {
            self.app.engine.clear_alert(AlertKind::DeliveryFailed, &subject(taken).to_string()).await?;
        }
        metrics::counter!("treeline_callback_tries_total", "came_to" => state.as_str()).increment(1);
        Ok(())
    }

    /// Posts the callback of a tree; `None` without a receiver.
    async fn call_back(&self, taken: &TakenDelivery, tree: &TreeContent) -> Result<Option<AttemptOutcome>> {
        let target = tree.target.as_deref().map(|stored| open_target(&self.app.sealer, stored)).transpose();
        let target = match target {
            Ok(target) => target,
            Err(error) => return Ok(Some(AttemptOutcome::sealed(taken, &error))),
        };
        let Some(target) = target else { return Ok(None) };
        #[cfg(feature = "failpoints")]
        if engine::failpoints::broken("record_first", file!()) {
            self.record_first(taken).await?;
        }
        Ok(Some(self.post(taken, tree, &target).await))
    }

    /// Fault injection: records a callback as delivered before it is posted.
    #[cfg(feature = "failpoints")]
    async fn record_first(&self, taken: &TakenDelivery) -> Result<()> {
        let state = DeliveryState::Delivered;
        let result = DeliveryResult { at: taken.now, status: Some(200), error: None, state, next_try_at: None };
        deliveries::record(&self.app.pool, taken, &result).await?;
        tokio::time::sleep(Duration::from_secs(3)).await;
        Ok(())
    }

    async fn post(&self, taken: &TakenDelivery, tree: &TreeContent, target: &OnCompleted) -> AttemptOutcome {
        let Ok(url) = Url::parse(&target.url) else {
            return AttemptOutcome::refused("The URL cannot be read.".to_owned());
        };
        let metadata = Document::trusted(tree.metadata.clone());
        let message = Message {
            kind: "tree.completed",
            timestamp: Time(tree.completed_at),
            data: Data {
                job_id: tree.job_id,
                completion: tree.completion,
                outcome: tree.outcome,
                counts: tree.counts,
                metadata: &metadata,
            },
        };
        let body = match serde_json::to_vec(&message) {
            Ok(body) => Bytes::from(body),
            Err(error) => return AttemptOutcome::refused(error.to_string()),
        };
        let keys = keys_of(target.secret.as_ref(), || self.app.outgoing.key.of_owner(taken.owner_id));
        let trace = tree.traceparent.as_deref().and_then(|text| text.parse().ok());
        let attributes = vec![
            KeyValue::new("server.address", taken.host.clone()),
            KeyValue::new("treeline.job.id", tree.job_id.to_string()),
        ];
        let span = self.app.traces.outbound("callback".to_owned(), trace, attributes);
        let traceparent = span.as_ref().and_then(OpenSpan::traceparent).or(trace);
        let post = SignedPost { id: taken.id, url: &url, keys: &keys, body, timeout: self.timeout, traceparent };
        let outcome = post_signed(&self.app, post).await;
        end_outbound(span, outcome.status.map(|status| status.as_u16()), outcome.error.clone());
        outcome
    }
}

impl AttemptOutcome {
    /// Outcome of a delivery whose receiver is sealed with a key that this server lacks. A later attempt may run on a server
    /// that has it.
    pub(super) fn sealed(taken: &TakenDelivery, error: &impl std::fmt::Display) -> Self {
        tracing::warn!(%error, delivery = %taken.id, "the receiver of a delivery cannot be opened, will retry");
        Self::refused("The receiver cannot be opened.".to_owned())
    }

    /// Nothing was received, for this reason.
    pub(super) fn refused(error: String) -> Self {
        Self { tried: TryOutcome::Refused(None), status: None, error: Some(error) }
    }
}

/// A JSON body for an address that callbacks may reach, signed with these keys.
pub(super) struct SignedPost<'a> {
    pub(super) id: Uuid,
    pub(super) url: &'a Url,
    pub(super) keys: &'a [Key],
    pub(super) body: Bytes,
    pub(super) timeout: Duration,
    pub(super) traceparent: Option<Traceparent>,
}

/// Sends a signed post.
pub(super) async fn post_signed(app: &App, post: SignedPost<'_>) -> AttemptOutcome {
    let SignedPost { id, url, keys, body, timeout, traceparent } = post;
    let mut headers = HeaderMap::new();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(ACCEPT, HeaderValue::from_static("application/json"));
    if !keys.is_empty() {
        stamp(keys, &mut headers, &id.to_string(), OffsetDateTime::now_utc().unix_timestamp(), &body);
    }
    insert_traceparent(&mut headers, traceparent);
    match app.outgoing.callbacks.post(url, headers, body, Instant::now() + timeout).await {
        Ok(reply) => outcome_of(reply).await,
        Err(fault) => AttemptOutcome::refused(fault.to_string()),
    }
}

/// Subject of the alert about a delivery that was given up: the root of the tree, the channel, or the person.
fn subject(taken: &TakenDelivery) -> Uuid {
    match &taken.content {
        DeliveryContent::Tree(tree) => tree.job_id,
        DeliveryContent::Alert(alert) => alert.channel_id,
        DeliveryContent::Notice(_) => taken.owner_id,
    }
}

/// Outcome of a response. A 2xx counts as soon as its head arrives; of others the start of the body is stored.
async fn outcome_of(reply: Reply) -> AttemptOutcome {
    let (status, retry_after) = (reply.status, reply.retry_after);
    if status.is_success() {
        return AttemptOutcome { tried: TryOutcome::Accepted, status: Some(status), error: None };
    }
    let text = match reply.read(MAX_READ_BYTES).await {
        Ok((body, _)) => excerpt(&body, MAX_STORED_CHARS),
        Err(Fault::TimedOut) => "(the rest did not come in time)".to_owned(),
        Err(_) => String::new(),
    };
    let error = if text.is_empty() { named(status) } else { format!("{}: {text}", named(status)) };
    let tried = match status {
        StatusCode::GONE => TryOutcome::Gone,
        StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE => TryOutcome::Refused(retry_after),
        _ => TryOutcome::Refused(None),
    };
    AttemptOutcome { tried, status: Some(status), error: Some(error) }
}

fn abandoned_alert(taken: &TakenDelivery, error: &str) -> RaiseRow {
    let tries = match taken.round + 1 {
        1 => "one try".to_owned(),
        n => format!("{n} tries"),
    };
    let short: String = error.chars().take(200).collect();
    let (what, owner_id, job_id) = match &taken.content {
        DeliveryContent::Tree(tree) => ("webhook".to_owned(), Some(taken.owner_id), Some(tree.job_id)),
        DeliveryContent::Alert(alert) => {
            let name = alert.channel.as_ref().map_or("that was deleted", |channel| channel.name.as_str());
            (format!("message of the alert channel {name}"), None, None)
        }
        DeliveryContent::Notice(_) => ("notice to a person".to_owned(), Some(taken.owner_id), None),
    };
    RaiseRow {
        kind: AlertKind::DeliveryFailed,
        subject: subject(taken).to_string(),
        message: format!("The {what} to {} was given up after {tries}: {short}", taken.host),
        owner_id,
        job_type: None,
        root_id: job_id,
        job_id,
        item_id: None,
    }
}
