//! Private PostgreSQL: created, shared, taken over, revived. Each test has its own data directory. As root these tests
//! run PostgreSQL as another user, like the server.

use std::{
    io::{BufRead, BufReader, Read, Write},
    net::TcpStream,
    os::unix::{fs::PermissionsExt, net::UnixStream},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::{
        Barrier,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use server::postgres::{PrivatePostgres, Revived};
use sqlx::{Connection, PgConnection};

/// Data directory that the account of PostgreSQL can reach.
fn data_dir() -> tempfile::TempDir {
    let folder = tempfile::Builder::new().prefix("treeline-pg-").tempdir().expect("a temporary folder");
    std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o755)).expect("permissions");
    folder
}

async fn one(url: &str, statement: &'static str) -> Result<String, sqlx::Error> {
    let mut connection = PgConnection::connect(url).await?;
    sqlx::query_scalar(statement).fetch_one(&mut connection).await
}

/// Starts the subcommand as a process; returns its URL once it accepts connections.
fn subcommand(arguments: &[&str]) -> (Child, String) {
    let mut child = Command::new(env!("CARGO_BIN_EXE_treeline-server"))
        .arg("postgres")
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("the server program");
    let mut url = String::new();
    BufReader::new(child.stdout.take().expect("piped")).read_line(&mut url).expect("a line");
    (child, url.trim().to_owned())
}

/// The server's program on this data directory and no other setting, as `cargo xtask run` starts it.
fn program(data_dir: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_treeline-server"));
    command.env_remove("DATABASE_URL").env("TREELINE_DATA_DIR", data_dir).env("TREELINE_LISTEN", "127.0.0.1:0");
    command
}

/// Asks the program to stop, and waits for its end.
fn terminate(mut child: Child) {
    let process = child.id().to_string();
    assert!(Command::new("kill").args(["-TERM", &process]).status().expect("kill").success());
    assert!(child.wait().expect("it ends").success());
}

fn lock_file(data_dir: &Path) -> PathBuf {
    data_dir.join("postgres/cluster/postmaster.pid")
}

fn postmaster(data_dir: &Path) -> String {
    let text = std::fs::read_to_string(lock_file(data_dir)).expect("a running postmaster");
    text.lines().next().expect("its process id").to_owned()
}

/// Kills the postmaster with SIGKILL; returns when nothing listens any more, because the signal is asynchronous.
fn kill_postmaster(data_dir: &Path) {
    let process = postmaster(data_dir);
    assert!(Command::new("kill").args(["-9", &process]).status().expect("kill").success());
    while UnixStream::connect(data_dir.join("postgres/run/.s.PGSQL.5432")).is_ok() {
        std::thread::yield_now();
    }
}

/// The account that runs PostgreSQL owns its folder, and must not gain root through files it puts there.
#[tokio::test]
async fn symlinks_of_the_service_account_are_not_followed() {
    use std::os::unix::fs::{MetadataExt, symlink};
    let folder = data_dir();
    PrivatePostgres::start(folder.path()).expect("made").stop().expect("stopped");
    let home = folder.path().join("postgres");
    if home.metadata().expect("a folder").uid() == 0 || std::fs::metadata("/proc/self").expect("proc").uid() != 0 {
        eprintln!("SKIPPED: this is about a server that runs as root");
        return;
    }
    // Files of root's that the account would like to change.
    let ours = tempfile::tempdir().expect("a folder of root's");
    let (target, file) = (ours.path().join("target"), ours.path().join("file"));
    std::fs::create_dir(&target).expect("a folder");
    std::fs::write(&file, "root's own").expect("a file");
    let state = || {
        let (folder, file) = (target.metadata().expect("a folder"), file.metadata().expect("a file"));
        let text = std::fs::read_to_string(ours.path().join("file")).expect("text");
        (folder.uid(), folder.mode(), file.uid(), file.mode(), text, std::fs::read_dir(&target).expect("it").count())
    };
    let before = state();

    let run = home.join("run");
    std::fs::rename(&run, home.join("run.old")).expect("as the account would");
    symlink(&target, &run).expect("as the account would");
    PrivatePostgres::start(folder.path()).expect_err("it does not take a link for its folder");
    assert_eq!(state(), before);
    std::fs::remove_file(&run).expect("removed");
    std::fs::rename(home.join("run.old"), &run).expect("back");

    for link in ["cluster/postgresql.conf", "starting.lock", "in-use.lock", "start.log"] {
        let path = home.join(link);
        let backup = path.with_extension("kept");
        let was_there = std::fs::rename(&path, &backup).is_ok();
        symlink(&file, &path).expect("as the account would");
        if let Ok(started) = PrivatePostgres::start(folder.path()) {
            started.stop().expect("stopped");
        }
        assert_eq!(state(), before, "{link}");
        let _ = std::fs::remove_file(&path);
        if was_there {
            std::fs::rename(&backup, &path).expect("back");
        }
    }
    std::fs::rename(&home, folder.path().join("postgres.old")).expect("moved");
    symlink(&target, &home).expect("a link in the place of its home");
    PrivatePostgres::start(folder.path()).expect_err("neither for its home");
    assert_eq!(state(), before);
}

/// A command that root runs on the folder of a server of another account, such as that of the Debian package, changes
/// nothing: the server could no longer enter its own folder.
#[test]
fn folders_of_another_account_are_not_taken() {
    use std::os::unix::fs::{MetadataExt, chown};
    const OTHER: u32 = 54_321;
    if std::fs::metadata("/proc/self").expect("proc").uid() != 0 {
        eprintln!("SKIPPED: this is about a server that runs as root");
        return;
    }
    let folder = data_dir();
    let home = folder.path().join("postgres");
    std::fs::create_dir(&home).expect("a folder");
    std::fs::write(home.join("starting.lock"), "").expect("a file");
    chown(&home, Some(OTHER), Some(OTHER)).expect("given away");
    let refused = PrivatePostgres::start(folder.path()).expect_err("of another account").to_string();
    assert!(refused.contains("belongs to the account 54321"), "{refused}");
    assert_eq!(home.metadata().expect("a folder").uid(), OTHER);

    // Neither does a folder of root's appear within one that PostgreSQL's account cannot enter.
    std::fs::remove_dir_all(&home).expect("removed");
    chown(folder.path(), Some(OTHER), Some(OTHER)).expect("given away");
    std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o700)).expect("permissions");
    let refused = PrivatePostgres::start(folder.path()).expect_err("closed to PostgreSQL").to_string();
    assert!(refused.contains("cannot enter"), "{refused}");
    assert!(!home.exists());
}

/// The server on an empty data directory makes its database, and finds it again at the next start.
#[test]
fn private_postgres_is_initialized_and_restarted() {
    let folder = data_dir();
    for start in 1..=2 {
        let mut child = program(folder.path()).stdout(Stdio::piped()).spawn().expect("the server program");
        let mut out = BufReader::new(child.stdout.take().expect("piped"));
        let mut line = String::new();
        out.read_line(&mut line).expect("a line");
        assert!(line.contains("http://127.0.0.1:"), "start {start}: {line:?}");
        let address = line.trim().rsplit("//").next().expect("an address");
        let mut connection = TcpStream::connect(address).expect("it listens");
        connection.write_all(b"GET /readyz HTTP/1.0\r\n\r\n").expect("asked");
        let mut answer = String::new();
        connection.read_to_string(&mut answer).expect("an answer");
        assert!(answer.contains(" 200 OK\r\n"), "start {start}: {answer}");
        terminate(child);
    }
    let secret = program(folder.path()).args(["signing-secret", "--audit"]).output().expect("the server program");
    assert!(secret.status.success(), "{}", String::from_utf8_lossy(&secret.stderr));
}

/// The server's database role can neither run programs nor change the audit log.
#[tokio::test]
async fn server_role_is_not_a_superuser() {
    let folder = data_dir();
    let postgres = PrivatePostgres::start(folder.path()).expect("made");
    let mut connection = PgConnection::connect(&postgres.app_url()).await.expect("connects");
    for statement in ["copy (select 1) to program 'id'", "create table mine (a int)", "set role treeline"] {
        let refused = sqlx::raw_sql(statement).execute(&mut connection).await.expect_err(statement);
        let code =
            refused.as_database_error().and_then(sqlx::error::DatabaseError::code).expect("a refusal").into_owned();
        assert_eq!(code, "42501", "{statement}");
    }
    connection.close().await.expect("closes");
    postgres.stop().expect("stopped");
}

/// The role of the server cannot delete them.
#[tokio::test]
async fn expired_audit_entries_are_deleted_as_the_owner() {
    let folder = data_dir();
    let migrated = program(folder.path()).arg("migrate").output().expect("the server program");
    assert!(migrated.status.success(), "{}", String::from_utf8_lossy(&migrated.stderr));
    let postgres = PrivatePostgres::start(folder.path()).expect("started");
    let entries = "with inserted as (
          insert into audit (id, actor_id, actor_kind, actor_name, action, at)
          select gen_random_uuid(), gen_random_uuid(), 'user', 'ann', action, now() - age
          from (values ('new', interval '1 hour'), ('old', interval '2 days')) as entries (action, age) returning 1)
        select count(*)::text from inserted";
    one(postgres.url(), entries).await.expect("inserted");
    let mut expiring = program(folder.path());
    let server = expiring.env("TREELINE_AUDIT_RETAIN_DAYS", "1").stdout(Stdio::null()).spawn().expect("the program");
    let expired = async {
        let left = "select string_agg(action, ' ' order by action) from audit where action in ('new', 'old')";
        while one(postgres.url(), left).await.expect("the entries") != "new" {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    tokio::time::timeout(Duration::from_mins(1), expired).await.expect("it deletes the old one only");
    terminate(server);
    postgres.stop().expect("stopped");
}

#[tokio::test]
async fn last_server_stops_postgres_without_data_loss() {
    let folder = data_dir();
    let first = PrivatePostgres::start(folder.path()).expect("first");
    let url = first.url().to_owned();
    one(&url, "create table kept (a int)").await.expect_err("creating returns no row");
    one(&url, "insert into kept values (7) returning 'in'").await.expect("inserted");

    let second = PrivatePostgres::start(folder.path()).expect("second");
    assert_eq!(second.url(), url);
    first.stop().expect("leaves");
    assert_eq!(one(&url, "select 'still here'").await.expect("used by the second"), "still here");
    // A child that is just starting holds copies of all open files: it must not keep the cluster in use.
    let (stopped, running) = (AtomicBool::new(false), Barrier::new(13));
    std::thread::scope(|scope| {
        for _ in 0..12 {
            scope.spawn(|| {
                running.wait();
                while !stopped.load(Ordering::Relaxed) {
                    assert!(Command::new("true").status().expect("a child").success());
                }
            });
        }
        running.wait();
        second.stop().expect("stops");
        stopped.store(true, Ordering::Relaxed);
    });
    one(&url, "select 'gone'").await.expect_err("nobody uses it");

    let third = PrivatePostgres::start(folder.path()).expect("third");
    assert_eq!(one(third.url(), "select a::text from kept").await.expect("kept"), "7");
    for setting in ["fsync", "full_page_writes", "synchronous_commit"] {
        let mut connection = PgConnection::connect(third.url()).await.expect("connects");
        let value: String = sqlx::query_scalar("select current_setting($1)")
            .bind(setting)
            .fetch_one(&mut connection)
            .await
            .expect("a setting");
        assert_eq!(value, "on", "{setting}");
    }
}

#[tokio::test]
async fn next_server_adopts_postgres_of_a_killed_server() {
    let folder = data_dir();
    let path = folder.path().to_str().expect("a path");
    let (mut killed, url) = subcommand(&["--data-dir", path]);
    one(&url, "select 'it runs'").await.expect("it runs");
    let process = postmaster(folder.path());
    killed.kill().expect("kill -9");
    killed.wait().expect("dead");
    assert_eq!(one(&url, "select 'without us'").await.expect("it outlives us"), "without us");

    let next = PrivatePostgres::start(folder.path()).expect("takes it over");
    assert_eq!(postmaster(folder.path()), process);
    next.stop().expect("stops what it took over");
    one(&url, "select 'gone'").await.expect_err("stopped");
}

#[tokio::test]
async fn postgres_recovers_after_both_are_killed() {
    let folder = data_dir();
    let path = folder.path().to_str().expect("a path");
    let (mut killed, url) = subcommand(&["--data-dir", path]);
    one(&url, "select 'it runs'").await.expect("it runs");
    killed.kill().expect("kill -9");
    kill_postmaster(folder.path());
    killed.wait().expect("dead");

    let next = PrivatePostgres::start(folder.path()).expect("recovers");
    assert_eq!(one(next.url(), "select 'back'").await.expect("recovered"), "back");

    kill_postmaster(folder.path());
    assert_eq!(next.revive().expect("revives what died under us"), Revived::Restarted);
    assert_eq!(one(next.url(), "select 'again'").await.expect("revived"), "again");
    assert_eq!(next.revive().expect("nothing to do"), Revived::Ran);
}

/// As the first process of a container, the server is the parent of a killed postmaster, which stays a zombie.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn killed_postmaster_is_reaped_and_replaced() {
    rustix::process::set_child_subreaper(Some(rustix::process::getpid())).expect("a parent of orphans");
    let folder = data_dir();
    let postgres = PrivatePostgres::start(folder.path()).expect("made");
    let stat = format!("/proc/{}/stat", postmaster(folder.path()));
    let is_zombie = || std::fs::read_to_string(&stat).is_ok_and(|text| text.contains(" (postgres) Z "));
    kill_postmaster(folder.path());
    while !is_zombie() {
        std::thread::yield_now();
    }
    assert_eq!(postgres.revive().expect("revived"), Revived::Restarted);
    assert!(!is_zombie());
    assert_eq!(one(postgres.url(), "select 'again'").await.expect("revived"), "again");
    postgres.stop().expect("stopped");
}

/// In a container that was killed and restarted, another program can have the id that the lock file names.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn postgres_starts_while_another_program_has_its_old_process_id() {
    use std::os::unix::{fs::MetadataExt, process::CommandExt};
    let folder = data_dir();
    let postgres = PrivatePostgres::start(folder.path()).expect("made");
    let text = std::fs::read_to_string(lock_file(folder.path())).expect("a running postmaster");
    postgres.stop().expect("stopped");
    // Of the same account: PostgreSQL knows that a process of another account is not a postmaster of this cluster.
    let account = folder.path().join("postgres/cluster").metadata().expect("a folder").uid();
    let mut other = Command::new("sleep").arg("600").uid(account).spawn().expect("another program");
    let (_, rest) = text.split_once('\n').expect("lines");
    let stale = format!("{}\n{rest}", other.id());
    std::fs::write(lock_file(folder.path()), stale).expect("as a killed container leaves it");
    let started = PrivatePostgres::start(folder.path());
    other.kill().expect("it runs");
    other.wait().expect("it ends");
    let postgres = started.expect("started");
    assert_eq!(one(postgres.url(), "select 'here'").await.expect("it runs"), "here");
    postgres.stop().expect("stopped");
}

#[tokio::test]
async fn throwaway_postgres_ends_with_its_stdin() {
    let (mut throwaway, url) = subcommand(&["--throwaway"]);
    assert_eq!(one(&url, "select 'here'").await.expect("it runs"), "here");
    drop(throwaway.stdin.take());
    assert!(throwaway.wait().expect("ends").success());
    one(&url, "select 'gone'").await.expect_err("it went");
}
