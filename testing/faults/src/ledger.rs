//! Ledgers of the work that workers really did: one file per worker process, independent of the tables. They show
//! duplicate work that the database would hide.
//!
//! A line is written without a buffer before its work begins, so it survives the death of the process. The file is
//! synced a few times per second.

use std::{
    fs::File,
    io::{BufRead as _, BufReader, Write as _},
    path::Path,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result};
use domain::id::Uuid;
use serde::{Deserialize, Serialize};

use crate::journal::now_us;

/// Event of the work on an item.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum WorkEvent {
    /// The work begins, with the step that the server reported as reached.
    Start { attempt: i32, job_type: String, step: Option<String> },
    /// A step was acknowledged.
    Step { name: String },
    /// The work ended, with a result or a failure.
    Finish { well: bool },
    /// The server's response to the ending: an HTTP status.
    Answer { status: u16, well: bool },
}

/// One line.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Entry {
    pub(crate) item: Uuid,
    pub(crate) assignment: Uuid,
    pub(crate) event: WorkEvent,
    /// Wall clock, in microseconds.
    pub(crate) at_us: u64,
    /// Time since the start of the process, in microseconds.
    pub(crate) since_us: u64,
}

/// The file, open for writing.
#[derive(Clone)]
pub(crate) struct Ledger(Arc<Inner>);

struct Inner {
    file: Mutex<File>,
    began: Instant,
    dirty: AtomicBool,
}

impl Ledger {
    /// Opens a ledger for appending, and syncs it in the background until the process ends.
    pub(crate) fn open(path: &Path) -> Result<Self> {
        let file = File::options().create(true).append(true).open(path).with_context(|| path.display().to_string())?;
        let synced = file.try_clone()?;
        let inner = Arc::new(Inner { file: Mutex::new(file), began: Instant::now(), dirty: AtomicBool::new(false) });
        let shared = Arc::clone(&inner);
        std::thread::spawn(move || {
            loop {
                std::thread::sleep(Duration::from_millis(200));
                if shared.dirty.swap(false, Ordering::Relaxed) && synced.sync_data().is_err() {
                    std::process::abort();
                }
            }
        });
        Ok(Self(inner))
    }

    /// Writes a line. If that fails, the process aborts, because its work would be unknown.
    pub(crate) fn write(&self, item: Uuid, assignment: Uuid, event: WorkEvent) {
        let since_us = self.0.began.elapsed().as_micros() as u64;
        let entry = Entry { item, assignment, event, at_us: now_us(), since_us };
        let written = serde_json::to_vec(&entry).map_err(std::io::Error::other).and_then(|mut text| {
            text.push(b'\n');
            let mut file = self.0.file.lock().map_err(|_| std::io::Error::other("poisoned"))?;
            file.write_all(&text)
        });
        if written.is_err() {
            std::process::abort();
        }
        self.0.dirty.store(true, Ordering::Relaxed);
    }
}

/// Reads all ledgers in a folder. The last line of a killed process may be incomplete.
pub(crate) fn read_all(folder: &Path) -> Result<Vec<Entry>> {
    let mut entries = Vec::new();
    for file in std::fs::read_dir(folder)? {
        let path = file?.path();
        if path.extension().is_none_or(|ending| ending != "ledger") {
            continue;
        }
        let lines: Vec<String> = BufReader::new(File::open(&path)?).lines().collect::<Result<_, _>>()?;
        let last = lines.len().saturating_sub(1);
        for (at, line) in lines.iter().enumerate() {
            match serde_json::from_str(line) {
                Ok(entry) => entries.push(entry),
                Err(_) if at == last => {}
                Err(error) => return Err(error).with_context(|| path.display().to_string()),
            }
        }
    }
    entries.sort_by_key(|entry: &Entry| entry.at_us);
    Ok(entries)
}
