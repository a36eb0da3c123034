//! Minimal workbooks: the parts that a reader needs, with given cells.

use std::io::{Cursor, Write as _};

use zip::{CompressionMethod, ZipWriter, write::SimpleFileOptions};

/// Builds a workbook of these sheets: name, and rows as markup. Style 1 is a date, style 2 a date with time.
pub(crate) fn workbook(sheets: &[(&str, &str)], strings: &[&str]) -> Vec<u8> {
    let numbered = || sheets.iter().enumerate().map(|(at, sheet)| (at + 1, sheet));
    let list: String =
        numbered().map(|(n, (name, _))| format!("<sheet name=\"{name}\" sheetId=\"{n}\" r:id=\"r{n}\"/>")).collect();
    let kind = "http://schemas.openxmlformats.org/officeDocument/2006/relationships";
    let related: String = numbered()
        .map(|(n, _)| {
            format!("<Relationship Id=\"r{n}\" Type=\"{kind}/worksheet\" Target=\"worksheets/sheet{n}.xml\"/>")
        })
        .collect();
    let strings: String = strings.iter().map(|text| format!("<si><t>{text}</t></si>")).collect();
    let package = "http://schemas.openxmlformats.org/package/2006";
    let main = "xmlns=\"http://schemas.openxmlformats.org/spreadsheetml/2006/main\"";
    let mut parts = vec![
        ("[Content_Types].xml".to_owned(), format!("<Types xmlns=\"{package}/content-types\"/>")),
        (
            "_rels/.rels".to_owned(),
            format!(
                "<Relationships xmlns=\"{package}/relationships\"><Relationship Id=\"r1\" \
                 Type=\"{kind}/officeDocument\" Target=\"xl/workbook.xml\"/></Relationships>"
            ),
        ),
        (
            "xl/workbook.xml".to_owned(),
            format!("<workbook {main} xmlns:r=\"{kind}\"><sheets>{list}</sheets></workbook>"),
        ),
        (
            "xl/_rels/workbook.xml.rels".to_owned(),
            format!("<Relationships xmlns=\"{package}/relationships\">{related}</Relationships>"),
        ),
        (
            "xl/styles.xml".to_owned(),
            format!(
                "<styleSheet {main}><cellXfs count=\"3\"><xf numFmtId=\"0\"/><xf numFmtId=\"14\"/>\
                 <xf numFmtId=\"22\"/></cellXfs></styleSheet>"
            ),
        ),
        ("xl/sharedStrings.xml".to_owned(), format!("<sst {main}>{strings}</sst>")),
    ];
    for (n, (_, rows)) in numbered() {
        let sheet = format!("<worksheet {main}><sheetData>{rows}</sheetData></worksheet>");
        parts.push((format!("xl/worksheets/sheet{n}.xml"), sheet));
    }
    archive(&parts)
}

/// Builds a ZIP archive of these parts.
pub(crate) fn archive(parts: &[(String, String)]) -> Vec<u8> {
    let options = SimpleFileOptions::default().compression_method(CompressionMethod::Deflated);
    let mut archive = ZipWriter::new(Cursor::new(Vec::new()));
    for (name, content) in parts {
        archive.start_file(name.as_str(), options).expect("a part");
        archive.write_all(content.as_bytes()).expect("its content");
    }
    archive.finish().expect("an archive").into_inner()
}
