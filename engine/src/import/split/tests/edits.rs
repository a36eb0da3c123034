//! Rows with edits: changed cells and rows that are left out.

use domain::import::row_edit::RowEdit;

use super::*;

fn edits(json: &str) -> Vec<RowEdit> {
    serde_json::from_str(json).expect(json)
}

/// Rows in short, with edits: line with `-` for a row that is left out, payload, or fault.
fn edited(file: &[u8], want: Want, json: &str) -> Vec<(i64, String)> {
    let head = head(file, want).with_edits(&edits(json)).expect("edits that fit");
    // As it is stored with the job.
    let stored = serde_json::to_string(&head).expect("JSON");
    let head: Head = serde_json::from_str(&stored).expect("the same again");
    let brief = |row: &Row| match &row.fault {
        _ if row.is_left_out => (row.line, "-".to_owned()),
        None => (row.line, row.payload.text().to_owned()),
        Some(fault) => (row.line, format!("{} {}", fault.kind.as_str(), fault.column)),
    };
    rows_from(file, &head, head.first, 5).iter().map(brief).collect()
}

fn texts<const N: usize>(rows: [(i64, &str); N]) -> Vec<(i64, String)> {
    rows.map(|(line, text)| (line, text.to_owned())).to_vec()
}

#[test]
fn edited_cells_take_the_place_of_those_in_the_file() {
    let file = b"id,sum\n1,a\n2,b,c\n3\n4,d\n5,\xFF\n";
    let json = r#"[{"row":2,"cells":{"sum":"x,\"y\""}},{"row":3,"cells":{"sum":"b"}},{"row":4,"cells":{"sum":"z"}},
        {"row":5,"leave_out":true},{"row":6,"cells":{"id":"6"}},{"row":99,"leave_out":true}]"#;
    let expected = [
        (2, r#"{"id":"1","sum":"x,\"y\""}"#),
        (3, r#"{"id":"2","sum":"b"}"#),
        (4, r#"{"id":"3","sum":"z"}"#),
        (5, "-"),
        (6, "bad_encoding 2"),
    ];
    assert_eq!(edited(file, Want { encoding: Some(Encoding::Utf8), ..TABLE }, json), texts(expected));
    let without = Want { header: false, ..TABLE };
    assert_eq!(edited(b"a,b\nc,d\n", without, r#"[{"row":2,"cells":{"2":"x"}}]"#)[1].1, r#"["c","x"]"#);
}

#[test]
fn a_row_without_an_end_is_not_made_usable_by_edits() {
    let file = b"id,sum\n1,\"a\n2,b\n";
    let found = edited(file, TABLE, r#"[{"row":2,"cells":{"sum":"a"}}]"#);
    assert_eq!(found, texts([(2, "open_quote 2"), (3, r#"{"id":"2","sum":"b"}"#)]));
    assert!(FaultKind::OpenQuote.needs_file() && !FaultKind::TooFewFields.needs_file());
}

#[test]
fn edited_cells_of_a_sheet_keep_the_kind_that_they_had() {
    let sheet = Want { format: UploadFormat::Xlsx, ..TABLE };
    let file = b"1\t[\"id\",\"sum\",\"name\"]\n2\t[1,2.5,\"x\"]\n3\t[2,3.5,\"y\",\"z\"]\n";
    let json = r#"[{"row":2,"cells":{"sum":"7","name":"8"}},{"row":3,"cells":{"name":""}}]"#;
    let expected = [(2, r#"{"id":1,"sum":7,"name":"8"}"#), (3, r#"{"id":2,"sum":3.5,"name":null}"#)];
    assert_eq!(edited(file, sheet, json), texts(expected));
}

#[test]
fn edits_that_do_not_fit_the_file_are_refused() {
    let wrong = |file: &[u8], want, json: &str| {
        let found = head(file, want).with_edits(&edits(json)).expect_err("edits that do not fit");
        found.into_iter().map(|(pointer, _)| pointer).collect::<Vec<_>>()
    };
    assert_eq!(wrong(b"a,b\n1,2\n", TABLE, r#"[{"row":2,"cells":{"c/d":"x"}}]"#), ["/0/cells/c~1d"]);
    assert_eq!(wrong(b"1,2\n", Want { header: false, ..TABLE }, r#"[{"row":1,"cells":{"3":"x","0":"y"}}]"#).len(), 2);
    assert_eq!(wrong(b"{}\n", LINES, r#"[{"row":1,"cells":{"a":"x"}}]"#), ["/0/cells"]);
    let array = Want { format: UploadFormat::Json, ..TABLE };
    assert_eq!(wrong(b"[1,2]", array, r#"[{"row":1,"leave_out":true}]"#), ["/0/row"]);
    assert_eq!(edited(b"{}\n[]\n", LINES, r#"[{"row":1,"leave_out":true}]"#), texts([(1, "-"), (2, "[]")]));
}

#[test]
fn cells_for_people_follow_the_columns() {
    let file = b"id,sum\n1,a\n2,b,c\n";
    let head = head(file, TABLE);
    let mut reader = Reader::new(pieces(&file[7..], 9), head.clone(), head.first, rules(Vec::new())).with_cells();
    let cells = |row: Row| row.cells;
    assert_eq!(block_on(reader.next()).expect("a file").map(cells).expect("a row"), ["1", "a"]);
    assert_eq!(block_on(reader.next()).expect("a file").map(cells).expect("a row"), ["2", "b", "c"]);
}
