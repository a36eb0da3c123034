//! Secrets that a push executor sends and that are never returned: a password, headers, the signing secret.
//!
//! Apart from the executor, which everybody may see: the store keeps both in columns of their own, so that
//! no answer, page or log can show what it does not have. It does not show in `Debug` either.

use std::{collections::BTreeMap, fmt};

use serde::{Deserialize, Serialize};

/// Headers that Treeline sets itself, or that belong to the connection.
const RESERVED: &[&str] = &[
    "connection",
    "content-encoding",
    "content-length",
    "content-type",
    "expect",
    "host",
    "idempotency-key",
    "keep-alive",
    "proxy-authorization",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "user-agent",
    "webhook-id",
    "webhook-signature",
    "webhook-timestamp",
];

/// Most headers of one executor, and the longest value in bytes.
pub const MOST_HEADERS: usize = 50;
pub const LONGEST_VALUE: usize = 8_192;

/// User and password for HTTP basic authentication.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct BasicAuth {
    pub user: String,
    pub password: String,
}

impl fmt::Debug for BasicAuth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

/// Headers by name.
#[derive(Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Headers(pub BTreeMap<String, String>);

impl fmt::Debug for Headers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}

/// Signing secrets: one, or two while receivers switch to a new secret; then both sign. A secret is `whsec_` and
/// base64, or any text.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub enum SigningSecret {
    One(String),
    Rotating(Vec<String>),
}

impl SigningSecret {
    /// The fewest characters of a secret; fewer can be guessed.
    pub const SHORTEST: usize = 8;

    /// Every secret that signs.
    pub fn all(&self) -> &[String] {
        match self {
            Self::One(secret) => std::slice::from_ref(secret),
            Self::Rotating(secrets) => secrets,
        }
    }

    /// Description of the expected form, where the secret cannot sign.
    pub fn problem(&self) -> Option<&'static str> {
        let all = self.all();
        if !(1..=2).contains(&all.len()) {
            return Some("expected one secret, or a list of one or two");
        }
        let usable = |secret: &String| crate::id::is_key(secret) && secret.chars().count() >= Self::SHORTEST;
        if !all.iter().all(usable) {
            return Some("expected 8 to 255 characters, better the base64 of 32 random bytes");
        }
        let is_decodable = |secret: &String| secret.strip_prefix("whsec_").is_none_or(is_base64);
        (!all.iter().all(is_decodable)).then_some("expected base64 after `whsec_`, as receivers decode it")
    }
}

/// Tells whether a receiver can decode this text: standard alphabet, with or without padding.
fn is_base64(text: &str) -> bool {
    let digits = text.trim_end_matches('=');
    let is_padded = digits.len() == text.len() || (text.len() - digits.len() <= 2 && text.len().is_multiple_of(4));
    let is_digit = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'+' || byte == b'/';
    is_padded && digits.len() % 4 != 1 && digits.bytes().all(is_digit)
}

impl fmt::Debug for SigningSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

/// Fields that are written and never returned.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct PushSecrets {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub auth: Option<BasicAuth>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub headers: Option<Headers>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub secret: Option<SigningSecret>,
    /// The whole URL, where it has a query: keys are often written there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
}

impl PushSecrets {
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Everything that is wrong with it: JSON Pointer within the executor, and what was expected.
    pub(super) fn problems(&self) -> Vec<(String, String)> {
        let mut problems_found = Vec::new();
        let mut report = |pointer: String, detail: &str| problems_found.push((pointer, detail.to_owned()));
        if let Some(auth) = &self.auth {
            let plain = |text: &str| text.len() <= LONGEST_VALUE && !text.chars().any(char::is_control);
            if auth.user.is_empty() || auth.user.contains(':') || !plain(&auth.user) {
                report("/auth/user".to_owned(), "expected text without a colon");
            }
            if !plain(&auth.password) {
                report("/auth/password".to_owned(), "expected text without line breaks");
            }
        }
        let headers = self.headers.iter().flat_map(|headers| &headers.0);
        if headers.clone().count() > MOST_HEADERS {
            report("/headers".to_owned(), "expected at most 50 headers");
        }
        let mut names: Vec<String> = Vec::new();
        for (name, value) in headers {
            let pointer = format!("/headers/{}", name.replace('~', "~0").replace('/', "~1"));
            let lower = name.to_ascii_lowercase();
            let is_reserved = RESERVED.contains(&lower.as_str()) || (lower == "authorization" && self.auth.is_some());
            if !is_token(name) {
                report(pointer, "expected the name of a header");
            } else if is_reserved {
                report(pointer, "expected another header: Treeline sets this one itself");
            } else if names.contains(&lower) {
                report(pointer, "expected each header once");
            } else if value.len() > LONGEST_VALUE || !value.bytes().all(|b| b == b'\t' || (32..127).contains(&b)) {
                report(pointer, "expected at most 8192 visible ASCII characters");
            }
            names.push(lower);
        }
        if let Some(expected) = self.secret.as_ref().and_then(SigningSecret::problem) {
            report("/secret".to_owned(), expected);
        }
        problems_found
    }
}

/// Returns true if this can be the name of a header (RFC 9110, token).
fn is_token(name: &str) -> bool {
    let is_token_byte = |b: u8| b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&b);
    (1..=100).contains(&name.len()) && name.bytes().all(is_token_byte)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> PushSecrets {
        serde_json::from_str(text).expect(text)
    }

    #[test]
    fn invalid_push_headers_are_refused() {
        let bad = read(
            r#"{"auth":{"user":"a:b","password":"x\ny"},"secret":"",
                "headers":{"a b":"1","Host":"x","Authorization":"x","X-A":"1","x-a":"2","X-B":"ä"}}"#,
        );
        let pointers: Vec<String> = bad.problems().into_iter().map(|(pointer, _)| pointer).collect();
        assert_eq!(
            pointers,
            [
                "/auth/user",
                "/auth/password",
                "/headers/Authorization",
                "/headers/Host",
                "/headers/X-B",
                "/headers/a b",
                "/headers/x-a",
                "/secret"
            ]
        );
        let good = read(r#"{"headers":{"Authorization":"Bearer x","X-Team":"hr"},"secret":"whsec_c2VjcmV0"}"#);
        assert_eq!(good.problems(), []);
    }

    #[test]
    fn signing_secret_is_one_or_two() {
        let read = |text: &str| serde_json::from_str::<SigningSecret>(text).expect(text);
        for good in [
            r#""a-long-secret""#,
            r#"["a-long-secret"]"#,
            r#"["the-old-secret","the-new-secret"]"#,
            r#"["whsec_c2VjcmV0cw==","whsec_c2VjcmV0cw"]"#,
        ] {
            assert_eq!(read(good).problem(), None, "{good}");
            assert_eq!(serde_json::to_string(&read(good)).expect("json"), good);
        }
        for bad in [r#""""#, r#""short""#, "[]", r#"["a-long-secret",""]"#, r#"["12345678","12345678","12345678"]"#] {
            assert!(read(bad).problem().is_some(), "{bad}");
        }
        for no_base64 in [r#""whsec_the-secret""#, r#""whsec_c2VjcmV0cw=""#, r#"["a-long-secret","whsec_c2Vjc"]"#] {
            assert!(read(no_base64).problem().is_some_and(|text| text.contains("base64 after")), "{no_base64}");
        }
    }

    #[test]
    fn push_secrets_are_hidden_in_debug_output() {
        let secrets = read(
            r#"{"auth":{"user":"ann","password":"hidden"},"headers":{"X-Key":"hidden"},"secret":["hidden-1","hidden-2"]}"#,
        );
        assert!(!format!("{secrets:?}").contains("hidden"), "{secrets:?}");
    }
}
