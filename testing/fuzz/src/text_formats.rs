//! Untrusted texts other than JSON: filters, cursors, headers, templates, event streams.

use std::net::IpAddr;

use client::{Frame, Parser};
use domain::{
    Time,
    id::{Uuid, is_key},
    query::{
        filter::{Filter, lists::List},
        topic::{MOST_TOPICS, Topic},
    },
};
use engine::signing::Key;
use serde::Serialize;
use server::{
    config::trusted_proxies::TrustedProxies,
    http::{
        enqueue::idempotency::Key as IdempotencyKey,
        extract::read_query,
        query::{
            cursor::Paged,
            items::{AttemptList, ItemList},
        },
        tree::jobs::JobList,
    },
    outbound::template as urls,
};

/// Filter of a list: printing and parsing agree, and so do its API parameters.
pub fn filter(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let end = text.chars().count() + 1;
    let filter = match Filter::parse(&text) {
        Ok(filter) => filter,
        Err(fault) => {
            assert!((1..=end).contains(&fault.at), "{fault}");
            return;
        }
    };
    let printed = filter.to_string();
    assert_eq!(Filter::parse(&printed).as_ref(), Ok(&filter), "printed as {printed}");
    let now = Time::parse("2026-11-21T10:00:00Z").expect("a time");
    for list in [List::Jobs, List::Items, List::Dead] {
        match filter.parameters(list, now) {
            Err(fault) => assert!(fault.at <= end, "{fault}"),
            Ok(mut pairs) => {
                let again = Filter::of_parameters(list, &pairs);
                let mut reparsed =
                    again.parameters(list, now).unwrap_or_else(|fault| panic!("{pairs:?} as {again}: {fault}"));
                pairs.sort();
                reparsed.sort();
                assert_eq!(reparsed, pairs, "as {again}");
                assert_eq!(Filter::parse(&again.to_string()).as_ref(), Ok(&again), "{again}");
            }
        }
    }
}

/// Query of a list in a URL.
pub fn query(data: &[u8]) {
    fn read<T: Paged + serde::de::DeserializeOwned>(text: &str) {
        match read_query::<T>(text) {
            Ok(list) => {
                let _ = list.rows();
                let _ = list.place::<(i64, i64)>();
            }
            Err(refused) => drop(format!("{refused:?}")),
        }
    }
    let text = String::from_utf8_lossy(data);
    read::<ItemList>(&text);
    read::<JobList>(&text);
    read::<AttemptList>(&text);
}

#[derive(Serialize)]
struct Things<'a> {
    colour: u8,
    #[serde(skip_serializing)]
    cursor: Option<&'a str>,
}

impl Paged for Things<'_> {
    const LIST: &'static str = "things";
    fn cursor(&self) -> Option<&str> {
        self.cursor
    }
    fn limit(&self) -> Option<i64> {
        None
    }
}

/// A cursor, as sent and as created: parsing and creation agree.
pub fn cursor(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let sent = Things { colour: 1, cursor: Some(&text) };
    let _ = sent.place::<(i64, i64)>();
    let _ = sent.place::<(Uuid, Option<String>)>();
    // Any position after a matching fingerprint.
    let place = text.clone().into_owned();
    let made = Things { colour: 1, cursor: None }.page(Vec::<()>::new(), Some(place.clone())).next_cursor;
    // NUL cannot be in the text of a database.
    let read = (!place.contains('\0')).then_some(Some(place));
    assert_eq!(Things { colour: 1, cursor: made.as_deref() }.place::<String>().ok(), read);
    assert!(Things { colour: 1, cursor: made.as_deref() }.place::<(i64, i64)>().is_err(), "of another shape");
    assert!(Things { colour: 2, cursor: made.as_deref() }.place::<String>().is_err(), "of other filters");
}

/// Topics of a connection: few, each once; printing and parsing agree.
pub fn topics(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let Ok(topics) = Topic::parse_list(text) else { return };
    assert!((1..=MOST_TOPICS).contains(&topics.len()), "{topics:?}");
    let written = topics.iter().map(Topic::to_string).collect::<Vec<_>>().join(",");
    assert_eq!(Topic::parse_list(&written), Ok(topics));
    assert!(written.len() <= text.len(), "{written}");
}

/// The header `Idempotency-Key`.
pub fn key(data: &[u8]) {
    let Ok(value) = axum::http::HeaderValue::from_bytes(data) else { return };
    let mut headers = axum::http::HeaderMap::new();
    headers.insert("idempotency-key", value.clone());
    match IdempotencyKey::read(&headers) {
        Ok(IdempotencyKey(key)) => {
            let key = key.expect("one was sent");
            assert!(is_key(&key) && key.as_bytes() == data, "{key:?}");
        }
        Err(_) => assert!(!std::str::from_utf8(data).is_ok_and(is_key), "{value:?}"),
    }
    headers.append("idempotency-key", value);
    assert!(IdempotencyKey::read(&headers).is_err(), "two of them");
}

/// Query of the redirect from an OpenID Connect provider: each parsed parameter appears in it exactly once.
pub fn callback(data: &[u8]) {
    let query = String::from_utf8_lossy(data);
    let Some(read) = server::auth::oidc::Callback::read(&query) else { return };
    assert!(query.len() <= 16 * 1024, "too long, and read");
    let pairs = [("code", &read.code), ("state", &read.state), ("iss", &read.issuer), ("error", &read.error)];
    let mut written = url::form_urlencoded::Serializer::new(String::new());
    for (name, value) in pairs {
        if let Some(value) = value {
            written.append_pair(name, value);
        }
    }
    let written = written.finish();
    if written.len() <= 16 * 1024 {
        assert_eq!(server::auth::oidc::Callback::read(&written), Some(read), "{query}");
    }
}

/// Proxy headers: a line of `Forwarded`, then one of `X-Forwarded-For`. Text of the client before the entry of a
/// trusted proxy changes nothing, and untrusted senders are ignored.
pub fn client_address(data: &[u8]) {
    let trusted: TrustedProxies = "127.0.0.0/8,fd00::/8".parse().expect("networks");
    let (proxy, client) = (IpAddr::from([127, 0, 0, 1]), IpAddr::from([192, 0, 2, 7]));
    let mut lines = data.splitn(2, |&byte| byte == b'\n');
    let (standard, usual) = (lines.next().unwrap_or_default(), lines.next().unwrap_or_default());
    for (name, value_bytes, appended) in
        [("forwarded", standard, &b", for=192.0.2.7"[..]), ("x-forwarded-for", usual, b", 192.0.2.7")]
    {
        let Ok(value) = axum::http::HeaderValue::from_bytes(value_bytes) else { continue };
        let mut headers = axum::http::HeaderMap::new();
        headers.insert(name, value);
        let _ = trusted.client(proxy, &headers);
        assert_eq!(trusted.client(client, &headers), client, "no proxy of ours");
        let Ok(whole) = axum::http::HeaderValue::from_bytes(&[value_bytes, appended].concat()) else { continue };
        headers.insert(name, whole.clone());
        // Headers that are not text are not read at all; then only the proxy itself is known.
        let expected = if whole.to_str().is_ok() { client } else { proxy };
        assert_eq!(trusted.client(proxy, &headers), expected, "{whole:?}");
    }
}

/// A signing secret on the first line, and a message in the rest.
pub fn secret(data: &[u8]) {
    let end = data.iter().position(|&byte| byte == b'\n').unwrap_or(data.len());
    let (secret, message) = data.split_at(end);
    let key = Key::of(&String::from_utf8_lossy(secret));
    assert!(Key::of(&key.text()) == key, "a key is what it is written as");
    let signed = key.sign("id", 1, message);
    assert_eq!(signed, key.sign("id", 1, message));
    assert!(signed.len() == 47 && signed.starts_with("v1,"), "{signed}");
    assert_ne!(signed, key.sign("id", 1, &[message, b"."].concat()));
    assert_ne!(signed, key.sign("id", 2, message));
    assert_ne!(signed, key.of_type("a").sign("id", 1, message));
}

/// URL template of a push executor.
pub fn template(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let Ok(url) = urls::check(&text, "a") else { return };
    let filled = |id: u128| urls::fill(&text, "a", Uuid::from_u128(id), Uuid::from_u128(id ^ 1));
    let one = url::Url::parse(&filled(7)).expect("what was checked is a URL for every item");
    // Not their origins: that of a URL that is neither http nor https equals no other.
    let target =
        |url: &url::Url| (url.scheme().to_owned(), url.host_str().map(str::to_owned), url.port_or_known_default());
    assert_eq!(target(&one), target(&url), "whichever item it is for");
    assert_eq!(urls::target(&one), urls::target(&url));
    assert_eq!(urls::is_fixed(&text), filled(7) == filled(8));
}

/// An event stream: the same events in pieces and at once.
pub fn events(data: &[u8]) {
    let read = |size: usize| {
        let (mut parser, mut frames): (Parser, Vec<Frame>) = Default::default();
        for piece in data.chunks(size) {
            parser.feed(piece, &mut frames).expect("it is small");
        }
        frames
    };
    let whole = read(data.len().max(1));
    for size in [1, 2, 3, 7] {
        assert_eq!(read(size), whole, "in pieces of {size}");
    }
    for frame in &whole {
        let _ = serde_json::from_str::<domain::tree::change::Change>(&frame.data);
    }
}
