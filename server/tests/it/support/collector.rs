//! OpenTelemetry collector of a test: receives OTLP (protobuf over HTTP) and keeps the spans. A collector program is in
//! no package registry that the tests may use; the messages are those of `opentelemetry-proto`.

use axum::{
    Router,
    body::Bytes,
    extract::State,
    http::{HeaderMap, StatusCode},
    routing::post,
};
use opentelemetry_proto::tonic::{
    collector::trace::v1::ExportTraceServiceRequest,
    common::v1::{KeyValue, any_value::Value},
    trace::v1::Span,
};
use prost::Message as _;
use tokio::{net::TcpListener, sync::mpsc};

/// Collector on its own port.
pub(crate) struct Collector {
    port: u16,
    requests: mpsc::UnboundedReceiver<ExportTraceServiceRequest>,
    task: tokio::task::JoinHandle<()>,
}

/// Spans that have arrived, and the names of the services that sent them.
#[derive(Debug, Default)]
pub(crate) struct Spans {
    pub(crate) all: Vec<Span>,
    pub(crate) services: Vec<String>,
}

impl Collector {
    pub(crate) async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let port = listener.local_addr().expect("an address").port();
        let (sender, requests) = mpsc::unbounded_channel();
        let router = Router::new().route("/v1/traces", post(receive)).with_state(sender);
        let task = tokio::spawn(async move { axum::serve(listener, router).await.expect("it serves") });
        Self { port, requests, task }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// Spans that have arrived. A server that has stopped has sent all of its.
    pub(crate) fn received(&mut self) -> Spans {
        let mut spans = Spans::default();
        while let Ok(request) = self.requests.try_recv() {
            for of_resource in request.resource_spans {
                let resource = of_resource.resource.unwrap_or_default();
                spans.services.extend(text(&resource.attributes, "service.name"));
                spans.all.extend(of_resource.scope_spans.into_iter().flat_map(|scope| scope.spans));
            }
        }
        spans
    }
}

impl Drop for Collector {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn receive(
    State(requests): State<mpsc::UnboundedSender<ExportTraceServiceRequest>>,
    headers: HeaderMap,
    body: Bytes,
) -> StatusCode {
    assert_eq!(headers["content-type"], "application/x-protobuf");
    let Ok(request) = ExportTraceServiceRequest::decode(body) else { return StatusCode::BAD_REQUEST };
    let _ = requests.send(request);
    StatusCode::OK
}

impl Spans {
    /// The only span of this name.
    #[track_caller]
    pub(crate) fn only(&self, name: &str) -> &Span {
        let found: Vec<&Span> = self.all.iter().filter(|span| span.name == name).collect();
        let names: Vec<&str> = self.all.iter().map(|span| span.name.as_str()).collect();
        assert_eq!(found.len(), 1, "{name}: {names:?}");
        found[0]
    }

    pub(crate) fn has(&self, name: &str) -> bool {
        self.all.iter().any(|span| span.name == name)
    }
}

/// Lowercase hexadecimal digits.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Text attribute.
pub(crate) fn text(attributes: &[KeyValue], key: &str) -> Option<String> {
    let value = attributes.iter().find(|attribute| attribute.key == key)?.value.as_ref()?.value.as_ref()?;
    match value {
        Value::StringValue(text) => Some(text.clone()),
        _ => None,
    }
}
