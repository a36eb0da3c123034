//! PostgreSQL's programs: location and execution.
//!
//! PostgreSQL refuses to run as root. If this process is root, its programs run as `postgres`, else `nobody`, and the
//! folders they write belong to that account, which must not gain root through them: work in such a folder is done by
//! the account itself or without following links. `xtask` compiles this file too.

use std::{
    ffi::OsStr,
    fs::File,
    io,
    os::unix::{fs::MetadataExt, process::CommandExt},
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
};

use rustix::fs::{Mode, OFlags};

/// Maximum bytes read of a file that may belong to another account.
const LARGEST_TEXT: u64 = 64 << 10;

/// Oldest major version that Treeline's SQL supports.
pub const OLDEST: u32 = 15;

/// Reason why there is no PostgreSQL. The text is for the person at the terminal.
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
    #[error(
        "{path} belongs to the account {owner}, so it is the folder of another server. Run this command as that account \
         with the settings of the server (for example sudo -u {owner} treeline-server …), or choose another \
         TREELINE_DATA_DIR"
    )]
    OtherOwner { path: PathBuf, owner: String },
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

/// Adds the failed operation to an I/O error.
pub(super) trait Doing<T> {
    fn doing(self, what: impl FnOnce() -> String) -> Result<T>;
}

impl<T> Doing<T> for io::Result<T> {
    fn doing(self, what: impl FnOnce() -> String) -> Result<T> {
        self.map_err(|source| Error::Io { what: what(), source })
    }
}

/// System account that PostgreSQL runs as if this process is root.
#[derive(Clone, Debug)]
pub struct Account {
    pub name: String,
    pub uid: u32,
    pub gid: u32,
}

/// Installed version of PostgreSQL, and the account that runs it.
#[derive(Clone, Debug)]
pub struct Programs {
    /// Folder with `postgres`, `initdb`, `pg_ctl`, `pg_isready`, `psql`.
    pub bin: PathBuf,
    pub major: u32,
    /// `None` if this process is not root: programs run under its own account.
    pub account: Option<Account>,
}

impl Programs {
    /// Finds the newest supported version on this machine.
    pub fn newest() -> Result<Self> {
        let account = account()?;
        let newest = installed().into_iter().max_by_key(|&(_, major)| major);
        let (bin, major) = newest.ok_or(Error::NotInstalled)?;
        Ok(Self { bin, major, account })
    }

    /// Finds the version that created a cluster; a newer one could not read its files.
    pub fn of_version(major: u32, data_dir: &Path) -> Result<Self> {
        let account = account()?;
        let found = installed().into_iter().find(|&(_, m)| m == major);
        let (bin, major) = found.ok_or_else(|| Error::OtherVersion { data_dir: data_dir.into(), major })?;
        Ok(Self { bin, major, account })
    }

    /// Command of a PostgreSQL program that runs as the account, without the caller's `PG…` variables.
    pub fn command(&self, program: &str) -> Command {
        let mut command = Command::new(self.bin.join(program));
        as_account(&mut command, self.account.as_ref());
        for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("PG")) {
            command.env_remove(name);
        }
        // The server's own allocator settings (`memory`) are not for PostgreSQL.
        command.env_remove("MALLOC_MMAP_THRESHOLD_");
        // English messages, and a folder that the account can enter.
        command.env("LC_ALL", "C").current_dir("/").stdin(Stdio::null());
        command
    }

    /// Runs a program to completion. If it fails, the error contains its output.
    pub fn run<A: AsRef<OsStr>>(&self, program: &str, arguments: impl IntoIterator<Item = A>) -> Result<String> {
        let output = self
            .command(program)
            .args(arguments)
            .output()
            .doing(|| format!("running {}", self.bin.join(program).display()))?;
        if output.status.success() {
            Ok(String::from_utf8_lossy(&output.stdout).into_owned())
        } else {
            Err(Error::Program { program: program.into(), output: output_text(&output) })
        }
    }

    /// Creates a folder that only the account can enter, in a folder of this process. An existing path must be a
    /// folder: a link is not followed, because its creator would gain access to its target.
    pub fn private_folder(&self, path: &Path) -> Result<()> {
        use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
        self.ensure_own(path)?;
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

    /// Checks, before anything is changed, that the folder is not of another account, whose server could no longer enter
    /// it, and that the account can enter its parent.
    fn ensure_own(&self, path: &Path) -> Result<()> {
        let (Some(account), Some(parent)) = (&self.account, path.parent()) else { return Ok(()) };
        match std::fs::symlink_metadata(path) {
            Ok(found) if found.is_dir() && ![0, account.uid].contains(&found.uid()) => {
                Err(Error::OtherOwner { path: path.into(), owner: name_of_user(found.uid()) })
            }
            _ => self.reach(parent),
        }
    }

    /// Creates a folder within one of the account. The account does it itself, so a planted link leads nowhere that the
    /// account cannot reach anyway.
    pub fn folder_within(&self, path: &Path) -> Result<()> {
        if self.account.is_none() {
            return self.private_folder(path);
        }
        self.shell("test -d \"$1\" || mkdir -m 700 \"$1\"; test ! -L \"$1\" && chmod 700 \"$1\"", path, b"").map(drop)
    }

    /// Writes a file within a folder of the account, as the account. It appears complete or not at all.
    pub fn write_within(&self, path: &Path, text: &str) -> Result<()> {
        self.shell("cat > \"$1.new\" && mv -f \"$1.new\" \"$1\"", path, text.as_bytes()).map(drop)
    }

    /// Deletes a folder of the account with its contents, as the account.
    pub fn remove_within(&self, path: &Path) -> Result<()> {
        self.shell("rm -rf \"$1\"", path, b"").map(drop)
    }

    /// Changes the owner of a file in a folder of this process to the account.
    pub fn give(&self, path: &Path) -> Result<()> {
        if let Some(account) = &self.account {
            std::os::unix::fs::lchown(path, Some(account.uid), Some(account.gid))
                .doing(|| format!("giving {} to {}", path.display(), account.name))?;
        }
        Ok(())
    }

    /// Runs a shell script as the account, with a path as `$1` and these bytes on standard input.
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
            // If the shell has exited, its status tells why.
            let _ = stdin.write_all(input);
        }
        let output = child.wait_with_output().doing(what)?;
        if output.status.success() {
            return Ok(output);
        }
        Err(Error::Io { what: what(), source: io::Error::other(output_text(&output)) })
    }

    /// Checks that the account can enter a folder: a parent may be closed to it, as /root is.
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

/// Opens a path for reading without following links. Never blocks, for example on a pipe.
pub(super) fn open(path: &Path, kind: OFlags) -> io::Result<File> {
    let flags = kind | OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    Ok(rustix::fs::open(path, flags, Mode::empty())?.into())
}

/// Reads a small file that is not a link.
pub(super) fn read(path: &Path) -> io::Result<String> {
    use std::io::Read as _;
    let mut text = String::new();
    open(path, OFlags::empty())?.take(LARGEST_TEXT).read_to_string(&mut text)?;
    Ok(text)
}

/// Opens a lock file, creating it if needed. Links are not followed.
pub(super) fn open_lock(path: &Path) -> io::Result<File> {
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    Ok(rustix::fs::open(path, flags, Mode::RUSR | Mode::WUSR)?.into())
}

/// Lets a command run as the account.
pub(super) fn as_account(command: &mut Command, account: Option<&Account>) {
    if let Some(account) = account {
        command.uid(account.uid).gid(account.gid);
    }
}

/// Output of a program, both streams, for an error.
pub(super) fn output_text(output: &Output) -> String {
    let mut text = String::from_utf8_lossy(&output.stderr).into_owned();
    text.push_str(&String::from_utf8_lossy(&output.stdout));
    text.trim().to_owned()
}

/// Account that runs PostgreSQL: `None` for the own account, or as root `postgres`, else `nobody`.
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

/// Runs `id`: the standard library cannot read user ids without unsafe code.
fn id<const N: usize>(arguments: [&str; N]) -> Option<u32> {
    let output = Command::new("id").args(arguments).output().ok()?;
    String::from_utf8(output.stdout).ok()?.trim().parse().ok()
}

/// Name of a user, or the number of one without a name.
fn name_of_user(uid: u32) -> String {
    let output = Command::new("id").args(["-un", &uid.to_string()]).output().ok();
    let name = output.filter(|it| it.status.success()).and_then(|it| String::from_utf8(it.stdout).ok());
    name.map_or_else(|| uid.to_string(), |name| name.trim().to_owned())
}

/// Returns all supported installed versions with their folders.
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

/// Parses the major version: `postgres (PostgreSQL) 15.18 (Debian …)` is 15.
fn version(bin: &Path) -> Option<u32> {
    let output = Command::new(bin.join("postgres")).arg("--version").output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    let number = text.split_whitespace().nth(2)?;
    number.chars().take_while(char::is_ascii_digit).collect::<String>().parse().ok()
}
