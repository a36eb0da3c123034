//! Proxies in front of the server whose word about the client's address is trusted.

/// The settings about proxies.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct Proxies {
    /// Networks of the proxies whose `Forwarded` and `X-Forwarded-For` headers are believed, separated by commas:
    /// `127.0.0.1,10.1.0.0/16`. Default: none, the client is whoever connects
    #[arg(long, env = "TREELINE_TRUSTED_PROXIES", default_value = "", hide_default_value = true)]
    pub trusted_proxies: crate::auth::TrustedProxies,
}
