//! First line `sep=;` of a CSV file, which spreadsheet programs write and read: it names the delimiter and is neither a
//! header nor a row.

use super::{
    Encoding, Place,
    head::Want,
    units::{CR, LF, Unit, Utf8, Utf16Be, Utf16Le},
};

/// Characters of the longest such line, with its end.
const LONGEST: usize = "sep=;\r\n".len();

/// Delimiter that the line at `start` names, and the place after the line.
pub(super) fn named_delimiter(sample: &[u8], encoding: Encoding, start: Place) -> Option<(char, Place)> {
    let rest = sample.get(start.offset as usize..)?;
    match encoding {
        Encoding::Utf8 | Encoding::Legacy(_) => read::<Utf8>(rest, start),
        Encoding::Utf16Le => read::<Utf16Le>(rest, start),
        Encoding::Utf16Be => read::<Utf16Be>(rest, start),
    }
}

fn read<U: Unit>(rest: &[u8], start: Place) -> Option<(char, Place)> {
    let units: Vec<u16> = rest.chunks_exact(U::BYTES).take(LONGEST).map(U::read).collect();
    let text = String::from_utf16_lossy(units.get(..5)?);
    let delimiter = Want::delimiter(text.strip_prefix("sep=").or_else(|| text.strip_prefix("SEP="))?)?;
    let end = match units[5..] {
        [CR, LF] => 7,
        [CR | LF, ..] => 6,
        _ => return None,
    };
    Some((delimiter, Place { offset: start.offset + (end * U::BYTES) as u64, line: start.line + 1 }))
}
