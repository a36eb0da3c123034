//! Log lines of an attempt.

use serde::{Deserialize, Serialize};

use crate::{Document, Time};

/// Body of `POST /assignments/{id}/logs`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct LogsBody {
    /// Lines in the order in which they were written, at most 1,000.
    pub lines: Vec<NewLogLine>,
}

/// A line that a worker logs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct NewLogLine {
    /// Time on the worker's clock; absent: the server's time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<Time>,
    #[serde(default)]
    pub level: LogLevel,
    /// Text of the line; everything after its first 16,384 bytes is cut off.
    pub message: String,
    /// Object with details, at most 16,384 bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fields: Option<Document>,
}

/// Severity of a log line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub enum LogLevel {
    Trace,
    Debug,
    #[default]
    Info,
    Warn,
    Error,
}

impl LogLevel {
    /// Name as in the API.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Trace => "trace",
            Self::Debug => "debug",
            Self::Info => "info",
            Self::Warn => "warn",
            Self::Error => "error",
        }
    }
}

/// Log of an attempt after lines were added.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct LogsAdded {
    /// Number of lines that this request added.
    pub added: i64,
    /// Number of the last line in the attempt.
    pub last_line: i64,
    /// Number of the attempt's oldest lines that were dropped, whole requests at a time, to keep at most 1 MiB.
    pub dropped: i64,
}

/// A line of `GET /items/{id}/logs`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct LogLine {
    pub attempt: i32,
    /// Number of the line in the attempt, from 1. Lines with lower numbers than the first one listed were dropped.
    pub line: i64,
    pub at: Time,
    pub level: LogLevel,
    pub message: String,
    pub fields: Option<Document>,
}

/// End of the log of an attempt, as the item's topic and page show it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogTail {
    pub attempt: i32,
    /// Attempts of the item that have a log, oldest first, at most the last 100.
    pub attempts: Vec<i32>,
    /// Number of oldest lines that were dropped.
    pub dropped: i64,
    /// Last lines, at most 100, oldest first.
    pub lines: Vec<LogLine>,
}
