//! Settings of outbound HTTP: callbacks of complete trees, and push requests to workers.

use engine::{addresses::Allowed, settings::Secret};

/// Limits and retries of callbacks and push requests.
#[derive(Clone, Debug, clap::Args)]
pub struct Outbound {
    /// Hosts and networks that push requests may reach although they are not public, comma-separated:
    /// `workers.internal,10.2.0.0/16`. Default: none
    #[arg(long, env = "TREELINE_PUSH_ALLOW", default_value = "", hide_default_value = true)]
    pub push_allow: Allowed,

    /// Concurrent push requests to one target (host and port) from one server
    #[arg(long, env = "TREELINE_PUSH_CONCURRENCY", default_value_t = 100,
          value_parser = clap::value_parser!(u16).range(1..=10_000))]
    pub push_concurrency: u16,

    /// Consecutive failures (no response, a 5xx, or a 429) after which push to a target pauses
    #[arg(long, env = "TREELINE_PUSH_BREAK_AFTER", default_value_t = 20,
          value_parser = clap::value_parser!(u16).range(1..))]
    pub push_break_after: u16,

    /// First pause of a failing target, in seconds; doubled by each further failure, up to a minute
    #[arg(long, env = "TREELINE_PUSH_BREAK_SECONDS", default_value = "1", value_parser = seconds)]
    pub push_break_seconds: f64,

    /// Timeout of a callback, in seconds
    #[arg(long, env = "TREELINE_CALLBACK_TIMEOUT_SECONDS", default_value = "15", value_parser = seconds)]
    pub callback_timeout_seconds: f64,

    /// Delay of a callback after its first failure, in seconds; tripled after each further one, up to two hours
    #[arg(long, env = "TREELINE_CALLBACK_RETRY_SECONDS", default_value = "5", value_parser = seconds)]
    pub callback_retry_seconds: f64,

    /// Time in seconds after which a failing callback is abandoned
    #[arg(long, env = "TREELINE_CALLBACK_GIVE_UP_SECONDS", default_value = "86400", value_parser = seconds)]
    pub callback_give_up_seconds: f64,

    /// Default signing secret for callbacks and push requests: `whsec_` and base64, or any text.
    /// Default: generated at the first start and stored in the database
    #[arg(long, env = "TREELINE_SIGNING_SECRET", hide_env_values = true)]
    pub signing_secret: Option<Secret>,
}

impl Default for Outbound {
    fn default() -> Self {
        Self {
            push_allow: Allowed::default(),
            push_concurrency: 100,
            push_break_after: 20,
            push_break_seconds: 1.0,
            callback_timeout_seconds: 15.0,
            callback_retry_seconds: 5.0,
            callback_give_up_seconds: 86_400.0,
            signing_secret: None,
        }
    }
}

fn seconds(text: &str) -> Result<f64, String> {
    text.parse()
        .ok()
        .filter(|seconds| (0.01..=31_536_000.0).contains(seconds))
        .ok_or_else(|| "expected a number of seconds from 0.01 to 31536000".to_owned())
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        outbound: Outbound,
    }

    #[test]
    fn the_defaults_of_the_command_line_are_those_of_the_code() {
        let parsed = Line::parse_from(["server"]).outbound;
        assert_eq!(format!("{parsed:?}"), format!("{:?}", Outbound::default()));
        let refused = Line::try_parse_from(["server", "--callback-retry-seconds", "0"]);
        assert!(refused.is_err());
    }
}
