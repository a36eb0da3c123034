//! Files: tables, lines and arrays split into rows, and workbooks converted to lines.

use std::{
    convert::Infallible,
    io::{Cursor, Write as _},
};

use bytes::Bytes;
use domain::{Document, import::upload::UploadFormat};
use engine::import::split::{Encoding, Head, HeadError, Place, Reader, Row, Rules, Want, find_header, inspect};
use futures::executor::block_on;

type Pieces = futures::stream::Iter<std::vec::IntoIter<Result<Bytes, Infallible>>>;

fn pieces(file: &[u8], size: usize) -> Pieces {
    let pieces: Vec<_> = file.chunks(size.max(1)).map(|piece| Ok(Bytes::copy_from_slice(piece))).collect();
    futures::stream::iter(pieces)
}

/// Rows from a position on, and the positions where a reader may resume, each with the number of rows read.
fn rows(file: &[u8], head: &Head, place: Place, size: usize) -> (Vec<Row>, Vec<(usize, Place)>) {
    let source = pieces(&file[place.offset as usize..], size);
    let rules = Rules { column_rules: Vec::new(), payload_limit: 256 << 10 };
    let mut reader = Reader::new(source, head.clone(), place, rules);
    let (mut rows, mut stops) = (Vec::new(), Vec::new());
    loop {
        if reader.may_stop() {
            stops.push((rows.len(), reader.place()));
        }
        match block_on(reader.next()) {
            Ok(Some(row)) => rows.push(row),
            Ok(None) => return (rows, stops),
            Err(never) => match never {},
        }
    }
}

/// A file after three bytes of options: format, header and encoding; delimiter; size of the pieces.
pub fn split(data: &[u8]) {
    let &[flags, delimiter, size, ref file @ ..] = data else { return };
    let size = usize::from(size) + 1;
    let format =
        [UploadFormat::Csv, UploadFormat::Ndjson, UploadFormat::Json, UploadFormat::Lines][usize::from(flags % 4)];
    let delimiter = Want::delimiter(&char::from(delimiter).to_string());
    let encoding = match flags >> 6 {
        2 => Encoding::of_label("windows-1252"),
        3 => Encoding::of_label("shift_jis"),
        _ => None,
    };
    let header_row = (flags & 0b11_0000 == 0b11_0000).then(|| i64::from(flags & 8 > 0) + 1);
    let want = Want { format, header: flags & 4 == 0, header_row, delimiter, encoding };
    let header_line = block_on(find_header(pieces(file, size), want)).unwrap_or_else(|never| match never {});
    assert!(header_line.is_none_or(|line| line > 0), "{header_line:?}");
    let head = match block_on(inspect(pieces(file, size), file.len() as u64, want)) {
        Ok(head) => head,
        Err(HeadError::Refused(problem)) => {
            assert!(problem.detail.len() < 2_000, "{}", problem.detail.len());
            return;
        }
        Err(HeadError::Read(never)) => match never {},
    };
    let (whole, stops) = rows(file, &head, head.first, file.len());
    assert_eq!(rows(file, &head, head.first, size).0, whole, "in pieces of {size}");
    assert_eq!(whole.len() as i64, head.rows, "the rows that the head has counted");
    for pair in whole.windows(2) {
        assert!(pair[0].end.offset <= pair[1].begin.offset && pair[0].end.line <= pair[1].begin.line);
    }
    for row in &whole {
        // A missing part at the end of the file has no bytes.
        let is_something = row.begin.offset < row.end.offset || row.fault.is_some();
        assert!(is_something && row.begin.offset <= row.end.offset && row.end.offset <= file.len() as u64, "{row:?}");
        match &row.fault {
            None => assert!(Document::parse(row.payload.text().to_owned()).is_ok(), "{row:?}"),
            Some(fault) => assert!(fault.message().len() < 2_000, "{} bytes", fault.message().len()),
        }
    }
    // Resuming costs a pass over the rest: try only a few positions.
    for (read, place) in stops.iter().step_by(stops.len() / 8 + 1) {
        assert_eq!(rows(file, &head, *place, size).0[..], whole[*read..], "from {place:?} on");
    }
}

/// The rows of a sheet as markup, in an otherwise valid workbook.
pub fn workbook(data: &[u8]) {
    const LIMIT: u64 = 64 << 10;
    let main = "xmlns=\"http://schemas.openxmlformats.org/spreadsheetml/2006/main\"";
    let kind = "http://schemas.openxmlformats.org/officeDocument/2006/relationships";
    let package = "http://schemas.openxmlformats.org/package/2006";
    let related = format!(
        "<Relationships xmlns=\"{package}/relationships\"><Relationship Id=\"r1\" Type=\"{kind}/worksheet\" \
         Target=\"worksheets/sheet1.xml\"/></Relationships>"
    );
    let book = format!(
        "<workbook {main} xmlns:r=\"{kind}\"><sheets><sheet name=\"a\" sheetId=\"1\" r:id=\"r1\"/></sheets></workbook>"
    );
    let styles = format!(
        "<styleSheet {main}><cellXfs count=\"2\"><xf numFmtId=\"0\"/><xf numFmtId=\"22\"/></cellXfs></styleSheet>"
    );
    let strings = format!("<sst {main}><si><t>shared</t></si></sst>");
    let sheet = [format!("<worksheet {main}><sheetData>").as_bytes(), data, b"</sheetData></worksheet>"].concat();
    let mut archive = zip::ZipWriter::new(Cursor::new(Vec::new()));
    let options = zip::write::SimpleFileOptions::default().compression_method(zip::CompressionMethod::Stored);
    for (name, content) in [
        ("xl/_rels/workbook.xml.rels", related.as_bytes()),
        ("xl/workbook.xml", book.as_bytes()),
        ("xl/styles.xml", styles.as_bytes()),
        ("xl/sharedStrings.xml", strings.as_bytes()),
        ("xl/worksheets/sheet1.xml", &sheet),
    ] {
        archive.start_file(name, options).expect("a part");
        archive.write_all(content).expect("its content");
    }
    let file = archive.finish().expect("an archive").into_inner();
    let Ok(lines) = engine::import::workbook::lines_of(file, LIMIT) else { return };
    let lines = String::from_utf8(lines).expect("lines are text");
    for line in lines.lines() {
        let (number, cells) = line.split_once('\t').expect("a number, a tab, the cells");
        assert!(number.parse::<u32>().is_ok_and(|row| row > 0), "{line}");
        assert!(serde_json::from_str::<Vec<serde_json::Value>>(cells).is_ok(), "{line}");
    }
}
