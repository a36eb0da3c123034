//! Groups of dead items whose errors read alike, and what operators have decided about them (`error-group-states`).

use serde::{Deserialize, Serialize};

use super::ErrorGroup;
use crate::{
    Problem, Time,
    id::Uuid,
    identity::{audit::LONGEST_REASON, owner::Owner},
    limits::is_text,
};

/// Maximum number of failures for which a group is muted.
pub const MOST_MUTED_FAILURES: i64 = 1_000_000_000;
/// Number of minutes in the history of a group.
pub const HISTORY_MINUTES: i64 = 60;
/// Number of hours in the history of a group: a week.
pub const HISTORY_HOURS: i64 = 168;

/// State of an error group.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub enum GroupState {
    /// Waits for a person.
    #[default]
    Open,
    /// Ignored, for good or until a time or a number of failures.
    Muted,
    /// Its cause is removed; the next failure makes it `regressed`.
    Resolved,
    /// Open again, because it failed after it was resolved.
    Regressed,
}

impl GroupState {
    pub const ALL: [Self; 4] = [Self::Open, Self::Muted, Self::Resolved, Self::Regressed];

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Open => "open",
            Self::Muted => "muted",
            Self::Resolved => "resolved",
            Self::Regressed => "regressed",
        }
    }

    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|state| state.as_str() == word)
    }

    /// Number in the database.
    pub const fn code(self) -> i16 {
        match self {
            Self::Open => 1,
            Self::Muted => 2,
            Self::Resolved => 3,
            Self::Regressed => 4,
        }
    }

    /// State with this number; an unknown one is open, so that nothing is hidden.
    pub fn from_code(code: i16) -> Self {
        Self::ALL.into_iter().find(|state| state.code() == code).unwrap_or_default()
    }

    /// Returns true if the group waits for a person.
    pub const fn needs_attention(self) -> bool {
        matches!(self, Self::Open | Self::Regressed)
    }
}

/// Change of the state of an error group.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ErrorGroupPatch {
    /// New state: `open`, `muted` or `resolved`.
    pub state: GroupState,
    /// Time at which a muted group reopens.
    #[serde(default)]
    pub until: Option<Time>,
    /// Number of further failures at which a muted group reopens.
    #[serde(default)]
    pub failures: Option<i64>,
    /// Decision and reason, such as the deployed version. Required for `resolved`.
    #[serde(default)]
    pub note: Option<String>,
}

impl ErrorGroupPatch {
    /// Checks the fields and trims the note; a blank note counts as none.
    pub fn checked(self, now: Time) -> Result<Self, Problem> {
        let note = self.note.as_deref().map(str::trim).filter(|note| !note.is_empty()).map(str::to_owned);
        let refuse = |field: &str, detail: String| Err(Problem::invalid_body([(format!("/{field}"), detail)]));
        if self.state == GroupState::Regressed {
            return refuse("state", "expected open, muted or resolved".to_owned());
        }
        let muted = self.state == GroupState::Muted;
        if self.until.is_some_and(|until| !muted || until <= now) {
            return refuse("until", "expected a time in the future, with state muted".to_owned());
        }
        if self.failures.is_some_and(|n| !muted || !(1..=MOST_MUTED_FAILURES).contains(&n)) {
            return refuse("failures", format!("expected 1 to {MOST_MUTED_FAILURES}, with state muted"));
        }
        if note.as_deref().is_some_and(|note| !is_text(note, 1, LONGEST_REASON)) {
            return refuse("note", format!("expected at most {LONGEST_REASON} characters"));
        }
        if note.is_none() && self.state == GroupState::Resolved {
            return refuse("note", "expected a note, such as the version that contains the fix".to_owned());
        }
        Ok(Self { note, ..self })
    }
}

/// An entry in the history of an error group.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct GroupChange {
    pub at: Time,
    /// New state of the group.
    pub state: GroupState,
    /// Name of the person or service; `null` if the group reopened by itself.
    pub by: Option<String>,
    pub until: Option<Time>,
    pub failures: Option<i64>,
    pub note: Option<String>,
}

/// Dead items of an error group in one job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct AffectedJob {
    pub job_id: Uuid,
    pub root_id: Uuid,
    pub name: Option<String>,
    pub owner: Owner,
    pub count: i64,
    pub last_seen_at: Time,
}

/// Dead items of an error group of one owner.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct AffectedOwner {
    pub owner: Owner,
    pub count: i64,
    pub last_seen_at: Time,
}

/// An error group of all owners, as `GET /dead-letters/groups/{type}/{fingerprint}` returns it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ErrorGroupDetail {
    pub group: ErrorGroup,
    /// Start of the first minute.
    pub minutes_from: Time,
    /// Failures in each of the last 60 minutes, oldest first; the last one is the current minute.
    pub minutes: Vec<i64>,
    /// Start of the first hour.
    pub hours_from: Time,
    /// Failures in each of the last 168 hours, oldest first; the last one is the current hour.
    pub hours: Vec<i64>,
    /// Latest changes of the state, at most 50.
    pub history: Vec<GroupChange>,
    /// Newest jobs with dead items of the group, at most 20.
    pub jobs: Vec<AffectedJob>,
    /// Owners with the most dead items of the group, at most 20.
    pub owners: Vec<AffectedOwner>,
    /// Number of owners with dead items of the group, at most 1,000.
    pub owner_count: i64,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn now() -> Time {
        Time::parse("2026-11-25T09:00:00Z").expect("a time")
    }

    fn refused(patch: ErrorGroupPatch) -> String {
        patch.checked(now()).expect_err("refused").errors[0].pointer.clone()
    }

    #[test]
    fn resolving_requires_a_note() {
        let resolved = ErrorGroupPatch { state: GroupState::Resolved, ..ErrorGroupPatch::default() };
        assert_eq!(refused(resolved.clone()), "/note");
        assert_eq!(refused(ErrorGroupPatch { note: Some("  ".to_owned()), ..resolved.clone() }), "/note");
        let noted = ErrorGroupPatch { note: Some(" 2.4.1 ".to_owned()), ..resolved }.checked(now()).expect("valid");
        assert_eq!(noted.note.as_deref(), Some("2.4.1"));
    }

    #[test]
    fn only_muted_groups_have_an_end() {
        let later = Time::parse("2026-11-25T09:00:01Z").expect("a time");
        let muted = ErrorGroupPatch { state: GroupState::Muted, ..ErrorGroupPatch::default() };
        assert!(muted.clone().checked(now()).is_ok());
        assert!(ErrorGroupPatch { until: Some(later), failures: Some(1), ..muted.clone() }.checked(now()).is_ok());
        assert_eq!(refused(ErrorGroupPatch { until: Some(now()), ..muted.clone() }), "/until");
        assert_eq!(refused(ErrorGroupPatch { failures: Some(0), ..muted }), "/failures");
        assert_eq!(refused(ErrorGroupPatch { until: Some(later), ..ErrorGroupPatch::default() }), "/until");
        assert_eq!(refused(ErrorGroupPatch { failures: Some(5), ..ErrorGroupPatch::default() }), "/failures");
        assert_eq!(refused(ErrorGroupPatch { state: GroupState::Regressed, ..ErrorGroupPatch::default() }), "/state");
    }

    #[test]
    fn state_codes_round_trip() {
        for state in GroupState::ALL {
            assert_eq!((GroupState::from_code(state.code()), GroupState::parse(state.as_str())), (state, Some(state)));
        }
        assert_eq!(GroupState::from_code(9), GroupState::Open);
    }
}
