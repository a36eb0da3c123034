//! `POST /jobs/{id}/items`: a JSON array, all or nothing; or NDJSON, a stream without end in atomic
//! batches.
//!
//! A stream is read line by line and never held: a batch is committed before the next is read, which
//! is also what slows a sender down that is faster than the database. A bad line stops it; the answer
//! names the line and how many items are in.

use axum::{Json as Answer, extract::Request, extract::State};
use bytes::BytesMut;
use domain::{
    Code, Problem,
    api::{Added, NewItem},
    id::Uuid,
};
use futures::StreamExt as _;
use serde::Deserialize;
use utoipa::IntoParams;

use super::extract::{self, Path, Query};
use crate::{
    App,
    auth::Caller,
    error::{Error, Result},
};

/// Items in one JSON array.
const LARGEST_ARRAY: usize = 10_000;

/// A batch of a stream is committed at this many items, or this many bytes.
const BATCH_ITEMS: usize = 1_000;
const BATCH_BYTES: usize = 1 << 20;

/// What a line may have beside its payload, in bytes.
const AROUND_PAYLOAD: usize = 64 << 10;

const NDJSON: [&str; 4] =
    ["application/x-ndjson", "application/ndjson", "application/jsonl", "application/x-jsonlines"];

/// How items are added.
#[derive(Clone, Copy, Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct Adding {
    /// `true`: the job gets no more items after these
    seal: Option<bool>,
}

/// Add items: a JSON array (all or nothing, at most 10,000), or an NDJSON stream in atomic batches
#[utoipa::path(post, path = "/jobs/{id}/items", tag = "jobs", params(("id" = Uuid, Path), Adding),
    request_body(content((Vec<NewItem> = "application/json"), (String = "application/x-ndjson"))),
    responses((status = 200, body = Added)))]
pub async fn add_items(
    State(app): State<App>,
    caller: Caller,
    Path(job_id): Path<Uuid>,
    Query(adding): Query<Adding>,
    request: Request,
) -> Result<Answer<Added>> {
    let seal = adding.seal.unwrap_or(false);
    match extract::media_type(request.headers()).as_deref() {
        Some("application/json") => {
            let bytes = extract::body(request, app.config.body_limit.bytes()).await?;
            let items: Vec<NewItem> = extract::read(&bytes)?;
            if items.len() > LARGEST_ARRAY {
                let expected = format!("expected at most {LARGEST_ARRAY} items; send NDJSON for more");
                return Err(Problem::invalid_body([(String::new(), expected)]).into());
            }
            Ok(Answer(app.engine.add_items(&caller, job_id, items, seal, crate::jobs::OnDuplicate::Refuse).await?))
        }
        Some(essence) if NDJSON.contains(&essence) => {
            let stream =
                Stream { app: &app, caller: &caller, job_id, total: NOTHING, line: 0, batch: Batch::default() };
            stream.read(request, seal).await.map(Answer)
        }
        _ => Err(extract::wrong_media_type("application/json or application/x-ndjson")),
    }
}

const NOTHING: Added = Added { accepted: 0, duplicates: 0, sealed: false };

/// A stream under way.
struct Stream<'a> {
    app: &'a App,
    caller: &'a Caller,
    job_id: Uuid,
    /// What is committed.
    total: Added,
    /// The last line that was read, from 1.
    line: i64,
    batch: Batch,
}

/// Items that will be committed together, and the line of each.
#[derive(Default)]
struct Batch {
    items: Vec<NewItem>,
    lines: Vec<i64>,
    bytes: usize,
}

impl Stream<'_> {
    async fn read(mut self, request: Request, seal: bool) -> Result<Added> {
        let longest = self.app.config.payload_limit.bytes() + AROUND_PAYLOAD;
        let mut chunks = extract::chunks(request.into_body());
        let mut buffer = BytesMut::new();
        // Bytes at the head of the buffer that are known to hold no end of line.
        let mut searched = 0;
        let refused = loop {
            if let Some(at) = buffer[searched..].iter().position(|&b| b == b'\n') {
                let line = buffer.split_to(searched + at + 1);
                searched = 0;
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
            match chunks.next().await {
                Some(Ok(chunk)) => buffer.extend_from_slice(&chunk),
                Some(Err(_)) => break self.at_line(Problem::new(Code::InvalidJson, "The stream broke off.")),
                None => return self.end(&buffer, seal).await,
            }
        };
        extract::drain(chunks).await;
        Err(refused)
    }

    /// The last line, which may lack its end, and the last batch.
    async fn end(mut self, rest: &[u8], seal: bool) -> Result<Added> {
        self.take(rest).await?;
        if seal || !self.batch.items.is_empty() {
            self.commit(seal).await?;
        }
        Ok(self.total)
    }

    async fn take(&mut self, line: &[u8]) -> Result<()> {
        self.line += 1;
        let line = line.trim_ascii();
        if line.is_empty() {
            return Ok(());
        }
        match extract::read::<NewItem>(line) {
            Ok(item) => {
                self.batch.items.push(item);
                self.batch.lines.push(self.line);
                self.batch.bytes += line.len();
            }
            Err(Error::Problem(problem)) => {
                // What came before the bad line is good.
                if !self.batch.items.is_empty() {
                    self.commit(false).await?;
                }
                // In a body of its own, bad syntax would be a 400; a line of a stream is a 422.
                let faults = if problem.errors.is_empty() {
                    Problem::invalid_body([(String::new(), problem.detail)])
                } else {
                    *problem
                };
                return Err(self.at_line(faults));
            }
            Err(ours) => return Err(ours),
        }
        if self.batch.items.len() >= BATCH_ITEMS || self.batch.bytes >= BATCH_BYTES {
            self.commit(false).await?;
        }
        Ok(())
    }

    async fn commit(&mut self, seal: bool) -> Result<()> {
        let Batch { items, lines, .. } = std::mem::take(&mut self.batch);
        match self.app.engine.add_items(self.caller, self.job_id, items, seal, crate::jobs::OnDuplicate::Refuse).await {
            Ok(added) => {
                self.total.accepted += added.accepted;
                self.total.duplicates += added.duplicates;
                self.total.sealed = added.sealed;
                Ok(())
            }
            Err(Error::Problem(mut problem)) => {
                // The engine points into the batch: `/17/payload`. The sender counts lines.
                let fault = problem.errors.first_mut();
                let named = fault.and_then(|fault| {
                    let (index, rest) = split_index(&fault.pointer)?;
                    fault.pointer = rest;
                    lines.get(index).copied()
                });
                self.line = named.or(lines.first().copied()).unwrap_or(self.line);
                Err(self.at_line(*problem))
            }
            Err(ours) => Err(ours),
        }
    }

    fn at_line(&self, problem: Problem) -> Error {
        Problem { line: Some(self.line), accepted: Some(self.total.accepted), ..problem }.into()
    }
}

/// `/17/payload` is the 17th item's `/payload`.
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
