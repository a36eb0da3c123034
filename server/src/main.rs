//! Binary `treeline-server`: reads the command line and the environment, and waits for signals.
//!
//! Standard output is for people and programs (listen address, sign-in link); the log goes to standard error, as JSON
//! lines unless it is a terminal.

use std::{
    io::{IsTerminal as _, Write as _},
    process::ExitCode,
};

use anyhow::{Context as _, bail, ensure};
use clap::{Parser, Subcommand};
use engine::{
    secrets::new_secret,
    store::{
        access::{identity, people},
        migrations::{self, MigrationState},
        notify::audit::{self as entries, AuditRow},
    },
};
use server::{Database, audit, auth::sign_in_links, broker, config::Config, outbound::default_key, postgres};
use tokio::signal::unix::{SignalKind, signal};
use tracing_subscriber::EnvFilter;

#[derive(Parser)]
#[command(
    name = "treeline-server",
    version,
    about = "Runs long work for other programs and shows it to people",
    after_help = "Without a command it serves."
)]
struct Line {
    #[command(subcommand)]
    command: Option<Command>,
    /// Also create demo data through the API: people, job types, a week of trees with failures, and an import. A later
    /// start with --demo creates nothing twice
    #[arg(long)]
    demo: bool,
    #[command(flatten)]
    config: Config,
}

#[derive(Subcommand)]
enum Command {
    /// Migrate the database schema and exit
    Migrate {
        /// Only show the applied migrations
        #[arg(long)]
        status: bool,
        /// Also grant this database role the privileges that a server needs, and no others
        #[arg(long, conflicts_with = "status")]
        app_role: Option<String>,
    },
    /// Delete old entries of the audit log, as the owner of the database
    ExpireAudit {
        #[arg(long, value_parser = clap::value_parser!(u32).range(1..=36_500))]
        older_than_days: u32,
    },
    /// Print a one-time sign-in link for a person, valid for an hour (first admin: 15 minutes)
    SignInLink {
        /// Name of the person. Default: the only admin
        #[arg(long)]
        user: Option<String>,
    },
    /// Remove all second factors of a person who has lost them, and end their sessions
    ResetFactors {
        /// Name of the person
        #[arg(long)]
        user: String,
    },
    /// Print the default secret that signs callbacks of an owner's trees, push requests of a job type, or posts to a
    /// configured URL
    SigningSecret {
        /// Name of a user or a service
        #[arg(long, conflicts_with = "job_type", required_unless_present_any = ["job_type", "audit", "alerts"])]
        owner: Option<String>,
        /// Name of a job type
        #[arg(long = "type")]
        job_type: Option<String>,
        /// Posts of the audit log (TREELINE_AUDIT_URL)
        #[arg(long, conflicts_with_all = ["owner", "job_type"])]
        audit: bool,
        /// Messages to TREELINE_ALERT_URL
        #[arg(long, conflicts_with_all = ["owner", "job_type", "audit"])]
        alerts: bool,
    },
    /// Print the API description (OpenAPI 3.1) that a server serves at /api/v1/openapi.json
    Openapi {
        /// As OpenAPI 3.0, for generators that do not support 3.1
        #[arg(long = "3.0")]
        older: bool,
    },
    /// Check that the server at the configured address is ready; otherwise exit with 1 and the reason in one line
    Health,
    /// Rotate the key that seals secrets in the database, while servers are running. If TREELINE_SECRET_KEY is set, it
    /// is the new key, and every server needs the old one as TREELINE_SECRET_KEY_PREVIOUS; otherwise a new key is
    /// generated in the data folder
    RotateKey,
    /// Run a PostgreSQL until standard input closes
    Postgres(postgres::Arguments),
}

#[tokio::main]
async fn main() -> ExitCode {
    let line = Line::parse();
    start_log();
    #[cfg(feature = "failpoints")]
    engine::failpoints::set_up();
    let done = match line.command {
        None => serve(line.config, line.demo).await,
        Some(Command::Migrate { status, app_role }) => migrate(line.config, status, app_role).await,
        Some(Command::ExpireAudit { older_than_days }) => expire_audit(line.config, older_than_days).await,
        Some(Command::SignInLink { user }) => sign_in_link(line.config, user).await,
        Some(Command::ResetFactors { user }) => reset_factors(line.config, &user).await,
        Some(Command::Openapi { older }) => print_line(server::http::openapi_document(older)).map_err(Into::into),
        Some(Command::SigningSecret { owner, job_type, audit, alerts }) => {
            signing_secret(line.config, owner, job_type, audit, alerts).await
        }
        Some(Command::Health) => server::health::check(&line.config).await,
        Some(Command::RotateKey) => rotate_key(line.config).await,
        Some(Command::Postgres(arguments)) => postgres::command(arguments).await,
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("treeline-server: {}", full_text(&error));
            ExitCode::FAILURE
        }
    }
}

/// Text of an error with its causes, without those that the text before them already ends with.
fn full_text(error: &anyhow::Error) -> String {
    let mut text = error.to_string();
    for cause in error.chain().skip(1).map(ToString::to_string) {
        if !text.ends_with(&cause) {
            text = format!("{text}: {cause}");
        }
    }
    text
}

async fn serve(mut config: Config, demo: bool) -> anyhow::Result<()> {
    let demo_token = demo.then(|| bootstrap_token(&mut config));
    // Installed before anything starts, so that no signal is missed.
    let mut terminated = signal(SignalKind::terminate())?;
    let mut interrupted = signal(SignalKind::interrupt())?;
    let running = tokio::select! {
        running = server::start(config) => running?,
        _ = terminated.recv() => return Ok(()),
        _ = interrupted.recv() => return Ok(()),
    };
    if !server::http::assets::is_built() {
        tracing::warn!("built without the site: pages have no styles and no live updates");
    }
    print_line(&format!("Treeline is listening on {}", running.url()))?;
    if let Some(link) = &running.sign_in_link {
        print_line(&format!("Sign in: {link}"))?;
    }
    if let Some(token) = demo_token {
        tokio::spawn(create_demo_data(running.url().to_owned(), token));
    }
    tokio::select! {
        _ = terminated.recv() => {}
        _ = interrupted.recv() => {}
    }
    tracing::info!("shutting down: finishing open requests");
    tokio::select! {
        stopped = running.shutdown() => stopped,
        // A second signal ends the process without further waiting.
        _ = terminated.recv() => bail!("stopped before all requests finished"),
        _ = interrupted.recv() => bail!("stopped before all requests finished"),
    }
}

/// The bootstrap token; without one, a new one that only this process knows.
fn bootstrap_token(config: &mut Config) -> String {
    if let Some(token) = &config.bootstrap_token {
        return token.reveal().to_owned();
    }
    let token = new_secret("");
    config.bootstrap_token = token.parse().ok();
    token
}

/// Creates demo data as any program would. The server works without it, so an error is only logged.
async fn create_demo_data(url: String, token: String) {
    let created = async { client::demo::run(&client::Client::new(&url, Some(&token))?).await };
    match created.await {
        Ok(report) => {
            if let Err(error) = print_line(&format!("Demo data: {report}")) {
                tracing::debug!(%error, "standard output is closed");
            }
        }
        Err(error) => tracing::error!(%error, "the demo data is incomplete; start with --demo again to complete it"),
    }
}

async fn migrate(config: Config, status: bool, app_role: Option<String>) -> anyhow::Result<()> {
    let database = Database::open(&config).await?;
    if !status {
        database.migrate().await?;
    }
    if let Some(role) = app_role {
        let granted = migrations::grant_to(&database.pools.read, &role).await;
        granted.with_context(|| format!("cannot give the role {role} what a server needs"))?;
    }
    for migration in migrations::status(&database.pools.read).await? {
        let mark = match migration.state {
            MigrationState::Applied => "applied",
            MigrationState::Missing => "missing",
            MigrationState::Newer => "newer  ",
        };
        print_line(&format!("{mark}  {:04}  {}", migration.version, migration.description))?;
    }
    database.close().await
}

async fn expire_audit(config: Config, days: u32) -> anyhow::Result<()> {
    const AT_ONCE: i64 = 5_000;
    let database = Database::open(&config).await?;
    let pool = database.owner_pool().await?;
    let mut removed = 0;
    loop {
        let some = entries::expire(&pool, days.try_into()?, AT_ONCE).await.context("cannot remove entries")?;
        removed += some;
        if some < AT_ONCE as u64 {
            break;
        }
    }
    if removed > 0 {
        let detail = format!("{removed} entries older than {days} days");
        audit::record(&pool, &AuditRow::by_operator("audit.expire", None, Some(detail))).await?;
    }
    pool.close().await;
    print_line(&format!("{removed} entries removed"))?;
    database.close().await
}

async fn sign_in_link(config: Config, user: Option<String>) -> anyhow::Result<()> {
    let database = Database::open(&config).await?;
    let pool = &database.pools.read;
    let owner_id = match user {
        Some(name) => {
            let id = identity::find_user(pool, &name).await?.with_context(|| format!("there is no user {name}"))?;
            let person = people::find(pool, id).await?.with_context(|| format!("there is no user {name}"))?;
            ensure!(!person.disabled, "{name} is disabled: an admin must enable the account first");
            Some(id)
        }
        None => match identity::list_admins(pool).await?.as_slice() {
            [(id, _)] => Some(*id),
            // The link creates the first admin.
            [] if !identity::has_admin(pool).await? => None,
            [] => bail!("all admins are disabled: name another person with --user"),
            admins => {
                let names: Vec<&str> = admins.iter().map(|(_, name)| name.as_str()).collect();
                bail!("name one of the admins with --user: {}", names.join(", "))
            }
        },
    };
    audit::record(pool, &AuditRow::by_operator("user.sign_in_link", owner_id, None)).await?;
    let link = sign_in_links::create(pool, &config.public_url(config.listen), owner_id).await?;
    print_line(&format!("Sign in: {link}"))?;
    database.close().await
}

async fn signing_secret(
    config: Config,
    owner: Option<String>,
    job_type: Option<String>,
    of_audit: bool,
    of_alerts: bool,
) -> anyhow::Result<()> {
    let database = Database::open(&config).await?;
    let pool = &database.pools.read;
    migrations::check(pool).await.context("cannot use the database")?;
    let sealer = server::read_sealer(&config, pool).await?;
    let key = default_key(&config, pool, &sealer).await?;
    let (key, owner_id, detail) = match (owner, job_type) {
        _ if of_audit => (key.of_audit(), None, "of the posts of the audit log".to_owned()),
        _ if of_alerts => (key.of_purpose(engine::ALERTS), None, "of messages about alerts".to_owned()),
        (Some(name), _) => {
            let user = identity::find_user(pool, &name).await?;
            let service = identity::find_service(pool, &name).await?.map(|service| service.id);
            let id = user.or(service).with_context(|| format!("there is no user or service {name}"))?;
            (key.of_owner(id), Some(id), "of callbacks".to_owned())
        }
        (None, Some(name)) => (key.of_type(&name), None, format!("of posts to the workers of {name}")),
        (None, None) => bail!("name an owner or a job type"),
    };
    audit::record(pool, &AuditRow::by_operator("signing_secret.show", owner_id, Some(detail))).await?;
    print_line(&key.text())?;
    database.close().await
}

async fn reset_factors(config: Config, user: &str) -> anyhow::Result<()> {
    let database = Database::open(&config).await?;
    let pool = &database.pools.read;
    migrations::check(pool).await.context("cannot use the database")?;
    let owner_id = identity::find_user(pool, user).await?.with_context(|| format!("there is no user {user}"))?;
    let removed = server::auth::factors::reset_by_command(pool, owner_id).await.map_err(anyhow::Error::from)?;
    print_line(&format!("{removed} second factors of {user} were removed, and the sessions ended"))?;
    database.close().await
}

async fn rotate_key(config: Config) -> anyhow::Result<()> {
    let database = Database::open(&config).await?;
    let pool = &database.pools.read;
    migrations::check(pool).await.context("cannot use the database")?;
    let (id, changed) = server::rotation::rotate(&config, pool).await?;
    print_line(&format!("{changed} secrets were sealed again; all are sealed with the key {id}"))?;
    if config.sealing.secret_key_previous.is_some() {
        print_line("TREELINE_SECRET_KEY_PREVIOUS is not needed any more.")?;
    }
    database.close().await
}

fn print_line(line: &str) -> std::io::Result<()> {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{line}")?;
    out.flush()
}

/// Filters of noise: PostgreSQL notices (a table exists already) at startup, and failures of the broker's library, which
/// the broker module logs once.
fn quiet() -> [String; 2] {
    ["sqlx::postgres::notice=warn".to_owned(), broker::QUIET.to_owned()]
}

/// Filter of the log by `RUST_LOG`; what it does not name itself stays quiet. Also returns the error of an invalid one.
fn log_filter(given: Option<&str>) -> (EnvFilter, Option<String>) {
    let given = given.map(str::trim).filter(|text| !text.is_empty());
    let (text, error) = match given.map(|text| (text, EnvFilter::try_new(text))) {
        Some((_, Err(error))) => ("info", Some(error.to_string())),
        Some((text, Ok(_))) => (text, None),
        None => ("info", None),
    };
    let mut filter = text.to_owned();
    for directive in quiet() {
        let target = directive.split('=').next().unwrap_or_default();
        if !text.contains(target) {
            filter = format!("{filter},{directive}");
        }
    }
    (EnvFilter::new(filter), error)
}

fn start_log() {
    let (filter, error) = log_filter(std::env::var("RUST_LOG").ok().as_deref());
    let log = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    if std::io::stderr().is_terminal() {
        log.with_target(false).init();
    } else {
        log.json().init();
    }
    if let Some(error) = error {
        tracing::warn!(%error, "RUST_LOG is not valid, so it is ignored");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn log_filter_keeps_the_quiet_targets() {
        let text = |given| log_filter(given).0.to_string();
        assert!(text(None).contains("lapin=off") && text(None).contains("info"));
        assert!(text(Some("debug")).contains("lapin=off") && text(Some("debug")).contains("debug"));
        assert!(text(Some("info,lapin=debug")).contains("lapin=debug"));
        assert!(!text(Some("info,lapin=debug")).contains("lapin=off"));
        let (filter, error) = log_filter(Some("info,=="));
        assert!(error.is_some() && filter.to_string().contains("info"));
    }
}
