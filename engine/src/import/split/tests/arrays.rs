//! Elements of a JSON array: with any content and any start of the reader.

use super::*;

const ARRAY: Want =
    Want { format: UploadFormat::Json, header: true, header_row: None, delimiter: None, encoding: None };

fn payloads(file: &str) -> Vec<(i64, String)> {
    brief(file.as_bytes(), ARRAY)
}

#[test]
fn elements_come_back_byte_for_byte_with_their_lines() {
    let file = "\n [\n{\"a\": [1, {\"b\":\"],}\\\"\"}]},\n\n 1e400 , \"x,y\",null,[\n]\n,true]\n";
    let expected =
        [(3, r#"{"a": [1, {"b":"],}\""}]}"#), (5, "1e400"), (5, r#""x,y""#), (5, "null"), (5, "[\n]"), (7, "true")];
    assert_eq!(payloads(file), expected.map(|(line, text)| (line, text.to_owned())));
    assert_eq!(head(file.as_bytes(), ARRAY).rows, 6);
    for little in [true, false] {
        let wide = brief(&utf16(file, little), ARRAY);
        assert_eq!(wide, expected.map(|(line, text)| (line, text.to_owned())));
    }
}

#[test]
fn what_is_no_array_is_refused_and_an_empty_one_has_no_rows() {
    for empty in ["", " \n", "[]", " [ \n ] "] {
        assert_eq!(refusal(empty.as_bytes(), ARRAY).0, Code::NoRows, "{empty:?}");
    }
    let (code, detail) = refusal(b"\n{\"a\":[1]}", ARRAY);
    assert_eq!(code, Code::InvalidBody);
    assert!(detail.contains("found '{' in line 2"), "{detail}");
}

#[test]
fn a_broken_element_is_one_bad_row() {
    for element in [
        "{\"a\":x}",
        "{\"a\":1,\"a\":2}",
        "{\"a\":1}}",
        "1 2",
        "",
        // None of these ends correctly; the next element is found by its indentation.
        "{\"a\":[1}",
        "{\"a\":\"open}",
        "{\"a\":[1",
        "{\"a\":{\"b\":1}",
    ] {
        let file = format!("[\n  {{\"id\":1}},\n  {element},\n  {{\"id\":2}},\n  {{\"id\":3}}\n]\n");
        let found = payloads(&file);
        let good: Vec<_> = found.iter().filter(|row| !row.1.starts_with("invalid")).map(|row| row.1.as_str()).collect();
        assert_eq!(good, [r#"{"id":1}"#, r#"{"id":2}"#, r#"{"id":3}"#], "{element}");
        assert_eq!((found.len(), found[1].0), (4, 3), "{element}");
    }
}

#[test]
fn an_indented_file_loses_one_element() {
    let element =
        |id: u32| format!("    {{\n        \"id\": {id},\n        \"in\": [\n            {{}}\n        ]\n    }}");
    let mut elements: Vec<String> = (0..5_000).map(element).collect();
    elements[2_000] = elements[2_000].replace("]\n", "\n");
    elements[3_000] = elements[3_000].replace("\"id\"", "\"id");
    let file = format!("[\n{}\n]", elements.join(",\n"));
    let rows = rows(file.as_bytes(), ARRAY);
    let bad: Vec<_> = rows.iter().filter_map(|row| row.fault.as_ref()).map(|fault| fault.line).collect();
    assert_eq!((rows.len(), bad), (5_000, vec![2_000 * 6 + 2, 3_000 * 6 + 2]));
}

#[test]
fn what_cannot_be_read_on_is_one_row_that_says_so() {
    for (file, good, says) in [
        ("[1,2", 2, "expected the array to end with ], found the end of the file."),
        ("[1,2,", 2, "expected the array to end with ], found the end of the file."),
        ("[1,{\"a\":1,{},{}]", 1, "nothing more could be read."),
        ("[1,2] 3", 2, "expected nothing behind the array, found more."),
        ("[1,2]]\n[3]", 2, "expected nothing behind the array, found more."),
        ("[1,2,]", 2, "expected one JSON value, found not JSON."),
    ] {
        let rows = rows(file.as_bytes(), ARRAY);
        assert_eq!(rows.len(), good + 1, "{file}");
        let fault = rows.last().and_then(|row| row.fault.as_ref()).expect("a fault");
        assert!(fault.message().ends_with(says), "{file}: {}", fault.message());
    }
}

#[test]
fn a_long_element_is_one_row_in_little_memory() {
    let long = format!("[{}]", "[1,\"],\"],\n".repeat(300_000).trim_end_matches(",\n"));
    let file = format!("[1,{long},2,\"{}\",3]", "x".repeat(300 << 10));
    let expected = [(1, "1"), (1, "too_large 1048577"), (300_000, "2"), (300_000, "too_large 262145"), (300_000, "3")];
    assert_eq!(payloads(&file), expected.map(|(line, text)| (line, text.to_owned())));
}

#[test]
fn a_file_of_broken_elements_is_read_in_one_go() {
    let file = format!("[\n{}1]", "{\"a\":[\n1},\n".repeat(20_000));
    let begun = std::time::Instant::now();
    let rows = rows(file.as_bytes(), ARRAY);
    assert!(rows.len() >= 20_000, "{}", rows.len());
    assert!(begun.elapsed().as_secs() < 60, "{:?}", begun.elapsed());
}

fn element() -> impl Strategy<Value = String> {
    prop_oneof![
        4 => "[a-z{},:\\[\\]\" ]{0,6}".prop_map(|text| format!("{{\"k\":{}}}", serde_json::Value::from(text))),
        1 => Just("[[1],{\"a\":[]}]".to_owned()),
        1 => "-?[1-9]{1,5}",
        1 => Just("\"é],[\\\\\"".to_owned()),
        1 => prop_oneof![
            Just("{bad}".to_owned()), Just("bad bad".to_owned()), Just("{\"bad\":\"x\n\"}".to_owned()),
            Just("{\"bad\":[}".to_owned()), Just("{\"bad\":".to_owned())
        ],
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_pieces_and_any_boundary_give_the_same_elements(
        elements in prop::collection::vec(element(), 1..15), newline: bool, ends: bool, size in 1..40_usize, wide: bool,
    ) {
        let between = if newline { ",\n " } else { "," };
        let file = format!("[\n {}{}", elements.join(between), if ends { "\n]\n" } else { "" });
        let file = if wide { utf16(&file, size % 2 == 0) } else { file.into_bytes() };
        let head = head(&file, ARRAY);
        let whole = rows_from(&file, &head, head.first, file.len());
        prop_assert_eq!(&rows_from(&file, &head, head.first, size), &whole);
        for (place, row) in whole.iter().enumerate() {
            // No reader starts at the end of the file; its errors were reported with the row before.
            if row.end.offset < file.len() as u64 && row.fault.as_ref().is_none_or(|f| !f.message().contains("behind")) {
                prop_assert_eq!(&rows_from(&file, &head, row.end, size)[..], &whole[place + 1..]);
            }
        }
        let is_good = |text: &&String| serde_json::from_str::<serde::de::IgnoredAny>(text).is_ok();
        if elements.iter().all(|text| is_good(&text)) {
            let found: Vec<_> = whole.iter().filter(|r| r.fault.is_none()).map(|r| r.payload.text().to_owned()).collect();
            prop_assert_eq!(found, elements);
        }
    }

    #[test]
    fn any_bytes_of_an_array_end(file in prop::collection::vec(prop_oneof![
        Just(b'"'), Just(b','), Just(b'\n'), Just(b'['), Just(b']'), Just(b'{'), Just(b'}'), Just(b'\\'), Just(b'1'),
        any::<u8>()
    ], 0..200), size in 1..20_usize) {
        let file = [b"[", &file[..]].concat();
        if let Ok(head) = block_on(inspect(pieces(&file, size), file.len() as u64, ARRAY)) {
            let rows = rows_from(&file, &head, head.first, size);
            prop_assert_eq!(rows.len() as i64, head.rows);
        }
    }
}
