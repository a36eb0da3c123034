//! Bodies that workers send and get: claims, heartbeats, steps, endings.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::{
    Document, ItemState, Time,
    dispatch::{
        assignment::{AssignmentId, NamedAssignment},
        traceparent::Traceparent,
    },
    event_wait::ReceivedEvent,
    id::Uuid,
    item::{EndedAs, ItemProgress, MaxFailures, Step},
    job_type::Delivery,
    problem::{Code, FieldProblem, Problem},
};

/// Body of `POST /assignments`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Claim {
    pub worker_id: String,
    #[serde(default, deserialize_with = "crate::bounded::list")]
    pub types: Vec<String>,
    /// Items to claim, instead of `types`; those that cannot be claimed are in `refused`.
    #[serde(default)]
    pub item_ids: Option<Vec<Uuid>>,
    /// Maximum number of assignments, 1 to 1,000; absent: 1.
    #[serde(default)]
    pub max: Option<u32>,
    /// Seconds to wait for items, 0 to 30; absent: 0.
    #[serde(default)]
    pub wait_seconds: Option<u32>,
    /// Id chosen by the client: a repeated claim with this id returns the same assignments that are still open.
    #[serde(default)]
    pub claim_id: Option<Uuid>,
}

/// Item assigned to a worker.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Assignment {
    /// Assignment id, required to end the assignment.
    pub id: Uuid,
    pub item: AssignedItem,
    pub attempt: i32,
    /// For a job that waited for others (`after`): by job key, the results of a job of one item, else a link to the
    /// results.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub inputs: Option<BTreeMap<String, Inputs>>,
    pub lease_expires_at: Time,
    pub heartbeat_seconds: f64,
}

/// Results of a job that was waited for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Inputs {
    /// Of a job of one item: its result, or nothing where it has none.
    Results(Vec<Document>),
    /// Link to the results of larger jobs.
    Link(String),
}

// By hand: an untagged enum would read documents through a value that rewrites their numbers.
impl Serialize for Inputs {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Results(results) => results.serialize(serializer),
            Self::Link(link) => serializer.serialize_str(link),
        }
    }
}

impl<'de> Deserialize<'de> for Inputs {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let document = Document::deserialize(deserializer)?;
        let text = document.text();
        if text.starts_with('"') {
            serde_json::from_str(text).map(Self::Link).map_err(serde::de::Error::custom)
        } else {
            serde_json::from_str(text).map(Self::Results).map_err(serde::de::Error::custom)
        }
    }
}

#[cfg(feature = "openapi")]
impl utoipa::PartialSchema for Inputs {
    fn schema() -> utoipa::openapi::RefOr<utoipa::openapi::schema::Schema> {
        use utoipa::openapi::schema::{ArrayBuilder, Object, OneOf, SchemaType, Type};
        OneOf::builder()
            .item(ArrayBuilder::new().items(<Document as utoipa::PartialSchema>::schema()))
            .item(Object::builder().schema_type(SchemaType::Type(Type::String)))
            .into()
    }
}

#[cfg(feature = "openapi")]
impl utoipa::ToSchema for Inputs {}

/// Item as a worker receives it.
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
    /// Delivery of the job: with `at_most_once`, work that has begun must not be released
    #[serde(default)]
    pub delivery: Delivery,
    pub payload: Document,
    pub metadata: Document,
    pub step: Option<Step>,
    /// Event or timeout that ended the item's last wait; sent with every claim until the item waits again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub event: Option<ReceivedEvent>,
    pub dedupe_key: Option<String>,
    pub serialize_key: Option<String>,
    pub priority: i16,
    pub expires_at: Option<Time>,
    pub created_at: Time,
    /// Parent of the spans of this attempt (W3C Trace Context), if the item was added within a trace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>))]
    pub traceparent: Option<Traceparent>,
}

/// Response to a claim; may be empty.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Claimed {
    pub assignments: Vec<Assignment>,
    /// Items of `item_ids` that could not be claimed
    #[serde(default)]
    pub refused: Vec<Refused>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Refused {
    pub item_id: Uuid,
    pub reason: String,
}

/// Body of `POST /assignments/{id}/result`. Absent result: `{}`; null is refused.
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

/// Reads the code of one row: a code of a newer server is none, and does not make the other rows unreadable.
fn known_code<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Option<Code>, D::Error> {
    let word: Option<String> = Option::deserialize(deserializer)?;
    Ok(word.and_then(|word| Code::ALL.iter().copied().find(|code| code.as_str() == word)))
}

/// Error of an attempt.
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

/// Body of `POST /assignments/{id}/failure`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct FailureBody {
    pub error: WorkError,
    #[serde(default = "yes")]
    pub retryable: bool,
    /// Seconds until the next attempt, at most ten years, instead of the backoff of the type.
    #[serde(default)]
    pub retry_after_seconds: Option<f64>,
    #[serde(default)]
    pub cancel_tree: bool,
}

const fn yes() -> bool {
    true
}

/// Body of `POST /assignments/{id}/release`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ReleaseBody {
    /// Seconds until the item is available again, at most ten years; absent: it is available at once.
    #[serde(default)]
    pub retry_after_seconds: Option<f64>,
}

/// Body of `POST /assignments/{id}/step`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct StepBody {
    pub name: String,
    #[serde(default)]
    pub data: Option<Document>,
}

/// Body of `POST /assignments/{id}/heartbeat`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct HeartbeatBody {
    #[serde(default)]
    pub progress: Option<ItemProgress>,
}

/// Response to a heartbeat.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Heartbeat {
    pub lease_expires_at: Time,
    /// True if the worker must stop because the job or item was canceled.
    pub cancel: bool,
}

/// Body of `POST /assignments/heartbeat`.
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
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub assignment_id: AssignmentId,
    #[serde(default)]
    pub progress: Option<ItemProgress>,
}

/// Response of `POST /assignments/heartbeat`, in request order.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Heartbeats {
    pub heartbeats: Vec<HeartbeatAnswer>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct HeartbeatAnswer {
    /// Assignment id as given in the request; empty if it had none.
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub assignment_id: NamedAssignment,
    /// HTTP status that the request for this assignment alone would have returned.
    pub status: u16,
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "known_code")]
    pub code: Option<Code>,
    /// For `invalid_body`: the invalid places, as pointers into the request, and what was expected there.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub errors: Vec<FieldProblem>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lease_expires_at: Option<Time>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cancel: Option<bool>,
}

impl HeartbeatAnswer {
    /// Answer to a heartbeat that was refused.
    pub fn refused(assignment_id: NamedAssignment, problem: Problem) -> Self {
        let (status, code, errors) = (problem.status, Some(problem.code), problem.errors);
        Self { assignment_id, status, code, errors, lease_expires_at: None, cancel: None }
    }
}

/// Body of `POST /assignments/finish`: ends of assignments, and the next claim.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct FinishBody {
    #[serde(default)]
    pub endings: Vec<Ending>,
    /// Next claim; `wait_seconds` is not allowed.
    #[serde(default)]
    pub claim: Option<Claim>,
}

/// End of one assignment: a failure if it has an `error`, else a result.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Ending {
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub assignment_id: AssignmentId,
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "present")]
    pub result: Option<Document>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<WorkError>,
    #[serde(default = "yes")]
    pub retryable: bool,
    /// Seconds until the next attempt, at most ten years, instead of the backoff of the type.
    #[serde(default)]
    pub retry_after_seconds: Option<f64>,
    #[serde(default)]
    pub cancel_tree: bool,
}

/// Response of `POST /assignments/finish`, in request order; a refused ending does not affect the others.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Finished {
    pub endings: Vec<EndingAnswer>,
    pub assignments: Vec<Assignment>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct EndingAnswer {
    /// Assignment id as given in the request; empty if it had none.
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub assignment_id: NamedAssignment,
    /// HTTP status that the request for this assignment alone would have returned.
    pub status: u16,
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "known_code")]
    pub code: Option<Code>,
    /// For `invalid_body`: the invalid places, as pointers into the request, and what was expected there.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub errors: Vec<FieldProblem>,
}

impl EndingAnswer {
    /// Answer to an ending that was accepted.
    pub fn accepted(assignment_id: AssignmentId) -> Self {
        Self { assignment_id: assignment_id.into(), status: 200, code: None, errors: Vec::new() }
    }

    /// Answer to an ending that was refused.
    pub fn refused(assignment_id: NamedAssignment, problem: Problem) -> Self {
        Self { assignment_id, status: problem.status, code: Some(problem.code), errors: problem.errors }
    }
}

/// Response to the end of one assignment, with the current state of the item.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Ended {
    pub item_id: Uuid,
    pub item_state: ItemState,
    pub ended_as: EndedAs,
    /// Time from which the item is available again, if it is; for a wait, the end of its timeout.
    pub retry_at: Option<Time>,
}
