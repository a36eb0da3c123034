//! Files into rows: cuts a byte stream into records and records into payloads.
//!
//! Pure: bytes in, rows out; nothing here opens a file or knows the database. Memory stays flat at any
//! file size, because a record ends at [`RECORD_LIMIT`] and nothing older than it is kept. Every
//! record carries the [`Place`] where it begins and the one behind it, so that reading can stop at any
//! record and go on there later, in another process, with the same rows.
//!
//! The machines for CSV (`cut`) and for JSON arrays (`array`) are our own: the well-kept readers neither
//! say where in a UTF-16 file a record begins nor give back the good rows that an open quote or bracket
//! has swallowed.

mod array;
mod cells;
mod cut;
mod cuts;
mod encoding;
mod head;
mod read;
mod row;
mod scan;
mod units;

#[cfg(test)]
mod tests;

use domain::upload::UploadFormat;
use serde::{Deserialize, Serialize};

pub use encoding::{Encoding, LONGEST_LABEL};
pub use head::{HeadError, Want, inspect};
pub use read::{Reader, Rules};
pub use row::{CellKind, Fault, FaultKind, Row, json_of};

/// What was made of a workbook, to be read in its stead.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Staged {
    /// Its name in the object store.
    pub object_id: uuid::Uuid,
    pub bytes: u64,
}

/// A record ends here at the latest, in bytes of the file. An open quote costs one row, not the file.
pub const RECORD_LIMIT: usize = 1 << 20;

/// A boundary between records: where a reader can begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Place {
    /// Bytes from the beginning of the stored file.
    pub offset: u64,
    /// The physical line that begins here, from 1.
    pub line: u64,
}

/// What the head of a file says about the rest. Kept with the job, so that splitting is the same
/// whenever and wherever it goes on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Head {
    pub format: UploadFormat,
    pub encoding: Encoding,
    /// CSV: an ASCII character.
    pub delimiter: Option<char>,
    /// A table: the names of the columns, where the first record gives them.
    pub columns: Option<Vec<String>>,
    /// A table: how many fields a row has.
    pub width: usize,
    /// Where the first record behind the header begins.
    pub first: Place,
    /// Whether the file begins with a byte order mark.
    #[serde(default)]
    pub mark: bool,
    /// How many rows there are: counted in a short file, else estimated from the first ones.
    pub rows: i64,
    /// XLSX: what is read instead of the file.
    #[serde(default)]
    pub staged: Option<Staged>,
}

/// The payload of an item that is a whole file.
pub fn whole_file_payload(upload_id: uuid::Uuid) -> domain::Document {
    domain::Document::of(&std::collections::BTreeMap::from([("upload_id", upload_id)]))
}

/// The columns that our own list of failures ends with. Uploaded again, they are taken off: `row` is
/// then what `_line` says, and cells are unescaped.
pub const FAILURE_COLUMNS: [&str; 3] = ["_line", "_code", "_problem"];

impl Head {
    /// The head of a file that is one item as a whole.
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
        }
    }

    /// What is read, and how many bytes it has: the file, or what was made of it.
    pub fn source(&self, upload_id: uuid::Uuid, bytes: u64) -> (uuid::Uuid, u64) {
        self.staged.map_or((upload_id, bytes), |staged| (staged.object_id, staged.bytes))
    }

    /// Whether the file is a list of failures that came back.
    pub fn is_returned(&self) -> bool {
        self.columns.as_ref().is_some_and(|columns| {
            columns.len() > FAILURE_COLUMNS.len() && columns.ends_with(&FAILURE_COLUMNS.map(String::from))
        })
    }

    /// How many cells a payload has.
    pub fn data_width(&self) -> usize {
        if self.is_returned() { self.width - FAILURE_COLUMNS.len() } else { self.width }
    }

    /// The names of a payload's fields, where the file has a header.
    pub fn data_columns(&self) -> Option<&[String]> {
        self.columns.as_ref().map(|columns| &columns[..self.data_width()])
    }
}
