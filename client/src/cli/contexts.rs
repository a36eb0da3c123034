//! Contexts: named servers with a token, in a file that only its owner can read.
//!
//! The file is `treeline/contexts.json` in the folder for configuration (`XDG_CONFIG_HOME`, or `~/.config`). It is
//! replaced as a whole, so that an interrupted command leaves the old one. A token is only ever sent to the server for
//! which it was stored.

use std::{
    collections::BTreeMap,
    fs::{DirBuilder, OpenOptions, Permissions},
    io::{ErrorKind, Write as _},
    os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _},
    path::{Path, PathBuf},
};

use anyhow::{Context as _, bail};
use serde::{Deserialize, Serialize};

/// Server of a command that names none, while there is no context.
pub(super) const DEFAULT_URL: &str = "http://127.0.0.1:3000";

/// A server and a token for it.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Server {
    pub(super) url: String,
    #[serde(default)]
    pub(super) token: Option<String>,
}

/// All contexts.
#[derive(Default, Serialize, Deserialize)]
pub(super) struct Contexts {
    /// Name of the context in use.
    #[serde(default)]
    pub(super) current: Option<String>,
    #[serde(default)]
    pub(super) contexts: BTreeMap<String, Server>,
}

impl Server {
    /// The server of a command: a given URL and token come before the context. A given URL leaves out the context
    /// with its token, unless the context is named, too.
    pub(super) fn chosen(url: Option<String>, token: Option<String>, name: Option<&str>) -> anyhow::Result<Self> {
        let file = file();
        let contexts = match (&file, name, &url) {
            (Some(file), Some(_), _) | (Some(file), None, None) => Contexts::read(file)?,
            _ => Contexts::default(),
        };
        contexts.choose(url, token, name)
    }
}

impl Contexts {
    fn choose(&self, url: Option<String>, token: Option<String>, name: Option<&str>) -> anyhow::Result<Server> {
        let context = match (name, &url) {
            (Some(name), _) => Some(self.named(name)?),
            (None, None) => self.current.as_ref().and_then(|name| self.contexts.get(name)),
            (None, Some(_)) => None,
        };
        if let (Some(context), Some(url)) = (context, &url)
            && context.url != *url
        {
            bail!("the context is for {}, and --url or TREELINE_URL is {url}; leave one of them out", context.url);
        }
        Ok(Server {
            url: url.or_else(|| context.map(|context| context.url.clone())).unwrap_or_else(|| DEFAULT_URL.to_owned()),
            token: token.or_else(|| context.and_then(|context| context.token.clone())),
        })
    }

    fn named(&self, name: &str) -> anyhow::Result<&Server> {
        self.contexts.get(name).with_context(|| {
            let names: Vec<&str> = self.contexts.keys().map(String::as_str).collect();
            if names.is_empty() {
                format!("there is no context {name:?}; `treeline login` adds one")
            } else {
                format!("there is no context {name:?}, only {}", names.join(", "))
            }
        })
    }

    /// Makes a context the one in use.
    pub(super) fn choose_current(&mut self, name: &str) -> anyhow::Result<()> {
        self.named(name)?;
        self.current = Some(name.to_owned());
        Ok(())
    }

    /// Removes a context with its token.
    pub(super) fn remove(&mut self, name: &str) -> anyhow::Result<()> {
        self.named(name)?;
        self.contexts.remove(name);
        self.current.take_if(|current| current == name);
        Ok(())
    }

    /// Reads the file; an absent file has no contexts.
    pub(super) fn read(file: &Path) -> anyhow::Result<Self> {
        let text = match std::fs::read_to_string(file) {
            Ok(text) => text,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Self::default()),
            Err(error) => return Err(error).with_context(|| file.display().to_string()),
        };
        let mode = std::fs::metadata(file).map_or(0, |metadata| metadata.permissions().mode() & 0o777);
        if mode & 0o077 != 0 {
            bail!("{} can be read by others (mode {mode:o}); run: chmod 600 {0}", file.display());
        }
        serde_json::from_str(&text).with_context(|| format!("{} is not valid", file.display()))
    }

    /// Replaces the file, with mode 0600.
    pub(super) fn write(&self, file: &Path) -> anyhow::Result<()> {
        let folder = file.parent().context("the file of contexts has no folder")?;
        DirBuilder::new().recursive(true).mode(0o700).create(folder).with_context(|| folder.display().to_string())?;
        let new = folder.join(format!(".contexts.{}.new", std::process::id()));
        let written = (|| {
            let mut output = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&new)?;
            // The mode above does not apply to a file that an earlier command left.
            output.set_permissions(Permissions::from_mode(0o600))?;
            output.write_all(serde_json::to_string_pretty(self)?.as_bytes())?;
            output.sync_all()?;
            std::fs::rename(&new, file)
        })();
        if written.is_err() {
            let _ = std::fs::remove_file(&new);
        }
        written.with_context(|| file.display().to_string())
    }
}

/// Path of the file; `None` if there is no folder for configuration.
pub(super) fn file() -> Option<PathBuf> {
    let absolute = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let folder = absolute("XDG_CONFIG_HOME").or_else(|| Some(absolute("HOME")?.join(".config")))?;
    Some(folder.join("treeline").join("contexts.json"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn two() -> Contexts {
        let server = |url: &str| Server { url: url.to_owned(), token: Some(format!("token of {url}")) };
        Contexts {
            current: Some("home".to_owned()),
            contexts: [("home".to_owned(), server("https://home")), ("work".to_owned(), server("https://work"))].into(),
        }
    }

    #[test]
    fn a_token_goes_only_to_its_server() {
        let chosen = |url: Option<&str>, token: Option<&str>, name| {
            let server = two().choose(url.map(str::to_owned), token.map(str::to_owned), name).expect("a server");
            (server.url, server.token)
        };
        let of = |url: &str, token: Option<&str>| (url.to_owned(), token.map(str::to_owned));
        assert_eq!(chosen(None, None, None), of("https://home", Some("token of https://home")));
        assert_eq!(chosen(None, None, Some("work")), of("https://work", Some("token of https://work")));
        assert_eq!(chosen(Some("https://other"), None, None), of("https://other", None));
        assert_eq!(chosen(Some("https://home"), None, None), of("https://home", None));
        assert_eq!(chosen(None, Some("mine"), None), of("https://home", Some("mine")));
        assert!(two().choose(Some("https://other".to_owned()), None, Some("work")).is_err());
        assert!(two().choose(None, None, Some("nowhere")).is_err());
        let none = Contexts::default().choose(None, None, None).expect("a server");
        assert_eq!((none.url.as_str(), none.token), (DEFAULT_URL, None));
    }

    #[test]
    fn the_file_is_private_and_is_refused_if_it_is_not() {
        let folder = std::env::temp_dir().join(format!("treeline-contexts-{}", std::process::id()));
        let file = folder.join("treeline").join("contexts.json");
        assert!(Contexts::read(&file).expect("absent").contexts.is_empty());
        two().write(&file).expect("written");
        let mode = |path: &Path| std::fs::metadata(path).expect("there").permissions().mode() & 0o777;
        assert_eq!((mode(&file), mode(file.parent().expect("a folder"))), (0o600, 0o700));
        assert_eq!(Contexts::read(&file).expect("read").contexts.len(), 2);
        std::fs::set_permissions(&file, Permissions::from_mode(0o644)).expect("opened");
        assert!(Contexts::read(&file).err().expect("refused").to_string().contains("chmod 600"));
        std::fs::remove_dir_all(folder).expect("removed");
    }

    #[test]
    fn a_removed_context_is_not_in_use() {
        let mut contexts = two();
        contexts.remove("work").expect("removed");
        assert_eq!(contexts.current.as_deref(), Some("home"));
        contexts.remove("home").expect("removed");
        assert_eq!(contexts.current, None);
        assert!(contexts.choose_current("home").is_err());
    }
}
