//! JSON that a person passes to a command: as an argument, from a file, or on standard input.

use std::io::Read as _;

use anyhow::{Context, anyhow};
use domain::Document;
use serde::de::DeserializeOwned;

/// Text of a file; `-` is standard input.
pub(super) fn file(path: &str) -> anyhow::Result<String> {
    if path == "-" {
        let mut text = String::new();
        std::io::stdin().read_to_string(&mut text).context("standard input")?;
        return Ok(text);
    }
    std::fs::read_to_string(path).with_context(|| path.to_owned())
}

/// Reads a request body from a file of JSON.
pub(super) fn body<T: DeserializeOwned>(path: &str) -> anyhow::Result<T> {
    serde_json::from_str(&file(path)?).with_context(|| path.to_owned())
}

/// Reads a document: JSON, or `@FILE`, or `@-` for standard input. `what` names it in an error.
pub(super) fn document(what: &str, text: &str) -> anyhow::Result<Document> {
    let text = match text.strip_prefix('@') {
        Some(path) => file(path)?,
        None => text.to_owned(),
    };
    Document::parse(text).map_err(|error| anyhow!("the {what} is not JSON: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_document_is_json_or_a_file_of_it() {
        let payload = |text: &str| document("payload", text);
        assert_eq!(payload(r#"{"a": 1}"#).expect("JSON").text(), r#"{"a": 1}"#);
        assert!(payload("{a: 1}").is_err());
        assert!(payload("@/no/such/file").expect_err("no file").to_string().contains("/no/such/file"));
    }
}
