//! Schedules: trees that are created by a cron expression in a time zone (`schedules`).

use serde::{Deserialize, Serialize};

use super::{NewJob, views::present_or_null};
use crate::{Document, Problem, Time, id::Uuid, job::Owner};

/// Longest name of a schedule, in characters.
pub const LONGEST_SCHEDULE_NAME: usize = 200;
/// Longest cron expression, in characters.
pub const LONGEST_CRON: usize = 200;
/// Longest name of a time zone, in characters.
pub const LONGEST_TIME_ZONE: usize = 100;
/// Largest job body of a schedule, in bytes.
pub const LARGEST_SCHEDULED_JOB: usize = 1024 * 1024;
/// Longest catch-up window, in seconds: 30 days.
pub const LONGEST_CATCH_UP_SECONDS: i64 = 30 * 86_400;
/// Default of `catch_up_window_seconds`: an hour.
pub const CATCH_UP_SECONDS: i64 = 3_600;
/// Number of future ticks that are shown.
pub const NEXT_RUNS: usize = 5;

macro_rules! words {
    ($(#[$doc:meta])* $name:ident { $($(#[$of:meta])* $variant:ident = $word:literal,)+ }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
        #[serde(rename_all = "snake_case")]
        #[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
        pub enum $name { $($(#[$of])* $variant,)+ }

        impl $name {
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
    /// Handling of a tick while the tree of the previous run is not complete.
    Overlap {
        /// The tick is skipped.
        Skip = "skip",
        /// The tick waits until the tree is complete.
        Queue = "queue",
        /// The tree is canceled first.
        CancelPrevious = "cancel_previous",
    }
}

words! {
    /// Handling of ticks that were missed because no server was running, within the catch-up window.
    CatchUp {
        /// None is made up for.
        None = "none",
        /// Only the last one.
        Last = "last",
        /// Each of them, oldest first.
        All = "all",
    }
}

words! {
    /// Result of a tick.
    RunState {
        /// Its tree was created.
        Started = "started",
        /// It waits for the tree of the previous run.
        Queued = "queued",
        /// It has no tree, for `reason`.
        Skipped = "skipped",
        /// Its tree was refused, for `problem`.
        Failed = "failed",
    }
}

/// Result of one tick.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ScheduleRun {
    /// Ordinal within the schedule, from 1.
    pub seq: i64,
    /// Time of the tick according to the cron expression; for a run by hand, the time of the request.
    pub tick: Time,
    /// Time of the last change of state.
    pub at: Time,
    pub state: RunState,
    /// Id of the tree's root, if the tree was created. It may have been deleted since.
    pub job_id: Option<Uuid>,
    /// `overlap`: the previous tree was not complete. `missed`: no server was running. `queue_full`: too many runs wait.
    pub reason: Option<String>,
    /// Problem because of which the tree was refused.
    pub problem: Option<Problem>,
    /// True for `POST /schedules/{id}/run`.
    pub by_hand: bool,
}

/// Schedule that creates a tree at each tick of a cron expression.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Schedule {
    pub id: Uuid,
    /// Owner of the schedule and of its trees.
    pub owner: Owner,
    pub name: String,
    pub cron: String,
    /// IANA time zone of the cron expression.
    pub time_zone: String,
    /// Body of `POST /jobs`, as given, but without the secret of `on_completed` and the query of its URL.
    #[cfg_attr(feature = "openapi", schema(value_type = NewJob))]
    pub job: Document,
    pub overlap: Overlap,
    pub catch_up: CatchUp,
    pub catch_up_window_seconds: i64,
    pub starts_at: Option<Time>,
    pub ends_at: Option<Time>,
    pub paused: bool,
    /// Next ticks, at most five. No tree is created at them while the schedule is paused.
    pub next_runs: Vec<Time>,
    pub last_run: Option<ScheduleRun>,
    pub created_at: Time,
    pub updated_at: Time,
}

/// Body of `POST /schedules`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct NewSchedule {
    pub name: String,
    /// Cron expression: five fields (minute, hour, day, month, weekday), six with seconds first, or `@hourly`,
    /// `@daily`, `@weekly`, `@monthly`, `@yearly`.
    pub cron: String,
    /// IANA time zone, such as `Europe/Berlin`. Absent: `UTC`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time_zone: Option<String>,
    /// Body of `POST /jobs`, without ids.
    pub job: NewJob,
    /// Handling of a tick while the previous tree is not complete. Absent: `skip`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub overlap: Option<Overlap>,
    /// Handling of missed ticks. Absent: `none`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub catch_up: Option<CatchUp>,
    /// Catch-up window in seconds. Absent: an hour.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub catch_up_window_seconds: Option<i64>,
    /// Time before which there are no ticks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub starts_at: Option<Time>,
    /// Time after which there are no ticks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ends_at: Option<Time>,
    #[serde(default)]
    pub paused: bool,
}

/// Body of `PATCH /schedules/{id}`: the given fields change; `null` clears a value.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct SchedulePatch {
    pub name: Option<String>,
    pub cron: Option<String>,
    pub time_zone: Option<String>,
    pub job: Option<NewJob>,
    pub overlap: Option<Overlap>,
    pub catch_up: Option<CatchUp>,
    pub catch_up_window_seconds: Option<i64>,
    #[serde(deserialize_with = "present_or_null", skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<Time>))]
    pub starts_at: Option<Option<Time>>,
    #[serde(deserialize_with = "present_or_null", skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<Time>))]
    pub ends_at: Option<Option<Time>>,
    pub paused: Option<bool>,
    /// Reason, required for another owner's schedule; stored in the audit log.
    pub reason: Option<String>,
}
