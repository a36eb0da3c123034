//! What goes out over HTTP: one client, for callbacks of complete trees and for posts to workers.
//!
//! Apart from its users, because what must never happen is decided in one place: a connection to an
//! address that is closed, a redirect followed, a proxy of the environment asked, an answer read without
//! end, a wait without end, a request sent again by itself. Names are looked up here, every address that
//! comes back is asked of [`Reach`], and the connection goes to those addresses and to no others; so what a
//! name becomes between a check and a connection does not matter. It knows no jobs.

pub mod sign; // Standard Webhooks
pub mod stored; // sealed, in the database
pub mod template; // URLs that are filled in

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

use crate::{
    addresses::Reach,
    config::Config,
    sealing::{Sealer, is_sealed_with},
    store::signing::{self, StoredKey},
};
use sign::Key;

/// How long a connection may take to come about.
const CONNECT: Duration = Duration::from_secs(5);

/// How long a connection is kept for the next request. Shorter than servers usually keep theirs: one that
/// is closed there just as it is used here costs an attempt.
const KEPT: Duration = Duration::from_secs(3);

/// What a server posts with: a client for each kind of receiver, and the key that signs.
pub struct Outgoing {
    pub callbacks: Client,
    pub push: Client,
    /// URLs of the configuration: alerts.
    pub configured: Client,
    /// Signs where nobody named a secret.
    pub key: Key,
    /// Makes and checks the capabilities of pushed assignments.
    pub assignments: Key,
}

impl Outgoing {
    /// Builds the clients, and reads the deployment's key or makes it.
    pub async fn open(config: &Config, pool: &PgPool, sealer: &Sealer) -> anyhow::Result<Self> {
        Ok(Self {
            callbacks: Client::new(Reach::of_callbacks(config.callback_allow.clone()), 4),
            push: Client::new(
                Reach::of_push(config.outbound.push_allow.clone()),
                config.outbound.push_concurrency.into(),
            ),
            configured: Client::new(Reach::Configured, 2),
            key: own_key(config, pool, sealer).await?,
            assignments: stored_key(pool, sealer).await?.of_assignments(),
        })
    }
}

/// Sealing context of the signing key.
const SIGNING_KEY: &str = "signing_key";

/// The key that signs where nobody named a secret: the configured one, or the one in the database, which is made
/// when it is first asked for.
pub async fn own_key(config: &Config, pool: &PgPool, sealer: &Sealer) -> anyhow::Result<Key> {
    if let Some(secret) = &config.outbound.signing_secret {
        return Ok(Key::of(secret.reveal()));
    }
    stored_key(pool, sealer).await
}

/// The key in the database, which is made when it is first asked for. It has 256 random bits, all servers share it, and
/// `rotate-key` only seals it anew, so that whatever it has signed stays good.
async fn stored_key(pool: &PgPool, sealer: &Sealer) -> anyhow::Result<Key> {
    let fresh = sealer.seal(SIGNING_KEY, &rand::random::<[u8; 32]>());
    let bytes = match signing::key(pool, &fresh).await? {
        StoredKey::Sealed(sealed) => sealer.open(SIGNING_KEY, &sealed).context("cannot open the signing key")?,
        StoredKey::Plain(bytes) => bytes,
    };
    Ok(Key::from_bytes(bytes))
}

/// Seals the signing key in the database with the current sealing key. True: it was not yet.
pub async fn reseal_own_key(pool: &PgPool, sealer: &Sealer) -> anyhow::Result<bool> {
    let Some(stored) = signing::stored(pool).await? else { return Ok(false) };
    let bytes = match &stored {
        StoredKey::Sealed(sealed) if is_sealed_with(sealed, &sealer.current_id()) => return Ok(false),
        StoredKey::Sealed(sealed) => sealer.open(SIGNING_KEY, sealed).context("cannot open the signing key")?,
        StoredKey::Plain(bytes) => bytes.clone(),
    };
    Ok(signing::reseal(pool, &stored, &sealer.seal(SIGNING_KEY, &bytes)).await?)
}

/// Posts to addresses that may be reached. Cheap to clone.
#[derive(Clone)]
pub struct Client {
    /// Built when it is first needed: the certificates that it trusts take a while to read, and memory.
    http: Arc<OnceLock<Result<reqwest::Client, String>>>,
    reach: Arc<Reach>,
    idle: usize,
}

/// An answer whose body has not been read.
pub struct Reply {
    pub status: StatusCode,
    /// Seconds that the receiver asks to wait, whichever way it says so.
    pub retry_after: Option<f64>,
    response: Response,
    until: Instant,
}

/// Why there is no answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The address is closed; nothing was sent.
    Forbidden,
    /// The name stands for no address, or for one that is closed; nothing was sent. The same for both, so that nobody
    /// learns which internal names exist.
    Unresolved,
    /// It took too long: whether the receiver has done anything is not known.
    TimedOut,
    /// There was no connection, and why; nothing was sent.
    Unreachable(String),
    /// The connection broke on the way.
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
    /// A client that reaches so far. `idle`: connections to one host that are kept for later.
    pub fn new(reach: Reach, idle: usize) -> Self {
        Self { http: Arc::default(), reach: Arc::new(reach), idle }
    }

    fn http(&self) -> Result<&reqwest::Client, Fault> {
        let built = self.http.get_or_init(|| self.build().map_err(|error| error.to_string()));
        built.as_ref().map_err(|why| Fault::Unreachable(why.clone()))
    }

    fn build(&self) -> Result<reqwest::Client, reqwest::Error> {
        // Ring is ours, once a process; whoever installed another before keeps it.
        let _ = rustls::crypto::ring::default_provider().install_default();
        reqwest::Client::builder()
            .user_agent(concat!("Treeline/", env!("CARGO_PKG_VERSION")))
            .redirect(Policy::none())
            .retry(reqwest::retry::never())
            .no_proxy()
            .referer(false)
            .connect_timeout(CONNECT)
            .pool_idle_timeout(KEPT)
            .pool_max_idle_per_host(self.idle)
            .tcp_nodelay(true)
            .dns_resolver(Guard(Arc::clone(&self.reach)))
            .build()
    }

    /// Posts a body, and waits for the head of the answer until then.
    pub async fn post(&self, url: &Url, headers: HeaderMap, body: Bytes, until: Instant) -> Result<Reply, Fault> {
        // An address that stands in the URL is never looked up.
        if !self.reach.may_try(url) {
            return Err(Fault::Forbidden);
        }
        let sent = self.http()?.post(url.clone()).headers(headers).body(body).send();
        let response = match timeout_at(until, sent).await {
            Err(_) => return Err(Fault::TimedOut),
            Ok(Err(error)) => return Err(fault(error)),
            Ok(Ok(response)) => response,
        };
        let retry_after = response.headers().get(RETRY_AFTER).and_then(|value| value.to_str().ok()).and_then(seconds);
        Ok(Reply { status: response.status(), retry_after, response, until })
    }
}

impl Reply {
    /// At most `most` bytes of the body, and whether there are more. Whatever follows is not read.
    pub async fn read(mut self, most: usize) -> Result<(Vec<u8>, bool), Fault> {
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

/// `503 Service Unavailable`.
pub fn named(status: StatusCode) -> String {
    status
        .canonical_reason()
        .map_or_else(|| status.as_u16().to_string(), |reason| format!("{} {reason}", status.as_u16()))
}

/// The beginning of a body as one line of text for people: at most so many characters of it.
pub fn excerpt(body: &[u8], most: usize) -> String {
    let text = String::from_utf8_lossy(&body[..body.len().min(most * 4)]);
    let plain = |c: char| if c.is_control() { ' ' } else { c };
    let words: Vec<String> = text.split_whitespace().map(|word| word.chars().map(plain).collect()).collect();
    let line = words.join(" ");
    let short: String = line.chars().take(most).collect();
    if short.len() < line.len() { format!("{short}…") } else { short }
}

/// `Retry-After`: seconds, or a date.
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
        // Only connecting has a limit of reqwest's own.
        Fault::Unreachable("it took too long".to_owned())
    } else if error.is_connect() {
        Fault::Unreachable(why)
    } else {
        Fault::Broken(why)
    }
}

/// A name that stands for no address, or for addresses that must not be reached.
#[derive(Debug)]
struct Closed;

impl fmt::Display for Closed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the name has no address that may be reached")
    }
}

impl StdError for Closed {}

/// Looks names up, and lets through what may be reached.
struct Guard(Arc<Reach>);

impl Resolve for Guard {
    fn resolve(&self, name: Name) -> Resolving {
        let reach = Arc::clone(&self.0);
        Box::pin(async move {
            let host = name.as_str();
            let found = tokio::net::lookup_host((host, 0)).await.map_err(|_| Closed)?;
            let all = found.map(|address| address.ip()).collect();
            let open = reach.permitted(host, all).ok_or(Closed)?;
            // The port is the URL's.
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
    fn what_is_shown_of_an_answer_is_one_line() {
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
        let came = listener.accept().expect_err("nobody came");
        assert_eq!(came.kind(), std::io::ErrorKind::WouldBlock);
    }
}
