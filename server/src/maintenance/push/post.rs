//! Push delivery of one item: request, signature, and outcome.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use bytes::Bytes;
use domain::{
    Document,
    api::{Assignment, Ending, FailureBody, Inputs, ReleaseBody},
    dispatch::{assignment::AssignmentId, retry::Backoff},
    event_wait::ReceivedEvent,
    item::Step,
    job_type::{Delivery, PUSH_TIMEOUT_SECONDS},
};
use opentelemetry::KeyValue;
use reqwest::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use serde::Serialize;
use time::OffsetDateTime;
use tokio::{sync::OwnedSemaphorePermit, time::Instant};
use url::Url;
use uuid::Uuid;

use crate::{
    App,
    outbound::template,
    traces::{OpenSpan, end_outbound, insert_traceparent},
};
use engine::{
    EndingKind, Engine,
    signing::{Key, keys_of, stamp},
    store::tree::definitions::TypeInfo,
    task::unless_silent,
};

use super::{
    answer::{self, Answer, PushOutcome},
    target::Target,
};

const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");

/// Time for which a stopping server waits for responses. Later ones are left to their leases.
const DRAIN: Duration = Duration::from_secs(8);

/// Type with a prepared request.
pub(super) struct Prepared {
    pub(super) info: Arc<TypeInfo>,
    /// Host and port.
    pub(super) target: String,
    template: String,
    /// URL, if it is the same for every item.
    url: Option<Url>,
    headers: HeaderMap,
    keys: Vec<Key>,
    timeout: Duration,
}

/// Body of a push request.
#[derive(Serialize)]
struct PushRequest<'a> {
    assignment_id: AssignmentId,
    item_id: Uuid,
    job_id: Uuid,
    #[serde(rename = "type")]
    job_type: &'a str,
    attempt: i32,
    payload: &'a Document,
    step: Option<&'a Step>,
    #[serde(skip_serializing_if = "Option::is_none")]
    event: Option<&'a ReceivedEvent>,
    #[serde(skip_serializing_if = "Option::is_none")]
    inputs: Option<&'a BTreeMap<String, Inputs>>,
}

impl Prepared {
    /// `None` if the URL is invalid, which is possible only for a type older than the URL check.
    pub(super) fn of(info: Arc<TypeInfo>, default_key: &Key) -> Option<Self> {
        let template = info.executor.url.clone()?;
        let url = template::check(&template, &info.name).ok()?;
        let mut headers = HeaderMap::new();
        for (name, value) in info.secrets.headers.iter().flat_map(|headers| &headers.0) {
            // Validated when submitted.
            if let (Ok(name), Ok(value)) = (name.parse::<HeaderName>(), HeaderValue::try_from(value)) {
                headers.insert(name, secret(value));
            }
        }
        if let Some(auth) = &info.secrets.auth {
            let coded = STANDARD.encode(format!("{}:{}", auth.user, auth.password));
            if let Ok(value) = HeaderValue::try_from(format!("Basic {coded}")) {
                headers.insert(AUTHORIZATION, secret(value));
            }
        }
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        // A header of the executor takes precedence.
        headers.entry(ACCEPT).or_insert(HeaderValue::from_static("application/json"));
        let seconds = info.executor.timeout_seconds.unwrap_or(PUSH_TIMEOUT_SECONDS);
        let seconds = info.run_timeout_seconds.map_or(seconds, |most| most.min(seconds));
        let keys = keys_of(info.secrets.secret.as_ref(), || default_key.of_type(&info.name));
        Some(Self {
            target: template::target(&url),
            url: template::is_fixed(&template).then_some(url),
            timeout: Duration::from_secs_f64(seconds),
            template,
            headers,
            keys,
            info,
        })
    }

    /// Returns true if it still matches the type.
    pub(super) fn is_of(&self, info: &TypeInfo) -> bool {
        let now = &*self.info;
        (&now.name, &now.executor, &now.secrets, now.run_timeout_seconds)
            == (&info.name, &info.executor, &info.secrets, info.run_timeout_seconds)
    }

    fn url(&self, assignment: &Assignment) -> Option<Url> {
        let item = &assignment.item;
        self.url
            .clone()
            .or_else(|| Url::parse(&template::fill(&self.template, &self.info.name, item.id, item.job_id)).ok())
    }

    /// Body and headers of a request at this time. `id` is the assignment id with its capability.
    fn message(&self, assignment: &Assignment, id: AssignmentId) -> Result<(HeaderMap, Bytes), serde_json::Error> {
        let item = &assignment.item;
        let body = Bytes::from(serde_json::to_vec(&PushRequest {
            assignment_id: id,
            item_id: item.id,
            job_id: item.job_id,
            job_type: &item.job_type,
            attempt: assignment.attempt,
            payload: &item.payload,
            step: item.step.as_ref(),
            event: item.event.as_ref(),
            inputs: assignment.inputs.as_ref(),
        })?);
        let mut headers = self.headers.clone();
        if let Ok(id) = HeaderValue::try_from(item.id.to_string()) {
            headers.insert(IDEMPOTENCY_KEY, id);
        }
        // A message is one attempt; repetitions are recognized by the Idempotency-Key. Headers are logged and message
        // ids contain no dots, so the capability is only in the body.
        let (id, now) = (assignment.id.to_string(), OffsetDateTime::now_utc().unix_timestamp());
        stamp(&self.keys, &mut headers, &id, now, &body);
        Ok((headers, body))
    }
}

fn secret(mut value: HeaderValue) -> HeaderValue {
    value.set_sensitive(true);
    value
}

/// Outcome of a push request.
pub(super) struct FinishedPush {
    /// `None` if the worker finishes the item itself, or if there was no response.
    pub(super) ending: Option<Ending>,
}

/// Posts an item and waits for the response. `permit` is a slot of the target, released on response.
pub(super) async fn work(
    app: &App,
    target: &Target,
    ready: &Prepared,
    assignment: &Assignment,
    permit: OwnedSemaphorePermit,
) -> FinishedPush {
    let started_at = Instant::now();
    let until = started_at + ready.timeout;
    let drain_timeout = async {
        app.shutdown.cancelled().await;
        tokio::time::sleep(DRAIN).await;
    };
    let Answer { outcome, answered } = tokio::select! {
        answer = post(app, ready, assignment, until) => answer,
        () = drain_timeout => {
            tracing::info!(assignment = %assignment.id, "shutdown before the worker's response, lease decides");
            return FinishedPush { ending: None };
        }
    };
    target.record(answered);
    drop(permit);
    metrics::histogram!("treeline_push_seconds").record(started_at.elapsed().as_secs_f64());
    let label = match &outcome {
        PushOutcome::Ends(EndingKind::Result(_)) => "result",
        PushOutcome::Ends(_) => "failure",
        PushOutcome::Accepted => "later",
        PushOutcome::NoResponse => "silence",
        PushOutcome::Busy(_) => "busy",
    };
    metrics::counter!("treeline_push_answers_total", "type" => ready.info.name.clone(), "answer" => label).increment(1);
    let ending = match outcome {
        PushOutcome::Ends(kind) => ending(assignment.id, kind),
        PushOutcome::Busy(requested) => {
            release_after(app, assignment.id, busy_seconds(requested, assignment.attempt)).await;
            None
        }
        PushOutcome::Accepted | PushOutcome::NoResponse => None,
    };
    FinishedPush { ending }
}

fn ending(id: Uuid, kind: EndingKind) -> Option<Ending> {
    let none = Ending {
        assignment_id: id.into(),
        result: None,
        error: None,
        retryable: true,
        retry_after_seconds: None,
        cancel_tree: false,
    };
    match kind {
        EndingKind::Result(result) => Some(Ending { result: Some(result), ..none }),
        EndingKind::Failure(FailureBody { error, retryable, retry_after_seconds, cancel_tree }) => {
            Some(Ending { error: Some(error), retryable, retry_after_seconds, cancel_tree, ..none })
        }
        EndingKind::Release(_) | EndingKind::Wait(_) => None,
    }
}

async fn post(app: &App, ready: &Prepared, assignment: &Assignment, until: Instant) -> Answer {
    let broken = |why: String| answer::of_fault(&crate::outbound::Fault::Broken(why));
    let Some(url) = ready.url(assignment) else { return broken("the URL cannot be read".to_owned()) };
    let (mut headers, body) = match ready.message(assignment, app.engine.pushed_id(assignment.id)) {
        Ok(message) => message,
        Err(error) => return broken(error.to_string()),
    };
    let span = trace(app, ready, assignment, &mut headers);
    let reply = match app.outgoing.push.post(&url, headers, body, until).await {
        Ok(reply) => reply,
        Err(fault) => {
            end_outbound(span, None, Some(fault.to_string()));
            return answer::of_fault(&fault);
        }
    };
    let (status, retry_after) = (reply.status, reply.retry_after);
    end_outbound(span, Some(status.as_u16()), None);
    // The job's, which the type may have changed since.
    let at_most_once = assignment.item.delivery == Delivery::AtMostOnce;
    match reply.read(app.config.payload_limit.bytes()).await {
        Ok((body, cut)) => answer::of_reply(status, retry_after, &body, cut, at_most_once),
        // A failed status and a 202 count even if the body is incomplete.
        Err(_) if !status.is_success() || status == reqwest::StatusCode::ACCEPTED => {
            answer::of_reply(status, retry_after, &[], false, at_most_once)
        }
        Err(fault) => answer::of_fault(&fault),
    }
}

/// Begins the span of a push request below its attempt, and adds the context to the headers.
fn trace(app: &App, ready: &Prepared, assignment: &Assignment, headers: &mut HeaderMap) -> Option<OpenSpan> {
    let attempt = assignment.item.traceparent;
    let attributes = vec![KeyValue::new("server.address", ready.target.clone())];
    let span = app.traces.outbound(format!("push {}", ready.info.name), attempt, attributes);
    insert_traceparent(headers, span.as_ref().and_then(OpenSpan::traceparent).or(attempt));
    span
}

/// Delay in seconds of an item whose target is busy: as requested by the target, else growing with each attempt.
fn busy_seconds(requested: Option<f64>, attempt: i32) -> f64 {
    let backoff = Backoff { min_seconds: 1.0, max_seconds: Some(60.0), factor: 2.0, jitter: true };
    requested.map_or_else(|| backoff.delay_seconds(attempt, rand::random()), |seconds| seconds.clamp(1.0, 86_400.0))
}

/// Releases an item that its target refused for now, with a delay in seconds. Counts no failure.
async fn release_after(app: &App, id: Uuid, seconds: f64) {
    release(app, id, ReleaseBody { retry_after_seconds: Some(seconds) }).await;
}

/// Releases a claimed item that will not be posted. If that fails, the lease expires.
pub(super) async fn release_unsent(app: &App, id: Uuid) {
    release(app, id, ReleaseBody::default()).await;
}

async fn release(app: &App, id: Uuid, body: ReleaseBody) {
    let caller = Engine::push_caller();
    let released = app.engine.end(&caller, id, EndingKind::Release(body));
    if let Err(error) = unless_silent(released).await.flatten() {
        tracing::warn!(%error, assignment = %id, "release failed, lease decides");
    }
}
