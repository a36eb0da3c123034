//! Resumption of a stream with an Idempotency-Key: committed lines are skipped, the rest is added.
//!
//! The key stores the number of committed lines, and their fingerprint, chained line by line. So skipped lines are
//! verified to be those of the first request, without being stored.

use domain::api::Added;

use super::{Batch, NOTHING};
use crate::{
    App,
    http::{
        enqueue::idempotency::{chained, fingerprint},
        error::Result,
    },
};
use engine::{KeyAdvance, key_reused, store::enqueue::idempotency::KeyName};

/// Progress of a stream and of its key.
pub(super) struct StreamProgress {
    name: KeyName,
    call: String,
    /// Number of committed lines, and the fingerprint of the stream up to there.
    pub(super) committed: Option<(i64, [u8; 32])>,
    added: Added,
    /// True if the whole stream is committed.
    pub(super) done: bool,
    /// Fingerprint of everything read so far.
    pub(super) chain: [u8; 32],
    /// Number of the last line read that is not blank.
    pub(super) passed: i64,
}

/// Kind of a line.
pub(super) enum LineKind {
    /// Line committed by an earlier request.
    Committed,
    /// New line, with the fingerprint of the stream up to and including it.
    New([u8; 32]),
}

impl StreamProgress {
    /// Progress of the key before the first line.
    pub(super) async fn begin(app: &App, name: KeyName, call: String) -> Result<Self> {
        let stored = app.engine.earlier_call(&name, &call).await?;
        let chain = fingerprint(&format!("\"{call}\""));
        let mut progress = Self { name, call, committed: None, added: NOTHING, done: false, chain, passed: 0 };
        if let Some(stored) = stored {
            let before = stored.fingerprint.try_into().map_err(|_| key_reused())?;
            progress.committed = Some((stored.lines, before));
            progress.added = stored.added;
            progress.done = stored.done;
            // A stream without items has nothing to compare except its beginning.
            if stored.lines == 0 && before != chain {
                return Err(key_reused().into());
            }
        }
        Ok(progress)
    }

    /// Reads the progress of the key again; the progress of reading stays.
    pub(super) async fn refresh(&mut self, app: &App) -> Result<()> {
        let now = Self::begin(app, self.name.clone(), self.call.clone()).await?;
        (self.committed, self.added, self.done) = (now.committed, now.added, now.done);
        Ok(())
    }

    /// Result of the call up to the key's progress.
    pub(super) fn added(&self) -> Added {
        self.added
    }

    /// Takes the next line that is not blank. 422 if the stream differs from the earlier one.
    pub(super) fn pass(&mut self, line: i64, text: &str) -> Result<Option<LineKind>> {
        self.chain = chained(self.chain, text);
        let before = std::mem::replace(&mut self.passed, line);
        let Some((lines, fingerprint)) = self.committed else { return Ok(Some(LineKind::New(self.chain))) };
        if line < lines {
            return Ok(Some(LineKind::Committed));
        }
        if line == lines {
            return if self.chain == fingerprint { Ok(Some(LineKind::Committed)) } else { Err(key_reused().into()) };
        }
        // A line after the end of a complete stream, or a stream without a line at the key's last line.
        if self.done || before < lines { Err(key_reused().into()) } else { Ok(Some(LineKind::New(self.chain))) }
    }

    /// Returns true if committed lines have not been read again yet.
    pub(super) fn is_behind(&self) -> bool {
        self.committed.is_some_and(|(lines, _)| self.passed < lines)
    }

    pub(super) fn is_done(&self) -> bool {
        self.done
    }

    /// Move of the key that is committed with a batch.
    pub(super) fn key_move(&self, batch: &Batch, before: Added, last: bool) -> KeyAdvance {
        let end = batch.lines.last().copied().zip(batch.chain.last().copied());
        KeyAdvance {
            name: self.name.clone(),
            call: self.call.clone(),
            from: self.committed,
            to: end.or(self.committed).unwrap_or((0, self.chain)),
            before,
            last,
        }
    }
}
