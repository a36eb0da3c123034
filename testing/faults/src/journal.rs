//! Journal of the callers: their requests and the outcomes, in a file outside the database. It is synced before a call
//! is sent and after its response arrives. Everything it records as acknowledged must exist.

use std::{
    collections::BTreeMap,
    fs::File,
    io::{BufRead as _, BufReader, Write as _},
    path::Path,
    sync::{
        Mutex,
        atomic::{AtomicU64, Ordering},
    },
    time::SystemTime,
};

use anyhow::{Context as _, Result};
use domain::id::Uuid;
use serde::{Deserialize, Serialize};

/// Request of a call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Request {
    /// A tree under an Idempotency-Key, which is its name too, with items of these dedupe keys.
    Create {
        key: String,
        items: Vec<String>,
        /// True if the tree has a callback.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        calls: bool,
    },
    /// Items of these dedupe keys.
    Add {
        job: Uuid,
        items: Vec<String>,
    },
    Cancel {
        job: Uuid,
    },
    /// A tree of this name, filled from a file with this number of rows.
    File {
        key: String,
        rows: usize,
    },
    /// A manual retry of an item.
    Retry {
        item: Uuid,
        /// Actor name expected in the audit log.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        by: Option<String>,
    },
}

/// Outcome of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum CallOutcome {
    Ok,
    /// Refused: it had no effect.
    Fail,
    /// No response, or a 5xx: it may have had an effect.
    Info,
}

#[derive(Serialize, Deserialize)]
struct Line {
    n: u64,
    at_us: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    request: Option<Request>,
    #[serde(skip_serializing_if = "Option::is_none")]
    outcome: Option<CallOutcome>,
    #[serde(skip_serializing_if = "Option::is_none")]
    job: Option<Uuid>,
}

/// One call in the journal.
#[derive(Clone, Debug)]
pub(crate) struct Call {
    pub(crate) request: Request,
    /// The last outcome; `Info` if none was recorded.
    pub(crate) outcome: CallOutcome,
    /// The created tree.
    pub(crate) job: Option<Uuid>,
    /// Wall-clock time of the last response, in microseconds.
    pub(crate) answered_us: u64,
}

/// The file, open for writing.
pub(crate) struct Journal {
    file: Mutex<File>,
    next: AtomicU64,
}

impl Journal {
    pub(crate) fn create(path: &Path) -> Result<Self> {
        let file = File::create(path).with_context(|| path.display().to_string())?;
        Ok(Self { file: Mutex::new(file), next: AtomicU64::new(1) })
    }

    /// Records a request before it is sent. Returns its number.
    pub(crate) fn invoke(&self, request: Request) -> Result<u64> {
        let n = self.next.fetch_add(1, Ordering::Relaxed);
        self.write(&Line { n, at_us: now_us(), request: Some(request), outcome: None, job: None })?;
        Ok(n)
    }

    /// Records the outcome of a call.
    pub(crate) fn record_outcome(&self, n: u64, outcome: CallOutcome, job: Option<Uuid>) -> Result<()> {
        self.write(&Line { n, at_us: now_us(), request: None, outcome: Some(outcome), job })
    }

    fn write(&self, line: &Line) -> Result<()> {
        let mut text = serde_json::to_vec(line)?;
        text.push(b'\n');
        let mut file = self.file.lock().map_err(|_| anyhow::anyhow!("the journal broke"))?;
        file.write_all(&text)?;
        Ok(file.sync_data()?)
    }
}

/// Reads a journal back.
pub(crate) fn read(path: &Path) -> Result<Vec<Call>> {
    let mut calls: BTreeMap<u64, Call> = BTreeMap::new();
    for line in BufReader::new(File::open(path)?).lines() {
        let line: Line = serde_json::from_str(&line?).context("a line of the journal")?;
        match (line.request, line.outcome) {
            (Some(request), _) => {
                calls.insert(line.n, Call { request, outcome: CallOutcome::Info, job: None, answered_us: line.at_us });
            }
            (None, Some(outcome)) => {
                let call = calls.get_mut(&line.n).context("a response without a request")?;
                (call.outcome, call.answered_us) = (outcome, line.at_us);
                call.job = line.job.or(call.job);
            }
            (None, None) => anyhow::bail!("an empty line in the journal"),
        }
    }
    Ok(calls.into_values().collect())
}

/// Microseconds of the wall clock; one machine, so one clock.
pub(crate) fn now_us() -> u64 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_micros() as u64
}
