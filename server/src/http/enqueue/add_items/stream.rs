//! Items sent as a stream: read line by line and never buffered as a whole.
//!
//! Each batch is committed before the next one is read, which also slows down a sender that is faster than the database.
//! A line that is refused ends the stream: those before it are committed, and the response contains its number and the
//! number of accepted items.

use axum::extract::Request;
use bytes::BytesMut;
use domain::{
    Code, Problem,
    api::{Added, NewItem},
    dispatch::traceparent::Traceparent,
    id::Uuid,
};
use futures::StreamExt as _;
use tokio::time::Instant;

use super::{
    AddItemsQuery,
    array::MAX_ATTEMPTS,
    resume::{LineKind, StreamProgress},
};
use crate::{
    App,
    auth::Ongoing,
    http::{
        error::{Error, Result},
        extract,
    },
};
use engine::{StreamPosition, access::caller::Caller, key_reused, sum};

/// Number of items and number of bytes at which a batch of a stream is committed.
const BATCH_ITEMS: usize = 1_000;
const BATCH_BYTES: usize = 1 << 20;

/// Maximum size of a line beyond its payload, in bytes.
const AROUND_PAYLOAD: usize = 64 << 10;

/// NDJSON stream being read.
pub(super) struct Stream<'a> {
    pub(super) app: &'a App,
    pub(super) caller: &'a Caller,
    pub(super) job_id: Uuid,
    pub(super) query: AddItemsQuery,
    pub(super) traceparent: Option<Traceparent>,
    /// Result of the committed batches.
    pub(super) total: Added,
    /// Progress stored under the stream's key, if it has one.
    pub(super) progress: Option<StreamProgress>,
    /// True if a batch of this request is committed.
    pub(super) committed: bool,
    /// Number of the last line read, from 1.
    pub(super) line: i64,
    pub(super) batch: Batch,
    /// Validity of the credential: a stream can outlive it.
    pub(super) ongoing: Ongoing,
}

/// Items that are committed together, and the line number of each.
#[derive(Default)]
pub(super) struct Batch {
    items: Vec<NewItem>,
    pub(super) lines: Vec<i64>,
    /// Fingerprints of the stream up to and including each line, with a key only.
    pub(super) chain: Vec<[u8; 32]>,
    bytes: usize,
}

impl Batch {
    /// Drops the first `n` items.
    fn cut(&mut self, n: usize) {
        self.items.drain(..n);
        self.lines.drain(..n);
        self.chain.drain(..n);
    }

    /// Drops all items but the first `n`. Returns the line of the first one that is dropped.
    fn truncate(&mut self, n: usize) -> Option<i64> {
        let line = self.lines.get(n).copied();
        self.items.truncate(n);
        self.lines.truncate(n);
        self.chain.truncate(n);
        line
    }
}

impl Stream<'_> {
    pub(super) async fn read(mut self, request: Request) -> Result<Added> {
        let longest = self.app.config.payload_limit.bytes() + AROUND_PAYLOAD;
        let idle_timeout = self.app.config.limits.stream_idle_timeout();
        let (parts, body) = request.into_parts();
        let mut chunks = extract::chunks(body);
        let mut buffer = BytesMut::new();
        // Length of the buffer's prefix that is known to contain no line end.
        let mut searched = 0;
        // A line must be complete before this deadline: a byte now and then does not count as progress.
        let mut line_due = Instant::now() + idle_timeout;
        loop {
            if let Some(at) = buffer[searched..].iter().position(|&b| b == b'\n') {
                let line = buffer.split_to(searched + at + 1);
                searched = 0;
                line_due = Instant::now() + idle_timeout;
                self.take(&line[..line.len() - 1]).await?;
                continue;
            }
            searched = buffer.len();
            if searched > longest {
                let line = self.line + 1;
                let problem = Problem::new(Code::TooLarge, format!("Line {line} is longer than {longest} bytes."));
                return Err(self.stop(line, problem).await);
            }
            let next = tokio::select! {
                next = tokio::time::timeout_at(line_due, chunks.next()) => next,
                ended = self.ongoing.ended() => return Err(self.refused(ended.into())),
            };
            match next {
                Ok(Some(Ok(chunk))) => {
                    let buffered = buffer.len() + chunk.len() + self.batch.bytes;
                    extract::hold(&parts.extensions, buffered).map_err(|busy| self.refused(busy))?;
                    buffer.extend_from_slice(&chunk);
                }
                Ok(Some(Err(_))) => {
                    let line = self.batch.lines.first().copied().unwrap_or(self.line + 1);
                    return Err(self.at_line(line, Problem::new(Code::InvalidJson, "The stream broke off.")));
                }
                Ok(None) => return self.end(&buffer).await,
                Err(_) => {
                    let detail = format!("No whole line came for {} seconds.", idle_timeout.as_secs());
                    return Err(self.stop(self.line + 1, Problem::new(Code::InvalidJson, detail)).await);
                }
            }
        }
    }

    /// Handles the last line, which may lack a line end, and commits the last batch.
    async fn end(mut self, rest: &[u8]) -> Result<Added> {
        self.take(rest).await?;
        if self.progress.as_ref().is_some_and(StreamProgress::is_behind) {
            return Err(key_reused().into());
        }
        let is_done = self.progress.as_ref().map(StreamProgress::is_done);
        // A stream without items is for a job, too, which may refuse it.
        let is_first = !self.committed || self.query.seal.unwrap_or(false);
        if is_done == Some(false) || (is_done.is_none() && is_first) || !self.batch.items.is_empty() {
            self.commit(true).await?;
        }
        if self.progress.as_ref().is_some_and(StreamProgress::is_behind) {
            return Err(key_reused().into());
        }
        Ok(self.total)
    }

    async fn take(&mut self, line: &[u8]) -> Result<()> {
        self.line += 1;
        let line = line.trim_ascii();
        if line.is_empty() {
            return Ok(());
        }
        match crate::json_body::read::<NewItem>(line) {
            Ok(item) => {
                let line_kind = match &mut self.progress {
                    Some(progress) => progress.pass(self.line, &String::from_utf8_lossy(line))?,
                    None => None,
                };
                match line_kind {
                    Some(LineKind::Committed) => return Ok(()),
                    Some(LineKind::New(fingerprint)) => self.batch.chain.push(fingerprint),
                    None => {}
                }
                self.batch.items.push(item);
                self.batch.lines.push(self.line);
                self.batch.bytes += line.len();
            }
            Err(engine::error::Error::Problem(problem)) => {
                // As a whole body, invalid syntax is a 400; as a line of a stream, it is a 422.
                let faults = if problem.errors.is_empty() {
                    Problem::invalid_body([(String::new(), problem.detail)])
                } else {
                    *problem
                };
                return Err(self.stop(self.line, faults).await);
            }
            Err(ours) => return Err(ours.into()),
        }
        if self.batch.items.len() >= BATCH_ITEMS || self.batch.bytes >= BATCH_BYTES {
            self.commit(false).await?;
        }
        Ok(())
    }

    /// Commits the lines before a refused one. Returns its refusal, or that of an earlier line.
    async fn stop(&mut self, line: i64, problem: Problem) -> Error {
        if !self.batch.items.is_empty()
            && let Err(earlier) = self.commit(false).await
        {
            return earlier;
        }
        self.at_line(line, problem)
    }

    /// Commits the batch. If one of its lines is refused, commits the lines before it and returns the refusal.
    async fn commit(&mut self, last: bool) -> Result<()> {
        if let Err(ended) = self.ongoing.check().await {
            return Err(self.refused(ended.into()));
        }
        let mut batch = std::mem::take(&mut self.batch);
        let mut refused: Option<(i64, Problem)> = None;
        let mut tries = MAX_ATTEMPTS;
        loop {
            let last = last && refused.is_none();
            match self.attempt(&batch, last).await {
                Ok(()) => break,
                Err(engine::error::Error::KeyMoved) if tries > 0 => {
                    tries -= 1;
                    if !self.catch_up(&mut batch, last).await? {
                        break;
                    }
                }
                Err(engine::error::Error::Problem(problem)) => {
                    let Some(first) = batch.lines.first().copied() else {
                        return Err(self.refused((*problem).into()));
                    };
                    let Some((index, problem)) = of_item(&problem) else { return Err(self.at_line(first, *problem)) };
                    refused = Some((batch.truncate(index).unwrap_or(first), problem));
                    if batch.items.is_empty() {
                        break;
                    }
                }
                Err(ours) => return Err(ours.into()),
            }
        }
        refused.map_or(Ok(()), |(line, problem)| Err(self.at_line(line, problem)))
    }

    /// Commits the batch, all or nothing.
    async fn attempt(&mut self, batch: &Batch, last: bool) -> engine::error::Result<()> {
        let key = self.progress.as_ref().map(|progress| progress.key_move(batch, self.total, last));
        let to = key.as_ref().map(|key| key.to);
        let seal = last && self.query.seal.unwrap_or(false);
        let place = if self.committed { StreamPosition::Later } else { StreamPosition::First };
        let adding = self.query.adding(seal, key, Some(place), self.traceparent);
        // A copy, because a part of the batch may have to be sent again.
        let items = batch.items.clone();
        let added = self.app.engine.add_items(self.caller, self.job_id, items, adding).await?;
        self.committed = true;
        self.total = sum(self.total, added);
        if let (Some(progress), Some(to)) = (&mut self.progress, to) {
            progress.committed = Some(to);
            progress.done = last;
        }
        Ok(())
    }

    /// Drops the items that the same stream, sent on another connection, has committed first.
    /// Returns false if nothing of the batch is left to commit.
    async fn catch_up(&mut self, batch: &mut Batch, last: bool) -> Result<bool> {
        let Some(progress) = &mut self.progress else { return Ok(true) };
        progress.refresh(self.app).await?;
        self.total = progress.added();
        let Some((lines, fingerprint)) = progress.committed else { return Ok(true) };
        let n_committed = batch.lines.iter().take_while(|&&line| line <= lines).count();
        let end = n_committed.checked_sub(1).map(|at| (batch.lines[at], batch.chain[at]));
        batch.cut(n_committed);
        let differs = end.is_some_and(|(line, chain)| line == lines && chain != fingerprint);
        if differs || (progress.is_done() && !batch.items.is_empty()) {
            return Err(key_reused().into());
        }
        Ok(!progress.is_done() && !progress.is_behind() && (last || !batch.items.is_empty()))
    }

    /// Refusal that is not about a single line, with the number of items accepted before it.
    fn refused(&self, error: Error) -> Error {
        match error {
            Error(engine::error::Error::Problem(problem)) => {
                Problem { accepted: Some(self.total.accepted), ..*problem }.into()
            }
            other => other,
        }
    }

    fn at_line(&self, line: i64, problem: Problem) -> Error {
        Problem { line: Some(line), accepted: Some(self.total.accepted), ..problem }.into()
    }
}

/// Index of the item that a refusal of a batch is about, and the refusal as one of this item alone. The engine's pointers
/// begin with the index (`/17/payload`); the sender knows lines.
fn of_item(problem: &Problem) -> Option<(usize, Problem)> {
    let (index, _) = split_index(&problem.errors.first()?.pointer)?;
    let of_this = |pointer: &str| split_index(pointer).filter(|(at, _)| *at == index).map(|(_, rest)| rest);
    Some((index, problem.clone().moved(of_this)))
}

/// Splits `/17/payload` into the index 17 and the pointer `/payload`.
fn split_index(pointer: &str) -> Option<(usize, String)> {
    let rest = pointer.strip_prefix('/')?;
    let (index, rest) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    Some((index.parse().ok()?, rest.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::split_index;

    #[test]
    fn a_place_in_a_batch_is_an_item_and_a_place_in_it() {
        assert_eq!(split_index("/17/payload/a"), Some((17, "/payload/a".into())));
        assert_eq!(split_index("/0"), Some((0, String::new())));
        assert_eq!(split_index("/type"), None);
        assert_eq!(split_index(""), None);
    }
}
