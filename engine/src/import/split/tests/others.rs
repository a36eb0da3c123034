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
fn failures_that_were_mended_in_a_spreadsheet_keep_their_lines() {
    let file =
        "1\t[\"id\",\"sum\",\"_line\",\"_code\",\"_problem\"]\n2\t[1,\"'=1+1\",17,\"x\",\"y\"]\n3\t[2,-5,\"18\"]\n";
    let expected = [(17, r#"{"id":1,"sum":"=1+1"}"#), (18, r#"{"id":2,"sum":-5}"#)];
    assert_eq!(brief(file.as_bytes(), SHEET), expected.map(|(line, text)| (line, text.to_owned())));
}
