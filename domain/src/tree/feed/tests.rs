//! Feeds, as the rule says them: what each template makes of a source, and what is a fault.

use super::*;

fn feed(text: &str) -> Feed {
    Feed::parse(&Document::trusted(text.to_owned())).expect(text)
}

fn refused(text: &str) -> Vec<String> {
    let faults = Feed::parse(&Document::trusted(text.to_owned())).expect_err(text);
    faults.into_iter().map(|(pointer, _)| pointer).collect()
}

/// The items of a source with this payload and result.
fn fed(rule: &str, payload: &str, result: &str, range: Range<usize>) -> Vec<Result<NewItem, String>> {
    let (payload, result) = (Document::trusted(payload.to_owned()), Document::trusted(result.to_owned()));
    let source = Source { payload: &payload, result: &result, item_id: Uuid::nil(), job_id: Uuid::max() };
    feed(rule).items(&source, range, usize::MAX).0.into_iter().map(|item| item.map_err(|fault| fault.message)).collect()
}

fn one(rule: &str, payload: &str, result: &str) -> Result<NewItem, String> {
    let mut items = fed(rule, payload, result, 0..1_000);
    assert_eq!(items.len(), 1);
    items.remove(0)
}

fn payload(item: &NewItem) -> &str {
    item.payload.as_ref().map_or("", Document::text)
}

#[test]
fn feed_without_template_passes_payload_and_result() {
    let item = one("{}", "1.10", r#"{"n":9007199254740993}"#).expect("an item");
    assert_eq!(payload(&item), r#"{"payload":1.10,"result":{"n":9007199254740993}}"#);
    assert_eq!((item.dedupe_key, item.serialize_key, item.priority), (None, None, None));
}

#[test]
fn feed_template_fills_from_with_exact_numbers() {
    let rule = r#"{"payload":{"a":[{"$from":"/result/x"},1.0,{"b":{"$from":"/payload"}}],"e\"":"\u00e9","i":{"$from":"/item_id"}}}"#;
    let item = one(rule, "1e400", r#"{"x":{"y":[ 1.10 ]}}"#).expect("an item");
    assert_eq!(
        payload(&item),
        r#"{"a":[{"y":[ 1.10 ]},1.0,{"b":1e400}],"e\"":"\u00e9","i":"00000000-0000-0000-0000-000000000000"}"#
    );
    let whole = one(r#"{"payload":{"$from":""}}"#, "1", "2").expect("an item");
    assert_eq!(
        payload(&whole),
        r#"{"payload":1,"result":2,"item_id":"00000000-0000-0000-0000-000000000000","job_id":"ffffffff-ffff-ffff-ffff-ffffffffffff"}"#
    );
    assert_eq!(payload(&one(r#"{"payload":null}"#, "1", "2").expect("an item")), "null");
}

#[test]
fn feed_each_creates_one_item_per_element() {
    let rule = r#"{"each":"/result/rows","payload":[{"$from":"/element/id"},{"$from":"/index"}],
                   "dedupe_key":{"$from":"/element/id"}}"#;
    assert!(feed(rule).has_each());
    let result = r#"{"rows":[{"id":"a"},{"id":7},{"no":1},{"id":"d"}]}"#;
    let items = fed(rule, "null", result, 1..9);
    assert_eq!(items.len(), 3);
    let second = items[0].as_ref().expect("the second");
    assert_eq!((payload(second), second.dedupe_key.as_deref()), ("[7,1]", Some("7")));
    assert_eq!(items[1], Err("the feed's payload: /element/id points to nothing".to_owned()));
    assert_eq!(payload(items[2].as_ref().expect("the fourth")), r#"["d",3]"#);
    assert_eq!(fed(rule, "null", result, 4..9), []);
    assert_eq!(fed(rule, "null", r#"{"rows":[]}"#, 0..9), []);

    let document = Document::trusted(result.to_owned());
    let source = Source { payload: &document, result: &document, item_id: Uuid::nil(), job_id: Uuid::nil() };
    let made = |rule, range, bytes| {
        let (items, next) = feed(rule).items(&source, range, bytes);
        (items.len(), next)
    };
    assert_eq!(made(rule, 0..2, usize::MAX), (2, Some(2)));
    assert_eq!(made(rule, 2..9, usize::MAX), (2, None));
    assert_eq!(
        (made(rule, 1..9, 0), made(rule, 1..9, 1), made(rule, 1..9, 1_100)),
        ((0, Some(1)), (1, Some(2)), (2, Some(3)))
    );
    assert_eq!((made("{}", 0..9, 0), made("{}", 0..9, 1)), ((0, Some(0)), (1, None)));
    assert!(!feed("{}").has_each());
}

#[test]
fn feed_pointer_without_target_makes_a_dead_item() {
    let message = |rule, result| one(rule, "{}", result).expect_err(rule);
    assert_eq!(message(r#"{"each":"/result"}"#, "{}"), "the feed's each: /result is not an array");
    assert_eq!(message(r#"{"each":"/item_id"}"#, "{}"), "the feed's each: /item_id is not an array");
    assert_eq!(message(r#"{"each":""}"#, "{}"), "the feed's each: the whole is not an array");
    assert_eq!(message(r#"{"each":"/result/rows"}"#, "{}"), "the feed's each: /result/rows points to nothing");
    assert_eq!(message(r#"{"payload":{"$from":"/nothing"}}"#, "{}"), "the feed's payload: /nothing points to nothing");
    assert_eq!(
        message(r#"{"priority":{"$from":"/result"}}"#, "101"),
        "the feed's priority: expected a whole number from -100 to 100"
    );
    assert_eq!(message(r#"{"run_after":{"$from":"/result"}}"#, "1"), "the feed's run_after: expected an RFC 3339 time");
    let long = format!("\"{}\"", "k".repeat(256));
    for bad in ["{}", "true", "\"\"", &long] {
        let message = message(r#"{"serialize_key":{"$from":"/result"}}"#, bad);
        assert_eq!(message, "the feed's serialize_key: expected text of 1 to 255 characters");
    }
    let deep = format!("{}{}", "[".repeat(128), "]".repeat(128));
    assert_eq!(message("{}", &deep), "the feed's payload: nested deeper than 128 levels at byte 150");
}

#[test]
fn feed_template_fills_other_fields() {
    let rule = r#"{"dedupe_key":"fixed","serialize_key":{"$from":"/result/user"},"priority":{"$from":"/result/p"},
                   "run_after":{"$from":"/result/at"}}"#;
    let item = one(rule, "1", r#"{"user":"u\u0031","p":-5,"at":"2026-11-20T15:00:00+01:00"}"#).expect("an item");
    assert_eq!(item.dedupe_key.as_deref(), Some("fixed"));
    assert_eq!(item.serialize_key.as_deref(), Some("u1"));
    assert_eq!(item.priority, Some(-5));
    assert_eq!(item.run_after, Time::parse("2026-11-20T14:00:00Z"));
    let none = one(rule, "1", r#"{"user":null,"p":null,"at":null}"#).expect("an item");
    assert_eq!((none.serialize_key, none.priority, none.run_after), (None, None, None));
}

#[test]
fn feed_template_size_is_limited() {
    let many = format!(r#"{{"payload":[{}]}}"#, [r#"{"$from":"/payload"}"#; 100].join(","));
    let large = Document::trusted(format!("\"{}\"", "x".repeat(1_000)));
    let source = Source { payload: &large, result: &large, item_id: Uuid::nil(), job_id: Uuid::nil() };
    let made = feed(&many).with_limit(10_000).items(&source, 0..1, 1);
    assert_eq!(made.0, [Err(fault("the feed's payload: over the limit of 10000 bytes"))]);
    assert!(feed(&many).items(&source, 0..1, 1).0[0].is_ok());
}

#[test]
fn invalid_feed_rule_is_refused() {
    assert_eq!(refused("[]"), [""]);
    assert_eq!(refused(r#"{"colour":1}"#), ["/colour"]);
    assert_eq!(refused(r#"{"each":"rows"}"#), ["/each"]);
    assert_eq!(refused(r#"{"payload":{"a":[{"$from":"/result","b":1}]}}"#), ["/payload/a/0"]);
    assert_eq!(refused(r#"{"payload":{"a/b":{"$from":1}}}"#), ["/payload/a~1b/$from"]);
    assert_eq!(
        refused(r#"{"dedupe_key":"","priority":101,"run_after":"soon","serialize_key":[{"$from":"/result"}]}"#),
        ["/dedupe_key", "/priority", "/run_after", "/serialize_key"]
    );
}
