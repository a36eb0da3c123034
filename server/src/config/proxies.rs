//! Reverse proxies that are trusted to report the client's address.

/// Settings of proxies.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct Proxies {
    /// Networks of the proxies whose `Forwarded` and `X-Forwarded-For` headers are trusted, comma-separated:
    /// `127.0.0.1,10.1.0.0/16`. Default: none; the peer address is the client
    #[arg(long, env = "TREELINE_TRUSTED_PROXIES", default_value = "", hide_default_value = true)]
    pub trusted_proxies: crate::config::trusted_proxies::TrustedProxies,
}
