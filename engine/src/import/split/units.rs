//! Code units: representation of the relevant ASCII characters in each encoding.

use super::Encoding;

/// Code unit of an encoding.
pub(super) trait Unit {
    const BYTES: usize;
    /// Reads a unit; `bytes` holds at least one.
    fn read(bytes: &[u8]) -> u16;
}

pub(super) struct Utf8;
impl Unit for Utf8 {
    const BYTES: usize = 1;
    fn read(bytes: &[u8]) -> u16 {
        u16::from(bytes[0])
    }
}

pub(super) struct Utf16Le;
impl Unit for Utf16Le {
    const BYTES: usize = 2;
    fn read(bytes: &[u8]) -> u16 {
        u16::from_le_bytes([bytes[0], bytes[1]])
    }
}

pub(super) struct Utf16Be;
impl Unit for Utf16Be {
    const BYTES: usize = 2;
    fn read(bytes: &[u8]) -> u16 {
        u16::from_be_bytes([bytes[0], bytes[1]])
    }
}

pub(super) const QUOTE: u16 = b'"' as u16;
pub(super) const CR: u16 = b'\r' as u16;
pub(super) const LF: u16 = b'\n' as u16;

/// Number of line ends within the bytes.
pub(super) fn count_lines(encoding: Encoding, raw: &[u8]) -> u64 {
    fn count<U: Unit>(raw: &[u8]) -> u64 {
        let mut after_cr = false;
        let mut lines = 0;
        for unit in raw.chunks_exact(U::BYTES).map(U::read) {
            lines += u64::from(unit == CR || (unit == LF && !after_cr));
            after_cr = unit == CR;
        }
        lines
    }
    match encoding {
        Encoding::Utf8 | Encoding::Legacy(_) => count::<Utf8>(raw),
        Encoding::Utf16Le => count::<Utf16Le>(raw),
        Encoding::Utf16Be => count::<Utf16Be>(raw),
    }
}
