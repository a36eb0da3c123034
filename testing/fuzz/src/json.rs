//! JSON: documents, requests, feeds, and messages of RabbitMQ.

use domain::{
    Document,
    api::{FinishBody, HeartbeatsBody, NewItem, NewJob},
    document::{
        canonical::canonical,
        pointer::{Pointer, elements, find, members},
    },
    event_wait::EventForm,
    id::Uuid,
    notice::NoticeSettingsPatch,
    notify::broker_messages::{TreeCompleted, WakeUp},
    saved_view::NewSavedView,
    tree::feed::{Feed, FeedFault, Source},
};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::value::RawValue;
use server::http::extract::{AssignmentList, read_parts};

fn is_json(text: &str) -> bool {
    serde_json::from_str::<&RawValue>(text).is_ok()
}

/// A user's document: accepted unchanged or refused; equal to its canonical form.
pub fn document(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    // Must terminate for any text.
    let canonical_text = canonical(text);
    match Document::parse(text.to_owned()) {
        Ok(document) => {
            assert!(is_json(text), "taken though it is no JSON");
            assert_eq!(document.text(), text.trim_matches([' ', '\t', '\r', '\n']), "changed");
            assert_eq!(canonical(&canonical_text), canonical_text, "one spelling of the one spelling");
            assert_eq!(
                Document::parse(canonical_text.clone()).map(|again| canonical(again.text())),
                Ok(canonical_text)
            );
            look_inside(document.text());
        }
        Err(refused) => assert!(!is_json(text) || refused.at <= text.len(), "{refused}"),
    }
    if let Some(pointer) = Pointer::parse(text) {
        assert_eq!(pointer.to_string(), text, "a pointer is written as it is read");
        pointer.find(r#"{"a":[1,{"b~/":2}],"":{"0":null}}"#);
    }
}

fn look_inside(text: &str) {
    for (name, value) in members(text).into_iter().flatten() {
        assert_eq!(find(text, std::slice::from_ref(&name)), Some(value), "{name}");
        let pointer = format!("/{}", name.replace('~', "~0").replace('/', "~1"));
        assert_eq!(Pointer::parse(&pointer).and_then(|pointer| pointer.find(text)), Some(value), "{pointer}");
        assert!(is_json(value), "{value}");
    }
    for (at, value) in elements(text).into_iter().flatten().enumerate().take(100) {
        assert_eq!(find(text, &[at.to_string()]), Some(value), "{at}");
    }
}

/// Form of a wait in the first line; the rest is typed into every field, and is the data of an event.
pub fn event_form(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let (declared, typed) = text.split_once('\n').unwrap_or((text, ""));
    let Ok(form) = serde_json::from_str::<EventForm>(declared) else { return };
    if !form.faults("/form").is_empty() {
        return;
    }
    let answers = form.data_of(|_| Some(typed.to_owned()));
    assert!(is_json(answers.text()), "typed answers are no JSON: {}", answers.text());
    let places: Vec<String> =
        form.fields.iter().map(|field| format!("/{}", field.name.replace('~', "~0").replace('/', "~1"))).collect();
    for (pointer, _) in form.data_faults(&answers, "") {
        assert!(places.contains(&pointer), "refused at {pointer}, which is no field");
    }
    if let Ok(document) = Document::parse(typed.to_owned()) {
        let faults = form.data_faults(&document, "/data");
        assert!(document.text().starts_with('{') || !faults.is_empty(), "taken though it is no object");
    }
}

/// Request bodies: read, or refused with a short message.
pub fn body(data: &[u8]) {
    fn read<T: DeserializeOwned>(data: &[u8]) {
        if let Err(refused) = server::json_body::read::<T>(data) {
            let text = format!("{refused:?}");
            assert!(text.len() < 20_000, "{} bytes", text.len());
        }
    }
    read::<NewJob>(data);
    read::<NewItem>(data);
    read::<NewSavedView>(data);
    read::<NoticeSettingsPatch>(data);
    read::<serde_json::Value>(data);
    let is_object = data.trim_ascii().starts_with(b"{");
    let is_taken = server::json_body::read::<NewJob>(data).is_ok()
        || server::json_body::read::<NewItem>(data).is_ok()
        || server::json_body::read::<NewSavedView>(data).is_ok()
        || server::json_body::read::<NoticeSettingsPatch>(data).is_ok();
    assert!(is_object || !is_taken, "an array was taken for an object");
    list_of_assignments::<FinishBody>(data);
    list_of_assignments::<HeartbeatsBody>(data);
    if let Ok(text) = std::str::from_utf8(data)
        && Document::parse(text.to_owned()).is_ok()
    {
        use server::http::enqueue::idempotency::{chained, fingerprint, fingerprint_without_id};
        assert_eq!(fingerprint(text), fingerprint(&canonical(text)), "equal JSON is equal");
        assert_eq!(chained([0; 32], text), chained([0; 32], &canonical(text)));
        fingerprint_without_id(text);
    }
}

/// A list of endings or heartbeats: elements are left out only if the body is refused with them.
fn list_of_assignments<T: AssignmentList>(data: &[u8]) {
    let Ok(parts) = read_parts::<T>(data) else { return };
    assert_eq!(parts.malformed.is_empty(), server::json_body::read::<T>(data).is_ok(), "left out for no reason");
    assert!(parts.malformed.is_sorted_by(|one, next| one.at < next.at), "the same place twice");
}

/// A feed rule, a payload and a result, each on its own line.
pub fn feed(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let mut lines = text.splitn(3, '\n').map(|line| Document::parse(line.to_owned()));
    let (Some(Ok(rule)), Some(Ok(payload)), Some(Ok(result))) = (lines.next(), lines.next(), lines.next()) else {
        return;
    };
    let Ok(feed) = Feed::parse(&rule) else { return };
    let source = Source { payload: &payload, result: &result, item_id: Uuid::from_u128(1), job_id: Uuid::from_u128(2) };
    let feed = feed.with_limit(64 << 10);
    let rendered = |items: Vec<Result<NewItem, FeedFault>>| -> Vec<String> { items.iter().map(render).collect() };
    let (whole, _) = feed.items(&source, 0..200, usize::MAX);
    let is_fault = matches!(whole.as_slice(), [Err(_)]);
    let whole = rendered(whole);
    let half = whole.len() / 2;
    let part = |range| rendered(feed.items(&source, range, usize::MAX).0);
    if !is_fault {
        assert_eq!([part(0..half), part(half..whole.len())].concat(), whole, "in pieces as in one go");
        let (mut pieces, mut next) = (Vec::new(), Some(0));
        while let Some(from) = next.filter(|from| *from < whole.len()) {
            let (items, rest) = feed.items(&source, from..whole.len(), 1);
            assert!(rest.is_none_or(|rest| rest == from + items.len() && rest > from), "it gets on");
            pieces.extend(rendered(items));
            next = rest;
        }
        assert_eq!(pieces, whole, "bounded by bytes as in one go");
    }
    assert_eq!(part(0..200), whole, "twice the same");
}

fn render(item: &Result<NewItem, FeedFault>) -> String {
    match item {
        Ok(item) => {
            let text = serde_json::to_string(item).expect("an item is JSON");
            assert!(text.len() < 1 << 20, "{} bytes of 64 KiB a template", text.len());
            assert!(is_json(&text), "{text}");
            text
        }
        Err(fault) => format!("fault: {fault}"),
    }
}

/// Messages of RabbitMQ.
pub fn wake(data: &[u8]) {
    fn back<T: Serialize + DeserializeOwned + PartialEq + std::fmt::Debug>(data: &[u8]) {
        if let Ok(parsed) = serde_json::from_slice::<T>(data) {
            let text = serde_json::to_vec(&parsed).expect("what was heard can be said");
            assert_eq!(serde_json::from_slice::<T>(&text).ok(), Some(parsed));
        }
    }
    back::<WakeUp>(data);
    back::<TreeCompleted>(data);
}
