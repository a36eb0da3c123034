//! Health check of a running server, for images without a shell: asks `/readyz` at the configured address.
//!
//! Separate from the outbound client, which keeps users' URLs away from local addresses: this one connects only to the
//! server's own address. It sends no credential, so it accepts any certificate, such as one for the public name.

use std::{
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
    time::Duration,
};

use anyhow::{Context as _, bail, ensure};
use domain::Problem;

use crate::config::Config;

/// Time for the whole check. Shorter than the usual timeout of a supervisor, so that it can log the reason.
const LIMIT: Duration = Duration::from_secs(5);

/// Checks that the server at the configured address is ready, or returns the reason why not.
pub async fn check(config: &Config) -> anyhow::Result<()> {
    let mut address = config.listen;
    ensure!(address.port() != 0, "TREELINE_LISTEN has port 0: the port of the running server is unknown");
    if address.ip().is_unspecified() {
        address.set_ip(match address.ip() {
            IpAddr::V4(_) => Ipv4Addr::LOCALHOST.into(),
            IpAddr::V6(_) => Ipv6Addr::LOCALHOST.into(),
        });
    }
    let scheme = if config.transport.is_tls() { "https" } else { "http" };
    // Install ring once per process; a provider that was installed earlier stays.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let client = reqwest::Client::builder()
        .no_proxy()
        .redirect(reqwest::redirect::Policy::none())
        .tls_danger_accept_invalid_certs(true)
        .timeout(LIMIT)
        .build()?;
    let url = format!("{scheme}://{address}/readyz");
    let answer = client.get(&url).send().await.with_context(|| format!("no server answers at {address}"))?;
    let status = answer.status();
    if status.is_success() {
        return Ok(());
    }
    match answer.json::<Problem>().await {
        Ok(problem) => bail!("not ready: {}", problem.detail),
        Err(_) => bail!("not ready: {url} answers {status}"),
    }
}
