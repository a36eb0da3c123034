//! Sentences about rows and columns in the reader's language.
//!
//! The engine writes one English sentence per faulty cell, which is stored with the item and says the same in every
//! download. Pages recognize its parts; a sentence that they do not know stays as it is.

use crate::t;

/// A sentence of the engine in the reader's language; unchanged if it is not known.
pub(crate) fn in_words(sentence: &str) -> String {
    translated(sentence).or_else(|| refused_upload(sentence)).unwrap_or_else(|| sentence.to_owned())
}

/// Beginnings of the server's reasons for not taking a file, with the reader's text for each. Empty in English. The
/// browser needs them while it uploads, and only there.
pub(crate) fn upload_refusals() -> Vec<(String, String)> {
    let known = [
        ("The file is a ZIP archive", t!("problem-upload-zip")),
        ("The file is an Excel workbook with another ending.", t!("problem-upload-ending")),
        ("The file is an old Excel workbook (XLS)", t!("problem-upload-xls")),
        ("The file is a GZIP archive.", t!("problem-upload-gzip")),
        ("The file is a PDF", t!("problem-upload-pdf")),
        ("The file is an image.", t!("problem-upload-image")),
        ("The file is no Excel workbook", t!("problem-upload-no-workbook")),
        ("This file would not fit", t!("problem-upload-quota")),
        ("The disk is nearly full.", t!("problem-upload-disk")),
    ];
    let translated = known.into_iter().filter(|(start, text)| !text.starts_with(start));
    translated.map(|(start, text)| (start.to_owned(), text.to_owned())).collect()
}

fn refused_upload(sentence: &str) -> Option<String> {
    let mut known = upload_refusals().into_iter();
    known.find(|(start, _)| sentence.starts_with(start.as_str())).map(|(_, text)| text)
}

/// `Line 51, column 2 (Betrag): expected a number, found "51 CHF".`, also without its place.
fn translated(sentence: &str) -> Option<String> {
    let (place, rest) = if let Some(rest) = sentence.strip_prefix("Expected ") {
        (None, rest)
    } else {
        let (place, rest) = sentence.split_once(": expected ")?;
        (Some(place), rest)
    };
    let (expected, found) = rest.strip_suffix('.')?.rsplit_once(", found ")?;
    let (expected, found) = (phrase(expected), phrase(found));
    match place {
        None => Some(t!("problem-expected", expected = &expected, found = &found)),
        Some(place) => {
            let in_line = found.rsplit_once(" in line ").filter(|(_, line)| is_line(line));
            if place == "The row" && in_line.is_none() {
                return Some(t!("problem-of-row", expected = &expected, found = &found));
            }
            if let Some(column) = place.strip_prefix("Column ") {
                return Some(match in_line {
                    None => t!("problem-in-column-of-name", column = column, expected = &expected, found = &found),
                    Some((found, line)) => {
                        let found = phrase(found);
                        t!("problem-of-column", column = column, expected = &expected, found = &found, line = line)
                    }
                });
            }
            let place = place.strip_prefix("Line ")?;
            let Some((line, column)) = place.split_once(", column ") else {
                return Some(t!("problem-in-line", line = place, expected = &expected, found = &found));
            };
            let Some((column, name)) = column.split_once(" (") else {
                return Some(t!(
                    "problem-in-column",
                    line = line,
                    column = column,
                    expected = &expected,
                    found = &found
                ));
            };
            let name = name.strip_suffix(')')?;
            let name = if name == "the whole row" { t!("problem-whole-row") } else { name };
            Some(t!(
                "problem-in-named-column",
                line = line,
                column = column,
                name = name,
                expected = &expected,
                found = &found
            ))
        }
    }
}

/// Returns true for the number of a line, also with the number of other lines behind it.
fn is_line(text: &str) -> bool {
    let number = text.split(',').next().unwrap_or_default();
    !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit())
}

/// Translates what was expected or found; values of the file stay as they are.
fn phrase(phrase: &str) -> String {
    let known = match phrase {
        "a number" => t!("problem-number"),
        "a whole number" => t!("problem-whole-number"),
        "text" => t!("problem-text"),
        "true or false" => t!("problem-true-or-false"),
        "true, false, yes, no, 1 or 0" => t!("problem-boolean"),
        "an object" => t!("problem-object"),
        "an array" => t!("problem-array"),
        "a value" => t!("problem-value"),
        "nothing" | "none" => t!("problem-nothing"),
        "nothing of this name" => t!("problem-nothing-of-name"),
        "text that is not empty" => t!("problem-text-not-empty"),
        "a name" => t!("problem-name"),
        "a closing quote" => t!("problem-closing-quote"),
        "the line to end" => t!("problem-line-end"),
        "the end of the cell behind its closing quote" => t!("problem-cell-end"),
        "more text" => t!("problem-more-text"),
        "bytes that are not UTF-8" => t!("problem-not-utf8"),
        "a NUL character" => t!("problem-nul"),
        "a character that could not be read" => t!("problem-unreadable"),
        "the serial number of a day in Excel" => t!("problem-excel-date"),
        "1 field" => return t!("problem-fields", n = 1),
        _ => return with_value(phrase).unwrap_or_else(|| phrase.to_owned()),
    };
    known.to_owned()
}

/// A phrase that ends with a value, such as `at least 5`.
fn with_value(phrase: &str) -> Option<String> {
    let after = |start: &str| phrase.strip_prefix(start);
    if let Some(value) = after("the error ") {
        return Some(t!("problem-error", value = value));
    }
    if let Some(value) = after("at least ") {
        return Some(t!("problem-at-least", value = value));
    }
    if let Some(value) = after("at most ") {
        return Some(t!("problem-at-most", value = value));
    }
    if let Some(value) = after("one of ") {
        return Some(t!("problem-one-of", value = value));
    }
    if let Some(value) = after("more than ") {
        return Some(t!("problem-more-than", value = value));
    }
    if let Some(value) = after("less than ") {
        return Some(t!("problem-less-than", value = value));
    }
    if let Some(value) = after("a number such as ") {
        return Some(t!("problem-number-such-as", value = value));
    }
    if let Some(value) = after("a whole number such as ") {
        return Some(t!("problem-whole-number-such-as", value = value));
    }
    if let Some(value) = after("a date in the format ") {
        return Some(t!("problem-date", value = value));
    }
    if let Some(value) = after("text in the format ") {
        return Some(t!("problem-format", value = value));
    }
    if let Some(value) = after("text of at least ").and_then(|rest| rest.strip_suffix(" characters")) {
        return Some(t!("problem-text-at-least", value = value));
    }
    if let Some(value) = after("text of at most ").and_then(|rest| rest.strip_suffix(" characters")) {
        return Some(t!("problem-text-at-most", value = value));
    }
    let n: i64 = phrase.strip_suffix(" fields")?.parse().ok()?;
    Some(t!("problem-fields", n = n))
}
