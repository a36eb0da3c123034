//! Bodies of `/api/v1` (spec §3). Requests refuse unknown fields; no `flatten`, no `untagged`, no
//! internally tagged enums, as those lose exact numbers.

use serde::{Deserialize, Serialize};

use crate::{
    Document, ItemState, Time,
    id::Uuid,
    item::{EndedAs, ItemProgress, MaxFailures, Step},
    problem::Code,
    upload::UploadFormat,
};

/// One page of a list.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Page<T> {
    pub data: Vec<T>,
    /// Opaque; null on the last page.
    pub next_cursor: Option<String>,
}

// ---- Jobs -------------------------------------------------------------------------------------

/// An item to be added. An absent payload is `null`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct NewItem {
    pub payload: Option<Document>,
    pub dedupe_key: Option<String>,
    pub serialize_key: Option<String>,
    /// −100 to 100, higher first; absent: the job's.
    pub priority: Option<i16>,
    pub run_after: Option<Time>,
    pub expires_at: Option<Time>,
    pub metadata: Option<Document>,
}

/// The file a job is filled from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct JobUpload {
    pub id: Uuid,
    /// Absent: the upload's own.
    #[serde(default)]
    pub format: Option<UploadFormat>,
    /// CSV: whether the first record names the columns. Absent: true.
    #[serde(default)]
    pub header: Option<bool>,
    /// CSV: one character. Absent: found from the first lines.
    #[serde(default)]
    pub delimiter: Option<String>,
}

/// Where a completed tree is announced.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct OnCompleted {
    pub url: String,
    #[serde(default)]
    pub secret: Option<String>,
}

/// `POST /jobs`: a tree. Only `type` is required; `key` defaults to the type (then `type-2` …).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct NewJob {
    #[serde(rename = "type")]
    pub job_type: String,
    #[serde(default)]
    pub id: Option<Uuid>,
    #[serde(default)]
    pub key: Option<String>,
    #[serde(default)]
    pub name: Option<String>,
    #[serde(default)]
    pub items: Vec<NewItem>,
    #[serde(default)]
    pub sealed: bool,
    #[serde(default)]
    pub dedupe_key: Option<String>,
    #[serde(default)]
    pub max_failures: Option<MaxFailures>,
    #[serde(default)]
    pub final_stage: bool,
    #[serde(default)]
    pub metadata: Option<Document>,
    #[serde(default)]
    pub initiated_by: Option<String>,
    #[serde(default)]
    pub expected_count: Option<i64>,
    #[serde(default)]
    pub run_after: Option<Time>,
    #[serde(default)]
    pub expires_at: Option<Time>,
    #[serde(default)]
    pub priority: Option<i16>,
    #[serde(default)]
    pub on_completed: Option<OnCompleted>,
    #[serde(default)]
    pub upload: Option<JobUpload>,
    #[serde(default)]
    pub after: Vec<String>,
    #[serde(default)]
    pub after_outcome: Option<String>,
    #[serde(default)]
    pub feed: Option<Document>,
    #[serde(default)]
    #[cfg_attr(feature = "openapi", schema(no_recursion))]
    pub children: Vec<NewJob>,
}

impl NewJob {
    /// A job of the given type with every default.
    pub fn of(job_type: &str) -> Self {
        Self {
            job_type: job_type.to_owned(),
            id: None,
            key: None,
            name: None,
            items: Vec::new(),
            sealed: false,
            dedupe_key: None,
            max_failures: None,
            final_stage: false,
            metadata: None,
            initiated_by: None,
            expected_count: None,
            run_after: None,
            expires_at: None,
            priority: None,
            on_completed: None,
            upload: None,
            after: Vec::new(),
            after_outcome: None,
            feed: None,
            children: Vec::new(),
        }
    }
}

/// Answer to adding items.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Added {
    pub accepted: i64,
    pub duplicates: i64,
    pub sealed: bool,
}

// ---- Assignments ------------------------------------------------------------------------------

/// `POST /assignments`: a claim.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Claim {
    pub worker_id: String,
    #[serde(default)]
    pub types: Vec<String>,
    /// Instead of `types`: these items, those of them that can be had.
    #[serde(default)]
    pub item_ids: Option<Vec<Uuid>>,
    /// 1 to 1,000; absent: 1.
    #[serde(default)]
    pub max: Option<u32>,
    /// 0 to 30; absent: 0.
    #[serde(default)]
    pub wait_seconds: Option<u32>,
    /// Made by the client: the same again returns what is still open of the same assignments.
    #[serde(default)]
    pub claim_id: Option<Uuid>,
}

/// One item in the worker's hands.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Assignment {
    /// The fence: whoever ends the assignment names it.
    pub id: Uuid,
    pub item: AssignedItem,
    pub attempt: i32,
    pub lease_expires_at: Time,
    pub heartbeat_seconds: f64,
}

/// What a worker is told of an item.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct AssignedItem {
    pub id: Uuid,
    pub job_id: Uuid,
    pub root_id: Uuid,
    #[serde(rename = "type")]
    pub job_type: String,
    pub seq: i64,
    pub row: Option<i64>,
    pub attempts: i32,
    pub failures: i32,
    pub max_failures: MaxFailures,
    pub payload: Document,
    pub metadata: Document,
    pub step: Option<Step>,
    pub dedupe_key: Option<String>,
    pub serialize_key: Option<String>,
    pub priority: i16,
    pub expires_at: Option<Time>,
    pub created_at: Time,
}

/// Answer to a claim; possibly empty.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Claimed {
    pub assignments: Vec<Assignment>,
    /// Only where `item_ids` were asked for: those that could not be had.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub refused: Vec<Refused>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Refused {
    pub item_id: Uuid,
    pub reason: String,
}

/// `POST /assignments/{id}/result`. Absent: `{}`; null is refused.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ResultBody {
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "present")]
    pub result: Option<Document>,
}

/// Keeps an explicit `null` apart from an absent field.
fn present<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Option<Document>, D::Error> {
    Document::deserialize(deserializer).map(Some)
}

/// What went wrong with an attempt.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct WorkError {
    pub message: String,
    #[serde(default)]
    pub kind: Option<String>,
    #[serde(default)]
    pub detail: Option<Document>,
}

/// `POST /assignments/{id}/failure`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct FailureBody {
    pub error: WorkError,
    #[serde(default = "yes")]
    pub retryable: bool,
    #[serde(default)]
    pub retry_after_seconds: Option<f64>,
    #[serde(default)]
    pub cancel_tree: bool,
}

const fn yes() -> bool {
    true
}

/// `POST /assignments/{id}/release`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ReleaseBody {
    #[serde(default)]
    pub retry_after_seconds: Option<f64>,
}

/// `POST /assignments/{id}/step`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct StepBody {
    pub name: String,
    #[serde(default)]
    pub data: Option<Document>,
}

/// `POST /assignments/{id}/heartbeat`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct HeartbeatBody {
    #[serde(default)]
    pub progress: Option<ItemProgress>,
}

/// Answer to a heartbeat.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Heartbeat {
    pub lease_expires_at: Time,
    /// Stop: the job or item was cancelled.
    pub cancel: bool,
}

/// `POST /assignments/heartbeat`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct HeartbeatsBody {
    pub heartbeats: Vec<HeartbeatOf>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct HeartbeatOf {
    pub assignment_id: Uuid,
    #[serde(default)]
    pub progress: Option<ItemProgress>,
}

/// Answer to `POST /assignments/heartbeat`, in order.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Heartbeats {
    pub heartbeats: Vec<HeartbeatAnswer>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct HeartbeatAnswer {
    pub assignment_id: Uuid,
    /// 200, 404 or 409.
    pub status: u16,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<Code>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lease_expires_at: Option<Time>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cancel: Option<bool>,
}

/// `POST /assignments/finish`: endings, and the next claim with them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct FinishBody {
    #[serde(default)]
    pub endings: Vec<Ending>,
    /// `wait_seconds` is not allowed here.
    #[serde(default)]
    pub claim: Option<Claim>,
}

/// One ending: with `error` a failure, else a result.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Ending {
    pub assignment_id: Uuid,
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "present")]
    pub result: Option<Document>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<WorkError>,
    #[serde(default = "yes")]
    pub retryable: bool,
    #[serde(default)]
    pub retry_after_seconds: Option<f64>,
    #[serde(default)]
    pub cancel_tree: bool,
}

/// Answer to `finish`, in order; one bad ending never spoils the others.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Finished {
    pub endings: Vec<EndingAnswer>,
    pub assignments: Vec<Assignment>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct EndingAnswer {
    pub assignment_id: Uuid,
    /// What the single call would have answered.
    pub status: u16,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<Code>,
}

/// Answer to a single ending: where the item stands now.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Ended {
    pub item_id: Uuid,
    pub item_state: ItemState,
    pub ended_as: EndedAs,
    /// Where it will be offered again: from when.
    pub retry_at: Option<Time>,
}

// ---- Reading ----------------------------------------------------------------------------------

/// A line of `GET /jobs/{id}/results`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ResultLine {
    pub item_id: Uuid,
    pub job_id: Uuid,
    pub row: Option<i64>,
    pub payload: Document,
    pub result: Document,
}

/// A line of `GET /jobs/{id}/failures` as NDJSON.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct FailureLine {
    pub item_id: Uuid,
    pub job_id: Uuid,
    pub row: Option<i64>,
    pub payload: Document,
    pub state: ItemState,
    pub attempts: i32,
    pub error: Option<crate::item::ItemError>,
}

/// Dead items of one job whose last failure reads the same once its variable parts are taken out.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ErrorGroup {
    pub fingerprint: String,
    pub message: String,
    pub kind: Option<String>,
    #[serde(rename = "type")]
    pub job_type: String,
    pub count: i64,
    pub first_seen_at: Time,
    pub last_seen_at: Time,
    pub sample_item_id: Uuid,
}

/// Who is asking: `GET /me`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Me {
    pub kind: crate::job::OwnerKind,
    pub name: String,
    /// A person's role: `user`, `support` or `admin`.
    pub role: Option<String>,
    /// A token's scopes.
    pub scopes: Vec<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_fields_are_refused() {
        let error = serde_json::from_str::<NewJob>(r#"{"type":"a","colour":1}"#).expect_err("unknown");
        assert!(error.to_string().contains("unknown field `colour`"), "{error}");
    }

    #[test]
    fn a_result_of_null_is_not_an_absent_result() {
        let absent: ResultBody = serde_json::from_str("{}").expect("absent");
        let null: ResultBody = serde_json::from_str(r#"{"result":null}"#).expect("null");
        assert_eq!(absent.result, None);
        assert_eq!(null.result, Some(Document::null()));
    }

    #[test]
    fn exact_numbers_pass_through_an_ending() {
        let body =
            r#"{"assignment_id":"0190a5e0-0000-7000-8000-000000000000","result":{"n":9007199254740993,"x":1.10}}"#;
        let ending: Ending = serde_json::from_str(body).expect("ending");
        assert_eq!(ending.result.expect("result").text(), r#"{"n":9007199254740993,"x":1.10}"#);
    }
}
