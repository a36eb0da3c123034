//! Small edits of a document by JSON Pointer, over its text.
//!
//! Only the objects and arrays on the way to the place are written anew; everything else, numbers above
//! all, stays the text that it was. An edit that does not fit changes nothing and says why.

use super::{
    Document,
    pointer::{self, Pointer},
};

/// Edit at a place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Edit {
    /// Puts a value there: over what is there, as a new member of an object, or, where the last token is
    /// `-` or the length, at the end of an array.
    Set(Pointer, Document),
    /// Takes away what is there.
    Remove(Pointer),
}

/// Reason why an edit does not fit a document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EditError(pub String);

impl std::fmt::Display for EditError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

/// The document with all edits, one after another.
pub fn edited(document: &Document, edits: &[Edit]) -> Result<Document, EditError> {
    let mut text = document.text().to_owned();
    for edit in edits {
        text = match edit {
            Edit::Set(pointer, value) => set(&text, pointer.tokens(), value.text()),
            Edit::Remove(pointer) => remove(&text, pointer.tokens()),
        }
        .map_err(|why| match edit {
            Edit::Set(pointer, _) | Edit::Remove(pointer) => EditError(format!("At {:?}: {why}.", pointer.to_string())),
        })?;
    }
    // A value that was shallow enough by itself may be too deep in its place.
    Document::parse(text).map_err(|error| EditError(format!("The result has {error}.")))
}

fn set(text: &str, tokens: &[String], value: &str) -> Result<String, &'static str> {
    let Some((token, rest)) = tokens.split_first() else { return Ok(value.to_owned()) };
    replace_part(text, token, |old| {
        match old {
            Some(old) => set(old, rest, value),
            None if rest.is_empty() => Ok(value.to_owned()),
            None => Err("there is nothing to set it in"),
        }
        .map(Some)
    })
}

fn remove(text: &str, tokens: &[String]) -> Result<String, &'static str> {
    let Some((token, rest)) = tokens.split_first() else { return Err("the whole document cannot be removed") };
    replace_part(text, token, |old| match old {
        Some(_) if rest.is_empty() => Ok(None),
        Some(old) => remove(old, rest).map(Some),
        None => Err("there is nothing to remove"),
    })
}

/// Writes an object or array anew, with one of its parts changed, added or left out.
fn replace_part(
    text: &str,
    token: &str,
    change: impl FnOnce(Option<&str>) -> Result<Option<String>, &'static str>,
) -> Result<String, &'static str> {
    if let Some(elements) = pointer::elements(text) {
        let at = if token == "-" { Some(elements.len()) } else { pointer::index(token) };
        let at = at.filter(|&at| at <= elements.len()).ok_or("the array has no such place")?;
        let new = change(elements.get(at).copied())?;
        let before = elements[..at].iter().map(|element| (*element).to_owned());
        let after = elements.iter().skip(at + 1).map(|element| (*element).to_owned());
        let parts: Vec<String> = before.chain(new).chain(after).collect();
        return Ok(format!("[{}]", parts.join(",")));
    }
    let members = pointer::members(text).ok_or("there is neither an object nor an array")?;
    let at = members.iter().position(|(key, _)| key == token);
    let mut new = Some(change(at.map(|at| members[at].1))?);
    let mut parts: Vec<String> = Vec::with_capacity(members.len() + 1);
    for (n, (key, value)) in members.iter().enumerate() {
        if at == Some(n) {
            parts.extend(new.take().flatten().map(|value| member(key, &value)));
        } else {
            parts.push(member(key, value));
        }
    }
    parts.extend(new.flatten().map(|value| member(token, &value)));
    Ok(format!("{{{}}}", parts.join(",")))
}

fn member(key: &str, value: &str) -> String {
    format!("{}:{value}", Document::of(&key).text())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(pointer: &str) -> Pointer {
        Pointer::parse(pointer).expect(pointer)
    }

    fn after(text: &str, edit: Edit) -> Result<String, String> {
        let document = Document::parse(text.to_owned()).expect(text);
        edited(&document, &[edit]).map(|document| document.text().to_owned()).map_err(|misfit| misfit.0)
    }

    fn set_at(text: &str, pointer: &str, value: &str) -> Result<String, String> {
        after(text, Edit::Set(at(pointer), Document::parse(value.to_owned()).expect(value)))
    }

    #[test]
    fn unedited_values_keep_every_digit() {
        let text = r#"{"big": 9007199254740993, "huge":1e400, "in": {"x":1.10, "y": [1.0, -0]}}"#;
        assert_eq!(
            set_at(text, "/in/y/1", "2.50").as_deref(),
            Ok(r#"{"big":9007199254740993,"huge":1e400,"in":{"x":1.10,"y":[1.0,2.50]}}"#)
        );
        assert_eq!(after(text, Edit::Remove(at("/in"))).as_deref(), Ok(r#"{"big":9007199254740993,"huge":1e400}"#));
    }

    #[test]
    fn members_and_elements_are_added_and_replaced() {
        assert_eq!(set_at(r#"{"a":1}"#, "/b", "null").as_deref(), Ok(r#"{"a":1,"b":null}"#));
        assert_eq!(set_at(r#"{"a":1}"#, "", "[7]").as_deref(), Ok("[7]"));
        assert_eq!(set_at("{}", "/a~1b", "1").as_deref(), Ok(r#"{"a/b":1}"#));
        assert_eq!(set_at("[1]", "/-", "2").as_deref(), Ok("[1,2]"));
        assert_eq!(set_at("[1]", "/1", "2").as_deref(), Ok("[1,2]"));
        assert_eq!(after("[1,2,3]", Edit::Remove(at("/1"))).as_deref(), Ok("[1,3]"));
        assert_eq!(after(r#"{"a":1,"b":2}"#, Edit::Remove(at("/a"))).as_deref(), Ok(r#"{"b":2}"#));
    }

    #[test]
    fn inapplicable_edit_is_explained() {
        assert!(set_at("{}", "/a/b", "1").is_err_and(|why| why.contains("\"/a/b\"")));
        assert!(set_at("7", "/a", "1").is_err());
        assert!(set_at("[1]", "/2", "1").is_err());
        assert!(set_at("[1]", "/x", "1").is_err());
        for (text, pointer) in [("{}", "/a"), ("[]", "/0"), ("[1]", "/-"), ("{}", ""), ("null", "/a")] {
            assert!(after(text, Edit::Remove(at(pointer))).is_err(), "{text} {pointer}");
        }
        let deep = format!("{}{}", "[".repeat(127), "]".repeat(127));
        assert!(set_at(r#"{"a":{"b":{}}}"#, "/a/b/c", &deep).is_err());
    }

    #[test]
    fn edits_apply_in_order() {
        let document = Document::parse(r#"{"a":1}"#.to_owned()).expect("json");
        let edits = [Edit::Set(at("/b"), Document::empty_object()), Edit::Set(at("/b/c"), Document::null())];
        assert_eq!(edited(&document, &edits).expect("fits").text(), r#"{"a":1,"b":{"c":null}}"#);
    }
}
