//! Identifiers. Server-made ones are UUID v7, so they sort by age; making them needs randomness and a
//! clock and therefore happens elsewhere. Names that people type are checked here.

pub use uuid::Uuid;

/// Returns true if `name` can name a job type or be a job key: `[a-z0-9][a-z0-9._-]{0,99}`.
pub fn is_name(name: &str) -> bool {
    let word = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit();
    let bytes = name.as_bytes();
    matches!(bytes.first(), Some(&b) if word(b))
        && bytes.len() <= crate::limits::LONGEST_NAME
        && bytes.iter().all(|&b| word(b) || matches!(b, b'.' | b'_' | b'-'))
}

/// Returns true if `key` can be a dedupe, serialize, or idempotency key: 1 to 255 characters, no NUL.
pub fn is_key(key: &str) -> bool {
    crate::limits::is_text(key, 1, crate::limits::LONGEST_KEY)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_lower_case_and_bounded() {
        assert!(is_name("invoice-shipments"));
        assert!(is_name("0.a_b"));
        for bad in ["", "-a", "A", "a b", "é", &"a".repeat(101)] {
            assert!(!is_name(bad), "{bad:?}");
        }
    }

    #[test]
    fn keys_are_any_text_of_255_characters() {
        assert!(is_key(&"é".repeat(255)));
        assert!(!is_key(&"é".repeat(256)));
        assert!(!is_key(""));
        assert!(!is_key("a\0"));
    }
}
