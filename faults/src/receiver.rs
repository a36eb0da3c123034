//! Who is called back when a tree is complete, and what was heard: a ledger of its own, outside the database and
//! outside every server.
//!
//! It lives in this process, so that whoever is killed takes nothing of it along. A line is written before the
//! answer goes out: what a server may believe to be delivered is known here.

use std::{
    collections::HashSet,
    fmt::Write as _,
    fs::File,
    io::{BufRead as _, BufReader, Write as _},
    net::SocketAddr,
    path::{Path, PathBuf},
    sync::{Arc, Mutex},
    time::{SystemTime, UNIX_EPOCH},
};

use anyhow::{Context as _, Result};
use axum::{
    Router,
    body::Bytes,
    extract::{ConnectInfo, State},
    http::{HeaderMap, StatusCode},
};
use domain::{Counts, Outcome, api::OnCompleted, id::Uuid};
use serde::{Deserialize, Serialize};
use server::outbound::sign::{ID, Key, SIGNATURE, TIMESTAMP};
use sha2::{Digest as _, Sha256};
use tokio::{net::TcpListener, task::JoinHandle};

use crate::journal::now_us;

/// What signs here.
pub(crate) const SECRET: &str = "whsec_ZmF1bHRzIG9mIGV2ZXJ5IGtpbmQ=";
/// A signature may be so old, or so far ahead, in seconds.
const TOLERANCE: u64 = 300;

/// One request that came.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Heard {
    /// Wall clock, in microseconds.
    pub(crate) at_us: u64,
    /// Where it came from.
    pub(crate) port: u16,
    /// `webhook-id`.
    pub(crate) id: String,
    /// Whether its signature is right and of now.
    pub(crate) valid: bool,
    /// The fingerprint of its body.
    pub(crate) hash: String,
    /// What it is about and says; none where it cannot be read.
    pub(crate) told: Option<Told>,
    /// The status that it was answered with.
    pub(crate) answered: u16,
}

/// What a callback says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Told {
    pub(crate) job_id: Uuid,
    pub(crate) completion: i32,
    pub(crate) outcome: Option<Outcome>,
    pub(crate) counts: Counts,
}

#[derive(Deserialize)]
struct Message {
    #[serde(rename = "type")]
    kind: String,
    data: Told,
}

/// The ledger, open for writing.
pub(crate) struct Book {
    file: Mutex<File>,
}

impl Book {
    pub(crate) fn create(path: &Path) -> Result<Self> {
        let file = File::create(path).with_context(|| path.display().to_string())?;
        Ok(Self { file: Mutex::new(file) })
    }

    /// Writes down a request and what it will be answered.
    pub(crate) fn write(&self, from: SocketAddr, headers: &HeaderMap, body: &[u8], answered: u16) -> Result<()> {
        let header = |name| headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default().to_owned();
        let (id, sent): (String, i64) = (header(ID), header(TIMESTAMP).parse().unwrap_or_default());
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs() as i64;
        let signed = Key::of(SECRET).sign(&id, sent, body);
        let of_now = now.abs_diff(sent) <= TOLERANCE;
        let message: Option<Message> = serde_json::from_slice(body).ok();
        let heard = Heard {
            at_us: now_us(),
            port: from.port(),
            valid: of_now && !id.is_empty() && header(SIGNATURE).split(' ').any(|one| one == signed),
            id,
            hash: fingerprint(body),
            told: message.filter(|message| message.kind == "tree.completed").map(|message| message.data),
            answered,
        };
        let mut text = serde_json::to_vec(&heard)?;
        text.push(b'\n');
        let mut file = self.file.lock().map_err(|_| anyhow::anyhow!("the receiver's ledger broke"))?;
        Ok(file.write_all(&text)?)
    }
}

/// SHA-256, in hexadecimal.
fn fingerprint(body: &[u8]) -> String {
    Sha256::digest(body).iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// Reads a ledger back, in the order in which it was written.
pub(crate) fn read(path: &Path) -> Result<Vec<Heard>> {
    let lines = BufReader::new(File::open(path).with_context(|| path.display().to_string())?).lines();
    lines.map(|line| serde_json::from_str(&line?).context("a line of the receiver's ledger")).collect()
}

/// Someone who listens for as long as this lives.
pub(crate) struct Receiver {
    addr: SocketAddr,
    path: PathBuf,
    task: JoinHandle<()>,
}

/// What its requests share.
struct Desk {
    book: Book,
    /// The ids that came before.
    known: Mutex<HashSet<String>>,
}

impl Receiver {
    /// At a free port, with a ledger there.
    pub(crate) async fn listen(path: PathBuf) -> Result<Self> {
        let desk = Arc::new(Desk { book: Book::create(&path)?, known: Mutex::default() });
        let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
        let addr = listener.local_addr()?;
        let router = Router::new().fallback(receive).with_state(desk);
        let service = router.into_make_service_with_connect_info::<SocketAddr>();
        let task = tokio::spawn(async move {
            let _ = axum::serve(listener, service).await;
        });
        Ok(Self { addr, path, task })
    }

    pub(crate) fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// What was heard so far.
    pub(crate) fn heard(&self) -> Result<Vec<Heard>> {
        read(&self.path)
    }

    /// How a tree names it.
    pub(crate) fn target(&self) -> OnCompleted {
        target(self.addr.port())
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// How a tree names whoever listens at this port of ours.
pub(crate) fn target(port: u16) -> OnCompleted {
    OnCompleted {
        url: format!("http://127.0.0.1:{port}/told"),
        secret: Some(domain::job_type::SigningSecret::One(SECRET.to_owned())),
    }
}

/// Takes what comes. Every eighth is refused the first time, so that there are repeated ones to be judged.
async fn receive(
    State(desk): State<Arc<Desk>>,
    ConnectInfo(from): ConnectInfo<SocketAddr>,
    headers: HeaderMap,
    body: Bytes,
) -> StatusCode {
    let id = headers.get(ID).and_then(|id| id.to_str().ok()).unwrap_or_default().to_owned();
    let picked = Sha256::digest(&id)[0].is_multiple_of(8);
    let first = desk.known.lock().is_ok_and(|mut known| known.insert(id));
    let status = if picked && first { StatusCode::SERVICE_UNAVAILABLE } else { StatusCode::OK };
    // What could not be written down is not taken.
    match desk.book.write(from, &headers, &body, status.as_u16()) {
        Ok(()) => status,
        Err(_) => StatusCode::INTERNAL_SERVER_ERROR,
    }
}
