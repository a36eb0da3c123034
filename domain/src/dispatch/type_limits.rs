//! Limits of a job type on when its items start: how many in a time, and how many at once with the same value in their
//! payload (`rate-limit`, `concurrency-by-key`).

use serde::{Deserialize, Serialize};

use crate::{document::pointer::Pointer, limits::LONGEST_POINTER};

/// Longest window of a rate limit, in seconds.
pub const LONGEST_WINDOW_SECONDS: i64 = 86_400;

/// Highest number in a limit.
pub const HIGHEST_LIMIT: i64 = 1_000_000;

/// Limit on the number of items that start in a period. Every attempt is a start.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct RateLimit {
    /// Maximum number of starts in any window of `per_seconds`.
    pub count: i64,
    pub per_seconds: i64,
    /// Maximum number of starts at the same moment after a pause; then one every `per_seconds` / `count`. If greater
    /// than `count`, also the maximum in one window after a pause. Absent: `count`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub burst: Option<i64>,
    /// JSON Pointer into the payload: the limit applies to each value there. Absent: to the whole type.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
}

impl RateLimit {
    /// Most items that start in one window.
    pub fn most_per_window(&self) -> i64 {
        self.count.max(self.burst.unwrap_or(0))
    }

    fn problems(&self) -> Vec<(String, String)> {
        let mut problems_found = Vec::new();
        let mut report = |pointer: &str, detail: &str| problems_found.push((pointer.to_owned(), detail.to_owned()));
        if !(1..=HIGHEST_LIMIT).contains(&self.count) {
            report("/count", "expected a whole number from 1 to 1000000");
        }
        if !(1..=LONGEST_WINDOW_SECONDS).contains(&self.per_seconds) {
            report("/per_seconds", "expected a whole number of seconds from 1 to 86400");
        }
        if self.burst.is_some_and(|burst| !(1..=HIGHEST_LIMIT).contains(&burst)) {
            report("/burst", "expected a whole number from 1 to 1000000");
        }
        if self.key.as_ref().is_some_and(|key| !is_pointer(key)) {
            report("/key", "expected a JSON Pointer into the payload, such as /customer");
        }
        problems_found
    }
}

/// Limit on the number of items with the same value in their payload that run at once.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ConcurrencyBy {
    /// JSON Pointer into the payload.
    pub key: String,
    pub limit: i64,
}

impl ConcurrencyBy {
    fn problems(&self) -> Vec<(String, String)> {
        let mut problems_found = Vec::new();
        if !is_pointer(&self.key) {
            let detail = "expected a JSON Pointer into the payload, such as /customer";
            problems_found.push(("/key".to_owned(), detail.to_owned()));
        }
        if !(1..=HIGHEST_LIMIT).contains(&self.limit) {
            problems_found.push(("/limit".to_owned(), "expected a whole number from 1 to 1000000".to_owned()));
        }
        problems_found
    }
}

/// All limits of a type on its starts, besides its concurrency.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TypeLimits {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate_limit: Option<RateLimit>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub concurrency_by: Option<ConcurrencyBy>,
}

impl TypeLimits {
    /// True if nothing is limited.
    pub const fn is_empty(&self) -> bool {
        self.rate_limit.is_none() && self.concurrency_by.is_none()
    }

    /// Rate limit of the whole type.
    pub fn rate(&self) -> Option<&RateLimit> {
        self.rate_limit.as_ref().filter(|rate| rate.key.is_none())
    }

    /// Rate limit of each key, with its pointer.
    pub fn keyed_rate(&self) -> Option<(&RateLimit, &str)> {
        let rate = self.rate_limit.as_ref()?;
        Some((rate, rate.key.as_deref()?))
    }

    /// True if a limit holds for each key.
    pub fn is_keyed(&self) -> bool {
        self.concurrency_by.is_some() || self.keyed_rate().is_some()
    }

    /// Everything that is wrong with it: JSON Pointer into the body of the type, and what was expected.
    pub fn problems(&self) -> Vec<(String, String)> {
        let within = |field: &str, problems: Vec<(String, String)>| -> Vec<(String, String)> {
            problems.into_iter().map(|(pointer, detail)| (format!("/{field}{pointer}"), detail)).collect()
        };
        let rate = self.rate_limit.as_ref().map(RateLimit::problems).unwrap_or_default();
        let concurrency = self.concurrency_by.as_ref().map(ConcurrencyBy::problems).unwrap_or_default();
        [within("rate_limit", rate), within("concurrency_by", concurrency)].concat()
    }
}

pub(crate) fn is_pointer(text: &str) -> bool {
    !text.is_empty() && text.len() <= LONGEST_POINTER && !text.contains('\0') && Pointer::parse(text).is_some()
}

/// Value of a key in a payload, as text. `None` where there is none, or where it is null, an array or an object: such
/// items have no key and are not limited by it.
pub fn key_value(pointer: &str, payload: &str) -> Option<String> {
    let found = Pointer::parse(pointer)?.find(payload)?;
    match found.trim_start().as_bytes().first()? {
        b'{' | b'[' | b'n' => None,
        b'"' => serde_json::from_str(found).ok(),
        _ => Some(found.trim().to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_the_text_of_a_scalar() {
        let payload = r#"{"a":{"b":"x\u0041"},"n":1.50,"t":true,"z":null,"list":[1],"o":{}}"#;
        let value = |pointer: &str| key_value(pointer, payload);
        assert_eq!(value("/a/b").as_deref(), Some("xA"));
        assert_eq!(value("/n").as_deref(), Some("1.50"));
        assert_eq!(value("/t").as_deref(), Some("true"));
        assert_eq!(value("/list/0").as_deref(), Some("1"));
        for none in ["/z", "/list", "/o", "/missing", "/a/b/c"] {
            assert_eq!(value(none), None, "{none}");
        }
    }

    #[test]
    fn every_problem_of_a_limit_is_named() {
        let limits = TypeLimits {
            rate_limit: Some(RateLimit { count: 0, per_seconds: 0, burst: Some(0), key: Some("x".to_owned()) }),
            concurrency_by: Some(ConcurrencyBy { key: String::new(), limit: 0 }),
        };
        let pointers: Vec<String> = limits.problems().into_iter().map(|problem| problem.0).collect();
        assert_eq!(
            pointers,
            [
                "/rate_limit/count",
                "/rate_limit/per_seconds",
                "/rate_limit/burst",
                "/rate_limit/key",
                "/concurrency_by/key",
                "/concurrency_by/limit"
            ]
        );
    }
}
