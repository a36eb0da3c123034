//! Deliveries: callbacks of complete trees (`completion-webhook`), and messages about alerts and notices; when each is tried
//! again, and when it is abandoned.

use serde::{Deserialize, Serialize};
use time::{Duration, OffsetDateTime};

use crate::{
    Outcome, Time,
    dispatch::retry::Backoff,
    id::Uuid,
    notice::NoticeKind,
    notify::alert_channel::{AlertEvent, ChannelKind},
};

/// State of a delivery.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub enum DeliveryState {
    /// The message waits for its first or next try.
    Pending,
    /// The receiver answered with a 2xx status.
    Delivered,
    /// The receiver refused the message for good.
    Failed,
    /// All tries failed, or the tree has no receiver anymore.
    Abandoned,
    /// A newer message replaced it: the tree completed again, or the alert ended, before it was delivered.
    Superseded,
}

impl DeliveryState {
    pub const ALL: [DeliveryState; 5] =
        [Self::Pending, Self::Delivered, Self::Failed, Self::Abandoned, Self::Superseded];

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Delivered => "delivered",
            Self::Failed => "failed",
            Self::Abandoned => "abandoned",
            Self::Superseded => "superseded",
        }
    }

    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|state| state.as_str() == word)
    }

    /// The number that stands for it in the store. Never renumber.
    pub const fn code(self) -> i16 {
        match self {
            Self::Pending => 1,
            Self::Delivered => 2,
            Self::Failed => 3,
            Self::Abandoned => 4,
            Self::Superseded => 5,
        }
    }

    pub fn from_code(code: i16) -> Option<Self> {
        Self::ALL.into_iter().find(|state| state.code() == code)
    }
}

/// One attempt of a delivery.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct DeliveryTry {
    pub at: Time,
    /// Status of the receiver's response; absent if there was none.
    pub status: Option<u16>,
    /// Reason why the attempt failed, with the beginning of the response; absent if it succeeded.
    pub error: Option<String>,
}

/// Message about an alert, in a delivery.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct AlertDelivery {
    pub channel_id: Uuid,
    /// Name of the channel; absent if it was deleted.
    pub channel: Option<String>,
    pub kind: Option<ChannelKind>,
    pub event: AlertEvent,
    /// Id of the alert; absent for a test.
    pub alert_id: Option<Uuid>,
}

/// Message about a notice, in a delivery.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct NoticeDelivery {
    pub notice_id: Uuid,
    /// Kind of the notice; absent if it was deleted, or if the person may no longer see the tree.
    pub kind: Option<NoticeKind>,
    /// Id of the root of the tree that the notice is about.
    pub job_id: Option<Uuid>,
}

/// Delivery of a message: one for each completion of a tree with `on_completed`, one for each event of an alert and
/// receiver of an alert channel, and one for each notice and receiver. The first kind outlives its tree by 30 days, the
/// others are kept for 30 days.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct CallbackDelivery {
    /// Id of the delivery, sent as `webhook-id` with every attempt.
    pub id: Uuid,
    /// Id of the tree's root; absent for an alert and a notice.
    pub job_id: Option<Uuid>,
    /// Name of the tree's root, if it has one and still exists.
    pub job_name: Option<String>,
    /// Number of the tree's completion, from 1; absent for an alert and a notice.
    pub completion: Option<i32>,
    /// Outcome of the tree at that time.
    pub outcome: Option<Outcome>,
    /// Alert that was sent; absent for a tree and a notice.
    pub alert: Option<AlertDelivery>,
    /// Notice that was sent; absent for a tree and an alert.
    pub notice: Option<NoticeDelivery>,
    pub state: DeliveryState,
    /// URL of the receiver, without parts that may be secret; absent if there is no receiver anymore. For email,
    /// `mailto:` and the address.
    pub url: Option<String>,
    pub tries: Vec<DeliveryTry>,
    /// Time of the next attempt, while the delivery is pending.
    pub next_try_at: Option<Time>,
    pub created_at: Time,
}

/// The schedule of a callback.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RetrySchedule {
    /// The wait after the first failure.
    pub retry_seconds: f64,
    /// Time in seconds, from its start, for which it is tried.
    pub give_up_seconds: f64,
}

/// The longest wait between two tries that no one asked for.
const LONGEST_WAIT: f64 = 7_200.0;

/// Result of a try.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum TryOutcome {
    Accepted,
    /// The receiver refused the message for good, for example with 410.
    Gone,
    /// Anything else; with the seconds that the receiver asks to wait, where it may (429, 503).
    Refused(Option<f64>),
}

/// Next step after a try.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum NextStep {
    Final(DeliveryState),
    RetryAt(OffsetDateTime),
}

impl RetrySchedule {
    /// Next step after the `tries`-th try (from 1) of a callback that has been tried since `began`. The last try is when
    /// the time is up. `random` is uniform in [0, 1).
    pub fn next(
        &self,
        outcome: TryOutcome,
        tries: i32,
        began: OffsetDateTime,
        now: OffsetDateTime,
        random: f64,
    ) -> NextStep {
        let requested_wait = match outcome {
            TryOutcome::Accepted => return NextStep::Final(DeliveryState::Delivered),
            TryOutcome::Gone => return NextStep::Final(DeliveryState::Failed),
            TryOutcome::Refused(requested_wait) => requested_wait,
        };
        let later = |from: OffsetDateTime, seconds: f64| {
            from.checked_add(Duration::saturating_seconds_f64(seconds)).unwrap_or(from)
        };
        let ends = later(began, self.give_up_seconds);
        if now >= ends {
            return NextStep::Final(DeliveryState::Abandoned);
        }
        let max_seconds = Some(LONGEST_WAIT.max(self.retry_seconds));
        let backoff = Backoff { min_seconds: self.retry_seconds, max_seconds, factor: 3.0, jitter: true };
        // If the receiver asks for no wait, wait one second.
        let wait =
            requested_wait.map_or_else(|| backoff.delay_seconds(tries, random), |seconds| seconds.clamp(1.0, 86_400.0));
        NextStep::RetryAt(later(now, wait).min(ends))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY: RetrySchedule = RetrySchedule { retry_seconds: 5.0, give_up_seconds: 86_400.0 };

    fn at(seconds: i64) -> OffsetDateTime {
        OffsetDateTime::from_unix_timestamp(1_800_000_000 + seconds).expect("a time")
    }

    #[test]
    fn callback_backoff_lasts_one_day() {
        let (mut now, mut waits) = (at(0), Vec::new());
        for tries in 1.. {
            match DAY.next(TryOutcome::Refused(None), tries, at(0), now, 0.0) {
                NextStep::RetryAt(next) => {
                    waits.push((next - now).whole_seconds());
                    now = next;
                }
                NextStep::Final(state) => {
                    assert_eq!(state, DeliveryState::Abandoned);
                    break;
                }
            }
        }
        assert_eq!(waits[..8], [5, 15, 45, 135, 405, 1_215, 3_645, 7_200]);
        assert_eq!((now, waits.len()), (at(86_400), 19), "the last one when the day is over");
        let jittered = DAY.next(TryOutcome::Refused(None), 1, at(0), at(0), 0.5);
        assert_eq!(jittered, NextStep::RetryAt(at(0) + Duration::milliseconds(6_250)));
    }

    #[test]
    fn receiver_response_decides_next_try() {
        let next = |outcome| DAY.next(outcome, 1, at(0), at(10), 0.0);
        assert_eq!(next(TryOutcome::Accepted), NextStep::Final(DeliveryState::Delivered));
        assert_eq!(next(TryOutcome::Gone), NextStep::Final(DeliveryState::Failed));
        assert_eq!(next(TryOutcome::Refused(Some(120.0))), NextStep::RetryAt(at(130)));
        assert_eq!(next(TryOutcome::Refused(Some(0.0))), NextStep::RetryAt(at(11)));
        assert_eq!(next(TryOutcome::Refused(Some(1e12))), NextStep::RetryAt(at(86_400)));
    }

    #[test]
    fn delivery_state_round_trips_as_json() {
        for state in DeliveryState::ALL {
            assert_eq!(serde_json::to_string(&state).expect("json"), format!("\"{}\"", state.as_str()));
            assert_eq!(DeliveryState::parse(state.as_str()), Some(state));
            assert_eq!(DeliveryState::from_code(state.code()), Some(state));
        }
    }
}
