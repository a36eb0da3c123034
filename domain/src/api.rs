//! Bodies of `/api/v1`. Requests refuse unknown fields; no `flatten`, no `untagged`, no
//! internally tagged enums, as those lose exact numbers.

mod bulk;
mod error_group;
mod jobs;
mod logs;
mod schedule;
mod search;
mod series;
mod views;
mod work;

use serde::{Deserialize, Serialize};

use crate::{Document, ItemState, Time, id::Uuid};

pub use bulk::*;
pub use error_group::*;
pub use jobs::*;
pub use logs::*;
pub use schedule::*;
pub use search::*;
pub use series::*;
pub use views::*;
pub use work::*;

/// One page of a list.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Page<T> {
    pub data: Vec<T>,
    /// Opaque cursor of the next page; null on the last page.
    pub next_cursor: Option<String>,
}

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

/// Dead items of one job type whose last errors are equal without their variable parts.
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
    /// State of the group over all owners.
    pub state: GroupState,
    /// Time at which a muted group reopens.
    pub muted_until: Option<Time>,
    /// Number of further failures at which a muted group reopens.
    pub muted_failures: Option<i64>,
}

/// Caller, as `GET /me` returns it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Me {
    pub kind: crate::job::OwnerKind,
    pub name: String,
    /// Role of a person: `user`, `support` or `admin`.
    pub role: Option<String>,
    /// Scopes of a token.
    pub scopes: Vec<String>,
    /// True if the person must choose a new password (`POST /me/password`), because someone else chose the current one.
    /// Absent if false.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub must_change_password: bool,
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
    fn null_result_differs_from_absent_result() {
        let absent: ResultBody = serde_json::from_str("{}").expect("absent");
        let null: ResultBody = serde_json::from_str(r#"{"result":null}"#).expect("null");
        assert_eq!(absent.result, None);
        assert_eq!(null.result, Some(Document::null()));
    }

    #[test]
    fn ending_keeps_exact_numbers() {
        let body =
            r#"{"assignment_id":"0190a5e0-0000-7000-8000-000000000000","result":{"n":9007199254740993,"x":1.10}}"#;
        let ending: Ending = serde_json::from_str(body).expect("ending");
        assert_eq!(ending.result.expect("result").text(), r#"{"n":9007199254740993,"x":1.10}"#);
    }
}
