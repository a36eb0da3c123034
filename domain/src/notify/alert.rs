//! Alerts: what someone should look at (`alerts`). Raised once, cleared by themselves.

use serde::{Deserialize, Serialize};

use crate::{Time, id::Uuid};

/// The longest message of a worker's own alert, in characters.
pub const LONGEST_MESSAGE: usize = 2_000;

/// Kind of an alert.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub enum AlertKind {
    /// New dead letters of a type.
    DeadLetters,
    /// Ten failures or more of an item that is retried without limit.
    ManyFailures,
    /// A worker handed in a result after the job was canceled.
    EndingRefused,
    /// An open tree without progress for an hour.
    Stalled,
    /// Waiting work that no one has claimed for five minutes.
    Unclaimed,
    /// A callback was given up.
    DeliveryFailed,
    /// The broker cannot be reached.
    BrokerAway,
    /// A worker says so itself.
    Worker,
}

impl AlertKind {
    pub const ALL: [AlertKind; 8] = [
        Self::DeadLetters,
        Self::ManyFailures,
        Self::EndingRefused,
        Self::Stalled,
        Self::Unclaimed,
        Self::DeliveryFailed,
        Self::BrokerAway,
        Self::Worker,
    ];

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::DeadLetters => "dead_letters",
            Self::ManyFailures => "many_failures",
            Self::EndingRefused => "ending_refused",
            Self::Stalled => "stalled",
            Self::Unclaimed => "unclaimed",
            Self::DeliveryFailed => "delivery_failed",
            Self::BrokerAway => "broker_away",
            Self::Worker => "worker",
        }
    }

    /// Title for people.
    pub const fn title(self) -> &'static str {
        match self {
            Self::DeadLetters => "New failures",
            Self::ManyFailures => "Fails again and again",
            Self::EndingRefused => "Result refused",
            Self::Stalled => "Stalled",
            Self::Unclaimed => "No worker",
            Self::DeliveryFailed => "Webhook gave up",
            Self::BrokerAway => "RabbitMQ unreachable",
            Self::Worker => "Reported by a worker",
        }
    }

    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.as_str() == word)
    }
}

/// Alert, open while `cleared_at` is null. Each kind and subject has at most one open alert.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Alert {
    pub id: Uuid,
    pub kind: AlertKind,
    /// Subject of the alert: name of a type, or id of a job or item.
    pub subject: String,
    pub message: String,
    /// Job type that the alert is about; null if it is about none.
    #[serde(rename = "type")]
    pub job_type: Option<String>,
    pub root_id: Option<Uuid>,
    pub job_id: Option<Uuid>,
    pub item_id: Option<Uuid>,
    /// For `dead_letters`, the current number; for `many_failures`, the number of failures of the item; for other
    /// kinds, how often the alert was raised while open.
    pub count: i64,
    pub raised_at: Time,
    /// Time at which the alert was last raised, or its count or message last changed.
    pub last_seen_at: Time,
    pub cleared_at: Option<Time>,
}

/// Body of `POST /assignments/{id}/alert`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct AlertBody {
    /// Text of the alert, 1 to 2,000 bytes.
    pub message: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn alert_kind_round_trips_as_json() {
        for kind in AlertKind::ALL {
            assert_eq!(serde_json::to_string(&kind).expect("json"), format!("\"{}\"", kind.as_str()));
            assert_eq!(AlertKind::parse(kind.as_str()), Some(kind));
        }
    }
}
