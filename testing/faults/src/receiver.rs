//! Receiver of callbacks, with a ledger outside the database and outside every server.
//!
//! It runs in this process, so no kill affects it. A line is written before the response is sent: everything that a
//! server may consider delivered is recorded here.

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
use engine::signing::{ID, Key, SIGNATURE, TIMESTAMP};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use tokio::{net::TcpListener, task::JoinHandle};

use crate::journal::now_us;

/// Signing secret.
pub(crate) const SECRET: &str = "whsec_ZmF1bHRzIG9mIGV2ZXJ5IGtpbmQ=";
/// Maximum age of a signature, and maximum time ahead, in seconds.
const TOLERANCE: u64 = 300;

/// One received request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ReceivedCallback {
    /// Wall clock, in microseconds.
    pub(crate) at_us: u64,
    /// Port of the sender.
    pub(crate) port: u16,
    /// `webhook-id`.
    pub(crate) id: String,
    /// True if its signature is correct and recent.
    pub(crate) valid: bool,
    /// Fingerprint of its body.
    pub(crate) hash: String,
    /// Its content; `None` if it cannot be read.
    pub(crate) payload: Option<CallbackPayload>,
    /// Status of the response.
    pub(crate) response_status: u16,
}

/// Content of a callback.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct CallbackPayload {
    pub(crate) job_id: Uuid,
    pub(crate) completion: i32,
    pub(crate) outcome: Option<Outcome>,
    pub(crate) counts: Counts,
}

#[derive(Deserialize)]
struct Message {
    #[serde(rename = "type")]
    kind: String,
    data: CallbackPayload,
}

/// The ledger, open for writing.
pub(crate) struct CallbackLedger {
    file: Mutex<File>,
}

impl CallbackLedger {
    pub(crate) fn create(path: &Path) -> Result<Self> {
        let file = File::create(path).with_context(|| path.display().to_string())?;
        Ok(Self { file: Mutex::new(file) })
    }

    /// Records a request and its response status.
    pub(crate) fn write(&self, from: SocketAddr, headers: &HeaderMap, body: &[u8], response_status: u16) -> Result<()> {
        let header = |name| headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default().to_owned();
        let (id, sent): (String, i64) = (header(ID), header(TIMESTAMP).parse().unwrap_or_default());
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs() as i64;
        let signed = Key::of(SECRET).sign(&id, sent, body);
        let of_now = now.abs_diff(sent) <= TOLERANCE;
        let message: Option<Message> = serde_json::from_slice(body).ok();
        let received = ReceivedCallback {
            at_us: now_us(),
            port: from.port(),
            valid: of_now && !id.is_empty() && header(SIGNATURE).split(' ').any(|one| one == signed),
            id,
            hash: fingerprint(body),
            payload: message.filter(|message| message.kind == "tree.completed").map(|message| message.data),
            response_status,
        };
        let mut text = serde_json::to_vec(&received)?;
        text.push(b'\n');
        let mut file = self.file.lock().map_err(|_| anyhow::anyhow!("the receiver's ledger cannot be written"))?;
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

/// Reads a ledger, in the order in which it was written.
pub(crate) fn read(path: &Path) -> Result<Vec<ReceivedCallback>> {
    let lines = BufReader::new(File::open(path).with_context(|| path.display().to_string())?).lines();
    lines.map(|line| serde_json::from_str(&line?).context("a line of the receiver's ledger")).collect()
}

/// A receiver that listens until it is dropped.
pub(crate) struct Receiver {
    addr: SocketAddr,
    path: PathBuf,
    task: JoinHandle<()>,
}

/// State shared by its requests.
struct ReceiverState {
    callback_ledger: CallbackLedger,
    /// Ids received before.
    seen_ids: Mutex<HashSet<String>>,
}

impl Receiver {
    /// Listens on a free port, with a ledger at this path.
    pub(crate) async fn listen(path: PathBuf) -> Result<Self> {
        let state =
            Arc::new(ReceiverState { callback_ledger: CallbackLedger::create(&path)?, seen_ids: Mutex::default() });
        let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
        let addr = listener.local_addr()?;
        let router = Router::new().fallback(receive).with_state(state);
        let service = router.into_make_service_with_connect_info::<SocketAddr>();
        let task = tokio::spawn(async move {
            let _ = axum::serve(listener, service).await;
        });
        Ok(Self { addr, path, task })
    }

    pub(crate) fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// Callbacks received so far.
    pub(crate) fn received(&self) -> Result<Vec<ReceivedCallback>> {
        read(&self.path)
    }

    /// Callback target for trees.
    pub(crate) fn target(&self) -> OnCompleted {
        target(self.addr.port())
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Callback target for trees, at a local port.
pub(crate) fn target(port: u16) -> OnCompleted {
    OnCompleted {
        url: format!("http://127.0.0.1:{port}/told"),
        secret: Some(domain::job_type::SigningSecret::One(SECRET.to_owned())),
    }
}

/// Handles a callback. Every eighth is refused the first time, so that there are retries to check.
async fn receive(
    State(state): State<Arc<ReceiverState>>,
    ConnectInfo(from): ConnectInfo<SocketAddr>,
    headers: HeaderMap,
    body: Bytes,
) -> StatusCode {
    let id = headers.get(ID).and_then(|id| id.to_str().ok()).unwrap_or_default().to_owned();
    let picked = Sha256::digest(&id)[0].is_multiple_of(8);
    let first = state.seen_ids.lock().is_ok_and(|mut seen_ids| seen_ids.insert(id));
    let status = if picked && first { StatusCode::SERVICE_UNAVAILABLE } else { StatusCode::OK };
    // A callback that could not be recorded is not accepted.
    match state.callback_ledger.write(from, &headers, &body, status.as_u16()) {
        Ok(()) => status,
        Err(_) => StatusCode::INTERNAL_SERVER_ERROR,
    }
}
