//! Error fingerprints: failures whose message differs only in its variable parts belong together.
//!
//! A fingerprint is the hash of kind and message with numbers, quoted texts and long hexadecimal words
//! taken out. It is stable across versions: it is stored, and links point at it.

/// The message with its variable parts taken out: `row 12: "x" is 5` becomes `row #: "…" is #`.
pub fn normalise(message: &str) -> String {
    let mut out = String::with_capacity(message.len().min(MAX_CHARS));
    let mut chars = message.chars().take(MAX_CHARS).peekable();
    while let Some(c) = chars.next() {
        match c {
            '"' | '`' => {
                out.push(c);
                if chars.by_ref().any(|inner| inner == c) {
                    out.push('…');
                    out.push(c);
                }
            }
            c if c.is_alphanumeric() => {
                let mut word = String::from(c);
                while let Some(&next) = chars.peek() {
                    if next.is_alphanumeric() || (next == '-' && is_hex(&word)) {
                        word.push(next);
                        chars.next();
                    } else {
                        break;
                    }
                }
                if word.chars().any(|c| c.is_ascii_digit()) {
                    out.push('#');
                } else {
                    out.push_str(&word);
                }
            }
            c => out.push(c),
        }
    }
    out
}

/// As much of a message as is looked at.
const MAX_CHARS: usize = 500;

fn is_hex(word: &str) -> bool {
    word.len() >= 4 && word.bytes().all(|b| b.is_ascii_hexdigit() || b == b'-')
}

/// Sixteen hexadecimal digits for an error's kind and message (FNV-1a, 64 bits).
pub fn fingerprint(kind: Option<&str>, message: &str) -> String {
    let normal = normalise(message);
    let bytes = kind.unwrap_or_default().bytes().chain([0]).chain(normal.bytes());
    let hash = bytes
        .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3));
    format!("{hash:016x}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fingerprint_ignores_variable_parts() {
        assert_eq!(normalise("row 12: \"x y\" is 5.25"), "row #: \"…\" is #.#");
        assert_eq!(normalise("no user 0190a5e0-0000-7000-8000-00000000000a"), "no user #");
        assert_eq!(normalise("an open \" quote"), "an open \"");
    }

    #[test]
    fn fingerprint_groups_similar_messages() {
        let of = |message| fingerprint(Some("invalid_row"), message);
        assert_eq!(of("line 12: expected a number"), of("line 99: expected a number"));
        assert_ne!(of("line 12: expected a number"), of("line 12: expected a date"));
        assert_ne!(fingerprint(None, "x"), fingerprint(Some("x"), "x"));
    }
}
