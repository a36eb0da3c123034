//! Guarantees of splitting: no good row is lost or duplicated, whatever is between the rows and however the bytes are
//! chunked.

mod arrays; // JSON arrays
mod edits; // edited rows
mod headers; // headers below a title
mod others; // lines, and converted workbooks
mod returned; // lists of failures that come back

use std::convert::Infallible;

use bytes::Bytes;
use domain::{Code, import::upload::UploadFormat};
use futures::executor::block_on;
use proptest::prelude::*;

use super::{
    CellKind, ColumnRule, Encoding, FaultKind, Head, HeadError, Place, RECORD_LIMIT, Reader, Row, Rules, Want, inspect,
};

const TABLE: Want = Want { format: UploadFormat::Csv, header: true, header_row: None, delimiter: None, encoding: None };
const LINES: Want =
    Want { format: UploadFormat::Ndjson, header: true, header_row: None, delimiter: None, encoding: None };

type Pieces = futures::stream::Iter<std::vec::IntoIter<Result<Bytes, Infallible>>>;

fn pieces(file: &[u8], size: usize) -> Pieces {
    let pieces: Vec<_> = file.chunks(size.max(1)).map(|piece| Ok(Bytes::copy_from_slice(piece))).collect();
    futures::stream::iter(pieces)
}

fn head(file: &[u8], want: Want) -> Head {
    match block_on(inspect(pieces(file, 64 << 10), file.len() as u64, want)) {
        Ok(head) => head,
        Err(HeadError::Refused(problem)) => panic!("{problem}"),
        Err(HeadError::Read(never)) => match never {},
    }
}

fn refusal(file: &[u8], want: Want) -> (Code, String) {
    match block_on(inspect(pieces(file, 7), file.len() as u64, want)) {
        Err(HeadError::Refused(problem)) => (problem.code, problem.detail),
        other => panic!("{other:?}"),
    }
}

fn rules(kinds: Vec<CellKind>) -> Rules {
    let rule = |kind| ColumnRule { kind, ..ColumnRule::default() };
    Rules { column_rules: kinds.into_iter().map(rule).collect(), payload_limit: 256 << 10 }
}

fn rows_from(file: &[u8], head: &Head, place: Place, size: usize) -> Vec<Row> {
    let source = pieces(&file[place.offset as usize..], size);
    let mut reader = Reader::new(source, head.clone(), place, rules(Vec::new()));
    let mut rows = Vec::new();
    while let Ok(Some(row)) = block_on(reader.next()) {
        rows.push(row);
    }
    rows
}

fn rows(file: &[u8], want: Want) -> Vec<Row> {
    let head = head(file, want);
    rows_from(file, &head, head.first, 64 << 10)
}

/// Rows in short: line with payload, or with fault kind and column.
fn brief(file: &[u8], want: Want) -> Vec<(i64, String)> {
    rows(file, want)
        .iter()
        .map(|row| match &row.fault {
            None => (row.number, row.payload.text().to_owned()),
            Some(fault) => (row.number, format!("{} {}", fault.kind.as_str(), fault.column)),
        })
        .collect()
}

fn utf16(text: &str, little: bool) -> Vec<u8> {
    let mut bytes = if little { vec![0xFF, 0xFE] } else { vec![0xFE, 0xFF] };
    for unit in text.encode_utf16() {
        bytes.extend(if little { unit.to_le_bytes() } else { unit.to_be_bytes() });
    }
    bytes
}

#[test]
fn a_table_is_rows_by_column_name() {
    let file = "id,name\n1,Ada\n\n2,\"Grace \"\"G\"\" Hopper\"\n3,\"two\nlines\"\n4,last";
    let expected = [
        (2, r#"{"id":"1","name":"Ada"}"#.to_owned()),
        (4, r#"{"id":"2","name":"Grace \"G\" Hopper"}"#.to_owned()),
        (5, r#"{"id":"3","name":"two\nlines"}"#.to_owned()),
        (7, r#"{"id":"4","name":"last"}"#.to_owned()),
    ];
    assert_eq!(brief(file.as_bytes(), TABLE), expected);
    assert_eq!(head(file.as_bytes(), TABLE).rows, 4);
}

#[test]
fn every_encoding_and_end_of_line_gives_the_same_rows() {
    let text = "id;név\n1;Ödön\n2;\"a;b\"\n";
    let expected = vec![(2, r#"{"id":"1","név":"Ödön"}"#.to_owned()), (3, r#"{"id":"2","név":"a;b"}"#.to_owned())];
    for newline in ["\n", "\r\n", "\r"] {
        let text = text.replace('\n', newline);
        let with_mark = [b"\xEF\xBB\xBF", text.as_bytes()].concat();
        let windows = encoding_rs::WINDOWS_1252.encode(&text).0.into_owned();
        for file in [text.clone().into_bytes(), with_mark, windows, utf16(&text, true), utf16(&text, false)] {
            assert_eq!(brief(&file, TABLE), expected, "{newline:?} {file:?}");
            let head = head(&file, TABLE);
            for size in 1..5 {
                assert_eq!(rows_from(&file, &head, head.first, size), rows(&file, TABLE), "{newline:?} in {size}s");
            }
        }
    }
}

#[test]
fn an_encoding_that_is_given_is_taken_but_for_a_mark_of_utf16() {
    let want = |label| Want { encoding: Encoding::of_label(label), ..TABLE };
    let german = b"name,note\nM\xFCller,\x80 5\nRoth,x\n";
    let bad = [(2, "bad_encoding 1".to_owned()), (3, r#"{"name":"Roth","note":"x"}"#.to_owned())];
    assert_eq!(brief(german, want("utf-8")), bad);
    let good = [(2, r#"{"name":"Müller","note":"€ 5"}"#.to_owned()), (3, r#"{"name":"Roth","note":"x"}"#.to_owned())];
    assert_eq!(brief(german, want("windows-1252")), good);
    assert_eq!(brief(german, TABLE), good, "found from one row");
    assert_eq!(brief(&[b"\xEF\xBB\xBF", german.as_slice()].concat(), TABLE), bad, "a mark of UTF-8");
    assert_eq!(brief(&[b"\xEF\xBB\xBF", german.as_slice()].concat(), want("windows-1252")), good, "a mark that lies");
    let japanese = encoding_rs::SHIFT_JIS.encode("name,note\n表示,\"a,ソ\"\n").0.into_owned();
    assert_eq!(brief(&japanese, want("shift_jis")), [(2, r#"{"name":"表示","note":"a,ソ"}"#.to_owned())]);
    assert_eq!(brief(b"a,b\n\x81\x20,1\n", want("shift_jis")), [(2, "bad_encoding 1".to_owned())]);
    // The second byte of ポ is that of a bar, and that of 名 is the first of a character.
    for (label, name, note) in [
        ("shift_jis", "ポイント", "レポ|ト"),
        ("gbk", "张三", "李|四"),
        ("euc-kr", "이름", "비|고"),
        ("big5", "張三", "功|能"),
    ] {
        let Some(Encoding::Legacy(encoding)) = Encoding::of_label(label) else { panic!("{label}") };
        let barred = encoding.encode(&format!("{name}|note\n{name}|\"{note}\"\n")).0.into_owned();
        let bar = Want { delimiter: Some('|'), ..want(label) };
        assert_eq!(brief(&barred, bar), [(2, format!(r#"{{"{name}":"{name}","note":"{note}"}}"#))], "{label}");
        let barred_head = head(&barred, bar);
        for size in 1..5 {
            let in_pieces = rows_from(&barred, &barred_head, barred_head.first, size);
            assert_eq!(in_pieces, rows(&barred, bar), "{label} in {size}s");
        }
    }
    let marked = utf16("a,b\n1,ö\n", true);
    assert_eq!(brief(&marked, want("windows-1252")), [(2, r#"{"a":"1","b":"ö"}"#.to_owned())]);
}

#[test]
fn the_delimiter_is_found_or_given() {
    for (file, delimiter) in [
        ("a,b\n1,2\n", ','),
        ("a;b\n1,5;2,5\n", ';'),
        ("a\tb, c\n1\t2, 3\n", '\t'),
        ("a|b|c\n1|2,2|3\n", '|'),
        ("a\n1\n", ','),
        ("name,text\nx,\"a;b;c\"\ny,\"d;e;f\"\n", ','),
    ] {
        assert_eq!(head(file.as_bytes(), TABLE).delimiter, Some(delimiter), "{file}");
    }
    let given = Want { delimiter: Want::delimiter(":"), ..TABLE };
    assert_eq!(brief(b"a:b\n1,1:2\n", given), [(2, r#"{"a":"1,1","b":"2"}"#.to_owned())]);
    for bad in ["", "ab", "\"", "\n", "a", "é", "1"] {
        assert_eq!(Want::delimiter(bad), None, "{bad:?}");
    }
}

#[test]
fn without_a_header_rows_are_arrays() {
    let want = Want { header: false, ..TABLE };
    let expected = [(1, r#"["1","x"]"#.to_owned()), (2, r#"["2","y"]"#.to_owned()), (3, "too_few_fields 2".to_owned())];
    assert_eq!(brief(b"1,x\n2,y\n3\n", want), expected);
}

#[test]
fn files_without_rows_and_bad_headers_are_refused() {
    for empty in [&b""[..], b"\xEF\xBB\xBF", b"\n\n\n", b"id,name\n", b"id,name", b"id,name\r\n\r\n  \r\n"] {
        assert_eq!(refusal(empty, TABLE).0, Code::NoRows, "{empty:?}");
    }
    assert_eq!(refusal(b"\n \n", LINES).0, Code::NoRows);
    for (bad, says) in [
        (&b"id,,x\n1,2,3\n"[..], "Line 1, column 2: expected a name, found none."),
        (b"\nid,x,id\n1,2,3\n", "Line 2, column 3: expected a name of its own, found \"id\" as in column 1."),
        (b"id,na\xFFme\n1,2\n", "Line 1, column 2: expected a name, found bytes that are not UTF-8."),
        (b"id,\"name\n1,2\n", "Line 1: the header has a quote that is never closed."),
    ] {
        assert_eq!(refusal(bad, TABLE), (Code::BadHeader, says.to_owned()));
    }
    let endless = vec![b'x'; RECORD_LIMIT + 10];
    assert_eq!(refusal(&endless, TABLE).1, "Line 1: the header does not end.");
}

#[test]
fn a_bad_row_says_where_and_the_next_goes_on() {
    let mut file = "id,name,age\n1,\u{e0},2\n".as_bytes().to_vec();
    file.extend(format!("2,b,3{}\n", ",x".repeat(100)).bytes());
    file.extend(b"3,b\n4,caf\xE9,1\n5,n\0l,1\n6,\"a\"b,1\n7,z,1\n");
    let messages: Vec<_> = rows(&file, TABLE).iter().map(|row| row.fault.as_ref().map(super::Fault::message)).collect();
    let expected = [
        None,
        Some("Line 3, column 4: expected 3 fields, found 103."),
        Some("Line 4, column 3 (age): expected 3 fields, found 2."),
        Some("Line 5, column 2 (name): expected text, found bytes that are not UTF-8."),
        Some("Line 6, column 2 (name): expected text, found a NUL character."),
        Some("Line 7, column 2 (name): expected the end of the cell behind its closing quote, found more text."),
        None,
    ];
    assert_eq!(messages, expected.map(|text| text.map(str::to_owned)));
    let wide = &rows(&file, TABLE)[1];
    assert_eq!(wide.payload.text(), r#"{"id":"2","name":"b","age":"3"}"#);
    assert_eq!(wide.fault.as_ref().map(|fault| fault.extra.len()), Some(20));
    assert_eq!(rows(&file, TABLE)[2].payload.text(), r#"{"id":"3","name":"b"}"#);
}

#[test]
fn an_open_quote_costs_one_row() {
    let good = "1,x,y\n2,\"q,\"\"q\"\"\",z\n3,,\n4,\"two\nlines\",x\n";
    for open in ["9,\"open,1\n", "\"9,open,1\n", "9,open,\"\n", "9,\"a\"\",\n"] {
        for tail in ["", good, &good.repeat(40_000)] {
            let file = format!("a,b,c\n{good}{open}{tail}");
            let rows = rows(file.as_bytes(), TABLE);
            let bad: Vec<_> = rows.iter().filter_map(|row| row.fault.as_ref()).collect();
            assert_eq!(bad.len(), 1, "{open} {}", tail.len());
            assert_eq!((bad[0].kind, bad[0].line), (FaultKind::OpenQuote, 7), "{open}");
            let good_rows = 4 + tail.len() / good.len() * 4;
            assert_eq!(rows.len() - 1, good_rows, "{open}");
        }
    }
}

#[test]
fn a_file_of_open_quotes_is_read_in_one_go() {
    // Each line alone opens a quote, and inside quotes each keeps it open: without the memo, each of half a million
    // lines would scan a megabyte.
    let file = format!("a,b\n{}", "x\"y,\"z\n".repeat(500_000));
    let begun = std::time::Instant::now();
    let rows = rows(file.as_bytes(), TABLE);
    assert_eq!(rows.len(), 500_000);
    assert!(rows.iter().all(|row| row.fault.is_some()));
    assert!(begun.elapsed().as_secs() < 60, "{:?}", begun.elapsed());
}

#[test]
fn a_line_without_end_is_one_row_in_little_memory() {
    let long = vec![b'x'; 5 * RECORD_LIMIT];
    let file = [b"a,b\n1,2\n9,", &long[..], b"\r\n3,4\n"].concat();
    let expected =
        [(2, r#"{"a":"1","b":"2"}"#.to_owned()), (3, "too_large 2".to_owned()), (4, r#"{"a":"3","b":"4"}"#.to_owned())];
    assert_eq!(brief(&file, TABLE), expected);
    let large = vec![b'x'; 300 << 10];
    let file = [b"a,b\n", &large[..], b",2\n3,4\n"].concat();
    assert_eq!(brief(&file, TABLE)[0], (2, "too_large 1".to_owned()));
    let file = [b"{\"a\":\"", &long[..], b"\"}\n1\n"].concat();
    assert_eq!(brief(&file, LINES)[1], (2, "1".to_owned()));
}

#[test]
fn lines_of_json_come_back_byte_for_byte() {
    let file = b"{\"n\": 9007199254740993,\"x\":1.10}\n\n  [1e400]\r\n{\"a\":1,\"a\":2}\n{oops\n\"\xFF\"\nnull";
    let expected = [
        (1, r#"{"n": 9007199254740993,"x":1.10}"#),
        (3, "[1e400]"),
        (4, "invalid_json 7"),
        (5, "invalid_json 2"),
        (6, "bad_encoding 2"),
        (7, "null"),
    ];
    assert_eq!(brief(file, LINES), expected.map(|(line, text)| (line, text.to_owned())));
}

#[test]
fn a_cell_becomes_a_number_only_where_the_schema_asks() {
    let file = b"id,n,ok\n007,1.10,true\n008,1e,TRUE\n";
    let head = head(file, TABLE);
    let kinds = vec![CellKind::Text, CellKind::Number, CellKind::Boolean];
    let source = pieces(&file[head.first.offset as usize..], 100);
    let mut reader = Reader::new(source, head.clone(), head.first, rules(kinds));
    let texts: Vec<_> = std::iter::from_fn(|| block_on(reader.next()).ok().flatten()).map(|row| row.payload).collect();
    assert_eq!(texts[0].text(), r#"{"id":"007","n":1.10,"ok":true}"#);
    assert_eq!(texts[1].text(), r#"{"id":"008","n":"1e","ok":"TRUE"}"#);
}

#[test]
fn a_list_of_failures_that_came_back_is_the_table_it_was() {
    let file = b"id,sum,_line,_code,_problem\n1,'=1+1,17,too_few_fields,why\n2,-5,x,,\n";
    let expected = [(17, r#"{"id":"1","sum":"=1+1"}"#.to_owned()), (3, r#"{"id":"2","sum":"-5"}"#.to_owned())];
    assert_eq!(brief(file, TABLE), expected);
}

/// Cell of a good row: its text in the file, and its value.
fn cell() -> impl Strategy<Value = (String, String)> {
    prop_oneof![
        "[a-z0-9é ]{1,6}".prop_map(|text| (text.clone(), text)),
        Just((String::new(), String::new())),
        // Quoted, but without a delimiter at the start or after a quote: between two forgotten quotes, that could
        // legitimately form other rows.
        "([a-z;\" é][a-z,;\" é]{0,5})?"
            .prop_filter("ambiguous", |text| !text.contains("\","))
            .prop_map(|text| (format!("\"{}\"", text.replace('"', "\"\"")), text)),
        "[a-z][a-z\n,]{0,6}".prop_map(|text| (format!("\"{text}\""), text)),
    ]
}

#[derive(Clone, Debug)]
enum Line {
    Good(Vec<(String, String)>),
    Hostile(Vec<u8>),
    Blank,
}

fn line() -> impl Strategy<Value = Line> {
    let good = (prop::collection::vec(cell(), 3), 0..10_000_u32).prop_map(|(mut cells, id)| {
        // Unique names, so that a lost row is noticed.
        cells[0] = (format!("k{id}"), format!("k{id}"));
        Line::Good(cells)
    });
    prop_oneof![
        6 => good,
        1 => Just(Line::Blank),
        2 => prop_oneof![
            Just(b"bad,\"open,x".to_vec()),
            Just(b"bad,x\"".to_vec()),
            Just(b"bad".to_vec()),
            Just(b"bad,1,2,3,4,5,6,7,8".to_vec()),
            Just(b"bad,\xFF\xFE,\x80".to_vec()),
            Just(b"bad,\0,x".to_vec()),
            Just(b"bad,\"x\"y,z".to_vec()),
        ].prop_map(Line::Hostile),
    ]
}

fn file_of(lines: &[Line], newline: &str) -> (Vec<u8>, Vec<Vec<String>>) {
    let mut file = format!("a,b,c{newline}").into_bytes();
    let mut good = Vec::new();
    for line in lines {
        match line {
            Line::Good(cells) => {
                let written: Vec<_> = cells.iter().map(|(raw, _)| raw.as_str()).collect();
                file.extend(written.join(",").bytes());
                good.push(cells.iter().map(|(_, text)| text.clone()).collect());
            }
            Line::Hostile(bytes) => file.extend(bytes),
            Line::Blank => {}
        }
        file.extend(newline.bytes());
    }
    (file, good)
}

fn texts(row: &Row) -> Vec<String> {
    let object: serde_json::Map<String, serde_json::Value> = serde_json::from_str(row.payload.text()).expect("object");
    ["a", "b", "c"].iter().map(|name| object[*name].as_str().unwrap_or_default().to_owned()).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn good_rows_survive_any_company(lines in prop::collection::vec(line(), 1..40), crlf: bool) {
        let (file, good) = file_of(&lines, if crlf { "\r\n" } else { "\n" });
        prop_assume!(lines.iter().any(|line| !matches!(line, Line::Blank)));
        // With few rows, many invalid UTF-8 rows would look like another encoding.
        let rows = rows(&file, Want { encoding: Some(Encoding::Utf8), ..TABLE });
        let found: Vec<_> = rows.iter().filter(|row| row.fault.is_none()).map(texts).collect();
        prop_assert_eq!(found, good);
        // One open quote may close another, so that the two are one bad row.
        let bad = lines.iter().filter(|line| matches!(line, Line::Hostile(_))).count();
        let found = rows.iter().filter(|row| row.fault.is_some()).count();
        prop_assert!(found <= bad && (found > 0) == (bad > 0), "{found} of {bad}");
    }

    #[test]
    fn any_pieces_and_any_place_to_go_on_give_the_same_rows(
        lines in prop::collection::vec(line(), 1..20), crlf: bool, size in 1..50_usize, wide: bool,
    ) {
        let (mut file, _) = file_of(&lines, if crlf { "\r\n" } else { "\n" });
        prop_assume!(lines.iter().any(|line| !matches!(line, Line::Blank)));
        if wide {
            file = utf16(&String::from_utf8_lossy(&file), size % 2 == 0);
        }
        let head = head(&file, TABLE);
        let whole = rows_from(&file, &head, head.first, file.len());
        prop_assert_eq!(&rows_from(&file, &head, head.first, size), &whole);
        for (place, row) in whole.iter().enumerate() {
            prop_assert_eq!(&rows_from(&file, &head, row.begin, size)[..], &whole[place..]);
            prop_assert_eq!(&rows_from(&file, &head, row.end, size)[..], &whole[place + 1..]);
        }
    }

    #[test]
    fn any_bytes_end(file in prop::collection::vec(prop_oneof![
        Just(b'"'), Just(b','), Just(b'\n'), Just(b'\r'), Just(b'a'), Just(0), any::<u8>()
    ], 0..200), size in 1..20_usize, is_table: bool, header: bool) {
        let want = Want { header, ..if is_table { TABLE } else { LINES } };
        if let Ok(head) = block_on(inspect(pieces(&file, size), file.len() as u64, want)) {
            let rows = rows_from(&file, &head, head.first, size);
            prop_assert_eq!(rows.len() as i64, head.rows);
            for pair in rows.windows(2) {
                prop_assert!(pair[0].end.offset <= pair[1].begin.offset && pair[0].end.line <= pair[1].begin.line);
            }
        }
    }

    #[test]
    fn what_a_csv_writer_writes_comes_back(table in prop::collection::vec(
        prop::collection::vec("[a-c\",;\r\n '=é]{0,5}", 3), 1..10,
    )) {
        let mut writer = csv::Writer::from_writer(Vec::new());
        writer.write_record(["a", "b", "c"]).expect("header");
        for row in &table {
            writer.write_record(row).expect("row");
        }
        let file = writer.into_inner().expect("file");
        let found: Vec<_> = rows(&file, Want { delimiter: Some(','), ..TABLE }).iter().map(texts).collect();
        prop_assert_eq!(found, table);
    }
}
