//! Settings of the optional RabbitMQ broker.

use engine::settings::Secret;

/// Settings of the broker.
#[derive(Clone, Debug, clap::Args)]
pub struct BrokerSettings {
    /// RabbitMQ, for workers that consume from it: amqp://user:password@host:5672/vhost, or amqps.
    /// Without it, workers are woken in process and across servers through the database
    #[arg(long, env = "AMQP_URL", hide_env_values = true)]
    pub amqp_url: Option<Secret>,

    /// Interval in seconds after which possibly lost wake-ups are republished; at most one per item per interval
    #[arg(long, env = "TREELINE_BROKER_RESEND_SECONDS", default_value_t = 60,
          value_parser = clap::value_parser!(u32).range(1..=86_400))]
    pub broker_resend_seconds: u32,
}

impl Default for BrokerSettings {
    fn default() -> Self {
        Self { amqp_url: None, broker_resend_seconds: 60 }
    }
}
