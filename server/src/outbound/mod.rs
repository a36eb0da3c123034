//! Outbound HTTP: one client for callbacks of complete trees and push requests to workers.
//!
//! It enforces the security rules in one place: no connections to closed addresses, no redirects, no proxies from the
//! environment, bounded responses and waits, no automatic retries. Names are resolved here, every resolved address is
//! checked by [`Reach`], and the connection uses exactly these addresses, so a name that resolves differently later
//! (DNS rebinding) has no effect. The module knows nothing about jobs.

mod log; // outbound requests in the log
pub mod mail; // mail by SMTP
pub mod template; // placeholders in URLs

use std::{
    error::Error as StdError,
    fmt,
    net::SocketAddr,
    sync::{Arc, OnceLock},
    time::{Duration, SystemTime},
};

use anyhow::Context as _;
use bytes::Bytes;
use reqwest::{
    Response, StatusCode,
    dns::{Addrs, Name, Resolve, Resolving},
    header::{HeaderMap, RETRY_AFTER},
    redirect::Policy,
};
use sqlx::PgPool;
use tokio::time::{Instant, timeout_at};
use url::Url;

use crate::config::{Config, log_http::LogHttp};
use engine::signing::Key;
use engine::{
    addresses::Reach,
    sealing::{Sealer, is_sealed_with},
    store::notify::signing::{self, StoredKey},
};

/// Timeout of a connection attempt.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// Idle time after which a pooled connection is closed. Shorter than servers' usual timeout: a connection that the
/// server closes just as it is reused costs an attempt.
const POOL_IDLE_TIMEOUT: Duration = Duration::from_secs(3);

/// Outbound clients by kind of receiver, and the signing keys.
pub struct Outgoing {
    pub callbacks: Client,
    pub push: Client,
    /// For URLs from the configuration: alerts.
    pub configured: Client,
    /// Mail, if a server is configured.
    pub mail: Option<mail::Mailer>,
    /// Default signing key.
    pub key: Key,
    /// Creates and verifies the capabilities of pushed assignments.
    pub assignments: Key,
}

impl Outgoing {
    /// Builds the clients, and reads or generates the deployment's key.
    pub async fn open(config: &Config, pool: &PgPool, sealer: &Sealer) -> anyhow::Result<Self> {
        let timeout = Duration::from_secs_f64(config.outbound.callback_timeout_seconds);
        let is_logged = config.log_http == LogHttp::Full;
        Ok(Self {
            mail: config.mail.server()?.map(|server| mail::Mailer::new(server, timeout)).transpose()?,
            callbacks: Client::new(Reach::of_callbacks(config.callback_allow.clone()), 4).logging(is_logged),
            push: Client::new(
                Reach::of_push(config.outbound.push_allow.clone()),
                config.outbound.push_concurrency.into(),
            )
            .logging(is_logged),
            configured: Client::new(Reach::Configured, 2).logging(is_logged),
            key: default_key(config, pool, sealer).await?,
            assignments: stored_key(pool, sealer).await?.of_assignments(),
        })
    }
}

/// Sealing context of the signing key.
const SIGNING_KEY: &str = "signing_key";

/// Default signing key: the configured one, or the one in the database, generated at first use.
pub async fn default_key(config: &Config, pool: &PgPool, sealer: &Sealer) -> anyhow::Result<Key> {
    if let Some(secret) = &config.outbound.signing_secret {
        return Ok(Key::of(secret.reveal()));
    }
    stored_key(pool, sealer).await
}

/// Key in the database, generated at first use: 256 random bits, shared by all servers. `rotate-key` only seals it
/// again, so existing signatures stay valid.
async fn stored_key(pool: &PgPool, sealer: &Sealer) -> anyhow::Result<Key> {
    let fresh = sealer.seal(SIGNING_KEY, &rand::random::<[u8; 32]>());
    let bytes = match signing::key(pool, &fresh).await? {
        StoredKey::Sealed(sealed) => sealer.open(SIGNING_KEY, &sealed).context("cannot open the signing key")?,
        StoredKey::Plain(bytes) => bytes,
    };
    Ok(Key::from_bytes(bytes))
}

/// Seals the signing key in the database with the current sealing key. Returns true if it was not yet.
pub async fn reseal_default_key(pool: &PgPool, sealer: &Sealer) -> anyhow::Result<bool> {
    let Some(stored) = signing::stored(pool).await? else { return Ok(false) };
    let bytes = match &stored {
        StoredKey::Sealed(sealed) if is_sealed_with(sealed, &sealer.current_id()) => return Ok(false),
        StoredKey::Sealed(sealed) => sealer.open(SIGNING_KEY, sealed).context("cannot open the signing key")?,
        StoredKey::Plain(bytes) => bytes.clone(),
    };
    Ok(signing::reseal(pool, &stored, &sealer.seal(SIGNING_KEY, &bytes)).await?)
}

/// HTTP client for allowed addresses. Cheap to clone.
#[derive(Clone)]
pub struct Client {
    /// Built at first use: loading the trusted certificates takes time and memory.
    http: Arc<OnceLock<Result<reqwest::Client, String>>>,
    reach: Arc<Reach>,
    idle: usize,
    /// True if requests and responses are logged.
    is_logged: bool,
}

/// Response with an unread body.
pub struct Reply {
    pub status: StatusCode,
    /// Delay in seconds that the receiver requests, from either form of `Retry-After`.
    pub retry_after: Option<f64>,
    response: Response,
    until: Instant,
    is_logged: bool,
}

/// Reason why there is no response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Address not allowed; nothing was sent.
    Forbidden,
    /// Name without an allowed address; nothing was sent. Unresolvable names give the same error, so that internal
    /// names cannot be probed.
    Unresolved,
    /// Timeout; the receiver may have processed the request.
    TimedOut,
    /// No connection, with the reason; nothing was sent.
    Unreachable(String),
    /// The connection broke during the request.
    Broken(String),
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Forbidden => f.write_str("The address must not be reached from here."),
            Self::Unresolved => f.write_str("No connection: the host name has no address that may be reached."),
            Self::TimedOut => f.write_str("No answer in time."),
            Self::Unreachable(why) => write!(f, "No connection: {why}."),
            Self::Broken(why) => write!(f, "The connection broke: {why}."),
        }
    }
}

impl Client {
    /// Creates a client for the addresses in `reach`. `idle`: pooled connections per host.
    pub fn new(reach: Reach, idle: usize) -> Self {
        Self { http: Arc::default(), reach: Arc::new(reach), idle, is_logged: false }
    }

    /// Same client, which logs its requests and responses.
    #[must_use]
    pub fn logging(self, is_logged: bool) -> Self {
        Self { is_logged, ..self }
    }

    fn http(&self) -> Result<&reqwest::Client, Fault> {
        let built = self.http.get_or_init(|| self.build().map_err(|error| error.to_string()));
        built.as_ref().map_err(|why| Fault::Unreachable(why.clone()))
    }

    fn build(&self) -> Result<reqwest::Client, reqwest::Error> {
        // Install ring once per process; a provider that was installed earlier stays.
        let _ = rustls::crypto::ring::default_provider().install_default();
        reqwest::Client::builder()
            .user_agent(concat!("Treeline/", env!("CARGO_PKG_VERSION")))
            .redirect(Policy::none())
            .retry(reqwest::retry::never())
            .no_proxy()
            .referer(false)
            .connect_timeout(CONNECT_TIMEOUT)
            .pool_idle_timeout(POOL_IDLE_TIMEOUT)
            .pool_max_idle_per_host(self.idle)
            .tcp_nodelay(true)
            .dns_resolver(Guard(Arc::clone(&self.reach)))
            .build()
    }

    /// Posts a body, and waits for the head of the response until the deadline.
    pub async fn post(&self, url: &Url, headers: HeaderMap, body: Bytes, until: Instant) -> Result<Reply, Fault> {
        // A literal address in the URL is never resolved.
        if !self.reach.may_try(url) {
            return Err(Fault::Forbidden);
        }
        if self.is_logged {
            log::request(url, &headers, &body);
        }
        let sent = self.http()?.post(url.clone()).headers(headers).body(body).send();
        let response = match timeout_at(until, sent).await {
            Err(_) => return Err(Fault::TimedOut),
            Ok(Err(error)) => return Err(fault(error)),
            Ok(Ok(response)) => response,
        };
        let retry_after = response.headers().get(RETRY_AFTER).and_then(|value| value.to_str().ok()).and_then(seconds);
        if self.is_logged {
            log::response(url, response.status(), response.headers());
        }
        Ok(Reply { status: response.status(), retry_after, response, until, is_logged: self.is_logged })
    }
}

impl Reply {
    /// Reads at most `most` bytes of the body; the flag is true if there are more.
    pub async fn read(self, most: usize) -> Result<(Vec<u8>, bool), Fault> {
        let media_type =
            if self.is_logged { log::media_type(self.response.headers()).map(str::to_owned) } else { None };
        let is_logged = self.is_logged;
        let read = self.read_body(most).await;
        if let (true, Ok((body, is_cut))) = (is_logged, &read) {
            log::response_body(media_type.as_deref(), body, *is_cut);
        }
        read
    }

    async fn read_body(mut self, most: usize) -> Result<(Vec<u8>, bool), Fault> {
        let mut body = Vec::new();
        loop {
            match timeout_at(self.until, self.response.chunk()).await {
                Err(_) => return Err(Fault::TimedOut),
                Ok(Err(error)) => return Err(fault(error)),
                Ok(Ok(None)) => return Ok((body, false)),
                Ok(Ok(Some(chunk))) if body.len() + chunk.len() > most => {
                    body.extend_from_slice(&chunk[..most - body.len()]);
                    return Ok((body, true));
                }
                Ok(Ok(Some(chunk))) => body.extend_from_slice(&chunk),
            }
        }
    }
}

/// Status with its name: `503 Service Unavailable`.
pub fn named(status: StatusCode) -> String {
    status
        .canonical_reason()
        .map_or_else(|| status.as_u16().to_string(), |reason| format!("{} {reason}", status.as_u16()))
}

/// Returns the start of a body as one line of text: at most `most` characters.
pub fn excerpt(body: &[u8], most: usize) -> String {
    let text = String::from_utf8_lossy(&body[..body.len().min(most * 4)]);
    let plain = |c: char| if c.is_control() { ' ' } else { c };
    let words: Vec<String> = text.split_whitespace().map(|word| word.chars().map(plain).collect()).collect();
    let line = words.join(" ");
    let short: String = line.chars().take(most).collect();
    if short.len() < line.len() { format!("{short}…") } else { short }
}

/// Parses `Retry-After`: seconds, or a date.
fn seconds(value: &str) -> Option<f64> {
    if let Ok(seconds) = value.trim().parse::<u32>() {
        return Some(f64::from(seconds));
    }
    let at = httpdate::parse_http_date(value.trim()).ok()?;
    Some(at.duration_since(SystemTime::now()).map_or(0.0, |wait| wait.as_secs_f64()))
}

fn fault(error: reqwest::Error) -> Fault {
    let error = error.without_url();
    let mut root: &dyn StdError = &error;
    loop {
        if root.is::<Closed>() {
            return Fault::Unresolved;
        }
        let Some(source) = root.source() else { break };
        root = source;
    }
    let why = root.to_string();
    if error.is_timeout() {
        // reqwest itself applies a timeout only to connecting.
        Fault::Unreachable("it took too long".to_owned())
    } else if error.is_connect() {
        Fault::Unreachable(why)
    } else {
        Fault::Broken(why)
    }
}

/// Name without an allowed address.
#[derive(Debug)]
struct Closed;

impl fmt::Display for Closed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the name has no address that may be reached")
    }
}

impl StdError for Closed {}

/// Resolver that returns only allowed addresses.
struct Guard(Arc<Reach>);

impl Resolve for Guard {
    fn resolve(&self, name: Name) -> Resolving {
        let reach = Arc::clone(&self.0);
        Box::pin(async move {
            let host = name.as_str();
            let found = tokio::net::lookup_host((host, 0)).await.map_err(|_| Closed)?;
            let all = found.map(|address| address.ip()).collect();
            let open = reach.permitted(host, all).ok_or(Closed)?;
            // The port comes from the URL.
            let addresses: Addrs = Box::new(open.into_iter().map(|ip| SocketAddr::new(ip, 0)));
            Ok(addresses)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_is_read_in_seconds_and_as_a_date() {
        assert_eq!(seconds("120"), Some(120.0));
        assert_eq!(seconds("soon"), None);
        assert_eq!(seconds("-3"), None);
        assert_eq!(seconds("Sun, 06 Nov 1994 08:49:37 GMT"), Some(0.0));
        let later = SystemTime::now() + Duration::from_mins(1);
        assert!(seconds(&httpdate::fmt_http_date(later)).is_some_and(|wait| (55.0..=60.0).contains(&wait)));
    }

    #[test]
    fn an_excerpt_of_a_response_is_one_line() {
        assert_eq!(excerpt(b" no\n such\x00 user ", 100), "no such  user");
        assert_eq!(excerpt("ä".repeat(300).as_bytes(), 3), "äää…");
        assert_eq!(excerpt(b"\xff\xfe", 10), "\u{fffd}\u{fffd}");
    }

    #[tokio::test]
    async fn a_closed_address_gets_no_connection_by_any_name() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
        listener.set_nonblocking(true).expect("it does not wait");
        let port = listener.local_addr().expect("an address").port();
        let client = Client::new(Reach::of_callbacks("".parse().expect("a list")), 0);
        for host in ["127.0.0.1", "localhost", "127.1", "2130706433", "0x7f000001", "[::ffff:127.0.0.1]", "0.0.0.0"] {
            let url: Url = format!("http://{host}:{port}/").parse().expect("a URL");
            let until = Instant::now() + Duration::from_secs(20);
            let fault = client.post(&url, HeaderMap::new(), Bytes::new(), until).await.err();
            assert_eq!(fault, Some(Fault::Forbidden), "{host}");
        }
        let accept_error = listener.accept().expect_err("nobody came");
        assert_eq!(accept_error.kind(), std::io::ErrorKind::WouldBlock);
    }
}
