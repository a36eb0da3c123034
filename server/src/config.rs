//! Settings from the environment: one struct, one variable per field.
//!
//! Read once at startup; no other code reads the environment (except `RUST_LOG`, which the log reads itself, and
//! variables like `OTEL_TRACES_SAMPLER`, which the OpenTelemetry SDK reads itself). `Debug` omits secrets.

pub mod audit; // destination of the audit log
pub mod broker; // RabbitMQ
pub mod http; // connection limits
pub mod identity; // second factors, providers, trusted proxies
pub mod limits; // limits per caller
pub mod log_http; // how much of HTTP is logged
pub mod mail; // mail server
pub mod monitoring; // metrics endpoint, collector of traces
pub mod outbound; // outbound requests
pub mod proxies; // reverse proxies
pub mod roles; // parts of the work of a process
pub mod sealing; // key for secrets at rest
pub mod transport; // TLS and plaintext rules
pub mod trusted_proxies; // client addresses behind proxies

use std::{
    net::SocketAddr,
    path::{Path, PathBuf},
    str::FromStr,
};

use anyhow::{Context as _, ensure};
use axum::http::{Uri, uri::Authority};

use crate::body_memory::BodyMemory;
use engine::{
    addresses::Allowed,
    settings::{Secret, Size, files::FileSettings},
};

/// Minimum length of the bootstrap token, in characters.
const SHORTEST_BOOTSTRAP_TOKEN: usize = 32;

/// Server settings. `treeline-server --help` lists them with their variables.
#[derive(Clone, Debug, clap::Args)]
pub struct Config {
    /// Address and port to listen on; port 0 picks a free one
    #[arg(long, env = "TREELINE_LISTEN", default_value = "127.0.0.1:3000")]
    pub listen: SocketAddr,

    /// Public URL of the server: for links, for secure cookies if https, and the only name that browsers may use for it
    /// besides addresses and localhost. Default: http:// and the listen address
    #[arg(long, env = "TREELINE_PUBLIC_URL")]
    pub public_url: Option<PublicUrl>,

    /// Name of the environment that the sidebar shows, such as `Staging`, at most 20 characters. Default: none
    #[arg(long, env = "TREELINE_ENVIRONMENT", value_parser = environment)]
    pub environment: Option<String>,

    /// Folder with files of more languages for the pages, such as `fr.ftl`. Default: none; English and German are built in
    #[arg(long, env = "TREELINE_LANGUAGES_DIR")]
    pub languages_dir: Option<PathBuf>,

    /// Parts of the work that this process does, comma-separated: `web`, `maintenance`, `push`, `split`. All processes
    /// of one database together need all of them
    #[arg(long, env = "TREELINE_ROLES", default_value_t = roles::Roles::default())]
    pub roles: roles::Roles,

    /// Folder for uploads and the private PostgreSQL.
    /// Default: ~/.local/share/treeline, or /var/lib/treeline as root and as an account with that home
    #[arg(long, env = "TREELINE_DATA_DIR")]
    pub data_dir: Option<PathBuf>,

    /// PostgreSQL 15 or newer. Default: the server starts a private one in the data folder
    #[arg(long, env = "DATABASE_URL", hide_env_values = true)]
    pub database_url: Option<Secret>,

    /// Hot standby of that PostgreSQL, for the reads of pages and lists: never for decisions, and never older than the
    /// request. Default: none
    #[arg(long, env = "TREELINE_READ_URL", hide_env_values = true)]
    pub read_url: Option<Secret>,

    /// Maximum number of connections to PostgreSQL; a server uses two more to exchange hints with the others, and for a
    /// while four if the database host vanishes
    #[arg(long, env = "TREELINE_DB_POOL", default_value_t = 16, value_parser = clap::value_parser!(u32).range(8..=1000))]
    pub db_pool: u32,

    /// Admin token of the service `bootstrap`, at least 32 characters
    #[arg(long, env = "TREELINE_BOOTSTRAP_TOKEN", hide_env_values = true)]
    pub bootstrap_token: Option<Secret>,

    /// 1: logs every request, with secrets removed. full: also the bodies of requests and responses, and what is sent to
    /// workers, receivers of callbacks, and configured URLs
    #[arg(long, env = "TREELINE_LOG_HTTP", default_value_t)]
    pub log_http: log_http::LogHttp,

    /// Largest body of a request that is not an upload
    #[arg(long, env = "TREELINE_BODY_LIMIT", default_value = "10MiB")]
    pub body_limit: Size,

    /// Largest upload
    #[arg(long, env = "TREELINE_UPLOAD_LIMIT", default_value = "2GiB")]
    pub upload_limit: Size,

    /// Largest payload of one item
    #[arg(long, env = "TREELINE_PAYLOAD_LIMIT", default_value = "256KiB")]
    pub payload_limit: Size,

    /// Minimum time for which an Idempotency-Key is remembered, in seconds
    #[arg(long, env = "TREELINE_IDEMPOTENCY_WINDOW_SECONDS", default_value_t = 86_400,
          value_parser = clap::value_parser!(u32).range(1..=31_536_000))]
    pub idempotency_window_seconds: u32,

    /// Hosts and networks that completion callbacks and alert channels may reach although they are not public,
    /// comma-separated: `hooks.internal,10.1.0.0/16`. Default: none
    #[arg(long, env = "TREELINE_CALLBACK_ALLOW", default_value = "", hide_default_value = true)]
    pub callback_allow: Allowed,

    #[command(flatten)]
    pub http_settings: http::HttpSettings,

    #[command(flatten)]
    pub proxies: proxies::Proxies,

    #[command(flatten)]
    pub outbound: outbound::Outbound,

    #[command(flatten)]
    pub mail: mail::MailSettings,

    #[command(flatten)]
    pub alerts: Alerts,

    #[command(flatten)]
    pub transport: transport::Transport,

    #[command(flatten)]
    pub audit: audit::AuditSettings,

    #[command(flatten)]
    pub broker: broker::BrokerSettings,

    #[command(flatten)]
    pub files: FileSettings,

    #[command(flatten)]
    pub monitoring: monitoring::Monitoring,

    #[command(flatten)]
    pub limits: limits::LimitSettings,

    #[command(flatten)]
    pub identity: identity::IdentitySettings,

    #[command(flatten)]
    pub sealing: sealing::SealingSettings,
}

/// Thresholds and destination of alerts.
#[derive(Clone, Debug, clap::Args)]
pub struct Alerts {
    /// URL that alerts are posted to as JSON
    #[arg(id = "alert_url", long = "alert-url", env = "TREELINE_ALERT_URL", hide_env_values = true)]
    pub url: Option<Secret>,

    /// Seconds after which an open tree without progress is an alert
    #[arg(long = "alert-stalled-seconds", env = "TREELINE_ALERT_STALLED_SECONDS", default_value_t = 3600,
          value_parser = clap::value_parser!(u64).range(1..=31_536_000))]
    pub stalled_seconds: u64,

    /// Seconds after which waiting work that nobody claims is an alert
    #[arg(long = "alert-unclaimed-seconds", env = "TREELINE_ALERT_UNCLAIMED_SECONDS", default_value_t = 300,
          value_parser = clap::value_parser!(u64).range(1..=31_536_000))]
    pub unclaimed_seconds: u64,

    /// Seconds without a new event after which an event alert clears
    #[arg(long = "alert-quiet-seconds", env = "TREELINE_ALERT_QUIET_SECONDS", default_value_t = 900,
          value_parser = clap::value_parser!(u64).range(1..=31_536_000))]
    pub quiet_seconds: u64,
}

impl Default for Alerts {
    fn default() -> Self {
        Self { url: None, stalled_seconds: 3600, unclaimed_seconds: 300, quiet_seconds: 900 }
    }
}

/// Data folder of an account with this home. PostgreSQL refuses to run as root, and no other account can enter root's
/// home; /var/lib/treeline is the home of the account of the Debian package, and already its data folder.
fn default_data_dir(home: &Path) -> PathBuf {
    const SYSTEM: &str = "/var/lib/treeline";
    if [Path::new("/root"), Path::new(SYSTEM)].contains(&home) {
        PathBuf::from(SYSTEM)
    } else {
        home.join(".local/share/treeline")
    }
}

/// Checks the name of the environment.
fn environment(name: &str) -> Result<String, String> {
    match name.trim() {
        name if (1..=20).contains(&name.chars().count()) && !name.contains(char::is_control) => Ok(name.to_owned()),
        _ => Err("expected 1 to 20 characters, such as Staging".to_owned()),
    }
}

impl Config {
    /// Rejects unsafe combinations of settings.
    pub fn check(&self) -> anyhow::Result<()> {
        self.transport.check(self.listen, self.public_url.as_ref())?;
        if let Some(token) = &self.bootstrap_token {
            ensure!(
                token.reveal().chars().count() >= SHORTEST_BOOTSTRAP_TOKEN,
                "TREELINE_BOOTSTRAP_TOKEN is too short: it needs at least {SHORTEST_BOOTSTRAP_TOKEN} characters, \
                 for example the output of `openssl rand -hex 32`."
            );
        }
        let (body, memory) = (self.body_limit, self.limits.body_memory);
        ensure!(
            body.bytes() <= BodyMemory::largest(memory.bytes()),
            "TREELINE_BODY_LIMIT ({body}) is more than three quarters of TREELINE_BODY_MEMORY ({memory}): such a body \
             would never be accepted."
        );
        for (name, url) in [("TREELINE_ALERT_URL", &self.alerts.url), ("TREELINE_AUDIT_URL", &self.audit.url)] {
            let Some(url) = url else { continue };
            let scheme = url.reveal().parse::<Uri>().ok().and_then(|uri| uri.scheme_str().map(str::to_ascii_lowercase));
            ensure!(
                scheme.is_some_and(|scheme| scheme == "http" || scheme == "https"),
                "{name} is not a URL of http or https."
            );
        }
        self.mail.server()?;
        self.identity
            .check(self.proxies.trusted_proxies != crate::config::trusted_proxies::TrustedProxies::default())?;
        Ok(())
    }

    /// Folder for uploads and the private PostgreSQL.
    pub fn data_dir(&self) -> anyhow::Result<PathBuf> {
        if let Some(given) = &self.data_dir {
            return Ok(given.clone());
        }
        let home = std::env::home_dir().context("There is no home folder: set TREELINE_DATA_DIR.")?;
        Ok(default_data_dir(&home))
    }

    /// Public URL, given the actual listen address. Without a trailing slash.
    pub fn public_url(&self, listening_on: SocketAddr) -> PublicUrl {
        self.public_url.clone().unwrap_or_else(|| {
            let reachable = if listening_on.ip().is_unspecified() {
                SocketAddr::from(([127, 0, 0, 1], listening_on.port()))
            } else {
                listening_on
            };
            let secure = self.transport.is_tls();
            let scheme = if secure { "https" } else { "http" };
            PublicUrl { text: format!("{scheme}://{reachable}"), authority: reachable.to_string(), secure }
        })
    }
}

/// An http or https URL without path: scheme, host, port.
#[derive(Clone, Debug)]
pub struct PublicUrl {
    text: String,
    authority: String,
    secure: bool,
}

impl PublicUrl {
    /// For example `https://treeline.example`; without a trailing slash.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Returns true if cookies may require https.
    pub fn is_secure(&self) -> bool {
        self.secure
    }

    /// Host, and port unless it is the scheme's default, as in an `Origin` header.
    pub fn authority(&self) -> &str {
        &self.authority
    }
}

impl FromStr for PublicUrl {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let expected = || "expected http:// or https://, a host, perhaps a port, and no path".to_owned();
        let uri: Uri = text.trim_end_matches('/').parse().map_err(|_| expected())?;
        let scheme = uri.scheme_str().unwrap_or_default().to_ascii_lowercase();
        let authority = uri.authority().map(Authority::as_str).unwrap_or_default().to_ascii_lowercase();
        let has_path = !matches!(uri.path(), "" | "/") || uri.query().is_some();
        if !matches!(scheme.as_str(), "http" | "https") || authority.is_empty() || authority.contains('@') || has_path {
            return Err(expected());
        }
        let default_port = if scheme == "https" { ":443" } else { ":80" };
        let authority = authority.strip_suffix(default_port).unwrap_or(&authority).to_owned();
        Ok(Self { text: format!("{scheme}://{authority}"), authority, secure: scheme == "https" })
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        config: Config,
    }

    fn config(arguments: &[&str]) -> Config {
        Line::parse_from(["server"].iter().chain(arguments)).config
    }

    #[test]
    fn home_of_the_package_is_its_data_folder() {
        for (home, expected) in [
            ("/var/lib/treeline", "/var/lib/treeline"),
            ("/root", "/var/lib/treeline"),
            ("/home/ada", "/home/ada/.local/share/treeline"),
        ] {
            assert_eq!(default_data_dir(Path::new(home)), Path::new(expected));
        }
    }

    #[test]
    fn secrets_do_not_show() {
        let token = "0123456789abcdef0123456789abcdef";
        let debug_text =
            format!("{:?}", config(&["--bootstrap-token", token, "--database-url", "postgres://a:hidden@b/c"]));
        assert!(!debug_text.contains(token) && !debug_text.contains("hidden"), "{debug_text}");
    }

    #[test]
    fn a_short_bootstrap_token_is_refused() {
        config(&["--bootstrap-token", "0123456789abcdef0123456789abcdef"]).check().expect("32 characters");
        config(&["--bootstrap-token", "letmein"]).check().expect_err("too short");
    }

    #[test]
    fn a_body_that_would_never_fit_is_refused() {
        config(&["--body-limit", "48MiB"]).check().expect("three quarters");
        let refused = config(&["--body-limit", "49MiB"]).check().expect_err("too large").to_string();
        assert!(refused.contains("TREELINE_BODY_MEMORY (64 MiB)"), "{refused}");
        config(&["--body-limit", "49MiB", "--body-memory", "128MiB"]).check().expect("more memory");
    }

    #[test]
    fn times_of_alerts_have_ranges() {
        for variable in ["--alert-stalled-seconds", "--alert-unclaimed-seconds", "--alert-quiet-seconds"] {
            for bad in ["0", "18446744073709551615"] {
                assert!(Line::try_parse_from(["server", variable, bad]).is_err(), "{variable} {bad}");
            }
        }
    }

    #[test]
    fn sizes_are_read_and_shown() {
        assert_eq!("256KiB".parse(), Ok(Size(262_144)));
        assert_eq!("17".parse(), Ok(Size(17)));
        assert!("1.5GiB".parse::<Size>().is_err());
        assert_eq!(Size(2 << 30).to_string(), "2 GiB");
        assert_eq!(Size(1025).to_string(), "1025 bytes");
    }

    #[test]
    fn a_public_url_is_an_origin() {
        let url: PublicUrl = "https://Treeline.Example:443/".parse().expect("a URL");
        assert_eq!((url.as_str(), url.is_secure()), ("https://treeline.example", true));
        for bad in ["treeline.example", "ftp://a", "https://a/b", "https://u:p@a", "https://"] {
            assert!(bad.parse::<PublicUrl>().is_err(), "{bad}");
        }
        let everywhere = config(&["--listen", "0.0.0.0:80"]);
        assert_eq!(everywhere.public_url(everywhere.listen).as_str(), "http://127.0.0.1:80");
    }
}
