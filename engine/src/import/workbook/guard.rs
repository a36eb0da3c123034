//! Check of a workbook before it is read: small files can be made to expand without limit.
//!
//! Every part that the reader keeps in memory, and every piece of a part, is measured at its actual size; the sizes
//! declared in the archive are ignored. One pass with little memory.

use std::io::{Read, Seek, SeekFrom};

use zip::ZipArchive;

/// Maximum parts of an archive.
const MOST_PARTS: u16 = 10_000;

/// Maximum bytes of one tag, or of the text between two: a cell holds 32,767 characters.
const LONGEST_TOKEN: u64 = 1 << 20;

/// Maximum bytes of one row or cell of a sheet.
const LONGEST_CELL: u64 = 4 << 20;

/// Memory of a string besides its text: its slot in a growing list, and the smallest allocation, in bytes.
const STRING: u64 = 64;

/// Limits on the contents of a workbook.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    /// Total number of rows.
    pub(super) rows: u64,
    /// Bytes in memory while sheets are read: strings, styles, names.
    memory: u64,
}

impl Limits {
    /// Limits of a workbook that is converted concurrently with larger ones.
    pub(super) const fn small(limit: u64) -> Self {
        const SMALL: u64 = 16 << 20;
        let Self { rows, memory } = Self::of(limit);
        Self { rows: if rows < SMALL { rows } else { SMALL }, memory: if memory < SMALL { memory } else { SMALL } }
    }

    /// Limits of workbooks of at most `limit` bytes.
    pub(super) const fn of(limit: u64) -> Self {
        Self { rows: limit.saturating_mul(20), memory: limit.saturating_mul(4) }
    }
}

/// Returns the error as in "is not a ZIP archive".
pub(super) fn check(file: &mut (impl Read + Seek), limits: Limits) -> Result<(), String> {
    if count_parts(file).is_none_or(|parts| parts > MOST_PARTS) {
        return Err("is no workbook, or has too many parts".to_owned());
    }
    let damaged = |error: &dyn std::fmt::Display| format!("is damaged: {error}");
    let mut archive = ZipArchive::new(file).map_err(|e| damaged(&e))?;
    let (mut in_memory, mut in_rows) = (0_u64, 0_u64);
    for at in 0..archive.len() {
        let mut part = archive.by_index(at).map_err(|e| damaged(&e))?;
        let name = part.name().map_err(|e| damaged(&e))?.to_ascii_lowercase();
        // Pictures and the like are not parsed, but a sheet may have any name.
        let is_markup = name.rsplit('.').next().is_some_and(|extension| matches!(extension, "xml" | "rels"));
        let is_sheet = is_markup
            && name.contains("worksheets/")
            && !["sharedstrings.xml", "styles.xml", "workbook.xml"].iter().any(|part| name.ends_with(part));
        let total = if is_sheet { &mut in_rows } else { &mut in_memory };
        let most = if is_sheet { limits.rows } else { limits.memory };
        let mut markup = Markup::default();
        let mut buffer = vec![0; 64 << 10];
        loop {
            let bytes = part.read(&mut buffer).map_err(|e| damaged(&e))?;
            if bytes == 0 {
                break;
            }
            *total += bytes as u64;
            if is_markup {
                let before = markup.strings;
                markup.read(&buffer[..bytes])?;
                *total += (markup.strings - before) * STRING;
            }
            if *total > most {
                return Err(format!("is larger inside than {most} bytes"));
            }
        }
        // The reader allocates space for as many strings as declared.
        if markup.announced > markup.bytes {
            return Err("is damaged: it announces more strings than it has".to_owned());
        }
    }
    Ok(())
}

/// Number of parts in the archive's end record, whose directory is read into memory at once.
fn count_parts(file: &mut (impl Read + Seek)) -> Option<u16> {
    let end = file.seek(SeekFrom::End(0)).ok()?;
    // The record has 22 bytes and a comment of at most 64 KiB after it.
    let tail = end.min((64 << 10) + 22);
    file.seek(SeekFrom::Start(end - tail)).ok()?;
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes).ok()?;
    file.rewind().ok()?;
    let at = bytes.windows(4).rposition(|four| four == b"PK\x05\x06")?;
    Some(u16::from_le_bytes([*bytes.get(at + 10)?, *bytes.get(at + 11)?]))
}

/// Position in the markup.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum ScanState {
    #[default]
    Text,
    Tag,
    /// Inside an attribute value, up to this quote.
    Quoted(u8),
    /// Comments and CDATA, up to a `>` after these two characters.
    Until([u8; 2]),
}

/// Measures tags, texts and cells.
#[derive(Debug, Default)]
struct Markup {
    bytes: u64,
    scan_state: ScanState,
    token: u64,
    /// Bytes since the start of the last row or cell.
    cell: u64,
    /// Start of the current tag.
    tag: Vec<u8>,
    in_rows: bool,
    before: [u8; 2],
    /// `uniqueCount` of a string table.
    announced: u64,
    /// Number of strings in the table.
    strings: u64,
}

impl Markup {
    fn read(&mut self, bytes: &[u8]) -> Result<(), String> {
        for &byte in bytes {
            self.bytes += 1;
            self.token += 1;
            self.cell += 1;
            self.byte(byte);
            if self.token > LONGEST_TOKEN || (self.in_rows && self.cell > LONGEST_CELL) {
                return Err("has a cell that does not end".to_owned());
            }
        }
        Ok(())
    }

    fn byte(&mut self, byte: u8) {
        match self.scan_state {
            ScanState::Text if byte == b'<' => {
                self.scan_state = ScanState::Tag;
                self.token = 0;
                self.tag.clear();
            }
            ScanState::Tag if byte == b'>' => self.end_tag(),
            ScanState::Tag => {
                // Long enough for the attributes of a string table.
                if self.tag.len() < 1_000 {
                    self.tag.push(byte);
                }
                match self.tag.as_slice() {
                    b"!--" => self.until(*b"--"),
                    b"![CDATA[" => self.until(*b"]]"),
                    _ if matches!(byte, b'"' | b'\'') => self.scan_state = ScanState::Quoted(byte),
                    _ => {}
                }
            }
            ScanState::Quoted(quote) => {
                if self.tag.len() < 1_000 {
                    self.tag.push(byte);
                }
                if byte == quote {
                    self.scan_state = ScanState::Tag;
                }
            }
            ScanState::Until(end) => {
                if byte == b'>' && self.before == end {
                    self.scan_state = ScanState::Text;
                    self.token = 0;
                }
                self.before = [self.before[1], byte];
            }
            ScanState::Text => {}
        }
    }

    fn until(&mut self, end: [u8; 2]) {
        self.scan_state = ScanState::Until(end);
        self.before = [0; 2];
    }

    fn end_tag(&mut self) {
        self.scan_state = ScanState::Text;
        self.token = 0;
        let name = self.tag.split(|byte| !byte.is_ascii_alphanumeric() && !matches!(byte, b'/' | b':')).next();
        let name = name.unwrap_or_default();
        let name = if name.len() > 1 { name.strip_suffix(b"/").unwrap_or(name) } else { name };
        // Names may have a prefix.
        let is_end = name.starts_with(b"/");
        let local = name.rsplit(|&byte| matches!(byte, b':' | b'/')).next().unwrap_or_default();
        match local {
            b"c" | b"row" => self.cell = 0,
            b"sheetData" => (self.in_rows, self.cell) = (!is_end, 0),
            b"si" if !is_end => self.strings += 1,
            b"sst" if !is_end => self.announced = announced(&self.tag),
            _ => {}
        }
    }
}

/// Value of `uniqueCount`; 0 if it is not a number.
fn announced(tag: &[u8]) -> u64 {
    let text = String::from_utf8_lossy(tag);
    let Some((_, behind)) = text.split_once("uniqueCount") else { return 0 };
    let digits: String =
        behind.chars().skip_while(|c| !c.is_ascii_digit()).take_while(char::is_ascii_digit).take(20).collect();
    digits.parse().unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn markup(text: &str) -> Result<Markup, String> {
        let mut markup = Markup::default();
        markup.read(text.as_bytes()).map(|()| markup)
    }

    #[test]
    fn unterminated_markup_is_refused() {
        let long = "x".repeat(2 << 20);
        for endless in [
            format!("<a>{long}"),
            format!("<a b=\"{}\"/>", "<>".repeat(1 << 20)),
            format!("<!-- {} -->", "<b>".repeat(1 << 20)),
            format!("<a><![CDATA[{}]]>", "<b>".repeat(1 << 20)),
            format!("<sheetData><row><c>{}", "<t>text</t>".repeat(1 << 19)),
        ] {
            assert!(markup(&endless).is_err(), "{}", &endless[..30]);
        }
        markup(&format!("<sheetData>{}</sheetData>", "<row><c><v>1</v></c></row>".repeat(1 << 19))).expect("cells");
        markup(&format!("<mergeCells>{}</mergeCells>", "<mergeCell ref='A1'/>".repeat(1 << 19))).expect("others");
    }

    #[test]
    fn strings_that_are_announced_are_counted() {
        assert_eq!(markup("<sst count='1' uniqueCount=\"18446744073709551615\">").expect("fine").announced, u64::MAX);
        assert_eq!(markup("<x:sst uniqueCount = '12'>").expect("fine").announced, 12);
        assert_eq!(markup("<sst>").expect("fine").announced, 0);
        assert_eq!(markup("<sst><si><t>a</t></si><x:si/></sst>").expect("fine").strings, 2);
    }
}
