//! A user's JSON document, kept as the text it came in.
//!
//! Documents no one edits come back byte for byte: `2^53+1`, `1e400` and `1.10` survive. So a document
//! is never parsed into numbers; it is scanned once ([`Document::scan`]) for what the store cannot
//! hold or a reader cannot agree on: depth, duplicate keys, NUL, lone surrogates.

mod scan;

pub mod canonical;
pub mod edit;
pub mod pointer;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::RawValue;

pub use scan::{MAX_DEPTH, ScanError, scan};

/// A JSON value as text.
#[derive(Clone, Debug)]
pub struct Document(Box<RawValue>);

impl Document {
    /// `null`.
    pub fn null() -> Self {
        Self::trusted("null".to_owned())
    }

    /// `{}`, the result of a worker that has nothing to say.
    pub fn empty_object() -> Self {
        Self::trusted("{}".to_owned())
    }

    /// Parses JSON text and scans it.
    pub fn parse(text: String) -> Result<Self, ScanError> {
        let raw = RawValue::from_string(text).map_err(|e| ScanError { at: e.column(), message: "not JSON" })?;
        let document = Self(raw);
        document.scan()?;
        Ok(document)
    }

    /// Text that is known to be JSON: written by us, or read back from the store.
    ///
    /// Falls back to a JSON string of the text when it is not JSON after all, so that a damaged row
    /// shows instead of disappearing.
    #[expect(clippy::needless_pass_by_value, reason = "the usual road keeps the text")]
    pub fn trusted(text: String) -> Self {
        RawValue::from_string(text.clone()).map_or_else(
            |_| {
                let quoted = serde_json::to_string(&text).unwrap_or_else(|_| "null".to_owned());
                Self(RawValue::from_string(quoted).unwrap_or_else(|_| RawValue::NULL.to_owned()))
            },
            Self,
        )
    }

    /// Serialises a value of ours into a document.
    pub fn of(value: &impl Serialize) -> Self {
        serde_json::value::to_raw_value(value).map_or_else(|_| Self::null(), Self)
    }

    /// The text, exactly as it came.
    pub fn text(&self) -> &str {
        self.0.get()
    }

    /// The same text, without a copy.
    pub fn into_text(self) -> String {
        Box::<str>::from(self.0).into_string()
    }

    /// Looks through the document once for what is refused: depth over [`MAX_DEPTH`], a key twice in
    /// one object, NUL, a lone surrogate.
    pub fn scan(&self) -> Result<(), ScanError> {
        scan::scan(self.text())
    }
}

impl PartialEq for Document {
    /// Same text. Two spellings of one value are different documents.
    fn eq(&self, other: &Self) -> bool {
        self.text() == other.text()
    }
}

impl Eq for Document {}

impl Serialize for Document {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Document {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Box::<RawValue>::deserialize(deserializer).map(Self)
    }
}

#[cfg(feature = "openapi")]
impl utoipa::PartialSchema for Document {
    fn schema() -> utoipa::openapi::RefOr<utoipa::openapi::schema::Schema> {
        utoipa::openapi::schema::Object::builder()
            .schema_type(utoipa::openapi::schema::SchemaType::AnyValue)
            .description(Some("Any JSON value; returned byte for byte"))
            .into()
    }
}

#[cfg(feature = "openapi")]
impl utoipa::ToSchema for Document {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn document_keeps_number_digits() {
        for text in ["9007199254740993", "1e400", "1.10", r#"{"a": [1.0,-0]}"#] {
            let document = Document::parse(text.to_owned()).expect(text);
            assert_eq!(serde_json::to_string(&document).expect("json"), text);
        }
    }

    #[test]
    fn invalid_document_serializes_as_string() {
        assert_eq!(Document::trusted("{oops".into()).text(), "\"{oops\"");
    }
}
