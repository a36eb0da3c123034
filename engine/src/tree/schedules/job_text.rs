//! Job of a schedule as text: sealed where its webhook may contain secrets, and shown without them.

use domain::document::pointer::members;
use serde_json::{Map, Value};
use url::Url;

use crate::addresses::display_url;

/// Returns the text as the API shows it: `on_completed` without its secret and without parts of its URL that may be
/// secret.
pub(super) fn shown(text: &str) -> String {
    with_target(text, |target| {
        target.remove("secret");
        if let Some(url) = url_of(target).and_then(|url| Url::parse(url).ok()) {
            target.insert("url".to_owned(), Value::String(display_url(&url)));
        }
    })
}

/// Returns a new text with the parts of the stored `on_completed` that are not shown: whoever sends back what was read
/// changes nothing. The stored URL replaces its shown form. The stored secret stays with its URL, unless the text has a
/// `secret`, which may be `null`.
pub(super) fn with_stored_target(text: &str, stored: &str) -> String {
    let Some(stored) = target_of(stored) else { return text.to_owned() };
    let Some(url) = url_of(&stored) else { return text.to_owned() };
    let is_same = |given: &str| given == url || Url::parse(url).is_ok_and(|stored| display_url(&stored) == given);
    with_target(text, |target| {
        if !url_of(target).is_some_and(is_same) {
            return;
        }
        target.insert("url".to_owned(), Value::from(url));
        if let Some(secret) = stored.get("secret")
            && !target.contains_key("secret")
        {
            target.insert("secret".to_owned(), secret.clone());
        }
    })
}

/// Returns true if the job has a webhook.
pub(super) fn has_webhook(text: &str) -> bool {
    target_of(text).is_some()
}

/// The object `on_completed`.
fn target_of(text: &str) -> Option<Map<String, Value>> {
    let (_, target) = members(text.trim())?.into_iter().find(|(name, _)| name == "on_completed")?;
    serde_json::from_str(target).ok()
}

fn url_of(target: &Map<String, Value>) -> Option<&str> {
    target.get("url")?.as_str()
}

/// Changes the object `on_completed`; everything else stays as it was given.
fn with_target(text: &str, change: impl FnOnce(&mut Map<String, Value>)) -> String {
    let Some(before) = target_of(text) else { return text.to_owned() };
    let mut after = before.clone();
    change(&mut after);
    if after == before {
        return text.to_owned();
    }
    let after = Value::Object(after).to_string();
    let members = members(text.trim()).unwrap_or_default().into_iter().map(|(name, value)| {
        let value = if name == "on_completed" { after.as_str() } else { value };
        format!("{}:{value}", Value::String(name))
    });
    format!("{{{}}}", members.collect::<Vec<_>>().join(","))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn url_is_shown_without_its_query_and_stays_when_it_comes_back() {
        let stored =
            r#"{ "type": "a", "items": [1E400], "on_completed": {"url": "https://hooks.example/done?key=hidden"} }"#;
        let shown = shown(stored);
        assert_eq!(shown, r#"{"type":"a","items":[1E400],"on_completed":{"url":"https://hooks.example/done?…"}}"#);
        assert!(has_webhook(&shown) && !has_webhook(r#"{"type":"a","on_completed":null}"#));
        assert_eq!(with_stored_target(&shown, stored), shown.replace('…', "key=hidden"));
        let other = r#"{"on_completed":{"url":"https://other.example/?…"}}"#;
        assert_eq!(with_stored_target(other, stored), other);
        let plain = r#"{ "type": "a", "on_completed": {"url": "https://hooks.example/done"} }"#;
        assert_eq!((super::shown(plain), with_stored_target(plain, plain)), (plain.to_owned(), plain.to_owned()));
    }

    #[test]
    fn secret_is_not_shown_and_stays_with_its_url() {
        let json = |text: &str| serde_json::from_str::<Value>(text).expect("JSON");
        let job = |target: &str| format!(r#"{{"type":"a","on_completed":{target}}}"#);
        let stored = job(r#"{"url":"https://hooks.example/done?key=hidden","secret":["new-hidden","old-hidden"]}"#);
        let shown = shown(&stored);
        assert_eq!(shown, job(r#"{"url":"https://hooks.example/done?…"}"#));
        let whole = job(r#"{"url":"https://hooks.example/done?key=hidden"}"#);
        for same in [shown, whole] {
            assert_eq!(json(&with_stored_target(&same, &stored)), json(&stored), "{same}");
        }
        for secret in ["null", r#""another-one""#] {
            let with_secret = |url: &str| job(&format!(r#"{{"url":"https://hooks.example/{url}","secret":{secret}}}"#));
            let after = with_stored_target(&with_secret("done?…"), &stored);
            assert_eq!(json(&after), json(&with_secret("done?key=hidden")), "the secret of the request counts");
        }
        for other in [job(r#"{"url":"https://hooks.example/done?key=other"}"#), job("null")] {
            assert_eq!(with_stored_target(&other, &stored), other);
        }
        let without = job(r#"{"url":"https://hooks.example/done"}"#);
        assert_eq!(with_stored_target(&without, &without), without);
    }
}
