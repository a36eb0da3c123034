//! Key that seals secrets at rest.

use std::path::Path;

use engine::{
    sealing::{KeyFile, Sealer, SealingKey},
    settings::Secret,
};

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

impl SealingSettings {
    /// Opens the keys of this server: those of the environment, then those of the key file in the data folder.
    pub fn open(&self, data_dir: &Path) -> anyhow::Result<Sealer> {
        let given = self.secret_key.as_ref().map(|text| parse(text, "TREELINE_SECRET_KEY")).transpose()?;
        let previous =
            self.secret_key_previous.as_ref().map(|text| parse(text, "TREELINE_SECRET_KEY_PREVIOUS")).transpose()?;
        Sealer::load(&KeyFile::in_folder(data_dir), given, previous)
    }
}

fn parse(text: &Secret, variable: &str) -> anyhow::Result<SealingKey> {
    SealingKey::parse(text.reveal()).ok_or_else(|| {
        anyhow::anyhow!(
            "{variable} is not a key: it needs 32 bytes as base64 or hexadecimal, for example the output of \
             `openssl rand -base64 32`."
        )
    })
}
