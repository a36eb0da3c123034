//! Into a document, one level at a time, over borrowed text.
//!
//! The result is a piece of the text itself, so numbers keep every digit. Built on raw values and
//! never on a parsed tree, which would rewrite `1E400` and take some keys for its own.

use serde::{
    Deserialize, Deserializer,
    de::{MapAccess, Visitor},
};
use serde_json::value::RawValue;

/// The members of an object in their order, keys unescaped; `None` when `text` is something else.
pub fn members(text: &str) -> Option<Vec<(String, &str)>> {
    if !text.starts_with('{') {
        return None;
    }
    serde_json::from_str::<Members<'_>>(text).ok().map(|members| members.0)
}

/// The elements of an array; `None` when `text` is something else.
pub fn elements(text: &str) -> Option<Vec<&str>> {
    if !text.starts_with('[') {
        return None;
    }
    let raw: Vec<&RawValue> = serde_json::from_str(text).ok()?;
    Some(raw.into_iter().map(RawValue::get).collect())
}

struct Members<'a>(Vec<(String, &'a str)>);

impl<'de> Deserialize<'de> for Members<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Object;
        impl<'de> Visitor<'de> for Object {
            type Value = Members<'de>;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut members = Vec::new();
                while let Some((key, value)) = map.next_entry::<String, &'de RawValue>()? {
                    members.push((key, value.get()));
                }
                Ok(Members(members))
            }
        }
        deserializer.deserialize_map(Object)
    }
}

/// A JSON Pointer (RFC 6901): a path into a document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pointer {
    tokens: Vec<String>,
}

impl Pointer {
    /// Reads a pointer; `None` when it neither is empty nor begins with `/`, or when a `~` stands
    /// before something other than 0 or 1.
    pub fn parse(text: &str) -> Option<Self> {
        if text.is_empty() {
            return Some(Self { tokens: Vec::new() });
        }
        let tokens = text.strip_prefix('/')?.split('/').map(unescape).collect::<Option<Vec<_>>>()?;
        Some(Self { tokens })
    }

    /// The names and indexes of its path, unescaped.
    pub fn tokens(&self) -> &[String] {
        &self.tokens
    }

    /// Value within `text` that it points to; `None` if there is none.
    pub fn find<'a>(&self, text: &'a str) -> Option<&'a str> {
        find(text, &self.tokens)
    }
}

impl std::fmt::Display for Pointer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.tokens.iter().try_for_each(|token| write!(f, "/{}", token.replace('~', "~0").replace('/', "~1")))
    }
}

/// Value within `text` to which a path of unescaped tokens leads.
pub fn find<'a>(text: &'a str, tokens: &[String]) -> Option<&'a str> {
    tokens.iter().try_fold(text, |within, token| {
        if within.starts_with('[') {
            elements(within)?.get(index(token)?).copied()
        } else {
            members(within)?.into_iter().find_map(|(key, value)| (key == *token).then_some(value))
        }
    })
}

/// `0`, or digits that do not begin with 0.
pub(super) fn index(token: &str) -> Option<usize> {
    let plain = token.bytes().all(|b| b.is_ascii_digit()) && (token == "0" || !token.starts_with('0'));
    if plain { token.parse().ok() } else { None }
}

fn unescape(token: &str) -> Option<String> {
    let mut name = String::with_capacity(token.len());
    let mut rest = token.chars();
    while let Some(c) = rest.next() {
        name.push(match c {
            '~' => match rest.next()? {
                '0' => '~',
                '1' => '/',
                _ => return None,
            },
            c => c,
        });
    }
    Some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The document of RFC 6901 §5, with numbers that no float can hold.
    const RFC: &str =
        r#"{"foo":["bar", "baz"],"":0,"a/b":1.10,"c%d":2,"e^f":3,"g|h":4,"i\\j":5,"k\"l":6," ":7,"m~n":1e400}"#;

    #[test]
    fn json_pointer_rfc_6901_examples() {
        let find = |pointer: &str| Pointer::parse(pointer).and_then(|p| p.find(RFC));
        assert_eq!(find(""), Some(RFC));
        assert_eq!(find("/foo"), Some(r#"["bar", "baz"]"#));
        assert_eq!(find("/foo/0"), Some("\"bar\""));
        assert_eq!(find("/"), Some("0"));
        assert_eq!(find("/a~1b"), Some("1.10"));
        assert_eq!(find("/i\\j"), Some("5"));
        assert_eq!(find("/k\"l"), Some("6"));
        assert_eq!(find("/m~0n"), Some("1e400"));
        for nothing in ["/foo/2", "/foo/-", "/foo/00", "/foo/+1", "/foo/bar", "/nothing", "/a~1b/c"] {
            assert_eq!(find(nothing), None, "{nothing}");
        }
    }

    #[test]
    fn json_pointer_round_trips() {
        for text in ["", "/", "/a~1b/m~0n/0", "/foo//x"] {
            assert_eq!(Pointer::parse(text).expect(text).to_string(), text);
        }
        for bad in ["foo", "/a~", "/a~2", "#/a"] {
            assert_eq!(Pointer::parse(bad), None, "{bad}");
        }
    }

    #[test]
    fn json_pointer_matches_escaped_keys() {
        let text = r#"{"\u0061":{"$serde_json::private::RawValue":"x"}}"#;
        assert_eq!(members(text), Some(vec![("a".to_owned(), r#"{"$serde_json::private::RawValue":"x"}"#)]));
        assert_eq!(elements("{}"), None);
        assert_eq!(members("[]"), None);
    }
}
