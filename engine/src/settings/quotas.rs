//! Quotas of owners and rate limits of callers.

use super::Size;

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

    /// Open event streams of one person; a service may have ten times as many, a share link at most 100
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
