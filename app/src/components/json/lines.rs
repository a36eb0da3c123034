//! Splits JSON text into lines: one member, element or bracket each. Truncated text is accepted and ends where it
//! was cut. Nothing is parsed into values, so numbers stay as they are written.

use std::fmt::Write as _;

/// A line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Line {
    pub(super) depth: usize,
    /// Name of the member, in quotation marks.
    pub(super) key: Option<String>,
    pub(super) piece: Piece,
    pub(super) comma: bool,
}

/// Part of a line after the member name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Piece {
    /// A bracket, and how many members stand behind it.
    Open(char, usize),
    Close(char),
    Empty(&'static str),
    Scalar(String),
}

impl Line {
    /// The line as text.
    pub(super) fn text(&self) -> String {
        let key = self.key.as_ref().map(|key| format!("{key}: ")).unwrap_or_default();
        let comma = if self.comma { "," } else { "" };
        let piece = match &self.piece {
            Piece::Open(bracket, _) | Piece::Close(bracket) => bracket.to_string(),
            Piece::Empty(brackets) => (*brackets).to_owned(),
            Piece::Scalar(value) => value.clone(),
        };
        format!("{}{key}{piece}{comma}", "  ".repeat(self.depth))
    }
}

/// The lines of a text.
pub(super) fn lines(text: &str) -> Vec<Line> {
    let mut reader = Reader { text, at: 0 };
    let mut lines: Vec<Line> = Vec::new();
    // Indexes of the lines whose brackets are still open.
    let mut open: Vec<usize> = Vec::new();
    let mut key = None;
    while let Some(token) = reader.token() {
        match token {
            "," => {
                if let Some(line) = lines.last_mut() {
                    line.comma = true;
                }
            }
            ":" => {}
            "}" | "]" => {
                let Some(at) = open.pop() else { break };
                let closing = if token == "}" { '}' } else { ']' };
                if at + 1 == lines.len() {
                    lines[at].piece = Piece::Empty(if closing == '}' { "{}" } else { "[]" });
                } else {
                    lines.push(Line { depth: open.len(), key: None, piece: Piece::Close(closing), comma: false });
                }
            }
            _ if token.starts_with('"') && key.is_none() && reader.peek() == Some(':') => key = Some(readable(token)),
            _ => {
                if let Some(&parent) = open.last()
                    && let Piece::Open(_, n) = &mut lines[parent].piece
                {
                    *n += 1;
                }
                let depth = open.len();
                let piece = match token {
                    "{" | "[" => {
                        open.push(lines.len());
                        Piece::Open(if token == "{" { '{' } else { '[' }, 0)
                    }
                    _ => Piece::Scalar(readable(token)),
                };
                lines.push(Line { depth, key: key.take(), piece, comma: false });
            }
        }
    }
    lines
}

/// Summary of the first members in one short line: `iata 00M, name Thigpen`. `text` may be truncated.
pub fn summary(text: &str, most: usize) -> String {
    let mut words: Vec<String> = Vec::new();
    let mut length = 0;
    for line in lines(text) {
        let Piece::Scalar(value) = line.piece else { continue };
        let value = value.trim_matches('"').to_owned();
        if value.is_empty() || value == "null" || line.depth > 1 {
            continue;
        }
        let key = line.key.map(|key| format!("{} ", key.trim_matches('"'))).unwrap_or_default();
        length += key.chars().count() + value.chars().count() + 2;
        words.push(format!("{key}{value}"));
        if length > most || words.len() == 4 {
            break;
        }
    }
    let joined = words.join(", ");
    if joined.chars().count() <= most {
        return joined;
    }
    let cut: String = joined.chars().take(most.saturating_sub(1)).collect();
    format!("{cut}…")
}

/// Token for display: escaped letters are decoded; invisible characters and those that change the text direction
/// are shown as escapes.
fn readable(token: &str) -> String {
    let Ok(text) = serde_json::from_str::<String>(token) else { return token.to_owned() };
    let mut escaped = String::with_capacity(text.len() + 2);
    escaped.push('"');
    for c in text.chars() {
        match c {
            '"' => escaped.push_str("\\\""),
            '\\' => escaped.push_str("\\\\"),
            '\n' => escaped.push_str("\\n"),
            '\r' => escaped.push_str("\\r"),
            '\t' => escaped.push_str("\\t"),
            c if is_unseen(c) => {
                let _ = write!(escaped, "\\u{:04x}", u32::from(c));
            }
            c => escaped.push(c),
        }
    }
    escaped.push('"');
    escaped
}

/// Returns true for characters that are invisible or change the text direction.
fn is_unseen(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}')
}

struct Reader<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Reader<'a> {
    fn skip_space(&mut self) {
        let rest = &self.text[self.at..];
        self.at += rest.len() - rest.trim_start().len();
    }

    /// Next character that is not whitespace.
    fn peek(&mut self) -> Option<char> {
        self.skip_space();
        self.text[self.at..].chars().next()
    }

    fn token(&mut self) -> Option<&'a str> {
        let first = self.peek()?;
        let rest = &self.text[self.at..];
        let length = match first {
            '{' | '}' | '[' | ']' | ',' | ':' => 1,
            '"' => end_of_text(rest),
            _ => rest.find(['{', '}', '[', ']', ',', ':', '"', ' ', '\n', '\r', '\t']).unwrap_or(rest.len()),
        };
        self.at += length;
        Some(&rest[..length])
    }
}

/// End of a quoted string.
fn end_of_text(rest: &str) -> usize {
    let mut is_escaped = false;
    for (at, byte) in rest.bytes().enumerate().skip(1) {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' => is_escaped = true,
            b'"' => return at + 1,
            _ => {}
        }
    }
    rest.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(text: &str) -> Vec<String> {
        lines(text).iter().map(Line::text).collect()
    }

    #[test]
    fn a_line_is_a_member() {
        assert_eq!(
            texts(r#"{"a":[1,{}],"b":"x:y"}"#),
            ["{", "  \"a\": [", "    1,", "    {}", "  ],", "  \"b\": \"x:y\"", "}"]
        );
        assert_eq!(texts(" 12 "), ["12"]);
        assert_eq!(texts(r#"["a",":"]"#), ["[", "  \"a\",", "  \":\"", "]"]);
    }

    #[test]
    fn escapes_are_decoded_and_control_characters_shown() {
        assert_eq!(readable(r#""\u00fc\ud83c\udf32""#), "\"ü🌲\"");
        assert_eq!(readable("\"a\\u202eb\\u0000\""), "\"a\\u202eb\\u0000\"");
        assert_eq!(readable(r#""\ud800""#), r#""\ud800""#, "what is no text stays as it is");
    }

    #[test]
    fn a_summary_is_the_first_members() {
        assert_eq!(summary(r#"{"id":"7","note":null,"to":{"zip":"1"},"amount":12.50}"#, 60), "id 7, amount 12.50");
        assert_eq!(summary(r#"["00M","Thigp"#, 60), "00M, Thigp");
        assert_eq!(summary(r#"{"text":"abcdefghij"}"#, 8), "text ab…");
    }
}
