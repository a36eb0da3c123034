//! One spelling for every JSON value, so that equal documents can be told by comparing text.
//!
//! Keys are sorted, white space is gone, escapes are resolved, and a number is its exact decimal value:
//! `1.0`, `1`, `10e-1` are one number, `0.1` and the float next to it are two. Only for comparing and
//! hashing: what users get back is always what they sent.

use super::walk::{elements, members};

/// The one spelling of the value of `text`, which is well-formed JSON.
pub fn canonical(text: &str) -> String {
    canonical_without(text, None)
}

/// The same of an object without one of its members; of anything else, as it is.
pub fn canonical_without(text: &str, left_out: Option<&str>) -> String {
    let mut out = String::with_capacity(text.len());
    write(text.trim(), left_out, &mut out);
    out
}

fn write(text: &str, left_out: Option<&str>, out: &mut String) {
    if let Some(mut members) = members(text) {
        members.sort_unstable_by(|a, b| a.0.cmp(&b.0));
        out.push('{');
        let mut first = true;
        for (key, value) in members.iter().filter(|(key, _)| Some(key.as_str()) != left_out) {
            separate(&mut first, out);
            string(key, out);
            out.push(':');
            write(value, None, out);
        }
        out.push('}');
    } else if let Some(elements) = elements(text) {
        out.push('[');
        let mut first = true;
        for element in elements {
            separate(&mut first, out);
            write(element, None, out);
        }
        out.push(']');
    } else if text.starts_with('"') {
        match serde_json::from_str::<String>(text) {
            Ok(value) => string(&value, out),
            Err(_) => out.push_str(text),
        }
    } else if text.starts_with(|c: char| c == '-' || c.is_ascii_digit()) {
        number(text, out);
    } else {
        out.push_str(text);
    }
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
    // Beyond what fits, two spellings of one number count as two: nobody writes them by accident.
    let power = exponent.parse::<i128>().ok().and_then(|exponent| exponent.checked_add(moved));
    match power {
        Some(power) => out.extend([sign, last, "e", &power.to_string()]),
        None => out.push_str(text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn same(a: &str, b: &str) -> bool {
        canonical(a) == canonical(b)
    }

    #[test]
    fn equal_values_have_one_spelling() {
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
            assert!(same(a, b), "{a} and {b}: {} and {}", canonical(a), canonical(b));
        }
    }

    #[test]
    fn different_values_do_not() {
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
        ] {
            assert!(!same(a, b), "{a} and {b}");
        }
    }

    #[test]
    fn a_member_can_be_left_out_at_the_top() {
        let text = r#"{"id":1,"a":{"id":2}}"#;
        assert_eq!(canonical_without(text, Some("id")), r#"{"a":{"id":2e0}}"#);
    }

    #[test]
    fn an_exponent_beyond_all_bounds_is_kept_as_it_is() {
        let huge = format!("1e{}", "9".repeat(60));
        assert!(same(&huge, &huge));
        assert!(!same(&huge, "1e9"));
    }
}
