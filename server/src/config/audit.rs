//! Settings of the audit log: destination URL and retention.

use engine::settings::Secret;

/// Settings of the audit log.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct AuditSettings {
    /// URL that audit log entries are posted to as signed JSON, in order, until they are accepted
    #[arg(id = "audit_url", long = "audit-url", env = "TREELINE_AUDIT_URL", hide_env_values = true)]
    pub url: Option<Secret>,

    /// Days after which audit log entries are deleted. Default: never
    #[arg(id = "audit_retain_days", long = "audit-retain-days", env = "TREELINE_AUDIT_RETAIN_DAYS",
          value_parser = clap::value_parser!(u32).range(1..=36_500))]
    pub retain_days: Option<u32>,
}
