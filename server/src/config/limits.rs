//! Limits on server resources that callers can use: memory, requests, connections, stored work.
//!
//! Every limit has a default that a normal deployment never reaches. A limit is configurable only if a deployment can
//! have a good reason to change it.

use std::time::Duration;

use super::Size;

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

/// Quotas per owner and rate limits per caller. Beyond a quota: 429 `quota_exceeded`; beyond a rate: 429
/// `too_many_requests`.
#[derive(Clone, Debug, clap::Args)]
pub struct QuotaSettings {
    /// Bytes of files stored by one owner
    #[arg(
        id = "quota_stored_bytes",
        long = "quota-stored-bytes",
        env = "TREELINE_QUOTA_STORED_BYTES",
        default_value = "100GiB"
    )]
    pub stored_bytes: Size,

    /// Incomplete trees of one owner
    #[arg(
        id = "quota_open_trees",
        long = "quota-open-trees",
        env = "TREELINE_QUOTA_OPEN_TREES",
        default_value_t = 1_000_000
    )]
    pub open_trees: u32,

    /// Waiting items of one owner
    #[arg(
        id = "quota_waiting_items",
        long = "quota-waiting-items",
        env = "TREELINE_QUOTA_WAITING_ITEMS",
        default_value_t = 100_000_000
    )]
    pub waiting_items: u64,

    /// Open event streams of one person, share links included; a service may have ten times as many
    #[arg(id = "quota_streams", long = "quota-streams", env = "TREELINE_QUOTA_STREAMS", default_value_t = 1_000)]
    pub streams: u32,

    /// Concurrent requests of one owner, except those of workers and event streams
    #[arg(id = "quota_requests", long = "quota-requests", env = "TREELINE_QUOTA_REQUESTS", default_value_t = 1_000)]
    pub requests: u32,

    /// Requests of one credential per minute, except those of workers
    #[arg(id = "rate_requests", long = "rate-requests", env = "TREELINE_RATE_REQUESTS", default_value_t = 600_000)]
    pub requests_per_minute: u32,

    /// Lists with `q` of one credential per minute
    #[arg(id = "rate_searches", long = "rate-searches", env = "TREELINE_RATE_SEARCHES", default_value_t = 600)]
    pub searches_per_minute: u32,

    /// Requests from one address per minute that are refused because they have no valid credential
    #[arg(id = "rate_refusals", long = "rate-refusals", env = "TREELINE_RATE_REFUSALS", default_value_t = 6_000)]
    pub refusals_per_minute: u32,
}

impl Default for QuotaSettings {
    fn default() -> Self {
        Self {
            stored_bytes: Size(100 << 30),
            open_trees: 1_000_000,
            waiting_items: 100_000_000,
            streams: 1_000,
            requests: 1_000,
            requests_per_minute: 600_000,
            searches_per_minute: 600,
            refusals_per_minute: 6_000,
        }
    }
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
