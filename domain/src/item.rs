//! Items: their states, and what the API says of one.

use serde::{Deserialize, Serialize};

use crate::{
    Document, Time,
    debounce::ItemDebounce,
    event_wait::{EventWait, ReceivedEvent},
    id::Uuid,
};

/// State of an item. The first one that applies: a final state, `running` (an open assignment), `waiting_for_event`,
/// `retryable` (`retry_at` is in the future), `blocked` by `after`, `scheduled` (`run_after` is in the future), `blocked` by
/// its serialize key, `available`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub enum ItemState {
    /// May be claimed, unless its type is paused or at its cap.
    Available,
    /// A worker holds it.
    Running,
    /// Waits for its backoff to end.
    Retryable,
    /// Waits for its run_after.
    Scheduled,
    /// Waits for other jobs of its tree, or for an older item of its serialize key.
    Blocked,
    /// Its worker ended the attempt to wait for an event, from a program or a person.
    WaitingForEvent,
    /// Final: a worker's result was accepted.
    Succeeded,
    /// Final: out of budget or not retryable; a dead letter.
    Dead,
    /// Final: canceled alone or with its job, canceled because a job that it waited for did not succeed, or replaced by a
    /// corrected row.
    Cancelled,
    /// Final: `expires_at` passed before it succeeded.
    Expired,
}

impl ItemState {
    /// Every state, in the order in which bars and counts show them.
    pub const ALL: [ItemState; 10] = [
        Self::Succeeded,
        Self::Dead,
        Self::Cancelled,
        Self::Expired,
        Self::Running,
        Self::WaitingForEvent,
        Self::Retryable,
        Self::Available,
        Self::Scheduled,
        Self::Blocked,
    ];

    /// True if only a person can change it.
    pub const fn is_final(self) -> bool {
        matches!(self, Self::Succeeded | Self::Dead | Self::Cancelled | Self::Expired)
    }

    /// The word on the wire and on the page.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Available => "available",
            Self::Running => "running",
            Self::Retryable => "retryable",
            Self::Scheduled => "scheduled",
            Self::Blocked => "blocked",
            Self::WaitingForEvent => "waiting_for_event",
            Self::Succeeded => "succeeded",
            Self::Dead => "dead",
            Self::Cancelled => "cancelled",
            Self::Expired => "expired",
        }
    }

    /// Reads the word.
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|s| s.as_str() == word)
    }

    /// The number that stands for it in the store. Never renumber.
    pub const fn code(self) -> i16 {
        match self {
            Self::Succeeded => 1,
            Self::Dead => 2,
            Self::Cancelled => 3,
            Self::Expired => 4,
            Self::Available => 5,
            Self::Running => 6,
            Self::Retryable => 7,
            Self::Scheduled => 8,
            Self::Blocked => 9,
            Self::WaitingForEvent => 10,
        }
    }

    /// The state that a stored number stands for.
    pub fn from_code(code: i16) -> Option<Self> {
        Self::ALL.into_iter().find(|s| s.code() == code)
    }
}

/// Outcome of an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub enum EndedAs {
    Succeeded,
    Failed,
    LeaseLost,
    TimedOut,
    Released,
    Cancelled,
    /// Ended by the worker to wait for an event.
    Waiting,
}

impl EndedAs {
    pub const ALL: [EndedAs; 7] = [
        Self::Succeeded,
        Self::Failed,
        Self::LeaseLost,
        Self::TimedOut,
        Self::Released,
        Self::Cancelled,
        Self::Waiting,
    ];

    /// The number that stands for it in the store. Never renumber.
    pub const fn code(self) -> i16 {
        match self {
            Self::Succeeded => 1,
            Self::Failed => 2,
            Self::LeaseLost => 3,
            Self::TimedOut => 4,
            Self::Released => 5,
            Self::Cancelled => 6,
            Self::Waiting => 7,
        }
    }

    pub fn from_code(code: i16) -> Option<Self> {
        Self::ALL.into_iter().find(|e| e.code() == code)
    }

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Succeeded => "succeeded",
            Self::Failed => "failed",
            Self::LeaseLost => "lease_lost",
            Self::TimedOut => "timed_out",
            Self::Released => "released",
            Self::Cancelled => "cancelled",
            Self::Waiting => "waiting",
        }
    }
}

/// Progress of a worker on one item.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ItemProgress {
    #[serde(default)]
    pub done: Option<i64>,
    #[serde(default)]
    pub total: Option<i64>,
    #[serde(default)]
    pub message: Option<String>,
}

/// Last recovery point that an item has reached (`steps`).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Step {
    pub name: String,
    pub data: Document,
}

/// Items of a job by the last step that they have reached, in the order of the job type.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct StepCounts {
    pub steps: Vec<StepCount>,
}

/// Number of items whose last step is this one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct StepCount {
    pub name: String,
    /// At most 10,000.
    pub items: i64,
    /// True if there are more items than that.
    pub more: bool,
}

/// Error of the last attempt.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ItemError {
    pub message: String,
    /// Kind of the error for programs, for example `lease_lost` or `invalid_row`.
    pub kind: Option<String>,
    pub detail: Option<Document>,
    pub at: Time,
}

/// Worker that holds the item. The assignment's id is never returned, because it is a capability.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Holder {
    pub worker_id: String,
    pub since: Time,
    pub last_heartbeat_at: Time,
    pub lease_expires_at: Time,
}

/// Values of [`WaitingFor::reason`].
pub const WAITING_REASONS: [&str; 11] = [
    "retry",
    "run_after",
    "debounce",
    "after",
    "serialize_key",
    "paused",
    "concurrency",
    "concurrency_key",
    "rate_limit",
    "not_claimed",
    "event",
];

/// Reason why an item is not running.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct WaitingFor {
    /// Code of the reason, one of [`WAITING_REASONS`].
    pub reason: String,
    pub detail: Option<String>,
    pub until: Option<Time>,
}

/// Unit of work, with its state and result.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Item {
    pub id: Uuid,
    pub job_id: Uuid,
    pub root_id: Uuid,
    #[serde(rename = "type")]
    pub job_type: String,
    /// Position within its job, from 1.
    pub seq: i64,
    /// First line of its record in the upload.
    pub row: Option<i64>,
    pub state: ItemState,
    pub attempts: i32,
    pub failures: i32,
    pub max_failures: MaxFailures,
    /// Payload; omitted where many items are returned (event streams, lists of items in flight).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub payload: Option<Document>,
    /// Payload before a person edited it; null if nobody did.
    #[serde(default)]
    pub original_payload: Option<Document>,
    pub result: Option<Document>,
    pub progress: Option<ItemProgress>,
    pub step: Option<Step>,
    pub metadata: Document,
    pub dedupe_key: Option<String>,
    pub serialize_key: Option<String>,
    pub priority: i16,
    pub run_after: Option<Time>,
    pub expires_at: Option<Time>,
    pub retry_at: Option<Time>,
    pub created_at: Time,
    pub updated_at: Time,
    pub finished_at: Option<Time>,
    pub last_error: Option<ItemError>,
    pub fed_by: Option<Uuid>,
    pub cancel_requested_at: Option<Time>,
    pub assignment: Option<Holder>,
    pub waiting_for: Option<WaitingFor>,
    /// Event that the item waits for, in the state `waiting_for_event`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wait: Option<EventWait>,
    /// Last event that the item received; absent if it never waited for one or waits again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub event: Option<ReceivedEvent>,
    /// Item with the corrected row that replaced this one. This item is canceled and cannot be retried.
    #[serde(default)]
    pub superseded_by: Option<Uuid>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub debounce: Option<ItemDebounce>,
    pub version: i64,
}

/// One attempt, as `GET /items/{id}/attempts` lists it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Attempt {
    pub attempt: i32,
    pub worker_id: Option<String>,
    pub started_at: Option<Time>,
    pub ended_at: Option<Time>,
    pub ended_as: Option<EndedAs>,
    pub error: Option<ItemError>,
    pub step: Option<Step>,
    pub result: Option<Document>,
    /// Name of the event, if the worker ended the attempt to wait for one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waited_for: Option<String>,
}

/// Number of failures that an item may have: a whole number from 1, or unlimited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MaxFailures {
    AtMost(u32),
    Unlimited,
}

impl MaxFailures {
    /// As stored: `None` is unlimited.
    pub fn from_stored(stored: Option<i32>) -> Self {
        stored.map_or(Self::Unlimited, |n| Self::AtMost(u32::try_from(n).unwrap_or(1).max(1)))
    }

    pub fn to_stored(self) -> Option<i32> {
        match self {
            Self::AtMost(n) => Some(i32::try_from(n).unwrap_or(i32::MAX)),
            Self::Unlimited => None,
        }
    }
}

impl Serialize for MaxFailures {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::AtMost(n) => serializer.serialize_u32(*n),
            Self::Unlimited => serializer.serialize_str("unlimited"),
        }
    }
}

impl<'de> Deserialize<'de> for MaxFailures {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl serde::de::Visitor<'_> for Visitor {
            type Value = MaxFailures;
            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("a whole number from 1 or \"unlimited\"")
            }
            fn visit_u64<E: serde::de::Error>(self, n: u64) -> Result<MaxFailures, E> {
                match u32::try_from(n) {
                    Ok(n) if n >= 1 && i32::try_from(n).is_ok() => Ok(MaxFailures::AtMost(n)),
                    _ => Err(E::invalid_value(serde::de::Unexpected::Unsigned(n), &self)),
                }
            }
            fn visit_str<E: serde::de::Error>(self, word: &str) -> Result<MaxFailures, E> {
                match word {
                    "unlimited" => Ok(MaxFailures::Unlimited),
                    _ => Err(E::invalid_value(serde::de::Unexpected::Str(word), &self)),
                }
            }
        }
        deserializer.deserialize_any(Visitor)
    }
}

#[cfg(feature = "openapi")]
impl utoipa::PartialSchema for MaxFailures {
    fn schema() -> utoipa::openapi::RefOr<utoipa::openapi::schema::Schema> {
        use utoipa::openapi::schema::{Object, OneOf, SchemaType, Type};
        OneOf::builder()
            .item(
                Object::builder().schema_type(SchemaType::Type(Type::Integer)).minimum(Some(1)).maximum(Some(i32::MAX)),
            )
            .item(Object::builder().schema_type(SchemaType::Type(Type::String)).enum_values(Some(["unlimited"])))
            .into()
    }
}

#[cfg(feature = "openapi")]
impl utoipa::ToSchema for MaxFailures {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn item_states_have_unique_codes_and_names() {
        for state in ItemState::ALL {
            assert_eq!(ItemState::from_code(state.code()), Some(state));
            assert_eq!(ItemState::parse(state.as_str()), Some(state));
        }
        for end in EndedAs::ALL {
            assert_eq!(EndedAs::from_code(end.code()), Some(end));
        }
    }

    #[test]
    fn max_failures_is_number_or_unlimited() {
        let read = |text| serde_json::from_str::<MaxFailures>(text).ok();
        assert_eq!(read("3"), Some(MaxFailures::AtMost(3)));
        assert_eq!(read("\"unlimited\""), Some(MaxFailures::Unlimited));
        for bad in ["0", "-1", "1.5", "\"many\"", "4294967296"] {
            assert_eq!(read(bad), None, "{bad}");
        }
    }
}
