//! Lines of text, and converted workbooks.

use super::*;

const TEXT: Want =
    Want { format: UploadFormat::Lines, header: true, header_row: None, delimiter: None, encoding: None };
const SHEET: Want =
    Want { format: UploadFormat::Xlsx, header: true, header_row: None, delimiter: None, encoding: None };

#[test]
fn each_line_is_a_string() {
    let file = "one, \"two\"\r\n\n  three \nv\u{e9}r";
    let expected = [(1, r#""one, \"two\"""#), (3, r#""  three ""#), (4, "\"vér\"")];
    assert_eq!(brief(file.as_bytes(), TEXT), expected.map(|(line, text)| (line, text.to_owned())));
    assert_eq!(brief(&utf16(file, true), TEXT)[2].1, "\"vér\"");
    assert_eq!(brief(b"a\xFF\nb", TEXT), [(1, "bad_encoding 2".to_owned()), (2, "\"b\"".to_owned())]);
    assert_eq!(refusal(b" \n\n", TEXT).0, Code::NoRows);
}

#[test]
fn cells_of_a_sheet_keep_their_types() {
    let file = "3\t[\"id\",\"ok\",7,null]\n4\t[1.5,true,\"x\"]\n9\t[2]\n12\t[1,false,\"y\",\"z\"]\n";
    let expected =
        [(4, r#"{"id":1.5,"ok":true,"7":"x"}"#), (9, r#"{"id":2,"ok":null,"7":null}"#), (12, "too_many_fields 4")];
    assert_eq!(brief(file.as_bytes(), SHEET), expected.map(|(line, text)| (line, text.to_owned())));
    assert_eq!(head(file.as_bytes(), SHEET).rows, 3);
    let bare = Want { header: false, ..SHEET };
    assert_eq!(brief(b"2\t[1,null,\"a\"]\n", bare), [(2, r#"[1,null,"a"]"#.to_owned())]);
    for bad in [&b"1\t[\"a\",null,\"b\"]\n2\t[1]\n"[..], b"1\t[\"a\",\"a\"]\n2\t[1]\n"] {
        assert_eq!(refusal(bad, SHEET).0, Code::BadHeader);
    }
    assert_eq!(refusal(b"1\t[\"a\"]\n", SHEET).0, Code::NoRows);
}

#[test]
fn errors_of_a_sheet_are_no_values() {
    let file = "1\t[\"id\",{\"error\":\"#REF!\"}]\n2\t[1,{\"error\":\"#N/A\"}]\n3\t[2,\"#N/A\"]\n";
    let expected = [(2, "invalid_row 2"), (3, r##"{"id":2,"#REF!":"#N/A"}"##)];
    assert_eq!(brief(file.as_bytes(), SHEET), expected.map(|(line, text)| (line, text.to_owned())));
    let row = &rows(file.as_bytes(), SHEET)[0];
    let message = row.fault.as_ref().map(super::super::Fault::message);
    let expected = "Line 2, column 2 (#REF!): expected a value, found the error #N/A.";
    assert_eq!((message.as_deref(), row.payload.text()), (Some(expected), r##"{"id":1,"#REF!":"#N/A"}"##));
    // In a column that a mapping drops, it does not matter.
    let mapping = serde_json::from_str(r#"{"columns":[{"from":"id","to":"n"}]}"#).expect("a mapping");
    let mapped = head(file.as_bytes(), SHEET).with_mapping(mapping).expect("columns of the file");
    assert_eq!(rows_from(file.as_bytes(), &mapped, mapped.first, 9)[0].payload.text(), r#"{"n":1}"#);
}

#[test]
fn a_faulty_row_is_shortened_only_if_it_is_too_large() {
    let long = "x".repeat(100 << 10);
    let file = format!("1\t[\"a\",\"b\"]\n2\t[1,\"{long}\",3]\n");
    let row = &rows(file.as_bytes(), SHEET)[0];
    assert_eq!(row.payload.text(), format!("{{\"a\":1,\"b\":\"{long}\"}}"));
    let file = format!("1\t[\"a\",\"b\"]\n2\t[1,\"{}\"]\n", long.repeat(3));
    let row = &rows(file.as_bytes(), SHEET)[0];
    assert!(row.payload.text().starts_with("{\"a\":1,\"b\":\"xx") && row.payload.text().len() < 5_000);
    for (file, want) in [(format!("a,b\n{long}\n"), TABLE), (format!("{{\"a\":\"{long}\"\n"), LINES)] {
        let row = &rows(file.as_bytes(), want)[0];
        assert!(row.fault.is_some() && row.payload.text().contains(&long), "{want:?}");
    }
}
