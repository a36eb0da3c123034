//! PostgreSQL's own programs: where they are, and how they are run.
//!
//! PostgreSQL refuses to run as root. When we are root, its programs run as `postgres`, else as
//! `nobody`, and the folders they write belong to that account, which must not become root by them: what
//! is done in such a folder is done by the account itself or without following links. `xtask` compiles
//! this file too.

use std::{
    ffi::OsStr,
    fs::File,
    io,
    os::unix::{fs::MetadataExt, process::CommandExt},
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
};

use rustix::fs::{Mode, OFlags};

/// The most that is read of a file that may be anybody's.
const LARGEST_TEXT: u64 = 64 << 10;

/// The oldest major version that Treeline's SQL is written for.
pub const OLDEST: u32 = 15;

/// Why there is no PostgreSQL. The text is for the person at the terminal.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(
        "no PostgreSQL {OLDEST} or newer was found on this machine. Install it (Debian, Ubuntu: apt-get install postgresql; \
         Fedora: dnf install postgresql-server; macOS: brew install postgresql@17), or set DATABASE_URL to a server elsewhere"
    )]
    NotInstalled,
    #[error(
        "{data_dir} was made by PostgreSQL {major}, whose programs are not on this machine. Install that version \
         (Debian: apt-get install postgresql-{major}), or choose another TREELINE_DATA_DIR"
    )]
    OtherVersion { data_dir: PathBuf, major: u32 },
    #[error(
        "PostgreSQL does not run as root, so it runs as the user {user}, and {user} cannot enter {path}. \
         Set TREELINE_DATA_DIR to a folder that every user can reach, such as /var/lib/treeline"
    )]
    Unreachable { user: String, path: PathBuf },
    #[error("PostgreSQL does not run as root, and there is neither a user postgres nor a user nobody to run it as")]
    NoAccount,
    #[error("{path} is too long for the name of a Unix socket. Choose a shorter TREELINE_DATA_DIR")]
    PathTooLong { path: PathBuf },
    #[error("{program} failed:\n{output}")]
    Program { program: String, output: String },
    #[error("{what}: {source}")]
    Io { what: String, source: io::Error },
}

pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Names what was being done when an operation of the system failed.
pub(super) trait Doing<T> {
    fn doing(self, what: impl FnOnce() -> String) -> Result<T>;
}

impl<T> Doing<T> for io::Result<T> {
    fn doing(self, what: impl FnOnce() -> String) -> Result<T> {
        self.map_err(|source| Error::Io { what: what(), source })
    }
}

/// An account of the system that PostgreSQL runs as when we are root.
#[derive(Clone, Debug)]
pub struct Account {
    pub name: String,
    pub uid: u32,
    pub gid: u32,
}

/// One installed version of PostgreSQL, and who runs it.
#[derive(Clone, Debug)]
pub struct Programs {
    /// The folder that holds `postgres`, `initdb`, `pg_ctl`, `pg_isready`, `psql`.
    pub bin: PathBuf,
    pub major: u32,
    /// `None`: we are not root, and they run as ourselves.
    pub account: Option<Account>,
}

impl Programs {
    /// The newest version on this machine that is new enough.
    pub fn newest() -> Result<Self> {
        let account = account()?;
        let newest = installed().into_iter().max_by_key(|&(_, major)| major);
        let (bin, major) = newest.ok_or(Error::NotInstalled)?;
        Ok(Self { bin, major, account })
    }

    /// The version that a cluster was made with; a newer one could not read its files.
    pub fn of_version(major: u32, data_dir: &Path) -> Result<Self> {
        let account = account()?;
        let found = installed().into_iter().find(|&(_, m)| m == major);
        let (bin, major) = found.ok_or_else(|| Error::OtherVersion { data_dir: data_dir.into(), major })?;
        Ok(Self { bin, major, account })
    }

    /// A program of PostgreSQL, to be run as the account, untouched by the caller's `PG…` variables.
    pub fn command(&self, program: &str) -> Command {
        let mut command = Command::new(self.bin.join(program));
        as_account(&mut command, self.account.as_ref());
        for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("PG")) {
            command.env_remove(name);
        }
        // What the server sets for itself (`memory`) is not for PostgreSQL.
        command.env_remove("MALLOC_MMAP_THRESHOLD_");
        // Messages in one language, and a folder that the account may stand in.
        command.env("LC_ALL", "C").current_dir("/").stdin(Stdio::null());
        command
    }

    /// Runs a program to its end. Its output is in the error if it fails.
    pub fn run<A: AsRef<OsStr>>(&self, program: &str, arguments: impl IntoIterator<Item = A>) -> Result<String> {
        let output = self
            .command(program)
            .args(arguments)
            .output()
            .doing(|| format!("running {}", self.bin.join(program).display()))?;
        if output.status.success() {
            Ok(String::from_utf8_lossy(&output.stdout).into_owned())
        } else {
            Err(Error::Program { program: program.into(), output: said(&output) })
        }
    }

    /// Makes a folder that only the account can look into, in one that is ours. Where it is there already it must be a
    /// folder: a link is not followed, as whoever made it would be given what it leads to.
    pub fn private_folder(&self, path: &Path) -> Result<()> {
        use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
        match std::fs::DirBuilder::new().mode(0o700).create(path) {
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {}
            made => made.doing(|| format!("making {}", path.display()))?,
        }
        let folder = open(path, OFlags::DIRECTORY).doing(|| format!("opening the folder {}", path.display()))?;
        let metadata = folder.metadata().doing(|| format!("looking at {}", path.display()))?;
        if let Some(account) = &self.account
            && (metadata.uid(), metadata.gid()) != (account.uid, account.gid)
        {
            std::os::unix::fs::fchown(&folder, Some(account.uid), Some(account.gid))
                .doing(|| format!("giving {} to {}", path.display(), account.name))?;
        }
        if metadata.permissions().mode() & 0o777 != 0o700 {
            folder
                .set_permissions(std::fs::Permissions::from_mode(0o700))
                .doing(|| format!("making {} private", path.display()))?;
        }
        self.reach(path)
    }

    /// Makes a folder within one that belongs to the account. The account does it itself: what it could put in the
    /// way leads nowhere that it cannot go anyway.
    pub fn folder_within(&self, path: &Path) -> Result<()> {
        if self.account.is_none() {
            return self.private_folder(path);
        }
        self.shell("test -d \"$1\" || mkdir -m 700 \"$1\"; test ! -L \"$1\" && chmod 700 \"$1\"", path, b"").map(drop)
    }

    /// Writes a file within a folder of the account, as the account. It appears whole.
    pub fn write_within(&self, path: &Path, text: &str) -> Result<()> {
        self.shell("cat > \"$1.new\" && mv -f \"$1.new\" \"$1\"", path, text.as_bytes()).map(drop)
    }

    /// Removes a folder of the account with all that is in it, as the account.
    pub fn remove_within(&self, path: &Path) -> Result<()> {
        self.shell("rm -rf \"$1\"", path, b"").map(drop)
    }

    /// Gives a file that is in a folder of ours to the account.
    pub fn give(&self, path: &Path) -> Result<()> {
        if let Some(account) = &self.account {
            std::os::unix::fs::lchown(path, Some(account.uid), Some(account.gid))
                .doing(|| format!("giving {} to {}", path.display(), account.name))?;
        }
        Ok(())
    }

    /// Runs a line of the shell as the account, with a path as `$1` and these bytes to read.
    fn shell(&self, script: &str, path: &Path, input: &[u8]) -> Result<Output> {
        use std::io::Write as _;
        let what = || format!("working on {}", path.display());
        let mut command = Command::new("sh");
        as_account(&mut command, self.account.as_ref());
        let mut child = command
            .args(["-c", &format!("umask 077; {script}"), "sh"])
            .arg(path)
            .current_dir("/")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .doing(what)?;
        if let Some(mut stdin) = child.stdin.take() {
            // One that has ended says why by its status.
            let _ = stdin.write_all(input);
        }
        let output = child.wait_with_output().doing(what)?;
        if output.status.success() {
            return Ok(output);
        }
        Err(Error::Io { what: what(), source: io::Error::other(said(&output)) })
    }

    /// Whether the account can enter a folder: one above it may be closed to it, as /root is.
    fn reach(&self, path: &Path) -> Result<()> {
        let Some(account) = &self.account else { return Ok(()) };
        let mut command = Command::new("sh");
        as_account(&mut command, Some(account));
        let entered = command
            .args(["-c", "cd \"$1\"", "sh"])
            .arg(path)
            .current_dir("/")
            .output()
            .doing(|| format!("entering {} as {}", path.display(), account.name))?;
        if entered.status.success() {
            Ok(())
        } else {
            Err(Error::Unreachable { user: account.name.clone(), path: path.into() })
        }
    }
}

/// Opens what is there for reading, and no link. Never waits, as for the other end of a pipe.
pub(super) fn open(path: &Path, kind: OFlags) -> io::Result<File> {
    let flags = kind | OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    Ok(rustix::fs::open(path, flags, Mode::empty())?.into())
}

/// Reads a small file that is no link.
pub(super) fn read(path: &Path) -> io::Result<String> {
    use std::io::Read as _;
    let mut text = String::new();
    open(path, OFlags::empty())?.take(LARGEST_TEXT).read_to_string(&mut text)?;
    Ok(text)
}

/// Opens a file to be locked, and makes it where it is not there. No link is followed.
pub(super) fn open_lock(path: &Path) -> io::Result<File> {
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    Ok(rustix::fs::open(path, flags, Mode::RUSR | Mode::WUSR)?.into())
}

fn as_account(command: &mut Command, account: Option<&Account>) {
    if let Some(account) = account {
        command.uid(account.uid).gid(account.gid);
    }
}

/// What a program said, both streams, for an error.
pub(super) fn said(output: &Output) -> String {
    let mut text = String::from_utf8_lossy(&output.stderr).into_owned();
    text.push_str(&String::from_utf8_lossy(&output.stdout));
    text.trim().to_owned()
}

/// Who runs PostgreSQL: ourselves, or as root `postgres`, else `nobody`.
fn account() -> Result<Option<Account>> {
    if id(["-u"]) != Some(0) {
        return Ok(None);
    }
    for name in ["postgres", "nobody"] {
        if let (Some(uid), Some(gid)) = (id(["-u", name]), id(["-g", name])) {
            return Ok(Some(Account { name: name.into(), uid, gid }));
        }
    }
    Err(Error::NoAccount)
}

/// Asks the system's `id`: the standard library cannot say who we are without unsafe code.
fn id<const N: usize>(arguments: [&str; N]) -> Option<u32> {
    let output = Command::new("id").args(arguments).output().ok()?;
    String::from_utf8(output.stdout).ok()?.trim().parse().ok()
}

/// Every installed version that is new enough, with its folder.
fn installed() -> Vec<(PathBuf, u32)> {
    let mut folders: Vec<PathBuf> =
        std::env::var_os("PATH").map(|path| std::env::split_paths(&path).collect()).unwrap_or_default();
    for (parent, below) in [
        ("/usr/lib/postgresql", "bin"),
        ("/usr/local/opt", "bin"),
        ("/opt/homebrew/opt", "bin"),
        ("/opt/local/lib", "bin"),
        ("/Applications/Postgres.app/Contents/Versions", "bin"),
    ] {
        folders.extend(inside(Path::new(parent)).map(|folder| folder.join(below)));
    }
    folders.extend(inside(Path::new("/usr")).filter(|f| name_of(f).starts_with("pgsql-")).map(|f| f.join("bin")));
    folders.push("/usr/local/pgsql/bin".into());

    let complete = |bin: &Path| {
        ["postgres", "initdb", "pg_ctl", "pg_isready", "psql"].iter().all(|program| bin.join(program).is_file())
    };
    folders
        .into_iter()
        .filter(|bin| complete(bin))
        .filter_map(|bin| {
            let major = version(&bin)?;
            (major >= OLDEST).then_some((bin, major))
        })
        .collect()
}

fn inside(folder: &Path) -> impl Iterator<Item = PathBuf> {
    std::fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path())
}

fn name_of(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

/// `postgres (PostgreSQL) 15.18 (Debian …)` is 15.
fn version(bin: &Path) -> Option<u32> {
    let output = Command::new(bin.join("postgres")).arg("--version").output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    let number = text.split_whitespace().nth(2)?;
    number.chars().take_while(char::is_ascii_digit).collect::<String>().parse().ok()
}
