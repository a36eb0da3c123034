//! Import formats: splits a byte stream into records and records into payloads.
//!
//! Pure functions from bytes to rows, without files or database. Memory is bounded at any file size, because a record
//! ends at [`RECORD_LIMIT`] and nothing older is kept. Every record has the [`Place`] of its start and end, so that a
//! reader can stop at any record and another process can resume there with the same rows.
//!
//! The parsers for CSV (`cut`) and JSON arrays (`array`) are custom: established readers neither report the offset of a
//! record in a UTF-16 file nor recover the good rows that an open quote or bracket has swallowed.

mod array;
mod cells;
mod convert;
mod encoding;
mod encoding_guess;
mod format_cutters;
mod head;
mod mapping;
mod matching;
mod named_delimiter;
mod notation;
mod read;
mod record_cutter;
mod returned;
mod row;
mod scan;
mod title;
mod units;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use domain::import::{mapping::Mapping, upload::UploadFormat};
use serde::{Deserialize, Serialize};

pub use convert::{convert, in_file_notation};
pub use encoding::{Encoding, LONGEST_LABEL};
pub use head::{HeadError, Want, inspect};
pub use mapping::MappingError;
pub use matching::{Match, Target, left_out, match_columns};
pub use notation::Notation;
pub use read::{Reader, Rules};
pub use returned::{FAILURE_COLUMNS, nameless_columns, payload_cell, surplus_cells};
pub use row::{CellEdits, CellKind, ColumnRule, Fault, FaultKind, Row, json_of};
pub use title::find_header;

/// Converted form of a workbook.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Staged {
    /// Name in the object store.
    pub object_id: uuid::Uuid,
    pub bytes: u64,
}

/// Maximum bytes of a record in the file. An open quote costs one row, not the file.
pub const RECORD_LIMIT: usize = 1 << 20;

/// Boundary between records, at which a reader can start.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Place {
    /// Offset in the stored file, in bytes.
    pub offset: u64,
    /// Line of the file that starts here, from 1.
    pub line: u64,
}

/// Format of a file as detected from its head. Stored with the job, so that splitting gives the same rows whenever and
/// wherever it resumes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Head {
    pub format: UploadFormat,
    pub encoding: Encoding,
    /// CSV: ASCII character.
    pub delimiter: Option<char>,
    /// Table: column names, if the first record has them.
    pub columns: Option<Vec<String>>,
    /// Table: number of fields in a row.
    pub width: usize,
    /// Start of the first record after the header.
    pub first: Place,
    /// True if the file starts with a byte order mark.
    #[serde(default)]
    pub mark: bool,
    /// Number of rows: exact for a short file, else estimated.
    pub rows: i64,
    /// XLSX: converted lines that are read instead of the file.
    #[serde(default)]
    pub staged: Option<Staged>,
    /// Table: columns that become properties of the payload; `None` for all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mapping: Option<Mapping>,
    /// Edited rows by their line.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub edits: BTreeMap<i64, CellEdits>,
}

/// Payload of an item that is a whole file.
pub fn whole_file_payload(upload_id: uuid::Uuid) -> domain::Document {
    domain::Document::of(&std::collections::BTreeMap::from([("upload_id", upload_id)]))
}

impl Head {
    /// Head of a file that is a single item.
    pub fn whole_file() -> Self {
        Self {
            format: UploadFormat::None,
            encoding: Encoding::Utf8,
            delimiter: None,
            columns: None,
            width: 0,
            first: Place { offset: 0, line: 1 },
            mark: false,
            rows: 1,
            staged: None,
            mapping: None,
            edits: BTreeMap::new(),
        }
    }

    /// Object to read and its size in bytes: the file, or its converted form.
    pub fn source(&self, upload_id: uuid::Uuid, bytes: u64) -> (uuid::Uuid, u64) {
        self.staged.map_or((upload_id, bytes), |staged| (staged.object_id, staged.bytes))
    }
}
