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

/// `PATCH /jobs/{id}`: the fields that are named change; `null` takes a value away.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct JobPatch {
    #[serde(deserialize_with = "present_or_null", skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>))]
    pub name: Option<Option<String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub metadata: Option<Document>,
    /// −100 to 100. Also of its waiting items that had the job's own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub priority: Option<i16>,
    /// Also of its waiting items that had the job's own.
    #[serde(deserialize_with = "present_or_null", skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<Time>))]
    pub run_after: Option<Option<Time>>,
    /// Also of its waiting items that had the job's own.
    #[serde(deserialize_with = "present_or_null", skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<Time>))]
    pub expires_at: Option<Option<Time>>,
    /// `null`: the type's.
    #[serde(deserialize_with = "present_or_null", skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<MaxFailures>))]
    pub max_failures: Option<Option<MaxFailures>>,
    #[serde(deserialize_with = "present_or_null", skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<i64>))]
    pub expected_count: Option<Option<i64>>,
    /// Of a root only.
    #[serde(deserialize_with = "present_or_null", skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<OnCompleted>))]
    pub on_completed: Option<Option<OnCompleted>>,
    /// Required on someone else's job.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// `PATCH /items/{id}`, while the item waits: the fields that are named change; `null` is the job's own.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ItemPatch {
    /// −100 to 100.
    #[serde(deserialize_with = "present_or_null", skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<i16>))]
    pub priority: Option<Option<i16>>,
    /// The later one of this and the job's holds.
    #[serde(deserialize_with = "present_or_null", skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<Time>))]
    pub run_after: Option<Option<Time>>,
    /// The earlier one of this and the job's holds.
    #[serde(deserialize_with = "present_or_null", skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<Time>))]
    pub expires_at: Option<Option<Time>>,
    /// Required on someone else's item.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// Worker that claims items.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Worker {
    pub worker_id: String,
    /// The service whose token it uses.
    pub owner: String,
    /// The job types it asked for last.
    pub types: Vec<String>,
    /// Items in its hands now.
    pub open: i64,
    pub last_seen_at: Time,
}

/// Items per second, coming in and ending, on average over a while.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Rate {
    /// Length of the span in seconds.
    pub seconds: i64,
    pub in_per_second: f64,
    pub out_per_second: f64,
}

/// Items of a type that were added and that ended on one day (UTC).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct DayTotal {
    /// `2026-11-20`.
    pub day: String,
    pub added: i64,
    pub succeeded: i64,
    pub dead: i64,
    pub cancelled: i64,
    pub expired: i64,
}

/// The figures of one job type.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct TypeStats {
    #[serde(rename = "type")]
    pub job_type: String,
    /// As of `counted_at`.
    pub counts: Counts,
    /// Items that workers hold right now.
    pub open: i64,
    /// Age of the item that is claimed next, in seconds; null if nothing waits.
    pub oldest_waiting_seconds: Option<f64>,
    /// Time of the last claim for this type.
    pub last_asked_at: Option<Time>,
    /// Over the last minute, five minutes and hour.
    pub rates: Vec<Rate>,
    /// The last thirty days on which something happened, the newest first.
    pub days: Vec<DayTotal>,
}

/// `GET /stats`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Stats {
    pub data: Vec<TypeStats>,
    /// The counts are as of this time; null until they have been added up once.
    pub counted_at: Option<Time>,
    /// Age of the counts in seconds.
    pub age_seconds: Option<f64>,
    /// RabbitMQ as the answering server sees it; null where it has none.
    pub broker: Option<BrokerStats>,
}

/// State of the broker.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct BrokerStats {
    /// True if messages can be published.
    pub up: bool,
    /// Since when it has been so.
    pub since: Time,
    /// Reason why it is unavailable.
    pub fault: Option<String>,
    /// Batches of wake-ups and announcements that wait to be published, counted up to 10,000.
    pub outbox_waiting: i64,
    /// Messages in the queues of job types, as last seen, by the type's name.
    pub queues: Vec<QueueStats>,
}

/// Messages that wait in one queue.
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
