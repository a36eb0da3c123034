//! Bodies of small edits, and what `/workers` and `/stats` show.

use serde::{Deserialize, Deserializer, Serialize};

use crate::{Counts, Document, Time, item::MaxFailures};

use super::jobs::OnCompleted;

/// Keeps an explicit `null` (take it away) apart from an absent field (leave it).
pub(crate) fn present_or_null<'de, T: Deserialize<'de>, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<T>, D::Error> {
    T::deserialize(deserializer).map(Some)
}

/// Body of `PATCH /jobs/{id}`: the given fields change; `null` clears a value.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct JobPatch {
    #[serde(deserialize_with = "present_or_null", skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>))]
    pub name: Option<Option<String>>,
    #[serde(deserialize_with = "present_or_null", skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<Document>))]
    pub metadata: Option<Option<Document>>,
    /// Priority, −100 to 100, `null`: 0; also changes waiting items that had the job's value.
    #[serde(deserialize_with = "present_or_null", skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<i16>))]
    pub priority: Option<Option<i16>>,
    /// Earliest start; also changes waiting items that had the job's value.
    #[serde(deserialize_with = "present_or_null", skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<Time>))]
    pub run_after: Option<Option<Time>>,
    /// Expiry; also changes waiting items that had the job's value.
    #[serde(deserialize_with = "present_or_null", skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<Time>))]
    pub expires_at: Option<Option<Time>>,
    /// Maximum number of failures of an item; `null`: that of the type.
    #[serde(deserialize_with = "present_or_null", skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<MaxFailures>))]
    pub max_failures: Option<Option<MaxFailures>>,
    #[serde(deserialize_with = "present_or_null", skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<i64>))]
    pub expected_count: Option<Option<i64>>,
    /// Receiver of the callback; only for a root.
    #[serde(deserialize_with = "present_or_null", skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<OnCompleted>))]
    pub on_completed: Option<Option<OnCompleted>>,
    /// Reason, required for another owner's job.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// Body of `PATCH /items/{id}` for a waiting item: the given fields change; `null` restores the value of the job.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ItemPatch {
    /// Priority, −100 to 100.
    #[serde(deserialize_with = "present_or_null", skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<i16>))]
    pub priority: Option<Option<i16>>,
    /// Earliest start; the later one of this and the job's applies.
    #[serde(deserialize_with = "present_or_null", skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<Time>))]
    pub run_after: Option<Option<Time>>,
    /// Time at which the item expires; the earlier one of this and the job's applies.
    #[serde(deserialize_with = "present_or_null", skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<Time>))]
    pub expires_at: Option<Option<Time>>,
    /// Reason, required for another owner's item.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// Worker that claims items.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Worker {
    pub worker_id: String,
    /// Service whose token the worker uses.
    pub owner: String,
    /// Job types of the last claim.
    pub types: Vec<String>,
    /// Number of items that the worker currently holds.
    pub open: i64,
    pub last_seen_at: Time,
}

/// Average number of items per second that were added and that ended in a period.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Rate {
    /// Length of the period in seconds.
    pub seconds: i64,
    pub in_per_second: f64,
    pub out_per_second: f64,
}

/// Number of items of a type that were added and that ended on one day (UTC).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct DayTotal {
    /// Day, such as `2026-11-20`.
    pub day: String,
    pub added: i64,
    pub succeeded: i64,
    pub dead: i64,
    pub cancelled: i64,
    pub expired: i64,
}

/// Statistics of one job type.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct TypeStats {
    #[serde(rename = "type")]
    pub job_type: String,
    /// Number of items in each state as of `counted_at`.
    pub counts: Counts,
    /// Number of items that workers currently hold.
    pub open: i64,
    /// Age of the item that is claimed next, in seconds; null if nothing waits.
    pub oldest_waiting_seconds: Option<f64>,
    /// Time of the last claim for this type.
    pub last_asked_at: Option<Time>,
    /// Rates over the last minute, five minutes and hour.
    pub rates: Vec<Rate>,
    /// Last 30 days with activity, newest first.
    pub days: Vec<DayTotal>,
}

/// Response of `GET /stats`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Stats {
    pub data: Vec<TypeStats>,
    /// Time of the counts; null until they have been computed once.
    pub counted_at: Option<Time>,
    /// Age of the counts in seconds.
    pub age_seconds: Option<f64>,
    /// RabbitMQ as the responding server sees it; null if it uses none.
    pub broker: Option<BrokerStats>,
}

/// State of the broker.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct BrokerStats {
    /// True if messages can be published.
    pub up: bool,
    /// Time since which `up` has its current value.
    pub since: Time,
    /// Reason why the broker is unavailable.
    pub fault: Option<String>,
    /// Number of message batches that wait to be published, counted up to 10,000.
    pub outbox_waiting: i64,
    /// Number of messages in the queue of each job type when last checked, by type name.
    pub queues: Vec<QueueStats>,
}

/// Number of messages that wait in one queue.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct QueueStats {
    #[serde(rename = "type")]
    pub job_type: String,
    pub messages: u32,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patch_null_clears_and_absent_keeps() {
        let read = |text| serde_json::from_str::<JobPatch>(text).expect("a patch");
        assert_eq!(read("{}"), JobPatch::default());
        assert_eq!(read(r#"{"name":null}"#).name, Some(None));
        assert_eq!(read(r#"{"name":"March"}"#).name, Some(Some("March".to_owned())));
        assert_eq!(read(r#"{"max_failures":"unlimited"}"#).max_failures, Some(Some(MaxFailures::Unlimited)));
        assert!(serde_json::from_str::<ItemPatch>(r#"{"payload":1}"#).is_err());
    }
}
