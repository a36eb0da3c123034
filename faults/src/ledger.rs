//! What was really done, told by those who did it: one file a worker process, independent of the tables.
//! It shows work that was done twice where the database would hide it.
//!
//! A line is written (not buffered) before its piece of work begins, so it outlives the death of the process; the file is
//! synced a few times a second.

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

/// What happened to a piece of work.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Deed {
    /// It begins; the step that the item had reached, as the worker was told.
    Start { attempt: i32, job_type: String, step: Option<String> },
    /// A step was acknowledged.
    Step { name: String },
    /// The work is over; whether with a result.
    Finish { well: bool },
    /// What the server answered to the ending: an HTTP status.
    Answer { status: u16, well: bool },
}

/// One line.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Entry {
    pub(crate) item: Uuid,
    pub(crate) assignment: Uuid,
    pub(crate) deed: Deed,
    /// Wall clock, in microseconds.
    pub(crate) at_us: u64,
    /// Since the process began, in microseconds.
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
    /// Opens it to be added to, and syncs it in the background for as long as the process lives.
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

    /// Writes a line. A ledger that cannot be written ends the process: what it does would not be known.
    pub(crate) fn write(&self, item: Uuid, assignment: Uuid, deed: Deed) {
        let since_us = self.0.began.elapsed().as_micros() as u64;
        let entry = Entry { item, assignment, deed, at_us: now_us(), since_us };
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

/// Reads every ledger in a folder. The last line of one whose process was killed may be half a line.
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
