//! Uploaded files: what the API says of one, and how its records are to be read.

use serde::{Deserialize, Serialize};

use crate::{Document, Time, id::Uuid};

/// Format of a file, which divides it into records.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub enum UploadFormat {
    /// A table; the delimiter is found or given.
    Csv,
    /// A JSON value on each line.
    Ndjson,
    /// One JSON array: its elements.
    #[serde(alias = "json_array")]
    Json,
    /// Each line a string.
    Lines,
    /// A sheet of an Excel workbook.
    Xlsx,
    /// Not at all: one item for the whole file, with the payload `{"upload_id": …}`.
    None,
}

impl UploadFormat {
    pub const ALL: [Self; 6] = [Self::Csv, Self::Ndjson, Self::Json, Self::Lines, Self::Xlsx, Self::None];

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Csv => "csv",
            Self::Ndjson => "ndjson",
            Self::Json => "json",
            Self::Lines => "lines",
            Self::Xlsx => "xlsx",
            Self::None => "none",
        }
    }

    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|f| f.as_str() == word)
    }

    /// True if rows have columns.
    pub const fn is_table(self) -> bool {
        matches!(self, Self::Csv | Self::Xlsx)
    }

    /// The format that a file's name and first bytes suggest; CSV when neither suggests one.
    pub fn detect(name: &str, start: &[u8]) -> Self {
        let extension = name.rsplit_once('.').map(|(_, last)| last.to_ascii_lowercase());
        // Units of UTF-16 have a zero beside each ASCII byte; the mark is no text.
        let mut text = start.iter().copied().filter(|byte| !matches!(byte, 0 | 0xEF | 0xBB | 0xBF | 0xFE | 0xFF));
        let first = text.find(|byte| !byte.is_ascii_whitespace());
        match extension.as_deref() {
            Some("csv" | "tsv" | "tab") => Self::Csv,
            Some("ndjson" | "jsonl") => Self::Ndjson,
            Some("xlsx" | "xlsm") => Self::Xlsx,
            // Some call a file of lines `.json`: its first line then is a whole value.
            Some("json") if first == Some(b'{') && first_line_is_json(start) => Self::Ndjson,
            Some("json") => Self::Json,
            Some("lines" | "log" | "md") => Self::Lines,
            _ if start.starts_with(b"PK\x03\x04") => Self::Xlsx,
            _ if first == Some(b'{') => Self::Ndjson,
            _ if first == Some(b'[') => Self::Json,
            Some("txt") if !looks_like_a_table(start) => Self::Lines,
            _ => Self::Csv,
        }
    }
}

fn first_line_is_json(start: &[u8]) -> bool {
    let text = start.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(start).trim_ascii_start();
    let Some(end) = text.iter().position(|&byte| byte == b'\n') else { return false };
    serde_json::from_slice::<serde::de::IgnoredAny>(&text[..end]).is_ok()
}

/// Returns true if the first lines of a text all have the same number, above zero, of a common delimiter.
/// A title above a table with tabs does not count.
fn looks_like_a_table(start: &[u8]) -> bool {
    let text: Vec<u8> = start.iter().copied().filter(|&byte| byte != 0).collect();
    // The last line may not be here whole.
    let whole = text.iter().rposition(|&byte| byte == b'\n').map_or(&text[..], |end| &text[..end]);
    let lines: Vec<&[u8]> =
        whole.split(|&byte| byte == b'\n').filter(|line| !line.trim_ascii().is_empty()).take(20).collect();
    let count = |line: &[u8], delimiter: u8| line.split(|&byte| byte == delimiter).count() - 1;
    b"\t;|,".iter().any(|&delimiter| {
        // Tabs hardly occur in prose: what is above the first line with one is a title.
        let is_title = |line: &&&[u8]| delimiter == b'\t' && count(line, delimiter) == 0;
        let mut table = lines.iter().skip_while(is_title).map(|line| count(line, delimiter));
        let rest = lines.iter().skip_while(is_title).count();
        let first = table.next().unwrap_or(0);
        first > 0 && (rest > 1 || rest == lines.len()) && table.all(|width| width == first)
    })
}

/// A stored file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Upload {
    pub id: Uuid,
    pub filename: String,
    pub bytes: i64,
    /// SHA-256 of the content in lowercase hexadecimal.
    pub sha256: String,
    pub format: UploadFormat,
    pub created_at: Time,
}

/// File that is uploaded in pieces (tus 1.0). After its last byte it is an [`Upload`] with the same id.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ResumableUpload {
    pub id: Uuid,
    pub filename: String,
    /// Announced size in bytes.
    pub bytes: i64,
    /// Number of bytes received.
    pub received: i64,
    pub created_at: Time,
}

/// Response of `GET /uploads/{id}/preview`: the first records of a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Preview {
    pub format: UploadFormat,
    /// CSV: delimiter, detected or given.
    pub delimiter: Option<String>,
    /// Encoding, detected or given, such as `utf-8`, `utf-16le` or `windows-1252`.
    pub encoding: String,
    /// Table with a header: names of the columns.
    pub columns: Vec<String>,
    /// Row that seems to contain the column names, if it is not the one that was read: below a title, for example.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub suggested_header_row: Option<i64>,
    /// Workbook: names of its sheets.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sheets: Vec<String>,
    /// First records, at most 20.
    pub rows: Vec<PreviewRow>,
    /// Problem of the file as a whole (`no_rows`, `bad_header`, `invalid_body`), if any.
    pub problem: Option<String>,
    /// Comparison of the columns and the first rows with the requested job type, if it has a schema.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub check: Option<ColumnCheck>,
}

/// Comparison of the columns and first rows of a file with the schema of a job type.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ColumnCheck {
    #[serde(rename = "type")]
    pub job_type: String,
    /// Names of the properties in the schema.
    pub expected: Vec<String>,
    /// Number of rows that were checked.
    pub rows: i64,
    /// Mismatches, at most 30; empty if none was found.
    pub findings: Vec<ColumnFinding>,
}

/// Mismatch of one column.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ColumnFinding {
    /// Name of the column; null if the mismatch is about the row as a whole.
    pub column: Option<String>,
    pub kind: FindingKind,
    /// Description of the mismatch for people.
    pub message: String,
    /// First line with the mismatch, from 1; null if it is about the column itself.
    pub row: Option<i64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub enum FindingKind {
    /// Every row needs it, and the file has no such column.
    Missing,
    /// The schema does not know it.
    Unknown,
    /// A cell is not what the schema expects.
    Mismatch,
}

/// One record of a preview: cells of a table's row, or one JSON value.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct PreviewRow {
    /// First line of the record in the file, from 1.
    pub row: i64,
    /// Cells of the row, including the first 20 beyond the last column.
    pub cells: Vec<String>,
    pub payload: Option<Document>,
    /// Reason why the record would be refused.
    pub problem: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::UploadFormat::{self, Csv, Json, Lines, Ndjson, Xlsx};

    #[test]
    fn upload_format_is_detected_from_name_and_content() {
        for (name, start, format) in [
            ("a.csv", &b"[1]"[..], Csv),
            ("a.CSV", b"", Csv),
            ("a.jsonl", b"", Ndjson),
            ("a.json", b"[1]", Json),
            ("a.json", b"{\"a\":1}\n{\"a\":2}\n", Ndjson),
            ("a.json", b"{\n \"a\":1}\n", Json),
            ("a.xlsx", b"PK\x03\x04", Xlsx),
            ("report", b"PK\x03\x04", Xlsx),
            ("report", b" {\"a\":1}\n", Ndjson),
            ("report", b"\xEF\xBB\xBF[\n", Json),
            ("report", b"\xFF\xFE[\x00", Json),
            ("report", b"id,name\n", Csv),
            ("a.txt", b"One, two.\nThree.\n", Lines),
            ("a.txt", b"id\tname\n1\tAda\n2\tB", Csv),
            ("a.txt", b"Open items\nAs of today\n\nid\tname\n1\tAda\n", Csv),
            ("a.txt", b"Open items\n\tindented\nand more\n", Lines),
            ("a.txt", b"Dear all\n\nthe list:\tsee below\n", Lines),
            ("notes.md", b"a,b\n", Lines),
        ] {
            assert_eq!(UploadFormat::detect(name, start), format, "{name} {start:?}");
        }
    }

    #[test]
    fn upload_format_round_trips() {
        for format in UploadFormat::ALL {
            assert_eq!(UploadFormat::parse(format.as_str()), Some(format));
            assert_eq!(serde_json::to_string(&format).expect("json"), format!("\"{}\"", format.as_str()));
        }
    }
}
