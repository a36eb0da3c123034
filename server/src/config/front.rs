//! How many may be connected, and how long each may take.

use std::time::Duration;

/// Files that the process needs beside connections: PostgreSQL, RabbitMQ, uploads, what goes out.
const OTHER_FILES: u64 = 256;

/// The settings of the front door.
#[derive(Clone, Copy, Debug, clap::Args)]
pub struct Front {
    /// Connections at once; who comes beyond them is told to come again. Never more than the limit on open files allows
    #[arg(long, env = "TREELINE_CONNECTIONS", default_value_t = 10_000,
          value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub connections: u32,

    /// Connections at once from one address (of IPv6: one /64), but for loopback and trusted proxies; whoever comes beyond
    /// them must show a credential with the first request
    #[arg(long, env = "TREELINE_CONNECTIONS_PER_ADDRESS", default_value_t = 1_000,
          value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub connections_per_address: u32,

    /// Seconds after which an HTTP/2 connection ends over which nothing is asked
    #[arg(long, env = "TREELINE_HTTP2_IDLE_SECONDS", default_value_t = 120,
          value_parser = clap::value_parser!(u32).range(1..=86_400))]
    pub http2_idle_seconds: u32,

    /// Seconds in which a client must send the headers of a request, and go on reading an answer
    #[arg(long, env = "TREELINE_PATIENCE_SECONDS", default_value_t = 30,
          value_parser = clap::value_parser!(u32).range(1..=3_600))]
    pub patience_seconds: u32,

    /// Seconds in which the body of a request must have arrived that is neither an upload nor a stream of items
    #[arg(long, env = "TREELINE_BODY_SECONDS", default_value_t = 120,
          value_parser = clap::value_parser!(u32).range(1..=3_600))]
    pub body_seconds: u32,
}

impl Default for Front {
    fn default() -> Self {
        Self {
            connections: 10_000,
            connections_per_address: 1_000,
            http2_idle_seconds: 120,
            patience_seconds: 30,
            body_seconds: 120,
        }
    }
}

impl Front {
    /// How long headers and a reader who has stopped reading are waited for.
    pub fn patience(self) -> Duration {
        Duration::from_secs(self.patience_seconds.into())
    }

    /// Idle timeout of an HTTP/2 connection.
    pub fn http2_idle(self) -> Duration {
        Duration::from_secs(self.http2_idle_seconds.into())
    }

    /// How long a whole body is waited for.
    pub fn body_patience(self) -> Duration {
        Duration::from_secs(self.body_seconds.into())
    }

    /// The connections that there is room for. Takes as many files as the system lets the process have: the usual
    /// first limit, 1,024, is meant for programs that wait with `select`, and this one does not.
    pub fn room(self) -> usize {
        let files = most_files();
        let spare = files.map_or(u64::MAX, |files| files.saturating_sub(OTHER_FILES).max(files / 2));
        usize::try_from(u64::from(self.connections).min(spare)).unwrap_or(usize::MAX)
    }
}

/// How many files the process may have open; `None` where there is no bound.
fn most_files() -> Option<u64> {
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
    fn there_is_never_room_for_more_than_files_may_be_open() {
        let files = most_files().unwrap_or(u64::MAX);
        let asked = Front { connections: 1_000_000, ..Front::default() }.room() as u64;
        assert!(asked >= 1 && asked < files.max(1_000_001), "{asked} of {files}");
        assert_eq!(Front { connections: 1, ..Front::default() }.room(), 1);
    }
}
