//! OpenTelemetry traces, sent over OTLP if `OTEL_EXPORTER_OTLP_ENDPOINT` is set; otherwise nothing here runs, and trace
//! contexts (`traceparent`) pass through as they came.
//!
//! Spans of one item: the request that added it; `item` from its addition to its end; below that `claim` and, for each
//! attempt, `attempt` from the claim to the ending; below the attempt the worker's own spans and push requests. A
//! callback is below the request that created the tree. An item outlives the process that added it, so the ids of its
//! spans are derived from its own id and those of its assignments: any server can name and send them, and only the
//! context of the request is stored. Must not delay or fail anything: a span that cannot be sent is lost.

mod ended; // spans of attempts and items that have ended
mod exporter; // sends spans to the collector

use std::{
    cell::Cell,
    time::{Duration, SystemTime},
};

use anyhow::Context as _;
use domain::{api::Assignment, dispatch::traceparent::Traceparent, id::Uuid};
use opentelemetry::{
    Context, Key, KeyValue,
    trace::{
        Link, Span as _, SpanBuilder, SpanContext, SpanId, SpanKind, Status, TraceContextExt as _, TraceFlags, TraceId,
        TraceState, Tracer as _, TracerProvider as _,
    },
};
use opentelemetry_sdk::{
    Resource,
    trace::{IdGenerator, RandomIdGenerator, SdkTracer, SdkTracerProvider, Span},
};
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use crate::config::monitoring::Monitoring;

pub(crate) use ended::spawn as spawn_ended;

/// Number of ended attempts that may wait to be read.
pub(crate) const MAX_ENDED: usize = 20_000;

/// Time for which a stopping server tries to send its last spans.
const LAST_SEND_TIMEOUT: Duration = Duration::from_secs(5);

/// Sender of spans, or nothing. Cheap to clone.
#[derive(Clone, Default)]
pub struct Traces(Option<Sender>);

#[derive(Clone)]
struct Sender {
    provider: SdkTracerProvider,
    tracer: SdkTracer,
    /// Canceled when no more attempts will end.
    closing: CancellationToken,
    tasks: TaskTracker,
}

impl Traces {
    /// Starts to send spans, if an endpoint is configured. Needs a Tokio runtime.
    pub fn open(monitoring: &Monitoring) -> anyhow::Result<Self> {
        let Some(url) = monitoring.traces_url()? else { return Ok(Self::default()) };
        let exporter = exporter::open(url).context("cannot send traces: look at OTEL_EXPORTER_OTLP_ENDPOINT")?;
        let provider = SdkTracerProvider::builder()
            .with_batch_exporter(exporter)
            .with_id_generator(Ids::default())
            .with_resource(resource())
            .build();
        let tracer = provider.tracer("treeline");
        let (closing, tasks) = (CancellationToken::new(), TaskTracker::new());
        Ok(Self(Some(Sender { provider, tracer, closing, tasks })))
    }

    /// Returns true if spans are sent.
    pub const fn is_on(&self) -> bool {
        self.0.is_some()
    }

    /// Sends the last spans. Call this when everything else has ended.
    pub async fn close(&self) {
        let Some(Sender { provider, closing, tasks, .. }) = self.0.clone() else { return };
        closing.cancel();
        tasks.close();
        tasks.wait().await;
        let closed = tokio::task::spawn_blocking(move || provider.shutdown_with_timeout(LAST_SEND_TIMEOUT)).await;
        if let Ok(Err(error)) = closed {
            tracing::warn!(%error, "the last trace spans were not sent");
        }
    }

    /// Span of a request, which begins now; `None` if spans are not sent.
    pub(crate) fn request(
        &self,
        name: String,
        parent: Option<Traceparent>,
        attributes: Vec<KeyValue>,
    ) -> Option<OpenSpan> {
        let Sender { tracer, .. } = self.0.as_ref()?;
        let builder = SpanBuilder::from_name(name).with_kind(SpanKind::Server).with_attributes(attributes);
        Some(OpenSpan(tracer.build_with_context(builder, &context(parent))))
    }

    /// Context of a trace of its own, for what the server does by itself: that of a span which only marks its beginning.
    /// `None` if spans are not sent.
    pub(crate) fn begun(&self, name: &'static str) -> Option<Traceparent> {
        let Sender { tracer, .. } = self.0.as_ref()?;
        let builder = SpanBuilder::from_name(name).with_kind(SpanKind::Internal);
        OpenSpan(tracer.build_with_context(builder, &context(None))).traceparent()
    }

    /// Span of an outbound request below `parent`; `None` if spans are not sent, or if nothing above it is traced.
    pub(crate) fn outbound(
        &self,
        name: String,
        parent: Option<Traceparent>,
        attributes: Vec<KeyValue>,
    ) -> Option<OpenSpan> {
        let (Sender { tracer, .. }, parent) = (self.0.as_ref()?, parent?);
        let builder = SpanBuilder::from_name(name).with_kind(SpanKind::Client).with_attributes(attributes);
        Some(OpenSpan(tracer.build_with_context(builder, &context(Some(parent)))))
    }

    /// Gives an assignment the context of its attempt, and sends the span of its claim, which took since `began`.
    /// `request` is the context of the claiming request.
    pub(crate) fn handed_out(&self, assignment: &mut Assignment, began: SystemTime, request: Option<Traceparent>) {
        let Some(stored) = assignment.item.traceparent else { return };
        let Some(Sender { tracer, .. }) = &self.0 else { return };
        let item = &assignment.item;
        let links = request.filter(|request| request.trace_id != stored.trace_id).map(span_context);
        let builder = SpanBuilder::from_name(format!("claim {}", item.job_type))
            .with_kind(SpanKind::Consumer)
            // A long poll may have begun before the item was added.
            .with_start_time(began.max(SystemTime::from(item.created_at.0)))
            .with_links(links.into_iter().map(|context| Link::new(context, Vec::new(), 0)).collect())
            .with_attributes([
                KeyValue::new("treeline.item.id", item.id.to_string()),
                KeyValue::new("treeline.assignment.id", assignment.id.to_string()),
                KeyValue::new("treeline.attempt", i64::from(assignment.attempt)),
            ]);
        tracer.build_with_context(builder, &context(Some(stored.at(span_of(item.id))))).end();
        assignment.item.traceparent = Some(stored.at(span_of(assignment.id)));
    }
}

/// Span in progress; it ends when it is dropped or by [`OpenSpan::end`].
pub(crate) struct OpenSpan(Span);

impl OpenSpan {
    /// Context of what happens within the span.
    pub(crate) fn traceparent(&self) -> Option<Traceparent> {
        let context = self.0.span_context();
        context.is_valid().then(|| Traceparent {
            trace_id: context.trace_id().to_bytes(),
            span_id: context.span_id().to_bytes(),
            flags: context.trace_flags().to_u8(),
        })
    }

    /// Sets attributes that were not known at its beginning.
    pub(crate) fn set(&mut self, attributes: impl IntoIterator<Item = KeyValue>) {
        self.0.set_attributes(attributes);
    }

    /// Ends the span; `error`: what went wrong.
    pub(crate) fn end(mut self, error: Option<String>) {
        if let Some(error) = error {
            self.0.set_status(Status::error(error));
        }
        self.0.end();
    }
}

/// Ends the span of an outbound request with its status, or with the reason why there is none.
pub(crate) fn end_outbound(span: Option<OpenSpan>, status: Option<u16>, fault: Option<String>) {
    let Some(mut span) = span else { return };
    if let Some(status) = status {
        span.set([KeyValue::new("http.response.status_code", i64::from(status))]);
    }
    let error = status.filter(|status| *status >= 400).map(|status| status.to_string());
    span.end(fault.or(error));
}

/// Adds a context to the headers of an outbound request.
pub(crate) fn insert_traceparent(headers: &mut HeaderMap, traceparent: Option<Traceparent>) {
    if let Some(value) = traceparent.and_then(|at| HeaderValue::try_from(at.to_string()).ok()) {
        headers.insert(HeaderName::from_static("traceparent"), value);
    }
}

/// Id of the span of an item or of an assignment: the half of its id that is random and never zero.
pub(crate) fn span_of(id: Uuid) -> [u8; 8] {
    let mut span_id = [0; 8];
    span_id.copy_from_slice(&id.as_bytes()[8..]);
    span_id
}

fn span_context(at: Traceparent) -> SpanContext {
    let flags = TraceFlags::new(at.flags & 1);
    let (trace_id, span_id) = (TraceId::from_bytes(at.trace_id), SpanId::from_bytes(at.span_id));
    SpanContext::new(trace_id, span_id, flags, true, TraceState::default())
}

fn context(parent: Option<Traceparent>) -> Context {
    match parent {
        Some(parent) => Context::new().with_remote_span_context(span_context(parent)),
        None => Context::new(),
    }
}

/// Description of this server. The SDK reads `OTEL_SERVICE_NAME` and `OTEL_RESOURCE_ATTRIBUTES`.
fn resource() -> Resource {
    let given = Resource::builder().build().get(&Key::from_static_str("service.name"));
    let name = given.filter(|name| !name.as_str().starts_with("unknown_service")).unwrap_or_else(|| "treeline".into());
    Resource::builder()
        .with_service_name(name)
        .with_attribute(KeyValue::new("service.version", env!("CARGO_PKG_VERSION")))
        .build()
}

thread_local! {
    /// Id of the next span that this thread begins, if it is not random.
    static NEXT_SPAN: Cell<Option<[u8; 8]>> = const { Cell::new(None) };
}

/// Ids of spans: random, or chosen by [`begin_as`].
#[derive(Debug, Default)]
struct Ids(RandomIdGenerator);

impl IdGenerator for Ids {
    fn new_trace_id(&self) -> TraceId {
        self.0.new_trace_id()
    }

    fn new_span_id(&self) -> SpanId {
        NEXT_SPAN.take().map_or_else(|| self.0.new_span_id(), SpanId::from_bytes)
    }
}

/// Begins a span with this id.
fn begin_as(tracer: &SdkTracer, id: [u8; 8], builder: SpanBuilder, parent: Traceparent) -> Span {
    NEXT_SPAN.set(Some(id));
    let span = tracer.build_with_context(builder, &context(Some(parent)));
    // Unused if the tracer has ended.
    NEXT_SPAN.set(None);
    span
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_sent_without_an_endpoint() {
        let off = Traces::open(&Monitoring::default()).expect("traces");
        assert!(!off.is_on() && off.request("a".to_owned(), None, Vec::new()).is_none());
    }

    #[test]
    fn spans_of_items_have_ids_that_every_server_knows() {
        let provider = SdkTracerProvider::builder().with_id_generator(Ids::default()).build();
        let tracer = provider.tracer("test");
        let id = Uuid::parse_str("0190a5e0-0000-7000-8123-456789abcdef").expect("an id");
        let parent: Traceparent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01".parse().expect("a context");
        let span = OpenSpan(begin_as(&tracer, span_of(id), SpanBuilder::from_name("item"), parent));
        let text = span.traceparent().map(|at| at.to_string());
        assert_eq!(text.as_deref(), Some("00-4bf92f3577b34da6a3ce929d0e0e4736-8123456789abcdef-01"));
        let other = OpenSpan(tracer.build_with_context(SpanBuilder::from_name("other"), &context(Some(parent))));
        assert_ne!(other.traceparent().map(|at| at.span_id), Some(span_of(id)));
    }

    #[test]
    fn an_unsampled_trace_stays_unsampled() {
        let provider = SdkTracerProvider::builder().build();
        let parent: Traceparent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-00".parse().expect("a context");
        let span = provider.tracer("test").build_with_context(SpanBuilder::from_name("a"), &context(Some(parent)));
        assert_eq!(OpenSpan(span).traceparent().map(|at| (at.trace_id, at.flags)), Some((parent.trace_id, 0)));
    }
}
