//! Reading of JSON documents whose errors name the place and what was expected.

use domain::{Code, Problem, bounded::TOO_MANY_ELEMENTS, document, strict_json};
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;

use engine::error::{Error, Result};

/// Parses JSON text: syntax, content that is refused in every document, then shape.
pub fn read<T: DeserializeOwned>(bytes: &[u8]) -> Result<T> {
    let raw: &RawValue = serde_json::from_slice(bytes).map_err(|e| {
        let place = format!("line {}, column {}", e.line(), e.column());
        Error::refuse(Code::InvalidJson, format!("The body is not JSON: {} at {place}.", without_position(&e)))
    })?;
    document::scan(raw.get()).map_err(|e| Problem::invalid_body([(String::new(), format!("found {e}"))]))?;
    let message = match strict_json::from_str(raw.get()) {
        Ok(value) => return Ok(value),
        Err(error) => without_position(&error),
    };
    // A truncated message quotes something huge, which the second pass would copy again.
    let is_cut = message.ends_with(CUT);
    Err(if is_cut { Problem::invalid_body([(String::new(), message)]) } else { shape_problem::<T>(raw.get()) }.into())
}

/// Parses the text again, tracking the path, to report the place at which the shape is wrong.
fn shape_problem<T: DeserializeOwned>(text: &str) -> Problem {
    let mut deserializer = serde_json::Deserializer::from_str(text);
    let (pointer, error) = match serde_path_to_error::deserialize::<_, T>(strict_json::Strict(&mut deserializer)) {
        Err(error) => (pointer(error.path()), without_position(error.inner())),
        Ok(_) => (String::new(), "not of the shape that is expected".to_owned()),
    };
    if error == TOO_MANY_ELEMENTS {
        return Problem::at(Code::TooLarge, pointer, error);
    }
    // Typed nesting, such as jobs in jobs, ends at serde_json's own recursion limit.
    let detail = if error.contains("recursion limit") { "nested too deep".to_owned() } else { plain(&error) };
    let place = match missing_field(&error) {
        Some(name) => format!("{pointer}/{name}"),
        None => pointer,
    };
    Problem::invalid_body([(place, detail)])
}

/// Name of the field that a message of serde misses.
fn missing_field(message: &str) -> Option<&str> {
    message.strip_prefix("missing field `")?.strip_suffix('`')
}

/// Message of serde in the words of JSON: what was expected, and what was found.
fn plain(message: &str) -> String {
    if message == "expected value" {
        return "expected a string".to_owned();
    }
    let wrong = message.strip_prefix("invalid type: ").or_else(|| message.strip_prefix("invalid value: "));
    let Some((found, expected)) = wrong.and_then(|rest| rest.rsplit_once(", expected ")) else {
        return message.to_owned();
    };
    let is_type = message.starts_with("invalid type");
    let expected = match expected {
        "a sequence" | "sequence" => "an array",
        "u8" | "u16" | "u32" | "u64" | "usize" | "i8" | "i16" | "i32" | "i64" | "isize" if is_type => "a whole number",
        "u8" => "a whole number from 0 to 255",
        "u16" => "a whole number from 0 to 65535",
        "u32" => "a whole number from 0 to 4294967295",
        "u64" | "usize" => "a whole number from 0",
        "i16" => "a whole number from -32768 to 32767",
        "i32" => "a whole number from -2147483648 to 2147483647",
        "f32" | "f64" => "a number",
        name if name.starts_with("struct ") || matches!(name, "a map" | "map") => "an object",
        other => other,
    };
    let found = match found.split_once(' ') {
        None if found == "map" => "an object",
        None if found == "sequence" => "an array",
        Some(("integer" | "boolean" | "string", value)) => value,
        _ => found.strip_prefix("floating point ").unwrap_or(found),
    };
    format!("expected {expected}, found {found}")
}

/// Message of serde_json without " at line 1 column 5", which refers to an internal text.
fn without_position(error: &serde_json::Error) -> String {
    let text = truncated(error);
    text.rsplit_once(" at line ").map_or(text.clone(), |(message, _)| message.to_owned())
}

/// Start of a message, at most [`LONGEST_ECHO`] bytes. A message can quote a whole body: a long string in place of a
/// number, or a field name.
fn truncated(what: impl std::fmt::Display) -> String {
    struct Short(String);
    impl std::fmt::Write for Short {
        fn write_str(&mut self, text: &str) -> std::fmt::Result {
            let room = LONGEST_ECHO.saturating_sub(self.0.len());
            self.0.push_str(&text[..text.floor_char_boundary(room)]);
            if text.len() <= room { Ok(()) } else { Err(std::fmt::Error) }
        }
    }
    let mut short = Short(String::new());
    if std::fmt::Write::write_fmt(&mut short, format_args!("{what}")).is_err() {
        short.0.push(CUT);
    }
    short.0
}

/// Maximum number of bytes of a request that a refusal repeats, and the mark for the rest.
const LONGEST_ECHO: usize = 500;
const CUT: char = '\u{2026}';

/// Formats a JSON Pointer (RFC 6901).
fn pointer(path: &serde_path_to_error::Path) -> String {
    use serde_path_to_error::Segment;
    path.iter()
        .map(|segment| match segment {
            Segment::Seq { index } => format!("/{index}"),
            Segment::Map { key } | Segment::Enum { variant: key } => {
                format!("/{}", truncated(key).replace('~', "~0").replace('/', "~1"))
            }
            Segment::Unknown => String::new(),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;

    use super::*;

    #[derive(Debug, Deserialize)]
    #[expect(dead_code, reason = "its fields are only deserialized")]
    struct Order {
        name: String,
        weight: Option<u32>,
        label: Option<Box<Order>>,
        stops: Option<Vec<f64>>,
    }

    #[test]
    fn errors_name_the_place_and_what_was_expected_there() {
        let error = |text: &str| {
            let Error::Problem(problem) = read::<Order>(text.as_bytes()).expect_err(text) else { panic!("{text}") };
            problem.errors.into_iter().map(|error| (error.pointer, error.detail)).next().expect("an error")
        };
        for (text, pointer, detail) in [
            ("[]", "", "expected an object, found an array"),
            (r#"{"name":"a","label":7}"#, "/label", "expected an object, found `7`"),
            (r#"{"name":"a","label":{}}"#, "/label/name", "missing field `name`"),
            (
                r#"{"name":"a","weight":"7, expected u8"}"#,
                "/weight",
                "expected a whole number, found \"7, expected u8\"",
            ),
            (r#"{"name":"a","weight":-1}"#, "/weight", "expected a whole number from 0 to 4294967295, found `-1`"),
            (r#"{"name":"a","weight":1.5}"#, "/weight", "expected a whole number, found `1.5`"),
            (
                r#"{"name":"a","weight":5000000000}"#,
                "/weight",
                "expected a whole number from 0 to 4294967295, found `5000000000`",
            ),
            (r#"{"name":true}"#, "/name", "expected a string, found `true`"),
            (r#"{"name":"a","stops":{}}"#, "/stops", "expected an array, found an object"),
            (r#"{"name":"a","stops":[null]}"#, "/stops/0", "expected a number, found null"),
        ] {
            assert_eq!(error(text), (pointer.to_owned(), detail.to_owned()), "{text}");
        }
    }
}
