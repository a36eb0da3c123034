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
    let detail = if error.contains("recursion limit") { "nested too deep".to_owned() } else { error };
    Problem::invalid_body([(pointer, detail)])
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
