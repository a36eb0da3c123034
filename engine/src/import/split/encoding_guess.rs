//! Guesses the encoding of a file without a byte order mark from its first lines.
//!
//! The encodings that a guess has to tell apart are those that spreadsheets and older programs write: UTF-8, UTF-16, and
//! one byte for each letter, such as Windows-1252.

use chardetng::{EncodingDetector, Iso2022JpDetection, Utf8Detection};
use encoding_rs::{ISO_8859_15, WINDOWS_1252};

use super::{Encoding, head::SAMPLE};

/// Euro sign in ISO-8859-15; in Windows-1252 the general currency sign, which nobody writes.
const EURO: u8 = 0xA4;

/// Guesses the encoding of the first lines of a text.
///
/// If no line needs UTF-8, even a single line decides that is not UTF-8 but makes sense in Windows-1252. Otherwise the
/// text is UTF-8 unless more lines violate it than use it, and either `header`, the first line, is among them or they
/// are at least two and one in a hundred: a few broken rows are just broken rows. So are lines with only the bytes FE and
/// FF besides ASCII: damage, not letters.
pub(super) fn guess(sample: &[u8], header: bool) -> Encoding {
    if let Some(encoding) = unmarked_utf16(sample) {
        return encoding;
    }
    let lines = Lines::of(sample, header);
    let is_text = lines.good == 0 && lines.bad > 0 && lines.bad == lines.plausible;
    let is_majority = lines.bad > lines.good && (lines.is_first_bad || lines.bad >= 2 && lines.bad * 100 >= lines.all);
    if is_text || is_majority { legacy(sample) } else { Encoding::Utf8 }
}

/// Number of lines by their bytes.
#[derive(Debug, Default)]
struct Lines {
    all: usize,
    /// With UTF-8 outside ASCII.
    good: usize,
    /// Not UTF-8.
    bad: usize,
    /// Not UTF-8, but text in Windows-1252.
    plausible: usize,
    is_first_bad: bool,
}

impl Lines {
    fn of(sample: &[u8], header: bool) -> Self {
        let mut lines = Self::default();
        let is_cut = sample.len() + 3 >= SAMPLE;
        for line in sample.split(|&byte| byte == b'\n').filter(|line| !line.is_empty()) {
            lines.all += 1;
            match std::str::from_utf8(line) {
                Ok(text) => lines.good += usize::from(!text.is_ascii()),
                // The sample may end within a character. If the file ends there, it may be a letter of Windows-1252.
                Err(error)
                    if error.error_len().is_none()
                        && line.as_ptr_range().end == sample.as_ptr_range().end
                        && (is_cut || lines.good > 0 || !is_windows_text(line)) => {}
                Err(_) if line.iter().all(|byte| byte.is_ascii() || *byte >= 0xFE) => {}
                Err(_) => {
                    lines.bad += 1;
                    lines.plausible += usize::from(is_windows_text(line));
                    lines.is_first_bad |= header && lines.all == 1;
                }
            }
        }
        lines
    }
}

/// Role of a byte in Windows-1252.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Role {
    Upper,
    Lower,
    Sign,
    Unassigned,
}

impl Role {
    const fn of(byte: u8) -> Self {
        match byte {
            b'A'..=b'Z' | 0x8A | 0x8C | 0x8E | 0x9F | 0xC0..=0xD6 | 0xD8..=0xDE => Self::Upper,
            b'a'..=b'z' | 0x9A | 0x9C | 0x9E | 0xDF..=0xF6 | 0xF8..=0xFF => Self::Lower,
            0x81 | 0x8D | 0x8F | 0x90 | 0x9D => Self::Unassigned,
            _ => Self::Sign,
        }
    }

    const fn is_alphabetic(self) -> bool {
        matches!(self, Self::Upper | Self::Lower)
    }
}

/// Bytes outside ASCII, each with the roles of its neighbors.
fn beyond_ascii(text: &[u8]) -> impl Iterator<Item = (u8, Role, Role)> {
    let role =
        |index: Option<usize>| index.and_then(|index| text.get(index)).map_or(Role::Sign, |byte| Role::of(*byte));
    let others = text.iter().enumerate().filter(|(_, byte)| !byte.is_ascii());
    others.map(move |(index, byte)| (*byte, role(index.checked_sub(1)), role(Some(index + 1))))
}

/// Returns true if a line makes sense in Windows-1252: every byte is assigned, and letters stand where letters stand.
/// The bytes that begin most letters of UTF-8 need letters beside them: otherwise they are the rest of a broken one.
fn is_windows_text(line: &[u8]) -> bool {
    beyond_ascii(line).all(|(byte, before, after)| match (byte, Role::of(byte)) {
        (_, Role::Unassigned) => false,
        (0xC2 | 0xC3, _) => before != Role::Lower && after == Role::Upper,
        (0xE2, _) => before.is_alphabetic() || after.is_alphabetic(),
        (_, Role::Upper) => before != Role::Lower && (before != Role::Upper || after != Role::Lower),
        _ => true,
    })
}

/// Encoding with other letters than UTF-8 that fits the text best.
fn legacy(sample: &[u8]) -> Encoding {
    // Signs alone, such as in "£ 5", say nothing about the letters.
    let is_signs = beyond_ascii(sample)
        .all(|(byte, before, after)| Role::of(byte) == Role::Sign && !before.is_alphabetic() && !after.is_alphabetic());
    let guessed = if is_signs {
        WINDOWS_1252
    } else {
        let mut detector = EncodingDetector::new(Iso2022JpDetection::Deny);
        detector.feed(sample, false);
        detector.guess(None, Utf8Detection::Deny)
    };
    match Encoding::of(guessed) {
        Encoding::Legacy(found) if found != WINDOWS_1252 => Encoding::Legacy(found),
        _ if sample.contains(&EURO) && !sample.iter().any(|byte| matches!(byte, 0x80..=0x9F)) => {
            Encoding::Legacy(ISO_8859_15)
        }
        _ => Encoding::Legacy(WINDOWS_1252),
    }
}

/// Detects UTF-16 without a byte order mark: one half of most units is zero, always the same one, and lines end in
/// whole units. A NUL in a text of single bytes does not make it UTF-16.
pub(super) fn unmarked_utf16(sample: &[u8]) -> Option<Encoding> {
    let (mut units, mut little, mut big) = (0, Half::default(), Half::default());
    for unit in sample.chunks_exact(2) {
        units += 1;
        match *unit {
            [byte, 0] if byte != 0 => little.count(byte),
            [0, byte] if byte != 0 => big.count(byte),
            _ => {}
        }
    }
    let line_ends = sample.iter().filter(|byte| is_line_end(**byte)).count();
    let is_utf16 = |this: &Half, other: &Half| {
        this.ascii > 4 * other.ascii
            && this.line_ends * 10 >= line_ends * 9
            && this.ascii * if line_ends > 0 { 10 } else { 2 } > units
    };
    if is_utf16(&little, &big) { Some(Encoding::Utf16Le) } else { is_utf16(&big, &little).then_some(Encoding::Utf16Be) }
}

/// Units of UTF-16 in one byte order.
#[derive(Debug, Default)]
struct Half {
    /// With only a lower byte.
    ascii: usize,
    line_ends: usize,
}

impl Half {
    fn count(&mut self, byte: u8) {
        self.ascii += 1;
        self.line_ends += usize::from(is_line_end(byte));
    }
}

const fn is_line_end(byte: u8) -> bool {
    matches!(byte, b'\r' | b'\n')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn windows(text: &str) -> Vec<u8> {
        WINDOWS_1252.encode(text).0.into_owned()
    }

    #[test]
    fn letters_of_a_short_file_are_those_of_its_encoding() {
        // As Excel writes files in large parts of Europe: letters in the header, in many rows, in one.
        for text in [
            "Straße;Ort\n1;2\n",
            "name;city\nMüller;Köln\nJäger;Bonn\nRoth;Bern\n",
            "name\nMüller\nRoth\n",
            "name\r\nMüller\r\n",
            "n,m\n1,MÜLLER",
            "name\nJosé",
            "a\n1\nà Paris\n",
            "Betrag\n5 €\n",
            "amount\n£5\n",
            "Temperatur\n20 °C\n",
            "name\nSÃO\n",
        ] {
            assert_eq!(guess(&windows(text), true), Encoding::Legacy(WINDOWS_1252), "{text:?}");
        }
        assert_eq!(guess(&windows("Straße\nWeg\n"), false), Encoding::Legacy(WINDOWS_1252), "lines of text");
        let long = [windows("name\nMüller\n"), b"Roth\n".repeat(1_000)].concat();
        assert_eq!(guess(&long, true), Encoding::Legacy(WINDOWS_1252), "one of a thousand rows");
        for text in ["name;sum\nMüller;5 €\n", "sum\n5 €\n"] {
            assert_eq!(guess(&ISO_8859_15.encode(text).0, true), Encoding::Legacy(ISO_8859_15), "{text:?}");
        }
        assert_eq!(guess(b"name\n\xCC\xEE\xF1\xEA\xE2\xE0\n", true).name(), "windows-1251");
    }

    #[test]
    fn a_few_broken_rows_do_not_make_another_encoding() {
        let long = [windows("Müller\nMüller\n"), "Jäger\nJäger\nRoth\n".repeat(1_000).into_bytes()].concat();
        let mixed = [windows("n\nMüller\n"), "Jäger\n".into()].concat();
        for broken in [
            long.as_slice(),
            &mixed,
            "näme\nMüller\n".as_bytes(),
            // The sample ends within a character; letters that are cut off; bytes of none.
            b"name\nM\xC3\xBCller\nJ\xC3",
            b"name\nJ\xC3",
            b"name\nJ\xC3ger\n",
            b"name\n\xC3ger\n",
            b"name\n5 \xE2\x82 each\n",
            b"name\n5 \xC3( each\n",
            b"name\n\x9D\n",
            b"na\xFFme\n1\n",
            b"",
        ] {
            assert_eq!(guess(broken, true), Encoding::Utf8, "{:?}", String::from_utf8_lossy(broken));
        }
        let cut = [b"a\n".repeat(SAMPLE / 2).as_slice(), b"\xC4"].concat();
        assert_eq!(guess(&cut, true), Encoding::Utf8, "the letter goes on after the sample");
    }

    #[test]
    fn utf16_is_known_without_a_mark() {
        for text in ["name;sum\r\nMüller;5 €\r\n", "a\n1", "ab", "имя;n\nАнна;5\nИван;6\n", "n\n一\nab\n"]
        {
            let (little, big): (Vec<_>, Vec<_>) =
                text.encode_utf16().map(|unit| (unit.to_le_bytes(), unit.to_be_bytes())).unzip();
            assert_eq!(guess(&little.concat(), true), Encoding::Utf16Le, "{text:?}");
            assert_eq!(guess(&big.concat(), true), Encoding::Utf16Be, "{text:?}");
        }
        for text in ["", "a", "a,b\n1,\0\n", "a\n\0\n", "a,b\n\0,\0\n", "a\0\n1\0\n\n2\n", "\0\0\0\0"] {
            assert_eq!(unmarked_utf16(text.as_bytes()), None, "{text:?}");
        }
    }
}
