//! Reader of the rows of a file from any boundary.

use bytes::Bytes;
use futures::{Stream, StreamExt};

use super::{
    Head, Place,
    format_cutters::FormatCutter,
    record_cutter::Step,
    row::{CellTexts, ColumnRule, Row, RowMaker},
};

/// Conversion rules of rows.
#[derive(Clone, Debug)]
pub struct Rules {
    /// Expectations of the columns of the payload by schema, in order; missing ones are text.
    pub column_rules: Vec<ColumnRule>,
    /// Maximum bytes of a payload.
    pub payload_limit: usize,
}

impl Rules {
    /// Expectations of a column of the payload.
    pub(super) fn column(&self, place: usize) -> ColumnRule {
        self.column_rules.get(place).copied().unwrap_or_default()
    }
}

/// Reads rows from a byte stream that starts at a boundary of the file.
#[derive(Debug)]
pub struct Reader<S> {
    source: S,
    cutter: FormatCutter,
    maker: RowMaker,
}

impl<S, E> Reader<S>
where
    S: Stream<Item = Result<Bytes, E>> + Unpin,
{
    /// `source` starts at `place`, which is `head.first` or the end of a row read before.
    pub fn new(source: S, head: Head, place: Place, rules: Rules) -> Self {
        let delimiter = head.delimiter.and_then(|c| u8::try_from(c).ok()).unwrap_or(b',');
        let cutter = FormatCutter::new(head.format, head.encoding, delimiter, Some(head.width), place);
        Self { source, cutter, maker: RowMaker::new(head, rules) }
    }

    /// Keeps the cells of each row as text for people; long ones are shortened.
    #[must_use]
    pub fn with_cells(mut self) -> Self {
        self.maker.cell_texts = CellTexts::Short;
        self
    }

    /// Keeps the cells of each row as text for a file that is read by the same mapping.
    #[must_use]
    pub fn with_whole_cells(mut self) -> Self {
        self.maker.cell_texts = CellTexts::Whole;
        self
    }

    /// Reads the next row; `None` at the end of the file.
    pub async fn next(&mut self) -> Result<Option<Row>, E> {
        loop {
            match self.cutter.step() {
                Step::Record(cut) => return Ok(Some(self.maker.make(&cut))),
                Step::End => return Ok(None),
                Step::Starved => match self.source.next().await {
                    Some(piece) => self.cutter.feed(&piece?),
                    None => self.cutter.end(),
                },
            }
        }
    }

    /// Returns true if another reader may resume here: false briefly at the end of an array or a file.
    pub fn may_stop(&self) -> bool {
        self.cutter.may_stop()
    }

    /// Start of the next row.
    pub fn place(&self) -> Place {
        self.cutter.place()
    }
}
