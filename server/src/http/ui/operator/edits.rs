//! Payload edits as people type them, and their effect on a sample before anything is changed.
//!
//! A value for a text field stays text: a postal code is not a number. A note beside the edits reports it.

use app::pages::operator::bulk::Edited;
use domain::{
    Document, Problem,
    api::{BulkOperation, BulkTarget, EditOp, PayloadEdit},
    document::{edit, pointer::Pointer},
    id::Uuid,
};

use crate::{
    App,
    audit::{self, AuditedRead, Object},
};
use engine::{access::caller::Caller, error::Result};

/// Number of payloads in the sample.
const SAMPLE: usize = 5;

/// Edits, one per line, with notes on values that were read differently than they look.
#[derive(Debug, Default)]
pub(crate) struct Typed {
    pub(crate) edits: Vec<PayloadEdit>,
    pub(crate) notes: Vec<String>,
}

/// Current payloads of an operation's sample.
pub(crate) async fn sample(app: &App, caller: &Caller, one: &BulkOperation) -> Vec<(Uuid, Document)> {
    let mut payloads = Vec::new();
    if one.target == BulkTarget::Items {
        for member in one.sample.iter().take(SAMPLE) {
            // An item that was deleted since is skipped.
            if let Ok(item) = app.engine.item(caller, member.id).await {
                payloads.extend(item.payload.map(|payload| (item.id, payload)));
            }
        }
    }
    payloads
}

/// Parses lines such as `set /amount 12.50` and `remove /draft`. Numbers keep their digits.
pub(crate) fn read(text: &str, sample: &[(Uuid, Document)]) -> Result<Typed> {
    let mut typed = Typed { edits: Vec::new(), notes: Vec::new() };
    for line in text.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let fault =
            |detail: &str| Problem::invalid_body([("/payload_edit".to_owned(), format!("{detail}, found {line:?}"))]);
        let (verb, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
        let rest = rest.trim();
        let edit = match verb {
            "remove" => PayloadEdit { op: EditOp::Remove, path: rest.to_owned(), value: None },
            "set" => {
                let (path, value) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
                let (value, note) = value_of(path, value.trim(), sample)
                    .ok_or_else(|| fault("expected JSON after the place; a text stands in quotation marks"))?;
                typed.notes.extend(note);
                PayloadEdit { op: EditOp::Set, path: path.to_owned(), value: Some(value) }
            }
            _ => return Err(fault("expected set /place value, or remove /place").into()),
        };
        edit.read().map_err(|(_, detail)| fault(detail))?;
        typed.edits.push(edit);
    }
    Ok(typed)
}

/// Parses a value for a path as the type that the payloads have there, with a note if the two differ.
fn value_of(path: &str, typed: &str, sample: &[(Uuid, Document)]) -> Option<(Document, Option<String>)> {
    let pointer = Pointer::parse(path)?;
    let old: Vec<&str> = sample.iter().filter_map(|(_, payload)| pointer.find(payload.text())).collect();
    let texts = old.iter().filter(|value| value.starts_with('"')).count();
    let json = Document::parse(typed.to_owned()).ok();
    let is_scalar = !typed.starts_with(['"', '{', '[']) && !typed.is_empty();
    if is_scalar && texts > 0 && texts == old.len() {
        let note = json.is_some().then(|| {
            format!("{path} holds text in these items, so {typed} is kept as the text \u{201c}{typed}\u{201d}.")
        });
        return Some((Document::of(&typed), note));
    }
    let json = json?;
    let note = (is_scalar && texts > 0).then(|| {
        format!("{path} holds text in some of these items; {typed} is not text. Write \"{typed}\" in quotation marks for text.")
    });
    let was_number = old.iter().any(|value| value.starts_with(|c: char| c == '-' || c.is_ascii_digit()));
    let note = note.or_else(|| {
        (was_number && typed.starts_with('"'))
            .then(|| format!("{path} holds a number in some of these items; {typed} is text."))
    });
    Some((json, note))
}

/// Applies the edits to the sample. Its payloads are shown, so that staff who read those of other owners are in the
/// audit log.
pub(crate) async fn outcome(
    app: &App,
    caller: &Caller,
    typed: &Typed,
    sample: Vec<(Uuid, Document)>,
) -> Result<Edited> {
    if caller.sees_all() {
        for (id, _) in &sample {
            let read = AuditedRead { action: "item.read", object: Object::Item(*id) };
            audit::record_read(app, caller, read).await?;
        }
    }
    let edits: Vec<_> = typed.edits.iter().filter_map(|edit| edit.read().ok()).collect();
    let payloads = sample
        .into_iter()
        .map(|(id, before)| {
            let after = edit::edited(&before, &edits).ok();
            (id, before, after)
        })
        .collect();
    Ok(Edited { payloads, notes: typed.notes.clone() })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(payloads: &[&str]) -> Vec<(Uuid, Document)> {
        payloads.iter().map(|text| (Uuid::nil(), Document::trusted((*text).to_owned()))).collect()
    }

    #[test]
    fn edits_are_read_line_by_line_and_numbers_stay_as_they_are() {
        let read = read("set /amount 1.10\n\n remove /draft \nset /big 9007199254740993", &[]).expect("edits");
        let back: Vec<String> = read.edits.iter().map(app::pages::operator::bulk::edit).collect();
        assert_eq!(back, ["set /amount 1.10", "remove /draft", "set /big 9007199254740993"]);
        for bad in ["put /a 1", "set /a", "set a 1", "remove", "set /a {", "set /a text"] {
            assert!(super::read(bad, &[]).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_text_value_stays_text_with_a_note() {
        let texts = sample(&[r#"{"zip":"00917","n":1}"#, r#"{"zip":"10117"}"#]);
        let typed = read("set /zip 10115\nset /n 2\nset /new 3", &texts).expect("edits");
        let back: Vec<String> = typed.edits.iter().map(app::pages::operator::bulk::edit).collect();
        assert_eq!(back, ["set /zip \"10115\"", "set /n 2", "set /new 3"]);
        assert!(typed.notes.len() == 1 && typed.notes[0].contains("kept as the text"), "{:?}", typed.notes);
        let plain = read("set /zip Berlin Mitte", &texts).expect("a text");
        assert_eq!(app::pages::operator::bulk::edit(&plain.edits[0]), "set /zip \"Berlin Mitte\"");
        // Text and numbers mixed: the value stays as typed, with a note.
        let mixed = read("set /zip 10115", &sample(&[r#"{"zip":"1"}"#, r#"{"zip":2}"#])).expect("edits");
        assert_eq!(app::pages::operator::bulk::edit(&mixed.edits[0]), "set /zip 10115");
        assert!(mixed.notes[0].contains("holds text in some"), "{:?}", mixed.notes);
    }
}
