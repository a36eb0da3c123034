//! Limits on server resources that callers can use: memory, requests, connections, stored work.
//!
//! Every limit has a default that a normal deployment never reaches. A limit is configurable only if a deployment can
//! have a good reason to change it.

use std::time::Duration;

use engine::settings::{Size, quotas::QuotaSettings};

/// Settings of limits.
#[derive(Clone, Debug, clap::Args)]
pub struct LimitSettings {
    /// Total size of request bodies held in memory; beyond it: 503 `busy`
    #[arg(long, env = "TREELINE_BODY_MEMORY", default_value = "64MiB")]
    pub body_memory: Size,

    /// Seconds within which a stream of items must deliver its next whole line
    #[arg(long, env = "TREELINE_STREAM_IDLE_SECONDS", default_value_t = 120,
          value_parser = clap::value_parser!(u32).range(1..=86_400))]
    pub stream_idle_seconds: u32,

    #[command(flatten)]
    pub quotas: QuotaSettings,
}

impl Default for LimitSettings {
    fn default() -> Self {
        Self { body_memory: Size(64 << 20), stream_idle_seconds: 120, quotas: QuotaSettings::default() }
    }
}

impl LimitSettings {
    /// Longest time that a stream of items may go without a whole line.
    pub fn stream_idle_timeout(&self) -> Duration {
        Duration::from_secs(self.stream_idle_seconds.into())
    }
}
