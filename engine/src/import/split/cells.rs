//! Cells of one CSV record.
//!
//! Quotes have the same meaning as in `scan`: a quote opens a cell only at its very start, two inside quotes are one,
//! and a quote in the middle of an unquoted cell is literal.

use std::borrow::Cow;

use super::Encoding;

/// Cells of a record, each at least partly readable.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Cells {
    pub(super) texts: Vec<String>,
    /// First cell (from 0) with undecodable bytes, and their description.
    pub(super) unreadable: Option<(usize, &'static str)>,
    /// First cell (from 0) with text after its closing quote.
    pub(super) tail: Option<usize>,
}

/// Reads at most `most` cells of a record without its line end.
pub(super) fn read_cells(raw: &[u8], encoding: Encoding, delimiter: u8, most: usize) -> Cells {
    let bytes = to_utf8(raw, encoding);
    let mut cells = Cells::default();
    let mut at = 0;
    loop {
        let place = cells.texts.len();
        if place == most {
            return cells;
        }
        let cell = read_cell(&bytes[at..], delimiter);
        if cell.has_tail {
            cells.tail.get_or_insert(place);
        }
        let (text, fault) = to_text(cell.bytes, encoding);
        if let Some(what) = fault {
            cells.unreadable.get_or_insert((place, what));
        }
        cells.texts.push(text);
        at += cell.length;
        if at >= bytes.len() {
            return cells;
        }
        // Skip the delimiter; a cell, possibly empty, follows.
        at += 1;
    }
}

struct Cell {
    bytes: Vec<u8>,
    /// Length in the record, without the delimiter.
    length: usize,
    has_tail: bool,
}

fn read_cell(bytes: &[u8], delimiter: u8) -> Cell {
    let plain_end = |from: usize| bytes[from..].iter().position(|&b| b == delimiter).map_or(bytes.len(), |n| from + n);
    if bytes.first() != Some(&b'"') {
        let end = plain_end(0);
        return Cell { bytes: bytes[..end].to_vec(), length: end, has_tail: false };
    }
    let mut content = Vec::new();
    let mut at = 1;
    loop {
        let Some(quote) = bytes[at..].iter().position(|&b| b == b'"').map(|n| at + n) else {
            content.extend_from_slice(&bytes[at..]);
            return Cell { bytes: content, length: bytes.len(), has_tail: false };
        };
        content.extend_from_slice(&bytes[at..quote]);
        if bytes.get(quote + 1) != Some(&b'"') {
            let end = plain_end(quote + 1);
            let tail = &bytes[quote + 1..end];
            content.extend_from_slice(tail);
            return Cell { bytes: content, length: end, has_tail: !tail.is_empty() };
        }
        content.push(b'"');
        at = quote + 2;
    }
}

/// Byte that never occurs in UTF-8: marks undecodable input.
const BROKEN: u8 = 0xFF;

/// Converts to UTF-8, with [`BROKEN`] for undecodable input. UTF-8 is unchanged.
fn to_utf8(raw: &[u8], encoding: Encoding) -> Cow<'_, [u8]> {
    let unit: fn([u8; 2]) -> u16 = match encoding {
        Encoding::Utf8 => return raw.into(),
        Encoding::Legacy(encoding) => return from_legacy(raw, encoding),
        Encoding::Utf16Le => u16::from_le_bytes,
        Encoding::Utf16Be => u16::from_be_bytes,
    };
    let (pairs, odd) = raw.as_chunks::<2>();
    let mut bytes = Vec::with_capacity(raw.len() / 2);
    for decoded in char::decode_utf16(pairs.iter().map(|pair| unit(*pair))) {
        match decoded {
            Ok(char) => bytes.extend_from_slice(char.encode_utf8(&mut [0; 4]).as_bytes()),
            Err(_) => bytes.push(BROKEN),
        }
    }
    if !odd.is_empty() {
        bytes.push(BROKEN);
    }
    bytes.into()
}

fn from_legacy<'a>(raw: &'a [u8], encoding: &'static encoding_rs::Encoding) -> Cow<'a, [u8]> {
    match encoding.decode_without_bom_handling(raw) {
        (Cow::Borrowed(text), _) => text.as_bytes().into(),
        (Cow::Owned(text), false) => text.into_bytes().into(),
        (Cow::Owned(text), true) => {
            let parts: Vec<&[u8]> = text.split('\u{FFFD}').map(str::as_bytes).collect();
            parts.join(&BROKEN).into()
        }
    }
}

/// Decodes as much text as possible, with the error if any. NUL is an error: the database cannot store it.
fn to_text(bytes: Vec<u8>, encoding: Encoding) -> (String, Option<&'static str>) {
    match String::from_utf8(bytes) {
        Ok(text) if text.contains('\0') => (text.replace('\0', "\u{FFFD}"), Some("a NUL character")),
        Ok(text) => (text, None),
        Err(error) => {
            let text = String::from_utf8_lossy(error.as_bytes()).replace('\0', "\u{FFFD}");
            let what = match encoding {
                Encoding::Utf8 => "bytes that are not UTF-8",
                Encoding::Utf16Le | Encoding::Utf16Be => "half a character of UTF-16",
                Encoding::Legacy(_) => "bytes that are no characters of the encoding",
            };
            (text, Some(what))
        }
    }
}

/// Decodes a whole line, for formats without cells.
pub(super) fn read_text(raw: &[u8], encoding: Encoding) -> (String, Option<&'static str>) {
    to_text(to_utf8(raw, encoding).into_owned(), encoding)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(raw: &str) -> Cells {
        read_cells(raw.as_bytes(), Encoding::Utf8, b',', 100)
    }

    #[test]
    fn quotes_wrap_cells() {
        assert_eq!(read("a,b").texts, ["a", "b"]);
        assert_eq!(read(",").texts, ["", ""]);
        assert_eq!(
            read(
                r#""a,""b""","c
d""#
            )
            .texts,
            ["a,\"b\"", "c\nd"]
        );
        assert_eq!(read(r#"5" pipe,x"#).texts, ["5\" pipe", "x"]);
        assert_eq!(read(r#""a"b,c"#), Cells { texts: vec!["ab".into(), "c".into()], unreadable: None, tail: Some(0) });
        assert_eq!(read(r#"a,"open,b"#).texts, ["a", "open,b"]);
    }

    #[test]
    fn what_is_no_text_is_named_and_shown_in_part() {
        let broken = read_cells(b"a,caf\xE9,b", Encoding::Utf8, b',', 100);
        assert_eq!(broken.texts, ["a", "caf\u{FFFD}", "b"]);
        assert_eq!(broken.unreadable, Some((1, "bytes that are not UTF-8")));
        assert_eq!(read("a\0,b").unreadable, Some((0, "a NUL character")));
        let wide = read_cells(&[b'a', 0, b',', 0, 0x00, 0xD8, b',', 0, b'c', 0], Encoding::Utf16Le, b',', 100);
        assert_eq!(wide.texts, ["a", "\u{FFFD}", "c"]);
        assert_eq!(wide.unreadable, Some((1, "half a character of UTF-16")));
    }
}
