//! Key file `secret.key` in the data folder: one key per line, the first of which seals.
//!
//! Created at the first start if no key is configured, with mode 0600, and replaced atomically. Links are not followed,
//! and a file that others may read or that another account owns is refused: its key would not be secret. It must never
//! be logged.

use std::{
    fs::{self, DirBuilder, File, OpenOptions},
    io::{self, Read as _, Write as _},
    os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _},
    path::{Path, PathBuf},
};

use anyhow::{Context as _, bail, ensure};
use rustix::{fs::OFlags, process::geteuid};
use uuid::Uuid;

use super::SealingKey;

const NAME: &str = "secret.key";

/// Longest file that is read, in bytes: a few keys.
const LONGEST: u64 = 4_096;

/// Key file of a data folder.
#[derive(Clone, Debug)]
pub struct KeyFile(PathBuf);

impl KeyFile {
    /// Key file of a data folder; it may not exist.
    pub fn in_folder(data_dir: &Path) -> Self {
        Self(data_dir.join(NAME))
    }

    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Reads the keys; empty without a file.
    pub fn read(&self) -> anyhow::Result<Vec<SealingKey>> {
        let path = self.0.display();
        let opened = OpenOptions::new().read(true).custom_flags(nofollow()).open(&self.0);
        let file = match opened {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            other => other.with_context(|| format!("cannot open the key file {path}"))?,
        };
        let about = file.metadata().with_context(|| format!("cannot look at the key file {path}"))?;
        ensure!(about.is_file(), "The key file {path} is not a file.");
        ensure!(
            about.mode().trailing_zeros() >= 6,
            "The key file {path} can be read by other accounts: run `chmod 600 {path}`, or make a new key if it may \
             have been copied."
        );
        let me = geteuid().as_raw();
        ensure!(about.uid() == me || about.uid() == 0, "The key file {path} belongs to another account.");
        let mut text = String::new();
        file.take(LONGEST).read_to_string(&mut text).with_context(|| format!("cannot read the key file {path}"))?;
        let lines = text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
        let keys: Option<Vec<SealingKey>> = lines.map(SealingKey::parse).collect();
        match keys {
            Some(keys) if !keys.is_empty() => Ok(keys),
            _ => bail!("The key file {path} holds no key: put it back from a backup, or set TREELINE_SECRET_KEY."),
        }
    }

    /// Reads the keys, creating the file if there is none.
    pub fn read_or_make(&self) -> anyhow::Result<Vec<SealingKey>> {
        let there = self.read()?;
        if !there.is_empty() {
            return Ok(there);
        }
        let fresh = self.write_beside(&[SealingKey::generate()])?;
        // A hard link fails if another server was first; a rename would replace its key.
        let created = fs::hard_link(&fresh, &self.0);
        fs::remove_file(&fresh).context("cannot remove a temporary key file")?;
        match created {
            Ok(()) => tracing::info!(file = %self.0.display(), "sealing key created, keep a copy of the file"),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error).context(format!("cannot create the key file {}", self.0.display())),
        }
        self.sync_folder()?;
        self.read()
    }

    /// Replaces the keys in the file.
    pub fn replace(&self, keys: &[SealingKey]) -> anyhow::Result<()> {
        let fresh = self.write_beside(keys)?;
        fs::rename(&fresh, &self.0).with_context(|| format!("cannot replace the key file {}", self.0.display()))?;
        self.sync_folder()
    }

    /// Writes a complete file under a temporary name in the same folder.
    fn write_beside(&self, keys: &[SealingKey]) -> anyhow::Result<PathBuf> {
        let folder = self.folder();
        let mut builder = DirBuilder::new();
        builder.recursive(true).mode(0o700);
        builder.create(folder).with_context(|| format!("cannot make the folder {}", folder.display()))?;
        let path = folder.join(format!(".{NAME}.{}", Uuid::now_v7().simple()));
        let mut file = OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .custom_flags(nofollow())
            .open(&path)
            .with_context(|| format!("cannot write a key file in {}: set TREELINE_SECRET_KEY", folder.display()))?;
        let mut text =
            "# Treeline seals secrets in its database with this key. Keep a copy; show it to nobody.\n".to_owned();
        for key in keys {
            text.push_str(&key.text());
            text.push('\n');
        }
        file.write_all(text.as_bytes()).and_then(|()| file.sync_all()).context("cannot write the key file")?;
        Ok(path)
    }

    fn folder(&self) -> &Path {
        self.0.parent().unwrap_or(Path::new("."))
    }

    fn sync_folder(&self) -> anyhow::Result<()> {
        File::open(self.folder())
            .and_then(|folder| folder.sync_all())
            .context("cannot write the folder of the key file")
    }
}

fn nofollow() -> i32 {
    OFlags::NOFOLLOW.bits() as i32
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    use super::*;

    #[test]
    fn the_file_is_made_once_and_for_its_owner_alone() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = KeyFile(folder.path().join("new").join(NAME));
        assert!(file.read().expect("no file").is_empty());
        let created = file.read_or_make().expect("made");
        let again = file.read_or_make().expect("read");
        assert_eq!((created.len(), created[0].id()), (1, again[0].id()));
        assert_eq!(fs::metadata(file.path()).expect("a file").permissions().mode() & 0o777, 0o600);
        let both = [SealingKey::generate(), created[0].clone()];
        file.replace(&both).expect("replaced");
        assert_eq!(file.read().expect("two").len(), 2);
        assert_eq!(fs::read_dir(file.folder()).expect("a folder").count(), 1, "nothing is left beside it");
    }

    #[test]
    fn a_file_that_others_can_read_or_choose_is_refused() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = KeyFile(folder.path().join(NAME));
        file.read_or_make().expect("made");
        fs::set_permissions(file.path(), fs::Permissions::from_mode(0o644)).expect("a mode");
        assert!(file.read().expect_err("refused").to_string().contains("other accounts"));
        let elsewhere = folder.path().join("elsewhere");
        fs::rename(file.path(), &elsewhere).expect("moved");
        fs::set_permissions(&elsewhere, fs::Permissions::from_mode(0o600)).expect("a mode");
        symlink(&elsewhere, file.path()).expect("a link");
        assert!(file.read().is_err() && file.read_or_make().is_err(), "links are not followed");
        fs::remove_file(file.path()).expect("gone");
        fs::write(&elsewhere, "nonsense\n").expect("written");
        fs::rename(&elsewhere, file.path()).expect("moved");
        assert!(file.read_or_make().is_err(), "a damaged file is not replaced by a new key");
    }
}
