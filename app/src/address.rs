//! URLs of this site with a query, as pages write them into links. Only what the pages need; the server
//! parses such URLs with a library.

use std::fmt::Write as _;

/// A path with a query. Empty values are left out.
pub fn address(path: &str, pairs: &[(&str, &str)]) -> String {
    let mut whole = path.to_owned();
    let mut mark = '?';
    for (name, value) in pairs.iter().filter(|(_, value)| !value.is_empty()) {
        whole.push(mark);
        mark = '&';
        encode(&mut whole, name);
        whole.push('=');
        encode(&mut whole, value);
    }
    whole
}

/// One segment of a path.
pub fn segment(text: &str) -> String {
    let mut whole = String::with_capacity(text.len());
    encode(&mut whole, text);
    whole
}

fn encode(whole: &mut String, text: &str) {
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.' | b'~' | b':' | b',') {
            whole.push(char::from(byte));
        } else {
            // Writing to a string cannot fail.
            let _ = write!(whole, "%{byte:02X}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn special_characters_are_percent_encoded() {
        assert_eq!(
            address("/jobs", &[("q", "state:dead a&b=\"é\""), ("x", "")]),
            "/jobs?q=state:dead%20a%26b%3D%22%C3%A9%22"
        );
        assert_eq!(address("/jobs", &[("q", "")]), "/jobs");
        assert_eq!(segment("a/b?c%"), "a%2Fb%3Fc%25");
    }
}
