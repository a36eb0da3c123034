//! Uploaded files: what the API says of one, and how its records are to be read (spec §5).

use serde::{Deserialize, Serialize};

use crate::{Document, Time, id::Uuid};

/// How a file is cut into records.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub enum UploadFormat {
    Csv,
    Ndjson,
}

impl UploadFormat {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Csv => "csv",
            Self::Ndjson => "ndjson",
        }
    }

    pub fn parse(word: &str) -> Option<Self> {
        [Self::Csv, Self::Ndjson].into_iter().find(|f| f.as_str() == word)
    }

    /// The format that a file name suggests; CSV when it suggests none.
    pub fn of_filename(name: &str) -> Self {
        let extension = name.rsplit('.').next().unwrap_or_default().to_ascii_lowercase();
        match extension.as_str() {
            "ndjson" | "jsonl" => Self::Ndjson,
            _ => Self::Csv,
        }
    }
}

/// A stored file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Upload {
    pub id: Uuid,
    pub filename: String,
    pub bytes: i64,
    /// Lower-case hexadecimal.
    pub sha256: String,
    pub format: UploadFormat,
    pub created_at: Time,
}

/// The first records of a file, before anything runs: `GET /uploads/{id}/preview`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Preview {
    pub format: UploadFormat,
    /// CSV: the delimiter found or given.
    pub delimiter: Option<String>,
    /// `utf-8`, `utf-16le` or `utf-16be`.
    pub encoding: String,
    /// CSV with a header: the names of the columns.
    pub columns: Vec<String>,
    /// At most 20.
    pub rows: Vec<PreviewRow>,
    /// What is wrong with the file as a whole (`no_rows`, `bad_header`), if anything.
    pub problem: Option<String>,
}

/// One record of a preview: cells of a CSV row, or one JSON value.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct PreviewRow {
    /// First line of the record in the file, from 1.
    pub row: i64,
    pub cells: Vec<String>,
    pub payload: Option<Document>,
    /// Why it would not be accepted.
    pub problem: Option<String>,
}
