//! Job of a schedule as text: sealed where its webhook may contain a secret, and shown without it.

use domain::document::pointer::members;
use serde_json::Value;
use url::Url;

use crate::addresses::display_url;

/// Returns the text as the API shows it: the URL of `on_completed` without parts that may be secret.
pub(super) fn shown(text: &str) -> String {
    with_url(text, |url| Url::parse(url).ok().map(|url| display_url(&url)))
}

/// Returns a new text whose URL of `on_completed`, if it is the shown form of the stored one, is the stored one: whoever
/// sends back what was read changes nothing.
pub(super) fn with_stored_url(text: &str, stored: &str) -> String {
    let Some(url) = url_of(stored) else { return text.to_owned() };
    let is_shown = |given: &str| Url::parse(&url).is_ok_and(|stored| display_url(&stored) == given);
    with_url(text, |given| is_shown(given).then(|| url.clone()))
}

/// Returns true if the job has a webhook.
pub(super) fn has_webhook(text: &str) -> bool {
    url_of(text).is_some()
}

fn url_of(text: &str) -> Option<String> {
    let (_, target) = members(text.trim())?.into_iter().find(|(name, _)| name == "on_completed")?;
    let target: Value = serde_json::from_str(target).ok()?;
    Some(target.get("url")?.as_str()?.to_owned())
}

/// Replaces the URL of `on_completed`; everything else stays as it was given.
fn with_url(text: &str, change: impl Fn(&str) -> Option<String>) -> String {
    let Some(url) = url_of(text).and_then(|url| change(&url).filter(|new| *new != url)) else { return text.to_owned() };
    let members = members(text.trim()).unwrap_or_default().into_iter().map(|(name, value)| {
        let mut target = serde_json::from_str::<Value>(value).ok().filter(|_| name == "on_completed");
        if let Some(field) = target.as_mut().and_then(|target| target.get_mut("url")) {
            *field = Value::String(url.clone());
        }
        format!("{}:{}", Value::String(name), target.map_or_else(|| value.to_owned(), |target| target.to_string()))
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
        assert_eq!(with_stored_url(&shown, stored), shown.replace('…', "key=hidden"));
        let other = r#"{"on_completed":{"url":"https://other.example/?…"}}"#;
        assert_eq!(with_stored_url(other, stored), other);
        let plain = r#"{ "type": "a", "on_completed": {"url": "https://hooks.example/done"} }"#;
        assert_eq!((super::shown(plain), with_stored_url(plain, plain)), (plain.to_owned(), plain.to_owned()));
    }
}
