//! Results and failures of a tree, as a stream: NDJSON for programs, CSV for people.
//!
//! Read page by page while the reader takes them, so memory is flat and nothing is open in between. A
//! stream that cannot go on breaks its connection: what arrived never looks whole when it is not.

use std::collections::HashSet;

use axum::{body::Body, extract::State, response::Response};
use bytes::Bytes;
use domain::{
    Document, ItemState, Problem, Time,
    api::{FailureLine, ResultLine},
    item::ItemError,
};
use futures::{StreamExt as _, TryStreamExt as _, stream};
use serde::Deserialize;
use utoipa::IntoParams;
use uuid::Uuid;

use super::{
    extract::{Path, Query},
    uploads::attachment,
};
use crate::{
    App,
    auth::Caller,
    error::{Error, Result},
    sheet,
    split::{FAILURE_COLUMNS, Head},
    store::results::{self, FailureRow, ListedJob, ResultRow},
};

/// How a stream is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum StreamFormat {
    #[default]
    Ndjson,
    Csv,
}

/// Where a stream begins, and how it is written.
#[derive(Clone, Copy, Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct Streaming {
    /// Default ndjson
    #[serde(default)]
    format: StreamFormat,
    /// Goes on behind this item, the last one that arrived
    after: Option<Uuid>,
}

/// The results of a tree, in order; of its final stage, or of its leaf jobs where none is marked
#[utoipa::path(get, path = "/jobs/{id}/results", tag = "jobs", params(("id" = Uuid, Path), Streaming),
    responses((status = 200, description = "One result a line; a stream that breaks is cut off",
        content((ResultLine = "application/x-ndjson"), (String = "text/csv")))))]
pub async fn stream_results(
    State(app): State<App>,
    caller: Caller,
    Path(id): Path<Uuid>,
    Query(streaming): Query<Streaming>,
) -> Result<Response> {
    stream_tree(app, &caller, id, streaming, What::Results).await
}

/// The items of a tree that did not succeed, in order, with what went wrong
#[utoipa::path(get, path = "/jobs/{id}/failures", tag = "jobs", params(("id" = Uuid, Path), Streaming),
    responses((status = 200, description = "One item a line; as CSV the original columns and what went wrong",
        content((FailureLine = "application/x-ndjson"), (String = "text/csv")))))]
pub async fn stream_failures(
    State(app): State<App>,
    caller: Caller,
    Path(id): Path<Uuid>,
    Query(streaming): Query<Streaming>,
) -> Result<Response> {
    stream_tree(app, &caller, id, streaming, What::Failures).await
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum What {
    Results,
    Failures,
}

async fn stream_tree(app: App, caller: &Caller, id: Uuid, streaming: Streaming, what: What) -> Result<Response> {
    let job = app.engine.job(caller, id, false).await?;
    let jobs = results::jobs(&app.pool, job.root_id).await?;
    let jobs = below(jobs, id);
    let table = Table::of(&jobs);
    let jobs = if what == What::Results { final_stage(jobs) } else { jobs };
    let (mut at, mut seq) = (0, 0);
    if let Some(after) = streaming.after {
        let unknown = || Problem::parameter("after", "expected the id of an item of this tree");
        let (gate_id, place) = results::place(&app.pool, after).await?.ok_or_else(unknown)?;
        at = jobs.iter().position(|job| job.gate_id == gate_id).ok_or_else(unknown)?;
        seq = place;
    }
    let name = job.name.unwrap_or(job.key);
    let stem = name.rsplit_once('.').map_or(name.as_str(), |(stem, _)| stem);
    let word = if what == What::Results { "results" } else { "failures" };
    let (extension, media_type) = match streaming.format {
        StreamFormat::Ndjson => ("ndjson", "application/x-ndjson"),
        StreamFormat::Csv => ("csv", "text/csv; charset=utf-8"),
    };
    let writer = Writer { what, format: streaming.format, table };
    let begin = if streaming.after.is_none() { writer.header()? } else { Vec::new() };
    let walk = Walk { app, jobs, at, seq, writer };
    let pages =
        stream::try_unfold(
            walk,
            |mut walk| async move { Ok::<_, Error>(walk.next_page().await?.map(|page| (page, walk))) },
        );
    // The first page before the answer: if it cannot be read, the answer still can say so.
    let mut pages = Box::pin(pages);
    let first = pages.try_next().await?.unwrap_or_default();
    let pages = stream::iter([Ok(Bytes::from(begin)), Ok(first)]).chain(pages.inspect_err(|error| {
        tracing::warn!(%error, "a stream of results broke off");
    }));
    Ok(attachment(&format!("{stem}-{word}.{extension}"), media_type, Body::from_stream(pages)))
}

/// The job and everything below it, in order.
fn below(jobs: Vec<ListedJob>, id: Uuid) -> Vec<ListedJob> {
    let mut inside = HashSet::from([id]);
    jobs.into_iter()
        .filter(|job| {
            let is_inside = job.job_id == id || job.parent_id.is_some_and(|parent| inside.contains(&parent));
            is_inside && (inside.insert(job.job_id) || job.job_id == id)
        })
        .collect()
}

/// Rule 19: the jobs marked as final stage; where none is, those without children.
fn final_stage(jobs: Vec<ListedJob>) -> Vec<ListedJob> {
    let marked = jobs.iter().any(|job| job.final_stage);
    let parents: HashSet<Uuid> = jobs.iter().filter_map(|job| job.parent_id).collect();
    jobs.into_iter().filter(|job| if marked { job.final_stage } else { !parents.contains(&job.job_id) }).collect()
}

/// A walk through the items of several jobs.
struct Walk {
    app: App,
    jobs: Vec<ListedJob>,
    /// The job in hand, and the place of its last item that was looked at.
    at: usize,
    seq: i64,
    writer: Writer,
}

impl Walk {
    /// The next page with something on it; `None` at the end.
    async fn next_page(&mut self) -> Result<Option<Bytes>> {
        while let Some(job) = self.jobs.get(self.at) {
            let (pool, gate_id) = (&self.app.pool, job.gate_id);
            let mut text = Vec::new();
            let last = match self.writer.what {
                What::Results => {
                    let rows = results::results(pool, gate_id, self.seq).await?;
                    for row in &rows {
                        self.writer.result(&mut text, job.job_id, row)?;
                    }
                    rows.last().map(|row| row.seq)
                }
                What::Failures => {
                    let rows = results::failures(pool, gate_id, self.seq).await?;
                    for row in &rows {
                        self.writer.failure(&mut text, job.job_id, row)?;
                    }
                    rows.last().map(|row| row.seq)
                }
            };
            (self.at, self.seq) = last.map_or((self.at + 1, 0), |seq| (self.at, seq));
            if !text.is_empty() {
                return Ok(Some(text.into()));
            }
        }
        Ok(None)
    }
}

/// The table that the rows came from, as far as there was one: what people get back looks like what
/// they gave.
#[derive(Debug, Default)]
struct Table {
    columns: Option<Vec<String>>,
    /// Without names: how many columns.
    width: usize,
    delimiter: u8,
    mark: bool,
}

impl Table {
    fn of(jobs: &[ListedJob]) -> Self {
        let heads = jobs.iter().filter_map(|job| serde_json::from_str::<Head>(job.head.as_deref()?).ok());
        let Some(head) = heads.into_iter().find(|head| head.width > 0) else {
            return Self { delimiter: b',', ..Self::default() };
        };
        Self {
            columns: head.data_columns().map(<[String]>::to_vec),
            width: head.data_width(),
            delimiter: head.delimiter.and_then(|c| u8::try_from(c).ok()).unwrap_or(b','),
            mark: head.mark,
        }
    }

    fn names(&self) -> Vec<String> {
        match &self.columns {
            Some(columns) => columns.clone(),
            None if self.width > 0 => (1..=self.width).map(|n| format!("column_{n}")).collect(),
            None => vec!["payload".to_owned()],
        }
    }

    /// The cells of a payload, as many as there are names.
    fn cells(&self, payload: &Document) -> Vec<String> {
        if self.columns.is_none() && self.width == 0 {
            return vec![payload.text().to_owned()];
        }
        let mut cells = sheet::cells(payload, self.columns.as_deref());
        cells.resize(self.columns.as_ref().map_or(self.width, Vec::len), String::new());
        cells
    }
}

struct Writer {
    what: What,
    format: StreamFormat,
    table: Table,
}

impl Writer {
    fn header(&self) -> Result<Vec<u8>> {
        let mut text = Vec::new();
        if self.format == StreamFormat::Csv {
            if self.table.mark {
                text.extend("\u{FEFF}".bytes());
            }
            let mut names = self.table.names();
            match self.what {
                What::Results => {
                    names.insert(0, "_line".to_owned());
                    names.push("_result".to_owned());
                }
                What::Failures => names.extend(FAILURE_COLUMNS.map(str::to_owned)),
            }
            self.record(&mut text, &names)?;
        }
        Ok(text)
    }

    fn result(&self, text: &mut Vec<u8>, job_id: Uuid, row: &ResultRow) -> Result<()> {
        let (Some(payload), Some(result)) = (&row.payload, &row.result) else { return Ok(()) };
        let payload = Document::trusted(payload.clone());
        if self.format == StreamFormat::Ndjson {
            let result = Document::trusted(result.clone());
            return line(text, &ResultLine { item_id: row.item_id, job_id, row: row.row, payload, result });
        }
        let mut cells = self.table.cells(&payload);
        cells.insert(0, row.row.map_or_else(String::new, |row| row.to_string()));
        // `validate` answers with the payload, which is in the columns already.
        cells.push(if result == payload.text() { String::new() } else { result.clone() });
        self.record(text, &cells)
    }

    fn failure(&self, text: &mut Vec<u8>, job_id: Uuid, row: &FailureRow) -> Result<()> {
        let state = ItemState::from_code(row.state).unwrap_or(ItemState::Dead);
        let payload = Document::trusted(row.payload.clone());
        if self.format == StreamFormat::Ndjson {
            let error = row.error_message.as_ref().map(|message| ItemError {
                message: message.clone(),
                kind: row.error_kind.clone(),
                detail: row.error_detail.clone().map(Document::trusted),
                at: Time(row.ended_at),
            });
            let (item_id, attempts) = (row.item_id, row.attempts);
            return line(text, &FailureLine { item_id, job_id, row: row.row, payload, state, attempts, error });
        }
        let mut cells = self.table.cells(&payload);
        cells.push(row.row.map_or_else(String::new, |row| row.to_string()));
        cells.push(row.error_kind.clone().unwrap_or_else(|| state.as_str().to_owned()));
        cells.push(row.error_message.clone().unwrap_or_default());
        self.record(text, &cells)
    }

    fn record(&self, text: &mut Vec<u8>, cells: &[String]) -> Result<()> {
        let mut writer = csv::WriterBuilder::new().delimiter(self.table.delimiter).from_writer(text);
        writer
            .write_record(cells.iter().map(|cell| sheet::escape(cell).into_owned()))
            .and_then(|()| Ok(writer.flush()?))
            .map_err(|e| Error::Broken(e.to_string()))
    }
}

fn line(text: &mut Vec<u8>, value: &impl serde::Serialize) -> Result<()> {
    serde_json::to_writer(&mut *text, value).map_err(|e| Error::Broken(e.to_string()))?;
    text.push(b'\n');
    Ok(())
}
