//! Faults of payloads, cost of schemas, and malicious schemas.
//!
//! Anyone who may write a schema or send a payload can attack like this: the numbers are bounds, not measurements.

use CellKind::{Boolean, Number, OnlyText, Text};

use super::*;

fn faults(schema: &str, payload: &str) -> Vec<(String, String)> {
    let payload = Document::parse(payload.to_owned()).expect("payload");
    Schema::compile(schema).expect("schema").faults(&payload)
}

#[test]
fn a_fault_says_where_and_what_was_expected() {
    let schema = r#"{"type":"object","required":["id"],"additionalProperties":false,
        "properties":{"id":{"type":"integer","minimum":1},"a/b":{"enum":["x","y"]},"t":{"pattern":"^[0-9]+$"}}}"#;
    let faults_of = |payload: &str| faults(schema, payload);
    assert_eq!(faults_of(r#"{"id":1,"a/b":"x","t":"12"}"#), []);
    assert_eq!(faults_of(r#"{"id":"1"}"#), [("/id".into(), "expected a whole number".into())]);
    assert_eq!(faults_of(r#"{"id":0}"#), [("/id".into(), "expected at least 1".into())]);
    assert_eq!(faults_of("{}"), [("/id".into(), "expected a value".into())]);
    assert_eq!(faults_of(r#"{"id":1,"z":1}"#), [("/z".into(), "expected nothing of this name".into())]);
    assert_eq!(faults_of(r#"{"id":1,"a/b":"z"}"#), [("/a~1b".into(), r#"expected one of ["x","y"]"#.into())]);
    assert_eq!(faults_of("5"), [(String::new(), "expected an object".into())]);
}

#[test]
fn a_pattern_is_described_in_the_words_of_its_author() {
    let schema = r##"{"properties":{"iban":{"$ref":"#/$defs/iban"},"code":{"title":"a code","pattern":"^[A-Z]$"},
        "other":{"description":"","pattern":"^[0-9]$"}},
        "$defs":{"iban":{"description":"an IBAN.","examples":["DE89"],"pattern":"^[A-Z]{2}[0-9]"}}}"##;
    let faults_of = |payload: &str| faults(schema, payload).into_iter().map(|(_, detail)| detail).collect::<Vec<_>>();
    assert_eq!(faults_of(r#"{"iban":"n/a"}"#), ["expected an IBAN, such as DE89"]);
    assert_eq!(faults_of(r#"{"code":"1"}"#), ["expected a code (text that matches ^[A-Z]$)"]);
    assert_eq!(faults_of(r#"{"other":"a"}"#), ["expected text that matches ^[0-9]$"]);
    let many = Schema::compile(schema).expect("schema");
    let first = faults::first(&many.source, &many.parts, &serde_json::json!({"iban": "n/a"}));
    assert_eq!(first, [("/iban".to_owned(), "expected an IBAN, such as DE89".to_owned())]);
}

#[test]
fn numbers_beyond_a_double_are_numbers() {
    let schema = r#"{"items":{"type":"number","maximum":10}}"#;
    assert_eq!(faults(schema, "[-1e400]"), []);
    assert_eq!(faults(schema, "[1, 1e400]"), [("/1".into(), "expected at most 10".into())]);
    assert_eq!(faults(r#"{"items":{"type":"string"}}"#, r#"["1e400", "\"2e400"]"#), []);
    assert_eq!(tame(r#"["1e400\"",1e400,-2E999,1e5]"#).matches("e400").count(), 1);
}

#[test]
fn cells_are_text_unless_the_schema_wants_something_else() {
    let schema = Schema::compile(
        r##"{"$ref":"#/$defs/row","$defs":{"row":{"properties":{"n":{"type":"number"},"b":{"type":["boolean","null"]},
            "either":{"type":["string","integer"]},"far":{"$ref":"#/$defs/count"}}},"count":{"type":"integer"}}}"##,
    )
    .expect("schema");
    let names = ["n", "b", "either", "far", "other"].map(str::to_owned);
    let kinds = |schema: &Schema, names: Option<&[String]>, width| {
        schema.column_rules(names, width).into_iter().map(|rule| rule.kind).collect::<Vec<_>>()
    };
    assert_eq!(kinds(&schema, Some(&names), 5), [Number, Boolean, Text, Number, Text]);
    let array = Schema::compile(r#"{"prefixItems":[{"type":"string"}],"items":{"type":"number"}}"#).expect("schema");
    assert_eq!(kinds(&array, None, 3), [OnlyText, Number, Number]);
}

#[test]
fn an_empty_cell_is_left_out_where_only_a_missing_property_is_valid() {
    let schema = Schema::compile(
        r#"{"required":["id","sum"],"properties":{"id":{"type":"string"},"sum":{"type":"number"},"note":{"type":"string"},
            "iban":{"type":"string","minLength":15},"tax":{"type":"number"},"paid":{"type":["boolean","null"]},
            "unit":{"enum":["EUR",null]},"any":{}}}"#,
    )
    .expect("schema");
    let names = ["id", "sum", "note", "iban", "tax", "paid", "unit", "any", "unknown"].map(str::to_owned);
    let omits = |json: &str| {
        let rules = schema.column_rules(Some(&names), names.len());
        names.iter().zip(rules).filter(|(_, rule)| rule.omits(json)).map(|(name, _)| name.clone()).collect::<Vec<_>>()
    };
    assert_eq!(omits("null"), ["note", "iban", "tax"]);
    assert_eq!(omits("\"\""), ["iban", "tax", "paid", "unit"]);
    assert_eq!(omits("0"), [""; 0]);
}

#[test]
fn a_bad_schema_is_refused_with_a_reason() {
    for bad in ["{", r#"{"type":"colour"}"#, r#"{"$ref":"https://example.com/x"}"#, r#"{"pattern":"(?=x)"}"#] {
        assert!(Schema::compile(bad).is_err(), "{bad}");
    }
}

#[test]
fn faults_are_found_one_by_one_in_what_is_large() {
    let text = r##"{"$ref":"#/$defs/all","$defs":{"all":{"type":"array","items":{"$ref":"#/$defs/row"}},
        "row":{"type":"object","required":["id"],"additionalProperties":false,
               "properties":{"id":{"type":"integer","minimum":1},"kind":{"enum":["x","y"]},"tags":{"items":{"type":"string"}},
                             "either":{"anyOf":[{"type":"string"},{"type":"null"}]},"all":{"allOf":[{"maximum":5}]}}}}}"##;
    let schema = Schema::compile(text).expect("a schema");
    let row = r#"{"id":1,"kind":"x","tags":["a"],"either":null,"all":5}"#;
    let many = |bad: &[&str]| {
        let rows: Vec<&str> = std::iter::repeat_n(row, 2_000).chain(bad.iter().copied()).collect();
        let payload = Document::parse(format!("[{}]", rows.join(","))).expect("payload");
        assert!(schema.cost.parts * Size::of(&read(payload.text()).expect("read")).values > ALL_FAULTS);
        schema.faults(&payload)
    };
    assert_eq!(many(&[]), []);
    let bad = [
        r#"{"id":0,"kind":"z"}"#,
        r#"{"tags":["a",1,"b"]}"#,
        r#"{"id":1,"other":1}"#,
        r#"{"id":1,"either":5,"all":6}"#,
        "7",
    ];
    let expected = [
        ("/2000/id", "expected at least 1"),
        ("/2000/kind", r#"expected one of ["x","y"]"#),
        ("/2001/id", "expected a value"),
        ("/2001/tags/1", "expected text"),
        ("/2002/other", "expected nothing of this name"),
        ("/2003/all", "expected at most 5"),
        ("/2003/either", "expected what the schema says (anyOf)"),
        ("/2004", "expected an object"),
    ];
    let mut found = many(&bad);
    found.sort();
    let found: Vec<(&str, &str)> = found.iter().map(|(at, what)| (at.as_str(), what.as_str())).collect();
    assert_eq!(found, expected);
    let all = many(&vec![r#"{"id":0}"#; 5_000]);
    assert_eq!(all.len(), MOST_FAULTS);
    assert_eq!(all[9].0, "/2009/id");
}

#[test]
fn ten_faults_of_a_hundred_thousand_are_found_at_once() {
    let inner = vec![r#"{"type":"integer","minimum":3}"#; 300].join(",");
    let schema = Schema::compile(&format!(r#"{{"items":{{"allOf":[{inner}]}}}}"#)).expect("a schema");
    let payload = Document::parse(format!("[{}]", vec!["\"x\""; 60_000].join(","))).expect("payload");
    let began = std::time::Instant::now();
    let faults = schema.faults(&payload);
    assert_eq!(faults.len(), MOST_FAULTS);
    assert_eq!(faults[0], ("/0".to_owned(), "expected a whole number".to_owned()));
    // Without the limit, eighteen million faults took gigabytes and minutes.
    assert!(began.elapsed() < std::time::Duration::from_secs(20), "{:?}", began.elapsed());
}

#[test]
fn the_deepest_that_is_allowed_does_not_overflow_the_stack() {
    // Maximum chain of references, at every level of the deepest document.
    let chain = 40;
    let mut defs: serde_json::Map<String, Value> = (0..chain)
        .map(|i| (format!("a{i}"), serde_json::json!({"allOf": [{"$ref": format!("#/$defs/a{}", i + 1)}]})))
        .collect();
    defs.insert(
        format!("a{chain}"),
        serde_json::json!({"type": ["array", "integer"], "items": {"$ref": "#/$defs/a0"}, "maximum": 5}),
    );
    let mut shorter = defs.clone();
    let schema = serde_json::json!({"$ref": "#/$defs/a0", "$defs": defs});
    assert!(matches!(Schema::compile(&schema.to_string()), Err(SchemaError::TooComplex(_))));
    for i in 0..chain / 2 + 4 {
        shorter.remove(&format!("a{i}"));
    }
    let first = chain / 2 + 4;
    let text = serde_json::json!({"$ref": format!("#/$defs/a{first}"), "$defs": shorter}).to_string();
    let text = text.replace("#/$defs/a0", &format!("#/$defs/a{first}"));
    let schema = Schema::compile(&text).expect("a schema");
    let deep = |inner: &str| Document::parse(format!("{}{inner}{}", "[".repeat(127), "]".repeat(127))).expect("deep");
    let work = std::thread::Builder::new().stack_size(2 << 20);
    let (good, bad) = (deep("5"), deep("6"));
    let checked = work.spawn(move || (schema.faults(&good), schema.faults(&bad))).expect("a thread");
    let (good, bad) = checked.join().expect("no overflow");
    assert_eq!((good.len(), bad.len()), (0, 1));
}
