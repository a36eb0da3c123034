//! Bodies as the log may show them (`TREELINE_LOG_HTTP=full`): complete, short, of a known format, and without secrets.
//!
//! A value is a secret by its name (`password`, `token`), or by its form: a long random word, a signing secret, or the
//! query of a URL. Payloads and results are users' data and are shown; whoever turns this on has to know that.

use std::fmt::Write as _;

use domain::Code;
use serde::Deserialize as _;
use serde_json::Value;

/// Longest body that is shown, in bytes.
pub const LONGEST: usize = 16 << 10;

/// In place of a secret.
const BLANK: &str = "***";

/// Parts of names whose values are secrets.
const SECRET_PARTS: [&str; 15] = [
    "password",
    "passphrase",
    "passwd",
    "secret",
    "token",
    "authorization",
    "cookie",
    "capability",
    "credential",
    "signature",
    "recovery",
    "private",
    "apikey",
    "api_key",
    "otpauth",
];

/// Names whose values are secrets, as a whole: codes and keys of sign-in, links, headers of push requests, and the key of
/// PagerDuty.
const SECRET_NAMES: [&str; 13] = [
    "auth",
    "code",
    "codes",
    "link",
    "links",
    "headers",
    "otp",
    "totp",
    "pin",
    "key_uri",
    "challenge",
    "code_verifier",
    "routing_key",
];

/// Length from which a word without spaces counts as random. Ids (UUIDs) have 36 characters, generated secrets 43.
const RANDOM: usize = 40;

/// Returns true if the value of a field of this name is a secret.
fn is_secret(name: &str) -> bool {
    let name = name.to_ascii_lowercase().replace('-', "_");
    SECRET_NAMES.contains(&name.as_str()) || SECRET_PARTS.iter().any(|part| name.contains(part))
}

/// Body as the log may show it. `length`: its whole length, of which `start` is all or the beginning.
pub fn body(media_type: Option<&str>, start: &[u8], length: usize) -> String {
    let essence = media_type.unwrap_or_default().split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    if length == 0 {
        return String::new();
    }
    if start.len() < length {
        return format!("({length} bytes of {essence:?}, too long to show)");
    }
    let text = str::from_utf8(start).ok();
    let is_json = essence == "application/json" || essence.ends_with("+json");
    let is_lines = ["application/x-ndjson", "application/ndjson", "application/jsonl", "application/x-jsonlines"]
        .contains(&essence.as_str());
    let shown = match text {
        Some(text) if is_json => json(text),
        Some(text) if is_lines => text.lines().map(json).collect::<Option<Vec<_>>>().map(|lines| lines.join("\n")),
        Some(text) if essence == "application/x-www-form-urlencoded" => Some(form(text)),
        _ => None,
    };
    shown.unwrap_or_else(|| format!("({length} bytes of {essence:?})"))
}

/// An object or array without its secrets; `None` for any other text.
fn document(text: &str) -> Option<String> {
    text.trim_start().starts_with(['{', '[']).then(|| json(text)).flatten()
}

fn json(text: &str) -> Option<String> {
    if text.trim().is_empty() {
        return Some(String::new());
    }
    let mut value: Value = serde_json::from_str(text).ok()?;
    blank(&mut value);
    Some(value.to_string())
}

/// Blanks the secrets in a document.
fn blank(value: &mut Value) {
    match value {
        Value::String(text) => *text = words(text),
        Value::Array(elements) => elements.iter_mut().for_each(blank),
        Value::Object(fields) => {
            for (name, value) in fields {
                let is_plain = matches!(value, Value::Null | Value::Bool(_)) || is_problem_code(value);
                if is_secret(name) && !is_plain {
                    *value = Value::String(BLANK.to_owned());
                } else {
                    blank(value);
                }
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// Returns true for the code of a problem document, which shares its name with codes of sign-in.
fn is_problem_code(value: &Value) -> bool {
    Code::deserialize(value).is_ok()
}

fn form(text: &str) -> String {
    let mut shown = String::new();
    for (name, value) in form_urlencoded::parse(text.as_bytes()) {
        // A field of the API reference has a whole body.
        let value = if is_secret(&name) { BLANK.to_owned() } else { document(&value).unwrap_or_else(|| words(&value)) };
        let _ = write!(shown, "{}{}={value:?}", if shown.is_empty() { "" } else { "&" }, words(&name));
    }
    shown
}

/// Text without what looks like a secret.
pub fn words(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for (at, word) in text.split_whitespace().enumerate() {
        if at > 0 {
            shown.push(' ');
        }
        shown.push_str(&without_secrets(word));
    }
    // Most values are single words or hold nothing secret: keep their spaces as they are.
    let unchanged = text.split_whitespace().eq(shown.split_whitespace());
    if unchanged { text.to_owned() } else { shown }
}

fn without_secrets(word: &str) -> String {
    if word.contains("whsec_") || word.contains("-----BEGIN") {
        return BLANK.to_owned();
    }
    let is_url = word.starts_with("http://") || word.starts_with("https://");
    let address = if is_url { url::Url::parse(word).ok() } else { None };
    let word = address.map_or_else(|| word.to_owned(), |address| url(&address));
    let is_random = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    let mut shown = String::with_capacity(word.len());
    let mut run = String::new();
    for c in word.chars().map(Some).chain([None]) {
        match c {
            Some(c) if is_random(c) => run.push(c),
            _ => {
                shown.push_str(if run.len() >= RANDOM { BLANK } else { &run });
                run.clear();
                shown.extend(c);
            }
        }
    }
    shown
}

/// Length from which a part of a path without any separator counts as random, like the last one of a Slack webhook.
const RANDOM_PART: usize = 20;

/// URL without a password, without the values of its query, and without random parts of its path.
pub fn url(address: &url::Url) -> String {
    let mut shown = address.clone();
    if shown.password().is_some() || !shown.username().is_empty() {
        // They fail only for URLs that cannot have either.
        let _ = shown.set_username(BLANK);
        let _ = shown.set_password(None);
    }
    if shown.query().is_some() {
        shown.set_query(Some(BLANK));
    }
    shown.set_fragment(None);
    let is_random = |part: &str| part.len() >= RANDOM_PART && part.bytes().all(|byte| byte.is_ascii_alphanumeric());
    if shown.path().split('/').any(is_random) {
        let parts: Vec<_> = shown.path().split('/').map(|part| if is_random(part) { BLANK } else { part }).collect();
        shown.set_path(&parts.join("/"));
    }
    String::from(shown)
}

#[cfg(test)]
mod tests {
    use super::*;

    const RANDOM_SECRET: &str = "trl_abcdefghijklmnopqrstuvwxyz0123456789ABCDEFG";

    fn shown(media_type: &str, text: &str) -> String {
        body(Some(media_type), text.as_bytes(), text.len())
    }

    #[test]
    fn secrets_of_json_are_blank() {
        let text = format!(
            r#"{{"name": "ada", "password": "hunter2", "new_password": "hunter3", "nested": [{{"Api-Key": 5, "n": 1}}],
                "executor": {{"headers": {{"X-Key": "abc"}}, "auth": {{"user": "u"}}, "url": "https://u:p@h/a?key=xyz#f"}},
                "assignment_id": "0190a5e0-0000-7000-8123-456789abcdef.{}", "note": "use {RANDOM_SECRET} now",
                "secret": null, "signing": "whsec_c2VjcmV0", "id": "0190a5e0-0000-7000-8123-456789abcdef"}}"#,
            &RANDOM_SECRET[4..],
        );
        let shown = shown("application/json; charset=utf-8", &text);
        for secret in ["hunter", "abc\"", "\"u\"", "u:p", "xyz", "abcdefghij", "c2Vj", ":5"] {
            assert!(!shown.contains(secret), "{secret}: {shown}");
        }
        for kept in ["\"ada\"", "\"n\":1", "0190a5e0-0000-7000-8123-456789abcdef.***", "use *** now", "\"secret\":null"]
        {
            assert!(shown.contains(kept), "{kept}: {shown}");
        }
    }

    #[test]
    fn secrets_of_forms_and_lines_are_blank() {
        let form = shown("application/x-www-form-urlencoded", "email=a%40b&password=hunter2&q=a+b");
        assert_eq!(form, r#"email="a@b"&password="***"&q="a b""#);
        let form = shown("application/x-www-form-urlencoded", "body=%7B%22password%22%3A%22correct+horse%22%7D&n=1.0");
        assert_eq!(form, r#"body="{\"password\":\"***\"}"&n="1.0""#);
        let lines = shown("application/x-ndjson", "{\"payload\": 1}\n{\"token\": \"x\"}\n");
        assert_eq!(lines, "{\"payload\":1}\n{\"token\":\"***\"}");
    }

    #[test]
    fn bodies_that_cannot_be_blanked_are_not_shown() {
        assert_eq!(shown("text/csv", "name,password\n"), "(14 bytes of \"text/csv\")");
        assert_eq!(shown("application/json", "{\"password\": \"hunter2\""), "(22 bytes of \"application/json\")");
        let long = body(Some("application/json"), br#"{"a": 1"#, 90_000);
        assert_eq!(long, "(90000 bytes of \"application/json\", too long to show)");
        assert_eq!(body(None, b"", 0), "");
        assert_eq!(body(None, b"\xff", 1), "(1 bytes of \"\")");
    }

    #[test]
    fn codes_of_problems_are_shown_and_those_of_sign_in_are_not() {
        assert_eq!(shown("application/problem+json", r#"{"code": "not_found"}"#), r#"{"code":"not_found"}"#);
        assert_eq!(shown("application/json", r#"{"code": "123456"}"#), r#"{"code":"***"}"#);
    }

    #[test]
    fn keys_of_alert_channels_are_blank() {
        let slack = "https://hooks.slack.com/services/T024BE7LD/B0ABC1234/aBcDeFgHiJkLmNoPqRsTuVwX";
        let text =
            format!(r#"{{"kind": "slack", "url": "{slack}", "routing_key": "0123456789abcdef0123456789abcdef"}}"#);
        assert_eq!(
            shown("application/json", &text),
            r#"{"kind":"slack","routing_key":"***","url":"https://hooks.slack.com/services/T024BE7LD/B0ABC1234/***"}"#
        );
        let plain = "https://host/items/0190a5e0-0000-7000-8123-456789abcdef/invoices";
        assert_eq!(words(plain), plain);
    }

    #[test]
    fn plain_text_keeps_its_spaces() {
        assert_eq!(words("a  b\n c"), "a  b\n c");
    }
}
