//! Headers below a title: chosen by their line, or suggested.

use super::{super::find_header, *};

const TITLED: &str = "Invoices 2026;;\n;;\nCustomer;Amount;Due\nAda;1,50;31.12.2026\nBen;2,50;31.12.2026\n";

fn found(file: &[u8], want: Want) -> Option<i64> {
    block_on(find_header(pieces(file, 11), want)).expect("a file")
}

#[test]
fn rows_above_the_chosen_header_are_skipped() {
    let want = Want { header_row: Some(3), ..TABLE };
    let head = head(TITLED.as_bytes(), want);
    assert_eq!(head.columns.expect("a header"), ["Customer", "Amount", "Due"]);
    let first = r#"{"Customer":"Ada","Amount":"1,50","Due":"31.12.2026"}"#;
    assert_eq!(brief(TITLED.as_bytes(), want)[0], (4, first.to_owned()));
    // Without delimiters in the title, too.
    let plain = "Invoices, 2026\n\nCustomer;Amount\nAda;1\n";
    assert_eq!(brief(plain.as_bytes(), want), [(4, r#"{"Customer":"Ada","Amount":"1"}"#.to_owned())]);
    let sheet = Want { format: UploadFormat::Xlsx, ..want };
    let rows = b"1\t[\"Invoices\",null]\n3\t[\"id\",\"sum\"]\n4\t[1,2]\n";
    assert_eq!(brief(rows, sheet), [(4, r#"{"id":1,"sum":2}"#.to_owned())]);
}

#[test]
fn a_line_without_a_header_is_refused() {
    let at = |row| refusal(TITLED.as_bytes(), Want { header_row: Some(row), ..TABLE });
    assert_eq!(
        at(9),
        (Code::BadHeader, "Line 9: expected the names of the columns, found that row 5 is the last.".to_owned())
    );
    let inside = refusal(b"a,\"x\ny\"\nb,c\nd,e\n", Want { header_row: Some(2), ..TABLE });
    assert_eq!(inside.1, "Line 2: expected the names of the columns, found no row that begins here.");
    assert_eq!(refusal(b"a,b\n1,2\n", Want { header_row: Some(2), ..TABLE }).0, Code::NoRows);
}

#[test]
fn the_header_below_a_title_is_found() {
    assert_eq!(found(TITLED.as_bytes(), TABLE), Some(3));
    assert_eq!(found(b"Invoices, 2026\n\nCustomer;Amount\nAda;1\nBen;2\n", TABLE), Some(3));
    let sheet = Want { format: UploadFormat::Xlsx, ..TABLE };
    assert_eq!(found(b"1\t[\"Invoices\"]\n3\t[\"id\",\"sum\"]\n4\t[1,2]\n", sheet), Some(3));
    // One row with surplus cells does not hide it.
    assert_eq!(found(b"Report;;\n;;\nName;Sum\nAda;1\nBen;2;a;b;c\nCid;3\n", TABLE), Some(3));
    for plain in ["a,b\n1,2\n", "a\n1\n2\n", "", "x\n", "1,2\n3,4\n", "Title;;\n1;2;3\n4;5;6\n"] {
        assert_eq!(found(plain.as_bytes(), TABLE), None, "{plain}");
    }
    assert_eq!(found(b"{}\n", LINES), None);
}

#[test]
fn a_first_line_may_name_the_delimiter() {
    let rows = [(3, r#"{"a,x":"1","b|y":"2,5"}"#.to_owned())];
    for newline in ["\n", "\r\n", "\r"] {
        let text = format!("sep=;{newline}a,x;b|y{newline}1;2,5{newline}");
        for file in [text.clone().into_bytes(), utf16(&text, true), utf16(&text, false)] {
            assert_eq!(brief(&file, TABLE), rows, "{newline:?}");
        }
    }
    let exotic = head(b"sep=^\na,x^b\n1^2\n", TABLE);
    assert_eq!((exotic.delimiter, exotic.width), (Some('^'), 2));
    // A delimiter of the request wins; the line is still no row.
    let chosen = Want { delimiter: Some(','), ..TABLE };
    assert_eq!(brief(b"sep=;\na,b\n1,2\n", chosen), [(3, r#"{"a":"1","b":"2"}"#.to_owned())]);
    assert_eq!(
        brief(b"sep=;\na;b\n1;2\n", Want { header_row: Some(2), ..TABLE }),
        [(3, r#"{"a":"1","b":"2"}"#.to_owned())]
    );
    assert_eq!(brief(b"sep=;\n1;2\n", Want { header: false, ..TABLE }), [(2, r#"["1","2"]"#.to_owned())]);
    // A column with such a name is a column.
    assert_eq!(head(b"sep=;x\n1;2\n", TABLE).columns.expect("a header"), ["sep=", "x"]);
    assert_eq!(refusal(b"sep=;", TABLE).0, Code::BadHeader);
}
