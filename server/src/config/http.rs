//! Limits on connections and timeouts of clients.

use std::time::Duration;

/// File descriptors needed besides client connections: PostgreSQL, RabbitMQ, uploads, outbound requests.
const RESERVED_FILES: u64 = 256;

/// Settings of client connections.
#[derive(Clone, Copy, Debug, clap::Args)]
pub struct HttpSettings {
    /// Maximum concurrent connections; further ones get 429. Never more than the limit on open files allows
    #[arg(long, env = "TREELINE_CONNECTIONS", default_value_t = 10_000,
          value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub connections: u32,

    /// Maximum concurrent connections per address (IPv6: per /64), except loopback and trusted proxies; further ones
    /// must send a credential with the first request
    #[arg(long, env = "TREELINE_CONNECTIONS_PER_ADDRESS", default_value_t = 1_000,
          value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub connections_per_address: u32,

    /// Idle timeout of an HTTP/2 connection, in seconds
    #[arg(long, env = "TREELINE_HTTP2_IDLE_SECONDS", default_value_t = 120,
          value_parser = clap::value_parser!(u32).range(1..=86_400))]
    pub http2_idle_seconds: u32,

    /// Timeout for request headers and for stalled response reads, in seconds
    #[arg(long = "http-idle-timeout", env = "TREELINE_HTTP_IDLE_TIMEOUT", default_value_t = 30,
          value_parser = clap::value_parser!(u32).range(1..=3_600))]
    pub http_idle_timeout_seconds: u32,

    /// Timeout for the body of a request that is neither an upload nor a stream of items, in seconds
    #[arg(long, env = "TREELINE_BODY_SECONDS", default_value_t = 120,
          value_parser = clap::value_parser!(u32).range(1..=3_600))]
    pub body_seconds: u32,
}

impl Default for HttpSettings {
    fn default() -> Self {
        Self {
            connections: 10_000,
            connections_per_address: 1_000,
            http2_idle_seconds: 120,
            http_idle_timeout_seconds: 30,
            body_seconds: 120,
        }
    }
}

impl HttpSettings {
    /// Timeout for request headers and for stalled response reads.
    pub fn idle_timeout(self) -> Duration {
        Duration::from_secs(self.http_idle_timeout_seconds.into())
    }

    /// Idle timeout of an HTTP/2 connection.
    pub fn http2_idle(self) -> Duration {
        Duration::from_secs(self.http2_idle_seconds.into())
    }

    /// Timeout for a whole body.
    pub fn body_timeout(self) -> Duration {
        Duration::from_secs(self.body_seconds.into())
    }

    /// Number of connections to accept. Raises the soft limit on open files to the hard limit: the usual soft limit of
    /// 1,024 exists for programs that use `select`, and this one does not.
    pub fn max_connections(self) -> usize {
        let files = open_file_limit();
        let spare = files.map_or(u64::MAX, |files| files.saturating_sub(RESERVED_FILES).max(files / 2));
        usize::try_from(u64::from(self.connections).min(spare)).unwrap_or(usize::MAX)
    }
}

/// Limit on open files of the process; `None` if unlimited.
fn open_file_limit() -> Option<u64> {
    use rustix::process::{Resource, getrlimit, setrlimit};
    let limit = getrlimit(Resource::Nofile);
    let more = rustix::process::Rlimit { current: limit.maximum, maximum: limit.maximum };
    match setrlimit(Resource::Nofile, more) {
        Ok(()) => limit.maximum,
        Err(_) => limit.current,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_never_exceed_the_open_file_limit() {
        let files = open_file_limit().unwrap_or(u64::MAX);
        let limit = HttpSettings { connections: 1_000_000, ..HttpSettings::default() }.max_connections() as u64;
        assert!(limit >= 1 && limit < files.max(1_000_001), "{limit} of {files}");
        assert_eq!(HttpSettings { connections: 1, ..HttpSettings::default() }.max_connections(), 1);
    }
}
