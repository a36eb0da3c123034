//! Settings of monitoring: the address that serves metrics, and the collector of traces.

use std::net::SocketAddr;

use anyhow::{Context as _, ensure};
use url::Url;

use engine::settings::Secret;

/// Settings of monitoring.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct Monitoring {
    /// Address and port of a listener that serves only `/metrics`, without authentication; on a loopback address always
    /// by plain HTTP. Default: none
    #[arg(long = "metrics-listen", env = "TREELINE_METRICS_LISTEN")]
    pub metrics_listen: Option<SocketAddr>,

    /// Base URL of an OpenTelemetry collector (OTLP, protobuf over HTTP), such as `http://127.0.0.1:4318`: traces are
    /// sent to `/v1/traces` below it. Default: none; traces are not recorded
    #[arg(long = "otlp-endpoint", env = "OTEL_EXPORTER_OTLP_ENDPOINT", hide_env_values = true)]
    pub otlp_endpoint: Option<Secret>,

    /// Whole URL for traces, instead of the one below the base URL
    #[arg(long = "otlp-traces-endpoint", env = "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", hide_env_values = true)]
    pub otlp_traces_endpoint: Option<Secret>,

    /// Protocol of the traces: only `http/protobuf`
    #[arg(long = "otlp-protocol", env = "OTEL_EXPORTER_OTLP_PROTOCOL")]
    pub otlp_protocol: Option<String>,
}

impl Monitoring {
    /// URL that traces are sent to, if any. An empty variable counts as not set, as OpenTelemetry says.
    pub fn traces_url(&self) -> anyhow::Result<Option<Url>> {
        let filled = |text: &str| Some(text.trim().to_owned()).filter(|text| !text.is_empty());
        let given = |secret: &'_ Option<Secret>| secret.as_ref().and_then(|secret| filled(secret.reveal()));
        let (name, text) = match (given(&self.otlp_traces_endpoint), given(&self.otlp_endpoint)) {
            (Some(whole), _) => ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", whole),
            (None, Some(base)) => ("OTEL_EXPORTER_OTLP_ENDPOINT", format!("{}/v1/traces", base.trim_end_matches('/'))),
            (None, None) => return Ok(None),
        };
        let url = Url::parse(&text).with_context(|| format!("{name} is not a URL"))?;
        ensure!(matches!(url.scheme(), "http" | "https"), "{name} is not a URL of http or https");
        let protocol = self.otlp_protocol.as_deref().and_then(filled);
        ensure!(
            protocol.as_deref().is_none_or(|protocol| protocol == "http/protobuf"),
            "OTEL_EXPORTER_OTLP_PROTOCOL: expected http/protobuf, the only one that is sent"
        );
        Ok(Some(url))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn url(base: &str, whole: &str) -> anyhow::Result<Option<String>> {
        let secret = |text: &str| (!text.is_empty()).then(|| text.parse()).transpose();
        let monitoring =
            Monitoring { otlp_endpoint: secret(base)?, otlp_traces_endpoint: secret(whole)?, ..Monitoring::default() };
        Ok(monitoring.traces_url()?.map(String::from))
    }

    #[test]
    fn traces_go_below_the_base_url_or_to_the_whole_one() {
        let read = |base, whole| url(base, whole).expect("a valid setting");
        assert_eq!(read("", ""), None);
        assert_eq!(read("  ", ""), None);
        assert_eq!(read("http://c:4318", "").as_deref(), Some("http://c:4318/v1/traces"));
        assert_eq!(read("https://c/otlp/", "").as_deref(), Some("https://c/otlp/v1/traces"));
        assert_eq!(read("http://c:4318", "http://d/t").as_deref(), Some("http://d/t"));
        for bad in ["c:4318", "ftp://c", "grpc://c:4317"] {
            assert!(url(bad, "").is_err(), "{bad}");
        }
    }
}
