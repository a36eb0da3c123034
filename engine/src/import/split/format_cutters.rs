//! Cutter of each format.

use domain::import::upload::UploadFormat;

use super::{
    Encoding, Place,
    array::ArrayCutter,
    record_cutter::{Cutter, Grammar, Step},
};

/// Splits bytes into records.
#[derive(Debug)]
pub(super) enum FormatCutter {
    Lines(Cutter),
    Array(ArrayCutter),
}

impl FormatCutter {
    /// Starts at `place`. `width`: expected number of fields of a CSV row, once known.
    pub(super) fn new(
        format: UploadFormat,
        encoding: Encoding,
        delimiter: u8,
        width: Option<usize>,
        place: Place,
    ) -> Self {
        match format {
            UploadFormat::Json => Self::Array(ArrayCutter::new(encoding, place)),
            UploadFormat::Csv => Self::Lines(Cutter::new(encoding, Grammar::Csv { delimiter, width }, place)),
            // A workbook is read from the lines it was converted to.
            UploadFormat::Ndjson | UploadFormat::Lines | UploadFormat::Xlsx | UploadFormat::None => {
                Self::Lines(Cutter::new(encoding, Grammar::Lines, place))
            }
        }
    }

    pub(super) fn feed(&mut self, bytes: &[u8]) {
        match self {
            Self::Lines(cutter) => cutter.feed(bytes),
            Self::Array(cutter) => cutter.feed(bytes),
        }
    }

    /// Marks the end of the input.
    pub(super) fn end(&mut self) {
        match self {
            Self::Lines(cutter) => cutter.end(),
            Self::Array(cutter) => cutter.end(),
        }
    }

    pub(super) fn step(&mut self) -> Step {
        match self {
            Self::Lines(cutter) => cutter.step(),
            Self::Array(cutter) => cutter.step(),
        }
    }

    /// Sets the expected number of fields, once the first record is known.
    pub(super) fn expect_width(&mut self, fields: usize) {
        if let Self::Lines(cutter) = self {
            cutter.expect_width(fields);
        }
    }

    /// Start of the next record.
    pub(super) fn place(&self) -> Place {
        match self {
            Self::Lines(cutter) => cutter.place(),
            Self::Array(cutter) => cutter.place(),
        }
    }

    /// Returns true if another reader may resume at that place.
    pub(super) fn may_stop(&self) -> bool {
        match self {
            Self::Lines(_) => true,
            Self::Array(cutter) => cutter.may_stop(),
        }
    }
}
