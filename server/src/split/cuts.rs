//! The way of cutting that a format asks for.

use domain::upload::UploadFormat;

use super::{
    Encoding, Place,
    array::ArrayCutter,
    cut::{Cutter, Grammar, Step},
};

/// Bytes in, records out.
#[derive(Debug)]
pub(super) enum Cuts {
    Lines(Cutter),
    Array(ArrayCutter),
}

impl Cuts {
    /// Cuts what begins at `place`. `width`: how many fields a row of CSV should have, once known.
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
            // A workbook is read from the lines that were made of it.
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

    /// There is no more.
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

    /// How many fields a row should have; known once the first record has been seen.
    pub(super) fn expect_width(&mut self, fields: usize) {
        if let Self::Lines(cutter) = self {
            cutter.expect_width(fields);
        }
    }

    /// Where the next record begins.
    pub(super) fn place(&self) -> Place {
        match self {
            Self::Lines(cutter) => cutter.place(),
            Self::Array(cutter) => cutter.place(),
        }
    }

    /// Whether another reader may go on at that place.
    pub(super) fn may_stop(&self) -> bool {
        match self {
            Self::Lines(_) => true,
            Self::Array(cutter) => cutter.may_stop(),
        }
    }
}
