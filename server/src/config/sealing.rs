//! Key that seals secrets at rest.

use super::Secret;

/// Sources of the sealing key.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct SealingSettings {
    /// Key that seals secrets in the database: 32 bytes as base64 or hexadecimal, the same for all servers of one
    /// database. Default: the file `secret.key` in the data folder, generated at the first start
    #[arg(long, env = "TREELINE_SECRET_KEY", hide_env_values = true)]
    pub secret_key: Option<Secret>,

    /// Previous key, accepted until `treeline-server rotate-key` has sealed everything with the new one
    #[arg(long, env = "TREELINE_SECRET_KEY_PREVIOUS", hide_env_values = true)]
    pub secret_key_previous: Option<Secret>,
}
