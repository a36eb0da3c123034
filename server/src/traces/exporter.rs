//! Sends batches of spans to a collector: OTLP, protobuf over HTTP, with the HTTP client that the server has anyway.

use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use opentelemetry_http::{HttpClient, HttpError, Request, Response};
use opentelemetry_otlp::{Protocol, SpanExporter, WithExportConfig as _, WithHttpConfig as _};
use tokio::runtime::Handle;
use url::Url;

/// Timeout of one batch.
const TIMEOUT: Duration = Duration::from_secs(10);

/// Exporter to the URL of an OTLP endpoint for traces.
pub(super) fn open(url: Url) -> anyhow::Result<SpanExporter> {
    // Installed once per process; a provider that was installed earlier stays.
    let _ = rustls::crypto::ring::default_provider().install_default();
    // The URL is the operator's: its proxies and private addresses are allowed.
    let http = reqwest::Client::builder().timeout(TIMEOUT).redirect(reqwest::redirect::Policy::none()).build()?;
    let client = Client { http, runtime: Handle::current() };
    let exporter = SpanExporter::builder()
        .with_http()
        .with_http_client(client)
        .with_protocol(Protocol::HttpBinary)
        .with_endpoint(String::from(url))
        .build()?;
    Ok(exporter)
}

/// Client on the server's runtime; the thread that sends batches has none.
#[derive(Clone, Debug)]
struct Client {
    http: reqwest::Client,
    runtime: Handle,
}

#[async_trait]
impl HttpClient for Client {
    async fn send_bytes(&self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        let http = self.http.clone();
        let answer = self.runtime.spawn(async move {
            let (parts, body) = request.into_parts();
            let sent = http.request(parts.method, parts.uri.to_string()).headers(parts.headers).body(body).send();
            let answer = sent.await?;
            let (status, headers) = (answer.status(), answer.headers().clone());
            Ok::<_, reqwest::Error>((status, headers, answer.bytes().await?))
        });
        let answer = answer.await?;
        let outcome = match &answer {
            Ok((status, ..)) if status.is_success() => "accepted",
            Ok(_) => "refused",
            Err(_) => "unreachable",
        };
        metrics::counter!("treeline_trace_batches_total", "outcome" => outcome).increment(1);
        let (status, headers, body) = answer?;
        let mut response = Response::new(body);
        *response.status_mut() = status;
        *response.headers_mut() = headers;
        Ok(response)
    }
}
