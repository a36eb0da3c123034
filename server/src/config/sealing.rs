//! Key that seals secrets at rest.

use std::path::Path;

use anyhow::Context as _;
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
    /// Opens the keys of a server: those of the environment, then those of the key file in the data folder, which is
    /// created if neither has a key.
    pub fn open_or_make(&self, data_dir: &Path) -> anyhow::Result<Sealer> {
        let file = KeyFile::in_folder(data_dir);
        let stored = if self.secret_key.is_some() { file.read()? } else { file.read_or_make()? };
        self.sealer(&file, stored)
    }

    /// Opens the same keys for a command. Creates no key file: the server could not read one of another account.
    pub fn open(&self, data_dir: &Path) -> anyhow::Result<Sealer> {
        let file = KeyFile::in_folder(data_dir);
        self.sealer(&file, file.read()?)
    }

    fn sealer(&self, file: &KeyFile, stored: Vec<SealingKey>) -> anyhow::Result<Sealer> {
        let given = self.secret_key.as_ref().map(|text| parse(text, "TREELINE_SECRET_KEY")).transpose()?;
        let previous =
            self.secret_key_previous.as_ref().map(|text| parse(text, "TREELINE_SECRET_KEY_PREVIOUS")).transpose()?;
        Sealer::load(given, stored, previous).with_context(|| {
            format!(
                "There is no sealing key: neither TREELINE_SECRET_KEY nor the file {} is there. Run this command as \
                 the account of the server, with the settings of the server.",
                file.path().display()
            )
        })
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
