//! One pass over JSON text that serde_json has already found well formed.
//!
//! It looks for what syntax allows and we refuse. Keys are compared after their escapes are resolved
//! (`"a"` and `"\u0061"` are one key). Memory: sixteen bytes for each key of the objects that are open, as
//! a hostile document may be nothing but keys.

use std::{
    borrow::Cow,
    hash::{BuildHasher as _, RandomState},
};

/// Maximum depth of nested arrays and objects.
pub const MAX_DEPTH: usize = 128;

/// Reason why a document is refused, and its position.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScanError {
    /// Byte offset in the document.
    pub at: usize,
    /// Error at that position.
    pub message: &'static str,
}

impl std::fmt::Display for ScanError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} at byte {}", self.message, self.at)
    }
}

impl std::error::Error for ScanError {}

/// Open array, or open object with the keys seen so far, each as a hash and its position.
enum Open {
    Array,
    Object { keys: Vec<(u64, usize)>, expects_key: bool },
}

/// Looks through JSON text that is known to be well formed. See [`Document::scan`](super::Document::scan).
pub fn scan(text: &str) -> Result<(), ScanError> {
    let bytes = text.as_bytes();
    let hashes = RandomState::new();
    let mut open: Vec<Open> = Vec::new();
    let mut at = 0;
    while at < bytes.len() {
        match bytes[at] {
            b'{' | b'[' => {
                if open.len() == MAX_DEPTH {
                    return Err(ScanError { at, message: "nested deeper than 128 levels" });
                }
                open.push(if bytes[at] == b'{' {
                    Open::Object { keys: Vec::new(), expects_key: true }
                } else {
                    Open::Array
                });
                at += 1;
            }
            b'}' | b']' => {
                if let Some(Open::Object { keys, .. }) = open.pop() {
                    check_keys(text, keys)?;
                }
                at += 1;
            }
            b',' => {
                if let Some(Open::Object { expects_key, .. }) = open.last_mut() {
                    *expects_key = true;
                }
                at += 1;
            }
            b'"' => {
                let end = string_end(bytes, at);
                let value = check_string(text, at, end)?;
                if let Some(Open::Object { keys, expects_key }) = open.last_mut()
                    && std::mem::take(expects_key)
                {
                    keys.push((hashes.hash_one(&*value), at));
                }
                at = end;
            }
            _ => at += 1,
        }
    }
    Ok(())
}

/// Refuses a key that stands twice, and names the first that does, whatever order the hashes bring. Only keys of one
/// hash are compared, so hardly ever any.
fn check_keys(text: &str, mut keys: Vec<(u64, usize)>) -> Result<(), ScanError> {
    keys.sort_unstable();
    let mut first: Option<usize> = None;
    for same in keys.chunk_by(|a, b| a.0 == b.0).filter(|same| same.len() > 1) {
        let mut values: Vec<(Cow<'_, str>, usize)> = Vec::with_capacity(same.len());
        for &(_, at) in same {
            values.push((check_string(text, at, string_end(text.as_bytes(), at))?, at));
        }
        values.sort_unstable();
        let again = values.windows(2).filter(|pair| pair[0].0 == pair[1].0).map(|pair| pair[1].1);
        first = first.into_iter().chain(again).min();
    }
    first.map_or(Ok(()), |at| Err(ScanError { at, message: "a key that stands twice in one object" }))
}

/// The offset just behind the closing quote of the string that opens at `start`.
pub(super) fn string_end(bytes: &[u8], start: usize) -> usize {
    let mut at = start + 1;
    while at < bytes.len() {
        match bytes[at] {
            b'\\' => at += 2,
            b'"' => return at + 1,
            _ => at += 1,
        }
    }
    bytes.len()
}

/// The string's value; refuses NUL and surrogates that are not in pairs.
fn check_string(text: &str, start: usize, end: usize) -> Result<Cow<'_, str>, ScanError> {
    let inner = &text[start + 1..end - 1];
    if !inner.contains('\\') {
        return Ok(inner.into());
    }
    let value: String =
        serde_json::from_str(&text[start..end]).map_err(|_| ScanError { at: start, message: "a lone surrogate" })?;
    if value.contains('\0') {
        return Err(ScanError { at: start, message: "a NUL character" });
    }
    Ok(value.into())
}

#[cfg(test)]
mod tests {
    use super::super::Document;

    fn refused(text: &str) -> &'static str {
        Document::parse(text.to_owned()).expect_err(text).message
    }

    #[test]
    fn scan_error_position_is_stable() {
        for _ in 0..20 {
            let refused = Document::parse(r#"{"a":1,"b":1,"c":1,"c":2,"b":2,"a":2}"#.to_owned()).expect_err("doubles");
            assert_eq!(refused.at, 19);
        }
    }

    #[test]
    fn unstorable_documents_are_refused() {
        assert_eq!(refused(r#"{"a":1,"a":2}"#), "a key that stands twice in one object");
        assert_eq!(refused(r#"{"a":1,"\u0061":2}"#), "a key that stands twice in one object");
        assert_eq!(refused(r#"[{"b":{"c":1,"d":{},"c":[]}}]"#), "a key that stands twice in one object");
        assert_eq!(refused(r#"["\u0000"]"#), "a NUL character");
        assert_eq!(refused(r#""\ud800""#), "a lone surrogate");
        assert_eq!(refused(&format!("{}{}", "[".repeat(129), "]".repeat(129))), "nested deeper than 128 levels");
        assert_eq!(refused("{"), "not JSON");
    }

    #[test]
    fn similar_but_distinct_keys_are_accepted() {
        for text in [r#"{"a":{"a":1},"b":["a","a"]}"#, r#"{"a":"a,\"a\":1"}"#, r#""\ud83d\ude00""#, r#"{"":1}"#] {
            Document::parse(text.to_owned()).expect(text);
        }
        Document::parse(format!("{}{}", "[".repeat(127), "]".repeat(127))).expect("127 levels");
    }
}
