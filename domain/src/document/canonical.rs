//! One spelling for every JSON value, so that equal documents can be told by comparing text.
//!
//! Keys are sorted, white space is gone, escapes are resolved, and a number is its exact decimal value:
//! `1.0`, `1`, `10e-1` are one number, `0.1` and the float next to it are two. Only for comparing and
//! hashing: what users get back is always what they sent.

use super::scan::string_end;

/// The one spelling of the value of `text`, which is well-formed JSON.
pub fn canonical(text: &str) -> String {
    canonical_without(text, None)
}

/// Returns true if two JSON texts spell the same value.
pub fn is_same_value(one: &str, other: &str) -> bool {
    one == other || canonical(one) == canonical(other)
}

/// The same of an object without one of its members; of anything else, as it is.
pub fn canonical_without(text: &str, left_out: Option<&str>) -> String {
    let mut out = String::with_capacity(text.len());
    write(text, 0, left_out, &mut out);
    out
}

/// Writes the value that stands at `at`; returns where what follows it stands. One pass over the text,
/// however deep it is.
fn write(text: &str, at: usize, left_out: Option<&str>, out: &mut String) -> usize {
    let at = spaces(text, at);
    match text.as_bytes().get(at) {
        Some(b'{') => members(text, at, left_out, out),
        Some(b'[') => {
            out.push('[');
            let mut first = true;
            let mut at = spaces(text, at + 1);
            while !is_over(text, at, b']') {
                separate(&mut first, out);
                at = next(text, write(text, at, None, out));
            }
            out.push(']');
            at + 1
        }
        Some(b'"') => {
            let end = string_end(text.as_bytes(), at);
            match text.get(at..end).map(serde_json::from_str::<String>) {
                Some(Ok(value)) => string(&value, out),
                _ => out.push_str(text.get(at..end).unwrap_or_default()),
            }
            end
        }
        _ => {
            let is_end = |b: &u8| matches!(b, b',' | b']' | b'}' | b' ' | b'\t' | b'\r' | b'\n');
            let rest = text.as_bytes().get(at..).unwrap_or_default();
            let end = at + rest.iter().position(is_end).unwrap_or(rest.len());
            let word = text.get(at..end).unwrap_or_default();
            if word.starts_with(|c: char| c == '-' || c.is_ascii_digit()) {
                number(word, out);
            } else {
                out.push_str(word);
            }
            // Never the same place again, whatever the text is.
            end.max(at + 1)
        }
    }
}

/// Writes an object whose members are sorted by key.
fn members(text: &str, at: usize, left_out: Option<&str>, out: &mut String) -> usize {
    // Where each member begins in `out`, the length of its key there, and where it ends.
    let mut positions: Vec<(usize, usize, usize)> = Vec::new();
    let begin = out.len();
    let mut at = spaces(text, at + 1);
    while !is_over(text, at, b'}') {
        let from = out.len();
        at = spaces(text, write(text, at, None, out));
        let key = out.len() - from;
        out.push(':');
        at = next(text, write(text, at + 1, None, out));
        let is_left_out = left_out.is_some_and(|name| {
            serde_json::from_str::<String>(&out[from..from + key]).is_ok_and(|spelt| spelt == name)
        });
        if is_left_out {
            out.truncate(from);
        } else {
            positions.push((from, key, out.len()));
        }
    }
    let written = &out[begin..];
    let piece = |from: usize, to: usize| &written[from - begin..to - begin];
    positions.sort_unstable_by(|a, b| piece(a.0, a.0 + a.1).cmp(piece(b.0, b.0 + b.1)));
    let mut sorted = String::with_capacity(written.len() + positions.len() + 2);
    sorted.push('{');
    let mut first = true;
    for &(from, _, to) in &positions {
        separate(&mut first, &mut sorted);
        sorted.push_str(piece(from, to));
    }
    sorted.push('}');
    out.truncate(begin);
    out.push_str(&sorted);
    at + 1
}

/// Position of the next byte that is not a space.
fn spaces(text: &str, at: usize) -> usize {
    let rest = text.as_bytes().get(at..).unwrap_or_default();
    at + rest.iter().take_while(|b| b.is_ascii_whitespace()).count()
}

/// Behind the comma that follows, if one does.
fn next(text: &str, at: usize) -> usize {
    let at = spaces(text, at);
    if text.as_bytes().get(at) == Some(&b',') { spaces(text, at + 1) } else { at }
}

/// Returns true if an array, an object, or the text ends here.
fn is_over(text: &str, at: usize, bracket: u8) -> bool {
    text.as_bytes().get(at).is_none_or(|&b| b == bracket)
}

fn separate(first: &mut bool, out: &mut String) {
    if !std::mem::take(first) {
        out.push(',');
    }
}

fn string(value: &str, out: &mut String) {
    out.push_str(&serde_json::to_string(value).unwrap_or_default());
}

/// Significant digits without zeros at either end, and the power of ten of the last one: `-125e-1`.
fn number(text: &str, out: &mut String) {
    let (mantissa, exponent) = text.split_once(['e', 'E']).unwrap_or((text, "0"));
    let (sign, mantissa) = mantissa.strip_prefix('-').map_or(("", mantissa), |rest| ("-", rest));
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let digits = format!("{whole}{fraction}");
    let significant = digits.trim_start_matches('0');
    let last = significant.trim_end_matches('0');
    if last.is_empty() {
        out.push('0');
        return;
    }
    let moved = (significant.len() - last.len()) as i128 - fraction.len() as i128;
    // Beyond what fits, two spellings of one number count as two: no one writes them by accident.
    let power = exponent.parse::<i128>().ok().and_then(|exponent| exponent.checked_add(moved));
    match power {
        Some(power) => out.extend([sign, last, "e", &power.to_string()]),
        None => out.push_str(text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn canonical_form_of_equal_values_is_equal() {
        for (a, b) in [
            (r#"{"a":1,"b":[true,null]}"#, "{ \"b\" : [ true , null ] , \"\\u0061\" : 1.0 }"),
            ("1", "1.0"),
            ("1", "10e-1"),
            ("100", "1E+2"),
            ("-0.0", "0"),
            ("0e5", "0"),
            ("1e400", "10e399"),
            ("1.10", "1.1"),
            ("\"\\u00e9\\/\"", "\"é/\""),
            ("  {}\n", "{}"),
        ] {
            assert!(is_same_value(a, b), "{a} and {b}: {} and {}", canonical(a), canonical(b));
        }
    }

    #[test]
    fn canonical_form_of_different_values_differs() {
        for (a, b) in [
            ("9007199254740993", "9007199254740992"),
            ("1e400", "1e401"),
            ("0.1", "0.1000000000000000055511151231257827"),
            ("1", "-1"),
            ("1", "\"1\""),
            ("10", "1"),
            ("[1,2]", "[2,1]"),
            ("null", "{}"),
            (r#"{"a":null}"#, "{}"),
            (r#""a""#, r#""A""#),
            (r#"{"a":1,"b":2}"#, r#"{"a":2,"b":1}"#),
            (r#"{"a":[1,{}]}"#, r#"{"a":[1],"b":{}}"#),
        ] {
            assert!(!is_same_value(a, b), "{a} and {b}");
        }
    }

    #[test]
    fn canonical_form_sorts_keys_only() {
        let text = r#" { "b" : [ 2 , {"z":null,"a":"x\"},{"} , 1 ] ,"a\"":{ } , "\u00e9" : [ ] , "a": true } "#;
        let spelt = r#"{"a":true,"a\"":{},"b":[2e0,{"a":"x\"},{","z":null},1e0],"é":[]}"#;
        assert_eq!(canonical(text), spelt);
        assert_eq!(canonical(spelt), spelt);
    }

    #[test]
    fn canonical_terminates_on_invalid_json() {
        for text in ["", "{", "[1", r#"{"a""#, r#"{"a":"#, r#"""#, "}", "]]", "[}", r#"{"a":]}"#, "é[é", r#"{"é"#] {
            canonical(text);
        }
    }

    #[test]
    fn canonical_without_top_level_member() {
        let text = r#"{"id":1,"a":{"id":2}}"#;
        assert_eq!(canonical_without(text, Some("id")), r#"{"a":{"id":2e0}}"#);
    }

    #[test]
    fn canonical_keeps_huge_exponents() {
        let huge = format!("1e{}", "9".repeat(60));
        assert!(is_same_value(&huge, &huge));
        assert!(!is_same_value(&huge, "1e9"));
    }
}
