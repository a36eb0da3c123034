//! Feeds: how a job receives items from its parent (`feeding`).
//!
//! For every item of the parent that succeeds, the child gets one item, or with `each` one for every
//! element of an array. What the items look like is said by templates: JSON in which
//! `{"$from": "<JSON Pointer>"}` stands for a piece of the source. A template is cut once into the text
//! between those places, so that filling it is joining text and every number keeps its digits. Sizes and
//! schemas are not looked at here: they are the child's, and its server's.

use std::{borrow::Cow, ops::Range};

use crate::{
    Document, Time,
    api::NewItem,
    document::pointer::{Pointer, elements, find, members},
    id::{Uuid, is_key},
};

/// A feed rule, checked and ready to be applied.
#[derive(Clone, Debug)]
pub struct Feed {
    each: Option<Pointer>,
    payload: Option<Template>,
    dedupe_key: Option<Template>,
    serialize_key: Option<Template>,
    priority: Option<Template>,
    run_after: Option<Template>,
    limit: usize,
}

/// Bytes of one filled template, where no one says otherwise: a template may name one large piece many
/// times.
const LIMIT: usize = 16 << 20;

/// Bytes that an item counts for where the items of a batch are bounded: its payload, and a kilobyte for the rest of it.
pub fn bytes_of(payload: &str) -> usize {
    payload.len() + 1_024
}

/// An item of the parent that succeeded.
#[derive(Clone, Copy, Debug)]
pub struct Source<'a> {
    pub payload: &'a Document,
    pub result: &'a Document,
    pub item_id: Uuid,
    /// The parent.
    pub job_id: Uuid,
}

/// Reason why a source makes no item: the message of a dead item of kind `feed_invalid`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FeedFault {
    pub message: String,
}

impl std::fmt::Display for FeedFault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for FeedFault {}

fn fault(message: impl Into<String>) -> FeedFault {
    FeedFault { message: message.into() }
}

/// JSON text with places to fill.
#[derive(Clone, Debug, Default)]
struct Template {
    parts: Vec<Part>,
}

#[derive(Clone, Debug)]
enum Part {
    Text(String),
    From(Pointer),
}

/// A source and, with `each`, one of its elements.
#[derive(Clone, Copy)]
struct View<'a> {
    source: &'a Source<'a>,
    element: Option<(usize, &'a str)>,
}

impl Feed {
    /// Reads a feed rule. Faults are named by their JSON Pointer within it. A pointer that can lead
    /// nowhere is not a fault here: it makes dead items (`feeding`).
    pub fn parse(document: &Document) -> Result<Self, Vec<(String, String)>> {
        if let Err(refused) = document.scan() {
            return Err(vec![(String::new(), refused.to_string())]);
        }
        let Some(fields) = members(document.text()) else {
            return Err(vec![(
                String::new(),
                "expected an object of each, payload, dedupe_key, serialize_key, priority, run_after".to_owned(),
            )]);
        };
        let mut feed = Self {
            each: None,
            payload: None,
            dedupe_key: None,
            serialize_key: None,
            priority: None,
            run_after: None,
            limit: LIMIT,
        };
        let mut faults = Vec::new();
        for (name, value) in fields {
            let place = format!("/{}", name.replace('~', "~0").replace('/', "~1"));
            match name.as_str() {
                "each" => match pointer(value) {
                    Some(each) => feed.each = Some(each),
                    None if value == "null" => {}
                    None => {
                        faults.push((place, "expected a JSON Pointer to an array, such as /result/rows".to_owned()));
                    }
                },
                "payload" => feed.payload = Some(Template::parse_text(value, &place, &mut faults)),
                "dedupe_key" => feed.dedupe_key = scalar(value, &place, "dedupe_key", key_of, &mut faults),
                "serialize_key" => feed.serialize_key = scalar(value, &place, "serialize_key", key_of, &mut faults),
                "priority" => feed.priority = scalar(value, &place, "priority", priority_of, &mut faults),
                "run_after" => feed.run_after = scalar(value, &place, "run_after", time_of, &mut faults),
                _ => faults.push((
                    place,
                    "unknown field, expected each, payload, dedupe_key, serialize_key, priority or run_after"
                        .to_owned(),
                )),
            }
        }
        if faults.is_empty() { Ok(feed) } else { Err(faults) }
    }

    /// The same rule, with a bound on the bytes of what a template becomes: beyond it, the item is a fault.
    #[must_use]
    pub fn with_limit(self, bytes: usize) -> Self {
        Self { limit: bytes, ..self }
    }

    /// True if a source makes one item for each element of an array. Otherwise a source makes exactly
    /// one, so the parent's count says how many are to come.
    pub fn has_each(&self) -> bool {
        self.each.is_some()
    }

    /// The items of `range` among those that a source makes, 1 without `each`; what lies beyond the last is left out. Ends
    /// when they have `bytes`, and returns the index of the source's next item, if there is one. An item that cannot be
    /// made is a fault in its place. When `each` itself is at fault, that one fault.
    pub fn items(
        &self,
        source: &Source<'_>,
        range: Range<usize>,
        bytes: usize,
    ) -> (Vec<Result<NewItem, FeedFault>>, Option<usize>) {
        let elements = match self.elements(source) {
            Ok(elements) => elements,
            Err(fault) => return (vec![Err(fault)], None),
        };
        let n = elements.as_ref().map_or(1, Vec::len);
        let (mut items, mut made, mut next) = (Vec::new(), 0, range.start);
        while next < range.end.min(n) && made < bytes {
            let item = self.item(View { source, element: elements.as_ref().map(|elements| (next, elements[next])) });
            made += bytes_of(item.as_ref().ok().and_then(|item| item.payload.as_ref()).map_or("", Document::text));
            items.push(item);
            next += 1;
        }
        (items, (next < n).then_some(next))
    }

    /// The elements that `each` names; `None` without it.
    fn elements<'a>(&self, source: &'a Source<'a>) -> Result<Option<Vec<&'a str>>, FeedFault> {
        let Some(each) = &self.each else { return Ok(None) };
        match (View { source, element: None }).find(each) {
            None => Err(no_value("each", each)),
            // What is not borrowed is put together by us: ids, or the source as a whole.
            Some(Cow::Borrowed(text)) if text.starts_with('[') => Ok(elements(text)),
            Some(_) => Err(fault(format!("the feed's each: {} is not an array", pointer_text(each)))),
        }
    }

    fn item(&self, view: View<'_>) -> Result<NewItem, FeedFault> {
        let payload = match &self.payload {
            Some(template) => template.fill("payload", view, self.limit)?,
            None => format!("{{\"payload\":{},\"result\":{}}}", view.source.payload.text(), view.source.result.text()),
        };
        let payload = Document::parse(payload).map_err(|refused| fault(format!("the feed's payload: {refused}")))?;
        Ok(NewItem {
            payload: Some(payload),
            dedupe_key: read("dedupe_key", self.dedupe_key.as_ref(), view, key_of)?,
            serialize_key: read("serialize_key", self.serialize_key.as_ref(), view, key_of)?,
            priority: read("priority", self.priority.as_ref(), view, priority_of)?,
            run_after: read("run_after", self.run_after.as_ref(), view, time_of)?,
            expires_at: None,
            metadata: None,
            debounce: None,
        })
    }
}

impl<'a> View<'a> {
    /// A piece of `{payload, result, item_id, job_id, element?, index?}`.
    fn find(&self, pointer: &Pointer) -> Option<Cow<'a, str>> {
        let Some((first, rest)) = pointer.tokens().split_first() else { return Some(self.whole().into()) };
        let source = self.source;
        match (first.as_str(), self.element) {
            ("payload", _) => find(source.payload.text(), rest).map(Cow::from),
            ("result", _) => find(source.result.text(), rest).map(Cow::from),
            ("element", Some((_, element))) => find(element, rest).map(Cow::from),
            ("item_id", _) if rest.is_empty() => Some(format!("\"{}\"", source.item_id).into()),
            ("job_id", _) if rest.is_empty() => Some(format!("\"{}\"", source.job_id).into()),
            ("index", Some((index, _))) if rest.is_empty() => Some(index.to_string().into()),
            _ => None,
        }
    }

    fn whole(&self) -> String {
        let Source { payload, result, item_id, job_id } = self.source;
        let element = self
            .element
            .map_or_else(String::new, |(index, element)| format!(",\"element\":{element},\"index\":{index}"));
        format!(
            "{{\"payload\":{},\"result\":{},\"item_id\":\"{item_id}\",\"job_id\":\"{job_id}\"{element}}}",
            payload.text(),
            result.text()
        )
    }
}

impl Template {
    /// Cuts JSON text at its `$from`s. A faulty one is named, and left as it is.
    fn parse_text(text: &str, place: &str, faults: &mut Vec<(String, String)>) -> Self {
        let mut template = Self::default();
        template.parse_part(text, place, faults);
        template
    }

    fn parse_part(&mut self, text: &str, place: &str, faults: &mut Vec<(String, String)>) {
        if let Some(members) = members(text) {
            if let Some((_, from)) = members.iter().find(|(key, _)| key == "$from") {
                match pointer(from) {
                    Some(pointer) if members.len() == 1 => self.parts.push(Part::From(pointer)),
                    Some(_) => faults.push((place.to_owned(), "expected nothing beside $from".to_owned())),
                    None => faults
                        .push((format!("{place}/$from"), "expected a JSON Pointer, such as /result/amount".to_owned())),
                }
                return;
            }
            self.text("{");
            for (n, (key, value)) in members.iter().enumerate() {
                self.text(if n == 0 { "" } else { "," });
                self.text(Document::of(key).text());
                self.text(":");
                self.parse_part(value, &format!("{place}/{}", key.replace('~', "~0").replace('/', "~1")), faults);
            }
            self.text("}");
        } else if let Some(elements) = elements(text) {
            self.text("[");
            for (n, element) in elements.iter().enumerate() {
                self.text(if n == 0 { "" } else { "," });
                self.parse_part(element, &format!("{place}/{n}"), faults);
            }
            self.text("]");
        } else {
            self.text(text);
        }
    }

    fn text(&mut self, text: &str) {
        match self.parts.last_mut() {
            Some(Part::Text(before)) => before.push_str(text),
            _ => self.parts.push(Part::Text(text.to_owned())),
        }
    }

    fn fill(&self, field: &str, view: View<'_>, limit: usize) -> Result<String, FeedFault> {
        let mut text = String::new();
        for part in &self.parts {
            match part {
                Part::Text(literal) => text.push_str(literal),
                Part::From(pointer) => text.push_str(&view.find(pointer).ok_or_else(|| no_value(field, pointer))?),
            }
            if text.len() > limit {
                return Err(fault(format!("the feed's {field}: over the limit of {limit} bytes")));
            }
        }
        Ok(text)
    }
}

/// Parser of the JSON text of a field; the error says what was expected. The caller handles `null`.
type Reader<T> = fn(&str) -> Result<T, &'static str>;

/// The template of a field that is one value: where nothing is to be filled in, it is checked at once.
fn scalar<T>(
    value: &str,
    place: &str,
    field: &str,
    reader: Reader<T>,
    faults: &mut Vec<(String, String)>,
) -> Option<Template> {
    if value == "null" {
        return None;
    }
    let faults_before = faults.len();
    let template = Template::parse_text(value, place, faults);
    if faults.len() > faults_before {
        return None;
    }
    if let Some(Part::Text(literal)) = template.parts.first() {
        // An array or object that holds a `$from` begins with text too, and is never such a value.
        if let Err(expected) = reader(literal) {
            faults.push((place.to_owned(), format!("{expected}, or {{\"$from\": …}} for the {field}")));
            return None;
        }
    }
    Some(template)
}

fn read<T>(
    field: &str,
    template: Option<&Template>,
    view: View<'_>,
    reader: Reader<T>,
) -> Result<Option<T>, FeedFault> {
    let Some(template) = template else { return Ok(None) };
    let text = template.fill(field, view, LIMIT)?;
    if text == "null" {
        return Ok(None);
    }
    reader(&text).map(Some).map_err(|expected| fault(format!("the feed's {field}: {expected}")))
}

/// A key is text; a number stands for its digits as they came.
fn key_of(text: &str) -> Result<String, &'static str> {
    let key = match text.as_bytes().first() {
        Some(b'"') => serde_json::from_str(text).unwrap_or_default(),
        Some(b'-' | b'0'..=b'9') => text.to_owned(),
        _ => String::new(),
    };
    if is_key(&key) { Ok(key) } else { Err("expected text of 1 to 255 characters") }
}

fn priority_of(text: &str) -> Result<i16, &'static str> {
    let priority = text.parse().ok().filter(|priority| (-100..=100).contains(priority));
    priority.ok_or("expected a whole number from -100 to 100")
}

fn time_of(text: &str) -> Result<Time, &'static str> {
    serde_json::from_str(text).map_err(|_| "expected an RFC 3339 time")
}

fn pointer(value: &str) -> Option<Pointer> {
    Pointer::parse(&serde_json::from_str::<String>(value).ok()?)
}

fn pointer_text(pointer: &Pointer) -> String {
    let text = pointer.to_string();
    if text.is_empty() { "the whole".to_owned() } else { text }
}

fn no_value(field: &str, pointer: &Pointer) -> FeedFault {
    fault(format!("the feed's {field}: {} points to nothing", pointer_text(pointer)))
}

#[cfg(test)]
mod tests;
