//! A stream that is sent again with its Idempotency-Key: what was committed is passed over, the rest
//! goes on.
//!
//! The key knows how many lines are in, and the fingerprint of all of them, chained line by line. So the
//! lines that are passed over are checked to be those of the first time, without being kept anywhere.

use domain::api::Added;

use super::{Batch, NOTHING};
use crate::{
    App,
    error::Result,
    http::idempotency::{chained, fingerprint},
    jobs::{KeyMove, key_reused},
    store::idempotency::KeyName,
};

/// Where a stream and its key stand.
pub(super) struct Resuming {
    name: KeyName,
    call: String,
    /// Lines committed, and the fingerprint of the stream up to there.
    pub(super) committed: Option<(i64, [u8; 32])>,
    added: Added,
    /// The whole stream is committed.
    pub(super) done: bool,
    /// The fingerprint of everything that was read.
    pub(super) chain: [u8; 32],
    /// The last line that was read and is not blank.
    pub(super) passed: i64,
}

/// What a line is.
pub(super) enum Passed {
    /// It was committed when the stream was sent before.
    Committed,
    /// It is to be added; the fingerprint of the stream up to here.
    New([u8; 32]),
}

impl Resuming {
    /// How the key stands before the first line.
    pub(super) async fn begin(app: &App, name: KeyName, call: String) -> Result<Self> {
        let known = app.engine.known_adding(&name, &call).await?;
        let chain = fingerprint(&format!("\"{call}\""));
        let mut resuming = Self { name, call, committed: None, added: NOTHING, done: false, chain, passed: 0 };
        if let Some(known) = known {
            let before = known.fingerprint.try_into().map_err(|_| key_reused())?;
            resuming.committed = Some((known.lines, before));
            resuming.added = known.added;
            resuming.done = known.done;
            // A stream without items has nothing to compare but its beginning.
            if known.lines == 0 && before != chain {
                return Err(key_reused().into());
            }
        }
        Ok(resuming)
    }

    /// Looks again how the key stands; what was read stays.
    pub(super) async fn refresh(&mut self, app: &App) -> Result<()> {
        let now = Self::begin(app, self.name.clone(), self.call.clone()).await?;
        (self.committed, self.added, self.done) = (now.committed, now.added, now.done);
        Ok(())
    }

    /// What the call has added up to where the key stands.
    pub(super) fn added(&self) -> Added {
        self.added
    }

    /// Takes the next line that is not blank. 422 when the stream is not the one of before.
    pub(super) fn pass(&mut self, line: i64, text: &str) -> Result<Option<Passed>> {
        self.chain = chained(self.chain, text);
        let before = std::mem::replace(&mut self.passed, line);
        let Some((lines, fingerprint)) = self.committed else { return Ok(Some(Passed::New(self.chain))) };
        if line < lines {
            return Ok(Some(Passed::Committed));
        }
        if line == lines {
            return if self.chain == fingerprint { Ok(Some(Passed::Committed)) } else { Err(key_reused().into()) };
        }
        // Behind the end of a stream that was whole, or past the place itself, where it has no line now.
        if self.done || before < lines { Err(key_reused().into()) } else { Ok(Some(Passed::New(self.chain))) }
    }

    /// Lines are committed that have not been read again.
    pub(super) fn is_behind(&self) -> bool {
        self.committed.is_some_and(|(lines, _)| self.passed < lines)
    }

    pub(super) fn is_done(&self) -> bool {
        self.done
    }

    /// The move of the key that goes with a batch.
    pub(super) fn moving(&self, batch: &Batch, before: Added, last: bool) -> KeyMove {
        let end = batch.lines.last().copied().zip(batch.chain.last().copied());
        KeyMove {
            name: self.name.clone(),
            call: self.call.clone(),
            from: self.committed,
            to: end.or(self.committed).unwrap_or((0, self.chain)),
            before,
            last,
        }
    }
}
