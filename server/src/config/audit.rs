//! Settings of the audit log: the URL that entries are posted to, and the time that they are kept.

use crate::config::Secret;

/// The audit log's settings.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct AuditSettings {
    /// URL that entries of the audit log are posted to as signed JSON, in order, until they are taken
    #[arg(id = "audit_url", long = "audit-url", env = "TREELINE_AUDIT_URL", hide_env_values = true)]
    pub url: Option<Secret>,

    /// Days after which entries of the audit log are removed. Default: never
    #[arg(id = "audit_retain_days", long = "audit-retain-days", env = "TREELINE_AUDIT_RETAIN_DAYS",
          value_parser = clap::value_parser!(u32).range(1..=36_500))]
    pub retain_days: Option<u32>,
}
