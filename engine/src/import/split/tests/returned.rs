//! Lists of failures that come back.

use super::*;

const SHEET: Want =
    Want { format: UploadFormat::Xlsx, header: true, header_row: None, delimiter: None, encoding: None };

#[test]
fn failures_that_were_mended_in_a_spreadsheet_keep_their_lines() {
    let file =
        "1\t[\"id\",\"sum\",\"_line\",\"_code\",\"_problem\"]\n2\t[1,\"'=1+1\",17,\"x\",\"y\"]\n3\t[2,-5,\"18\"]\n";
    let expected = [(17, r#"{"id":1,"sum":"=1+1"}"#), (18, r#"{"id":2,"sum":-5}"#)];
    assert_eq!(brief(file.as_bytes(), SHEET), expected.map(|(line, text)| (line, text.to_owned())));
}

#[test]
fn cells_of_a_returned_sheet_are_unescaped_also_within() {
    let file = "1\t[\"a\",\"_line\",\"_code\",\"_problem\"]\n2\t[\"x,'-b\",7,\"x\",\"y\"]\n";
    assert_eq!(brief(file.as_bytes(), SHEET), [(7, r#"{"a":"x,-b"}"#.to_owned())]);
}

#[test]
fn a_returned_row_that_nobody_completed_is_faulty() {
    let file = "a,b,_line,_code,_problem,\n\
        1,2,3,too_many_fields,x,\n\
        1,2,4,too_many_fields,x,3\n\
        1,2,5,too_large,\"Line 5, x\",Incomplete\n\
        1,2,6,open_quote,\"Line 6, x\",\n\
        1,\u{FFFD},8,bad_encoding,Line 8,\n\
        1,2,9,bad_encoding,Line 9,\n";
    let good = r#"{"a":"1","b":"2"}"#;
    let expected =
        [(3, good), (4, "too_many_fields 6"), (5, "too_many_fields 6"), (6, good), (8, "bad_encoding 2"), (9, good)];
    assert_eq!(brief(file.as_bytes(), TABLE), expected.map(|(line, text)| (line, text.to_owned())));
}

#[test]
fn values_and_arrays_come_back_in_their_shape() {
    let file = "_payload,_line,_code,_problem\n\"{\"\"n\"\": 1.0}\",3,a,b\n{,4,a,b\n\"\"\"x\"\"\",5,a,b\n";
    let expected = [(3, r#"{"n": 1.0}"#), (4, "invalid_json 1"), (5, r#""x""#)];
    assert_eq!(brief(file.as_bytes(), TABLE), expected.map(|(line, text)| (line, text.to_owned())));
    let head = head(file.as_bytes(), TABLE);
    assert_eq!((head.payload_columns(), head.payload_width(), head.data_width()), (None, 0, 1));

    let file = "1\t[\"_1\",\"_2\",\"_line\",\"_code\",\"_problem\"]\n2\t[5,\"x\",7,\"a\",\"b\"]\n";
    assert_eq!(brief(file.as_bytes(), SHEET), [(7, r#"[5,"x"]"#.to_owned())]);
    // Without the last columns, the names are names.
    assert_eq!(brief(b"_1,_2\nx,y\n", TABLE), [(2, r#"{"_1":"x","_2":"y"}"#.to_owned())]);
}
