//! `POST /jobs/{id}/items`: a JSON array, all or nothing; or NDJSON, a stream of any length in atomic batches.
//!
//! A stream is read line by line and never buffered as a whole. Each batch is committed before the next one is read,
//! which also slows down a sender that is faster than the database. An invalid line ends the stream; the response
//! contains the line number and the number of accepted items.

mod array; // items sent as an array
mod resume; // resumption of streams with an Idempotency-Key

use axum::{Json as Answer, extract::Request, extract::State};
use bytes::BytesMut;
use domain::{
    Code, Problem,
    api::{Added, NewItem},
    bounded::List,
    dispatch::traceparent::Traceparent,
    id::Uuid,
    limits::MOST_ITEMS,
};
use futures::StreamExt as _;
use serde::Deserialize;
use tokio::time::Instant;
use utoipa::IntoParams;

use super::idempotency::Key;
use crate::http::{
    extract::{self, Path, Query},
    trace::Trace,
};
use crate::{
    App,
    auth::Ongoing,
    http::error::{Error, Result},
};
use array::{Array, MAX_ATTEMPTS};
use engine::{
    AddOptions, KeyAdvance, OnDuplicate, StreamPosition,
    access::caller::{Caller, Scope},
    key_reused, sum,
};
use resume::{LineKind, StreamProgress};

/// Number of items and number of bytes at which a batch of a stream is committed.
const BATCH_ITEMS: usize = 1_000;
const BATCH_BYTES: usize = 1 << 20;

/// Maximum size of a line beyond its payload, in bytes.
const AROUND_PAYLOAD: usize = 64 << 10;

const NDJSON: [&str; 4] =
    ["application/x-ndjson", "application/ndjson", "application/jsonl", "application/x-jsonlines"];

/// Query parameters for adding items.
#[derive(Clone, Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct AddItemsQuery {
    /// `true`: seals the job after these items
    seal: Option<bool>,
    /// `skip`: ignore items whose dedupe key already exists in the job; `refuse` (default): add none of the items
    #[param(value_type = Option<String>)]
    on_duplicate: Option<Duplicates>,
    /// Reason, recorded in the audit log; required for another owner's job
    reason: Option<String>,
}

/// Handling of an item whose dedupe key already exists in the job.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Duplicates {
    #[default]
    Refuse,
    Skip,
}

impl AddItemsQuery {
    fn adding(
        &self,
        seal: bool,
        key: Option<KeyAdvance>,
        stream: Option<StreamPosition>,
        traceparent: Option<Traceparent>,
    ) -> AddOptions {
        let on_duplicate = match self.on_duplicate.unwrap_or_default() {
            Duplicates::Refuse => OnDuplicate::Refuse,
            Duplicates::Skip => OnDuplicate::Skip,
        };
        AddOptions { seal, on_duplicate, key, reason: self.reason.clone(), stream, traceparent }
    }

    /// Call that a key identifies before the first line: the job and the parameters.
    fn call(&self, job_id: Uuid) -> String {
        let parameters = [
            self.seal.unwrap_or(false).then_some("seal"),
            (self.on_duplicate == Some(Duplicates::Skip)).then_some("skip"),
        ];
        let parameters: Vec<&str> = parameters.into_iter().flatten().collect();
        format!("POST /jobs/{job_id}/items?{}", parameters.join("&"))
    }
}

/// Add items to a job
///
/// The body is a JSON array (all or nothing, at most 10,000 items) or an NDJSON stream, committed in atomic batches.
/// With an `Idempotency-Key` a request can be repeated: an array gets the first response, a stream resumes after the
/// committed lines.
#[utoipa::path(post, path = "/jobs/{id}/items", tag = "jobs",
    params(("id" = Uuid, Path), AddItemsQuery,
           ("Idempotency-Key" = Option<String>, Header, description = "1 to 255 characters"),
           ("traceparent" = Option<String>, Header, description = "W3C Trace Context; an invalid one is ignored")),
    request_body(content((Vec<NewItem> = "application/json"), (String = "application/x-ndjson"))),
    responses((status = 200, body = Added)))]
pub async fn add_items(
    State(app): State<App>,
    caller: Caller,
    Path(job_id): Path<Uuid>,
    Query(query): Query<AddItemsQuery>,
    key: Key,
    Trace(traceparent): Trace,
    request: Request,
) -> Result<Answer<Added>> {
    caller.require(Scope::JobsWrite)?;
    let key = key.name(&caller);
    match extract::media_type(request.headers()).as_deref() {
        Some("application/json") => {
            let bytes = extract::body(request, app.config.body_limit.bytes()).await?;
            let List(items) = crate::json_body::read::<List<NewItem>>(&bytes)?;
            if items.len() > MOST_ITEMS {
                let expected = format!("expected at most {MOST_ITEMS} items; send NDJSON for more");
                return Err(Problem::invalid_body([(String::new(), expected)]).into());
            }
            app.engine.check_item_sizes(&items)?;
            let array = Array { app: &app, caller: &caller, job_id, query, traceparent };
            match key {
                Some(name) => array.add_once(items, name, &String::from_utf8_lossy(&bytes)).await.map(Answer),
                None => array.add(items, None).await.map(Answer),
            }
        }
        Some(essence) if NDJSON.contains(&essence) => {
            let progress = match key {
                Some(name) => Some(StreamProgress::begin(&app, name, query.call(job_id)).await?),
                None => None,
            };
            let stream = Stream {
                app: &app,
                caller: &caller,
                job_id,
                query,
                traceparent,
                total: progress.as_ref().map_or(NOTHING, StreamProgress::added),
                progress,
                committed: false,
                line: 0,
                batch: Batch::default(),
                ongoing: Ongoing::of(&app, &caller),
            };
            stream.read(request).await.map(Answer)
        }
        _ => Err(extract::wrong_media_type("application/json or application/x-ndjson")),
    }
}

const NOTHING: Added = Added { accepted: 0, duplicates: 0, merged: 0, sealed: false };

/// NDJSON stream being read.
struct Stream<'a> {
    app: &'a App,
    caller: &'a Caller,
    job_id: Uuid,
    query: AddItemsQuery,
    traceparent: Option<Traceparent>,
    /// Result of the committed batches.
    total: Added,
    /// Progress stored under the stream's key, if it has one.
    progress: Option<StreamProgress>,
    /// True if a batch of this request is committed.
    committed: bool,
    /// Number of the last line read, from 1.
    line: i64,
    batch: Batch,
    /// Validity of the credential: a stream can outlive it.
    ongoing: Ongoing,
}

/// Items that are committed together, and the line number of each.
#[derive(Default)]
struct Batch {
    items: Vec<NewItem>,
    lines: Vec<i64>,
    /// Fingerprints of the stream up to and including each line, with a key only.
    chain: Vec<[u8; 32]>,
    bytes: usize,
}

impl Batch {
    fn cut(&mut self, n: usize) {
        self.items.drain(..n);
        self.lines.drain(..n);
        self.chain.drain(..n);
    }
}

impl Stream<'_> {
    async fn read(mut self, request: Request) -> Result<Added> {
        let longest = self.app.config.payload_limit.bytes() + AROUND_PAYLOAD;
        let idle_timeout = self.app.config.limits.stream_idle_timeout();
        let (parts, body) = request.into_parts();
        let mut chunks = extract::chunks(body);
        let mut buffer = BytesMut::new();
        // Length of the buffer's prefix that is known to contain no line end.
        let mut searched = 0;
        // A line must be complete before this deadline: a byte now and then does not count as progress.
        let mut line_due = Instant::now() + idle_timeout;
        let refused = loop {
            if let Some(at) = buffer[searched..].iter().position(|&b| b == b'\n') {
                let line = buffer.split_to(searched + at + 1);
                searched = 0;
                line_due = Instant::now() + idle_timeout;
                if let Err(refused) = self.take(&line[..line.len() - 1]).await {
                    break refused;
                }
                continue;
            }
            searched = buffer.len();
            if searched > longest {
                self.line += 1;
                break self.at_line(Problem::new(
                    Code::TooLarge,
                    format!("Line {} is longer than {longest} bytes.", self.line),
                ));
            }
            let next = tokio::select! {
                next = tokio::time::timeout_at(line_due, chunks.next()) => next,
                ended = self.ongoing.ended() => break self.refused(ended.into()),
            };
            match next {
                Ok(Some(Ok(chunk))) => {
                    let buffered = buffer.len() + chunk.len() + self.batch.bytes;
                    if let Err(busy) = extract::hold(&parts.extensions, buffered) {
                        break self.refused(busy);
                    }
                    buffer.extend_from_slice(&chunk);
                }
                Ok(Some(Err(_))) => break self.at_line(Problem::new(Code::InvalidJson, "The stream broke off.")),
                Ok(None) => return self.end(&buffer).await,
                Err(_) => {
                    let detail = format!("No whole line came for {} seconds.", idle_timeout.as_secs());
                    break self.at_line(Problem::new(Code::InvalidJson, detail));
                }
            }
        };
        extract::drain(chunks).await;
        Err(refused)
    }

    /// Handles the last line, which may lack a line end, and commits the last batch.
    async fn end(mut self, rest: &[u8]) -> Result<Added> {
        self.take(rest).await?;
        if self.progress.as_ref().is_some_and(StreamProgress::is_behind) {
            return Err(key_reused().into());
        }
        let done = self.progress.as_ref().map(StreamProgress::is_done);
        let seal = self.query.seal.unwrap_or(false);
        if done == Some(false) || (done.is_none() && seal) || !self.batch.items.is_empty() {
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
                // The lines before the invalid one are valid.
                if !self.batch.items.is_empty() {
                    self.commit(false).await?;
                }
                // As a whole body, invalid syntax is a 400; as a line of a stream, it is a 422.
                let faults = if problem.errors.is_empty() {
                    Problem::invalid_body([(String::new(), problem.detail)])
                } else {
                    *problem
                };
                return Err(self.at_line(faults));
            }
            Err(ours) => return Err(ours.into()),
        }
        if self.batch.items.len() >= BATCH_ITEMS || self.batch.bytes >= BATCH_BYTES {
            self.commit(false).await?;
        }
        Ok(())
    }

    async fn commit(&mut self, last: bool) -> Result<()> {
        if let Err(ended) = self.ongoing.check().await {
            return Err(self.refused(ended.into()));
        }
        let mut batch = std::mem::take(&mut self.batch);
        let seal = last && self.query.seal.unwrap_or(false);
        let mut tries = MAX_ATTEMPTS;
        loop {
            let key = self.progress.as_ref().map(|progress| progress.key_move(&batch, self.total, last));
            // Only a batch under a key may have to be sent again.
            let items = if key.is_some() { batch.items.clone() } else { std::mem::take(&mut batch.items) };
            let to = key.as_ref().map(|key| key.to);
            let place = if self.committed { StreamPosition::Later } else { StreamPosition::First };
            let adding = self.query.adding(seal, key, Some(place), self.traceparent);
            match self.app.engine.add_items(self.caller, self.job_id, items, adding).await {
                Ok(added) => {
                    self.committed = true;
                    self.total = sum(self.total, added);
                    if let (Some(progress), Some(to)) = (&mut self.progress, to) {
                        progress.committed = Some(to);
                        progress.done = last;
                    }
                    return Ok(());
                }
                Err(engine::error::Error::KeyMoved) if tries > 0 => {
                    tries -= 1;
                    if !self.catch_up(&mut batch, last).await? {
                        return Ok(());
                    }
                }
                Err(engine::error::Error::Problem(mut problem)) => {
                    // The engine's pointers index into the batch (`/17/payload`); the sender counts lines.
                    let fault = problem.errors.first_mut();
                    let named = fault.and_then(|fault| {
                        let (index, rest) = split_index(&fault.pointer)?;
                        fault.pointer = rest;
                        batch.lines.get(index).copied()
                    });
                    self.line = named.or(batch.lines.first().copied()).unwrap_or(self.line);
                    return Err(self.at_line(*problem));
                }
                Err(ours) => return Err(ours.into()),
            }
        }
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

    fn at_line(&self, problem: Problem) -> Error {
        Problem { line: Some(self.line), accepted: Some(self.total.accepted), ..problem }.into()
    }
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
