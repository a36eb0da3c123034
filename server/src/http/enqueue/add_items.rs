//! `POST /jobs/{id}/items`: a JSON array, all or nothing; or NDJSON, a stream of any length in atomic batches.

mod array; // items sent as an array
mod resume; // resumption of streams with an Idempotency-Key
mod stream; // items sent as a stream

use axum::{Json as Answer, extract::Request, extract::State};
use domain::{
    Code,
    api::{Added, NewItem},
    bounded::List,
    dispatch::traceparent::Traceparent,
    id::Uuid,
    limits::MOST_ITEMS,
};
use serde::Deserialize;
use utoipa::IntoParams;

use super::idempotency::Key;
use crate::http::{
    callers::Writer,
    extract::{self, Path, Query},
    trace::Trace,
};
use crate::{
    App,
    auth::Ongoing,
    http::error::{Error, Result},
};
use array::Array;
use engine::{AddOptions, KeyAdvance, OnDuplicate, StreamPosition};
use resume::StreamProgress;
use stream::{Batch, Stream};

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
/// The body is a JSON array (all or nothing, at most 10,000 items) or an NDJSON stream, committed in atomic batches. A line
/// that is refused ends the stream: the items before it are added, and the problem has `line` and `accepted`. With an `Idempotency-Key` a request can be repeated: an array gets the first response, a stream resumes after the
/// committed lines.
#[utoipa::path(post, path = "/jobs/{id}/items", tag = "jobs",
    params(("id" = Uuid, Path), AddItemsQuery,
           ("Idempotency-Key" = Option<String>, Header, description = "1 to 255 characters"),
           ("traceparent" = Option<String>, Header, description = "W3C Trace Context; an invalid one is ignored")),
    request_body(content((Vec<NewItem> = "application/json"), (String = "application/x-ndjson"))),
    responses((status = 200, body = Added)))]
pub async fn add_items(
    State(app): State<App>,
    Writer(caller): Writer,
    Path(job_id): Path<Uuid>,
    Query(query): Query<AddItemsQuery>,
    key: Key,
    Trace(traceparent): Trace,
    request: Request,
) -> Result<Answer<Added>> {
    let key = key.name(&caller);
    match extract::media_type(request.headers()).as_deref() {
        Some("application/json") => {
            let bytes = extract::body(request, app.config.body_limit.bytes()).await?;
            let List(items) = crate::json_body::read::<List<NewItem>>(&bytes)?;
            if items.len() > MOST_ITEMS {
                let detail = format!("An array has at most {MOST_ITEMS} items; send more as NDJSON.");
                return Err(Error::refuse(Code::TooLarge, detail));
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
