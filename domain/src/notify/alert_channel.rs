//! Alert channels: receivers of alerts, with rules about which alerts they receive and when (`alert-channels`).

use serde::{Deserialize, Serialize};

use crate::{Time, api::present_or_null, id::Uuid, job_type::SigningSecret, notify::alert::AlertKind};

/// Longest name of a channel, in characters.
pub const LONGEST_CHANNEL_NAME: usize = 200;
/// Maximum number of channels.
pub const MOST_CHANNELS: i64 = 100;
/// Maximum number of email addresses of a channel.
pub const MOST_RECIPIENTS: usize = 20;
/// Longest email address, in bytes.
pub const LONGEST_RECIPIENT: usize = 254;
/// Maximum number of job types that a rule names.
pub const MOST_CHANNEL_TYPES: usize = 100;
/// Longest integration key of PagerDuty, in characters.
pub const LONGEST_ROUTING_KEY: usize = 100;
/// Longest `after_seconds`: a day.
pub const LONGEST_AFTER_SECONDS: i64 = 86_400;
/// Pattern of a time of day.
pub const TIME_OF_DAY_PATTERN: &str = "^([01][0-9]|2[0-3]):[0-5][0-9]$";
/// URL to which PagerDuty's events are posted by default.
pub const PAGERDUTY_URL: &str = "https://events.pagerduty.com/v2/enqueue";

/// Minutes of a day.
const DAY: u16 = 24 * 60;

macro_rules! words {
    ($(#[$doc:meta])* $name:ident { $($(#[$of:meta])* $variant:ident = $word:literal,)+ }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
        #[serde(rename_all = "snake_case")]
        #[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
        pub enum $name { $($(#[$of])* $variant,)+ }

        impl $name {
            pub const ALL: &[Self] = &[$(Self::$variant),+];

            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $word),+ }
            }

            pub fn parse(word: &str) -> Option<Self> {
                match word { $($word => Some(Self::$variant),)+ _ => None }
            }
        }
    };
}

words! {
    /// Kind of an alert channel.
    ChannelKind {
        /// Mail to each address of `to`, through `TREELINE_SMTP_URL`.
        Email = "email",
        /// Incoming webhook of Slack or of a program that takes the same messages.
        Slack = "slack",
        /// PagerDuty Events API v2.
        Pagerduty = "pagerduty",
        /// Signed post (Standard Webhooks).
        Webhook = "webhook",
    }
}

words! {
    /// Event of an alert that is sent to a channel.
    AlertEvent {
        Raised = "raised",
        Cleared = "cleared",
        /// Sent by `POST /alert-channels/{id}/test`.
        Test = "test",
    }
}

words! {
    /// Day of the week.
    Weekday {
        Monday = "monday",
        Tuesday = "tuesday",
        Wednesday = "wednesday",
        Thursday = "thursday",
        Friday = "friday",
        Saturday = "saturday",
        Sunday = "sunday",
    }
}

impl Weekday {
    /// Day before this one.
    fn previous(self) -> Self {
        let at = Self::ALL.iter().position(|day| *day == self).unwrap_or_default();
        Self::ALL[(at + Self::ALL.len() - 1) % Self::ALL.len()]
    }
}

/// Hours of the day in which a channel sends nothing. Alerts that are raised in these hours and still open at their end
/// are sent then.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct QuietHours {
    /// IANA time zone, such as `Europe/Berlin`.
    pub time_zone: String,
    /// Start of the quiet hours, such as `22:00`.
    pub from: String,
    /// End of the quiet hours, such as `07:00`; on the next day if it is not later than `from`.
    pub to: String,
    /// Days on which the quiet hours begin. Empty: every day.
    #[serde(default)]
    pub days: Vec<Weekday>,
}

impl QuietHours {
    /// Returns true if a time of the wall clock is quiet. `minute`: since midnight.
    pub fn cover(&self, day: Weekday, minute: u16) -> bool {
        let (Some(from), Some(to)) = (minute_of(&self.from), minute_of(&self.to)) else { return false };
        let begins = |day: Weekday| self.days.is_empty() || self.days.contains(&day);
        if from < to {
            return begins(day) && (from..to).contains(&minute);
        }
        (begins(day) && (from..DAY).contains(&minute)) || (begins(day.previous()) && minute < to)
    }
}

/// Minute since midnight of a time of day such as `07:30`.
pub fn minute_of(text: &str) -> Option<u16> {
    let (hours, minutes) = text.split_once(':')?;
    let digits = |part: &str| part.len() == 2 && part.bytes().all(|byte| byte.is_ascii_digit());
    if !digits(hours) || !digits(minutes) {
        return None;
    }
    let (hours, minutes): (u16, u16) = (hours.parse().ok()?, minutes.parse().ok()?);
    (hours < 24 && minutes < 60).then_some(hours * 60 + minutes)
}

/// Alert channel. Secrets are never returned.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct AlertChannel {
    pub id: Uuid,
    pub name: String,
    pub kind: ChannelKind,
    /// URL of the receiver, without parts that may be secret; absent for email.
    pub url: Option<String>,
    /// Email addresses.
    pub to: Vec<String>,
    /// Kinds of alerts that are sent. Empty: all.
    pub kinds: Vec<AlertKind>,
    /// Job types whose alerts are sent. Empty: all, including alerts that are about no type.
    pub types: Vec<String>,
    /// Minimum `count` of an alert that is sent.
    pub min_count: i64,
    /// Time in seconds for which an alert must be open.
    pub after_seconds: i64,
    /// True if a message is also sent when an alert is cleared.
    pub send_cleared: bool,
    pub quiet_hours: Option<QuietHours>,
    pub paused: bool,
    pub created_at: Time,
    pub updated_at: Time,
}

/// Body of `POST /alert-channels`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct NewAlertChannel {
    pub name: String,
    pub kind: ChannelKind,
    /// `slack` and `webhook`: URL of the receiver. `pagerduty`: absent for `https://events.pagerduty.com/v2/enqueue`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// `webhook`: signing secret; absent: the deployment's key for alerts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret: Option<SigningSecret>,
    /// `pagerduty`: integration key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub routing_key: Option<String>,
    /// `email`: addresses of the recipients.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub to: Vec<String>,
    /// Kinds of alerts that are sent. Empty: all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub kinds: Vec<AlertKind>,
    /// Job types whose alerts are sent. Empty: all, including alerts that are about no type.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub types: Vec<String>,
    /// Minimum `count` of an alert that is sent. Absent: 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min_count: Option<i64>,
    /// Time in seconds for which an alert must be open before it is sent. Absent: 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after_seconds: Option<i64>,
    /// True if a message is also sent when an alert is cleared. Absent: true.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub send_cleared: Option<bool>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quiet_hours: Option<QuietHours>,
    #[serde(default)]
    pub paused: bool,
}

/// Body of `PATCH /alert-channels/{id}`: the given fields change; `null` removes `secret` and `quiet_hours`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct AlertChannelPatch {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    #[serde(deserialize_with = "present_or_null", skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<SigningSecret>))]
    pub secret: Option<Option<SigningSecret>>,
    /// Required if `url` has another host, because the key is sent there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub routing_key: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub to: Option<Vec<String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kinds: Option<Vec<AlertKind>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub types: Option<Vec<String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min_count: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub after_seconds: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub send_cleared: Option<bool>,
    #[serde(deserialize_with = "present_or_null", skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<QuietHours>))]
    pub quiet_hours: Option<Option<QuietHours>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub paused: Option<bool>,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn quiet(from: &str, to: &str, days: &[Weekday]) -> QuietHours {
        QuietHours { time_zone: "UTC".to_owned(), from: from.to_owned(), to: to.to_owned(), days: days.to_vec() }
    }

    #[test]
    fn a_time_of_day_is_two_digits_each() {
        assert_eq!(minute_of("07:30"), Some(450));
        for bad in ["7:30", "24:00", "12:60", "12", "+1:00", "12:3", "1a:00", ""] {
            assert_eq!(minute_of(bad), None, "{bad}");
        }
    }

    #[test]
    fn quiet_hours_within_a_day_belong_to_that_day() {
        let lunch = quiet("12:00", "13:00", &[Weekday::Monday]);
        assert!(lunch.cover(Weekday::Monday, 720) && lunch.cover(Weekday::Monday, 779));
        assert!(!lunch.cover(Weekday::Monday, 719) && !lunch.cover(Weekday::Monday, 780));
        assert!(!lunch.cover(Weekday::Tuesday, 720));
    }

    #[test]
    fn quiet_hours_over_midnight_belong_to_the_day_on_which_they_begin() {
        let night = quiet("22:00", "07:00", &[Weekday::Sunday]);
        assert!(night.cover(Weekday::Sunday, 1_320) && night.cover(Weekday::Monday, 419));
        assert!(!night.cover(Weekday::Sunday, 60) && !night.cover(Weekday::Monday, 420));
        assert!(!night.cover(Weekday::Monday, 1_320));
        let every = quiet("22:00", "07:00", &[]);
        assert!(every.cover(Weekday::Thursday, 60) && !every.cover(Weekday::Thursday, 720));
    }

    #[test]
    fn equal_times_are_a_whole_day() {
        let weekend = quiet("00:00", "00:00", &[Weekday::Saturday, Weekday::Sunday]);
        assert!(weekend.cover(Weekday::Saturday, 0) && weekend.cover(Weekday::Sunday, 1_439));
        assert!(!weekend.cover(Weekday::Monday, 0) && !weekend.cover(Weekday::Friday, 1_439));
    }

    #[test]
    fn every_word_is_that_of_the_api() {
        for kind in ChannelKind::ALL {
            assert_eq!(serde_json::to_string(kind).expect("json"), format!("\"{}\"", kind.as_str()));
            assert_eq!(ChannelKind::parse(kind.as_str()), Some(*kind));
        }
        for day in Weekday::ALL {
            assert_eq!(Weekday::parse(day.as_str()), Some(*day));
        }
    }
}
