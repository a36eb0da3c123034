//! Check of a workbook before it is read: small files can be made to expand without limit.
//!
//! Every part that the reader keeps in memory, and every piece of a part, is measured at its actual size; the sizes
//! declared in the archive are ignored. What the reader copies (the names of fonts into every style, the path of a sheet
//! into its entry) is counted as often as it can be copied. One pass with little memory.
//!
//! The markup is read as the reader does (quick-xml), so that no tag is seen by one and not by the other. What would make
//! them differ, such as a DTD or an encoding with escapes, is refused.

mod markup;

use std::{
    cell::Cell,
    io::{self, Read, Seek, SeekFrom},
};

use zip::ZipArchive;

use markup::{Markup, Part, Retained};

/// Maximum parts of an archive.
const MOST_PARTS: u16 = 10_000;

/// Parts that the reader keeps in memory, wherever they are.
const IN_MEMORY: [&str; 4] = ["sharedstrings.xml", "styles.xml", "workbook.xml", "theme1.xml"];

/// Limits on the contents of a workbook.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    /// Total number of rows.
    pub(super) rows: u64,
    /// Bytes in memory while sheets are read: strings, styles, names.
    pub(super) memory: u64,
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

/// Folders of parts that the reader does not open. They may have any markup, such as UTF-16 in the parts of Power Query.
const UNREAD: [&str; 9] = [
    "customxml/",
    "diagrams/",
    "docprops/",
    "drawings/",
    "externallinks/",
    "pivotcache/",
    "pivottables/",
    "webextensions/",
    "_xmlsignatures/",
];

/// Most bytes of the directory of an archive: 10,000 parts need one or two million.
const LONGEST_DIRECTORY: u64 = 8 << 20;

/// File of which only so many bytes can be read until `left` is set again.
struct Bounded<'a, F> {
    file: &'a mut F,
    left: &'a Cell<u64>,
}

impl<F: Read> Read for Bounded<'_, F> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let bytes = self.file.read(buffer)?;
        let left = self.left.get().checked_sub(bytes as u64);
        self.left.set(left.ok_or_else(|| io::Error::other("its directory is too long"))?);
        Ok(bytes)
    }
}

impl<F: Seek> Seek for Bounded<'_, F> {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        self.file.seek(to)
    }
}

fn kind_of(name: &str, extension: &str) -> Part {
    match extension {
        _ if IN_MEMORY.iter().any(|part| name.ends_with(part)) => Part::Other,
        "xml" if name.contains("worksheets/") => Part::Sheet,
        "rels" if name.contains("worksheets/_rels/") => Part::LinksOfSheet,
        _ => Part::Other,
    }
}

/// Refuses a workbook that would need more. The error is a predicate: "is not a ZIP archive".
pub(super) fn check(file: &mut (impl Read + Seek), limits: Limits) -> Result<(), String> {
    if count_parts(file).is_none_or(|parts| parts > MOST_PARTS) {
        return Err("is no workbook, or has too many parts".to_owned());
    }
    let damaged = |error: &dyn std::fmt::Display| format!("is damaged: {error}");
    let left = Cell::new(LONGEST_DIRECTORY);
    let mut archive = ZipArchive::new(Bounded { file, left: &left }).map_err(|e| damaged(&e))?;
    left.set(u64::MAX);
    if archive.len() > usize::from(MOST_PARTS) {
        return Err("has too many parts".to_owned());
    }
    let (mut in_memory, mut in_rows, mut retained) = (0_u64, 0_u64, Retained::default());
    for at in 0..archive.len() {
        let mut part = archive.by_index(at).map_err(|e| damaged(&e))?;
        let name = part.name().map_err(|e| damaged(&e))?.to_ascii_lowercase();
        if name.ends_with("xl/workbook.bin") {
            return Err("is a binary workbook (XLSB); save it as XLSX".to_owned());
        }
        // Pictures and the like are not parsed, but a sheet may have any name that ends in .xml.
        let extension = name.rsplit('.').next().unwrap_or_default();
        let is_unread = UNREAD.iter().any(|folder| name.starts_with(folder) || name.contains(&format!("/{folder}")));
        let is_markup = matches!(extension, "xml" | "rels") && !is_unread;
        let kind = kind_of(&name, extension);
        let is_in_memory = is_markup && kind != Part::Sheet;
        let total = if is_in_memory { &mut in_memory } else { &mut in_rows };
        let most = if is_in_memory { limits.memory } else { limits.rows };
        let mut markup = Markup::of(kind);
        let mut buffer = vec![0; 64 << 10];
        loop {
            let bytes = part.read(&mut buffer).map_err(|e| damaged(&e))?;
            if bytes == 0 {
                break;
            }
            *total += bytes as u64;
            if *total > most {
                return Err(format!("is larger inside than {most} bytes"));
            }
            if is_markup {
                markup.read(&buffer[..bytes], &mut retained)?;
            }
            if retained.bytes() > limits.memory {
                return Err(format!("needs more memory than {} bytes", limits.memory));
            }
        }
        if is_markup {
            markup.end()?;
        }
    }
    if in_memory + retained.bytes() > limits.memory {
        return Err(format!("needs more memory than {} bytes", limits.memory));
    }
    Ok(())
}

/// Number of parts in the archive's end record, whose directory is read into memory at once. `None` for another file, and for
/// an archive with the larger records that only files beyond every limit need.
fn count_parts(file: &mut (impl Read + Seek)) -> Option<u16> {
    let mut begin = [0; 2];
    file.rewind().ok()?;
    file.read_exact(&mut begin).ok()?;
    let end = file.seek(SeekFrom::End(0)).ok()?;
    // The record has 22 bytes and a comment of at most 64 KiB after it.
    let tail = end.min((64 << 10) + 22);
    file.seek(SeekFrom::Start(end - tail)).ok()?;
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes).ok()?;
    file.rewind().ok()?;
    let record = bytes.get(bytes.windows(4).rposition(|four| four == b"PK\x05\x06")?..)?;
    let is_beyond = |field: std::ops::Range<usize>| record.get(field).is_none_or(|bytes| bytes == [0xFF; 4]);
    if begin != *b"PK" || is_beyond(12..16) || is_beyond(16..20) {
        return None;
    }
    Some(u16::from_le_bytes([record[10], record[11]]))
}
