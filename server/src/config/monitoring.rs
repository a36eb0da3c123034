//! Settings of monitoring: the address that serves metrics.

use std::net::SocketAddr;

/// Settings of monitoring.
#[derive(Clone, Copy, Debug, Default, clap::Args)]
pub struct Monitoring {
    /// Address and port of a listener that serves only `/metrics`, without authentication. Default: none
    #[arg(long = "metrics-listen", env = "TREELINE_METRICS_LISTEN")]
    pub metrics_listen: Option<SocketAddr>,
}
