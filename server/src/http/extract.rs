//! Extractors of the handlers; every invalid request gets a problem document.
//!
//! A JSON body is checked in four steps, each with its own status: size (413), media type (415), syntax (400), and then
//! (422) content that parsers disagree on (duplicate keys, NUL, lone surrogates, depth) and the shape of the expected
//! type, in which an array never stands for an object. Documents inside keep their text. No handler uses axum's own
//! `Json`, `Query` or `Path`.

mod parts; // lists of independent requests
mod preconditions; // If-Match and If-None-Match
mod reason; // reason for an action
mod request_body; // body of a request, bounded in size and time

use axum::{
    body::Bytes,
    extract::{FromRequest, FromRequestParts, Request},
    http::{HeaderMap, header, request::Parts},
};
use domain::{Code, Document, Problem};
use serde::de::DeserializeOwned;

use crate::{
    App,
    http::error::{Error, Result},
    json_body,
};

pub use parts::{AssignmentList, JsonParts, complete, read_parts};
pub use preconditions::{Existence, IfMatch, is_known, names_a_version};
pub use reason::{Reason, ReasonParameter};
pub use request_body::{BodyTimeout, body, chunks, hold};

/// JSON body.
#[derive(Clone, Copy, Debug)]
pub struct Json<T>(pub T);

impl<T: DeserializeOwned> FromRequest<App> for Json<T> {
    type Rejection = Error;

    async fn from_request(request: Request, app: &App) -> Result<Self> {
        Ok(Self(json_body::read(&json_bytes(request, app.config.body_limit.bytes()).await?)?))
    }
}

/// Bytes of a body whose content type is JSON.
pub async fn json_bytes(request: Request, limit: usize) -> Result<Bytes> {
    let is_json = is_json(request.headers());
    let bytes = body(request, limit).await?;
    if is_json { Ok(bytes) } else { Err(wrong_media_type("application/json")) }
}

/// Optional JSON body: an empty body and `null` are the type's default.
#[derive(Clone, Copy, Debug)]
pub struct JsonOrDefault<T>(pub T);

impl<T: DeserializeOwned + Default> FromRequest<App> for JsonOrDefault<T> {
    type Rejection = Error;

    async fn from_request(request: Request, app: &App) -> Result<Self> {
        let is_json = is_json(request.headers());
        let bytes = body(request, app.config.body_limit.bytes()).await?;
        if bytes.is_empty() {
            return Ok(Self(T::default()));
        }
        if !is_json {
            return Err(wrong_media_type("application/json"));
        }
        if bytes.trim_ascii() == b"null" {
            return Ok(Self(T::default()));
        }
        Ok(Self(json_body::read(&bytes)?))
    }
}

/// Query of a URL. Unknown parameters are refused if the type denies unknown fields.
#[derive(Clone, Copy, Debug)]
pub struct Query<T>(pub T);

impl<T: DeserializeOwned> FromRequestParts<App> for Query<T> {
    type Rejection = Error;

    async fn from_request_parts(parts: &mut Parts, _: &App) -> Result<Self> {
        read_query(parts.uri.query().unwrap_or_default()).map(Self)
    }
}

/// Query of a list that can be filtered by metadata: any number of `metadata.<name>=<value>`, and the other parameters,
/// which are read like [`Query`].
#[derive(Clone, Debug)]
pub struct Filters<T>(pub T, pub std::collections::BTreeMap<String, String>);

impl<T: DeserializeOwned> FromRequestParts<App> for Filters<T> {
    type Rejection = Error;

    async fn from_request_parts(parts: &mut Parts, _: &App) -> Result<Self> {
        read_filters(parts.uri.query().unwrap_or_default())
    }
}

/// Parses the query of a list that can be filtered by metadata.
pub fn read_filters<T: DeserializeOwned>(query: &str) -> Result<Filters<T>> {
    let mut metadata = std::collections::BTreeMap::new();
    let mut rest = form_urlencoded::Serializer::new(String::new());
    for (name, value) in form_urlencoded::parse(query.as_bytes()) {
        match name.strip_prefix("metadata.") {
            Some(inner) if inner.is_empty() || value.contains('\0') || inner.contains('\0') => {
                return Err(Problem::parameter(&name, "expected metadata.<name>, without NUL").into());
            }
            Some(inner) => {
                if metadata.insert(inner.to_owned(), value.into_owned()).is_some() {
                    return Err(Problem::parameter(&name, "expected once").into());
                }
            }
            None => drop(rest.append_pair(&name, &value)),
        }
    }
    Ok(Filters(read_query(&rest.finish())?, metadata))
}

/// Parameter `id` of a list: ids separated by commas. Empty if it is not given.
pub fn ids(given: Option<&str>) -> Result<Vec<uuid::Uuid>> {
    let Some(given) = given else { return Ok(Vec::new()) };
    let ids: Option<Vec<_>> = given.split(',').map(|word| word.trim().parse().ok()).collect();
    ids.filter(|ids| ids.len() <= domain::limits::MOST_IDS)
        .ok_or_else(|| Problem::parameter("id", "expected at most 1000 ids with commas between them").into())
}

/// A path, or the refusal that a page shows.
pub type TriedPath<T> = std::result::Result<Path<T>, crate::http::error::Error>;

/// Variable part of a path. A value that is not a valid name or id is 404.
#[derive(Clone, Copy, Debug)]
pub struct Path<T>(pub T);

impl<T: DeserializeOwned + Send> FromRequestParts<App> for Path<T> {
    type Rejection = Error;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self> {
        let nothing = || Error::refuse(Code::NotFound, "The path names nothing that could exist here.");
        if parts.uri.path().contains("%00") {
            return Err(nothing());
        }
        match axum::extract::Path::<T>::from_request_parts(parts, app).await {
            Ok(axum::extract::Path(value)) => Ok(Self(value)),
            Err(_) => Err(nothing()),
        }
    }
}

/// Parses a query. Unknown parameters are refused if the type denies unknown fields.
pub fn read_query<T: DeserializeOwned>(query: &str) -> Result<T> {
    if query.contains("%00") {
        let mut pairs = form_urlencoded::parse(query.as_bytes());
        let holder = pairs.find(|(name, value)| name.contains('\0') || value.contains('\0'));
        // A name with NUL is shown with a replacement character.
        let name = holder.map(|(name, _)| name.replace('\0', "\u{fffd}")).unwrap_or_default();
        return Err(Problem::parameter(&name, "expected text without NUL").into());
    }
    let pairs = serde_urlencoded::Deserializer::new(form_urlencoded::parse(query.as_bytes()));
    serde_path_to_error::deserialize(pairs).map_err(|error| {
        let name = error.path().to_string();
        let detail = error.inner().to_string();
        // For an unknown or duplicate parameter, serde gives the name only in the message.
        let name = if name == "." || name == "?" { quoted(&detail).unwrap_or("?").to_owned() } else { name };
        Problem::parameter(&name, &detail).into()
    })
}

fn quoted(message: &str) -> Option<&str> {
    message.split('`').nth(1)
}

/// Returns true if the content type is `application/json` or ends with `+json`.
fn is_json(headers: &HeaderMap) -> bool {
    media_type(headers).is_some_and(|essence| {
        essence == "application/json" || (essence.starts_with("application/") && essence.ends_with("+json"))
    })
}

/// Media type of the body without parameters, in lower case.
pub fn media_type(headers: &HeaderMap) -> Option<String> {
    let value = headers.get(header::CONTENT_TYPE)?.to_str().ok()?;
    let parsed: mime::Mime = value.parse().ok()?;
    Some(parsed.essence_str().to_ascii_lowercase())
}

/// Error 415 with the expected media type.
pub fn wrong_media_type(expected: &str) -> Error {
    Error::refuse(Code::UnsupportedMediaType, format!("Expected a body of type {expected}."))
}

/// Returns true if a document is `null`. It was scanned already as part of its body.
pub fn is_null(document: &Document) -> bool {
    document.text() == "null"
}

#[cfg(test)]
mod tests {
    use domain::api::{Ending, NewJob};
    use serde::Deserialize;

    use super::*;

    fn refusal<T: DeserializeOwned>(text: &str) -> Problem {
        match json_body::read::<T>(text.as_bytes()) {
            Err(engine::error::Error::Problem(problem)) => *problem,
            _ => panic!("not refused: {text}"),
        }
    }

    #[test]
    fn a_fault_has_its_pointer() {
        let found = |text| refusal::<NewJob>(text).errors.remove(0).pointer;
        assert_eq!(found(r#"{"type":"a","items":[{"payload":1},{"priority":"high"}]}"#), "/items/1/priority");
        assert_eq!(found(r#"{"type":"a","colour":1}"#), "/colour");
        assert_eq!(found(r#"{"type":"a","children":[{"type":"b","items":[{"a/b":1}]}]}"#), "/children/0/items/0/a~1b");
        assert_eq!(found("{}"), "/type");
        assert_eq!(found(r#"["a"]"#), "");
        assert_eq!(found(r#"{"type":"a","items":[{"payload":[1]},[1]]}"#), "/items/1");
        assert_eq!(found(r#"{"type":"a","on_completed":["https://a.example"]}"#), "/on_completed");
        assert_eq!(found(r#"{"type":"a","expected_count":1e400}"#), "/expected_count");
    }

    #[test]
    fn each_kind_of_error_has_its_code() {
        let code = |text| refusal::<NewJob>(text).code;
        assert_eq!(code("{"), Code::InvalidJson);
        assert_eq!(code(""), Code::InvalidJson);
        assert_eq!(code(r#"{"type":"a"} x"#), Code::InvalidJson);
        assert_eq!(code(r#"{"type":"a","type":"b"}"#), Code::InvalidBody);
        assert_eq!(code(r#"{"type":"a\u0000"}"#), Code::InvalidBody);
        assert_eq!(code(r#"{"type":"a","metadata":["\ud800"]}"#), Code::InvalidBody);
        let deep = format!(r#"{{"type":"a","metadata":{}{}}}"#, "[".repeat(200), "]".repeat(200));
        assert_eq!(code(&deep), Code::InvalidBody);
        let nested = format!("{}{}", r#"{"type":"a","children":["#.repeat(70), "]}".repeat(70));
        assert_eq!(code(&nested), Code::InvalidBody);
    }

    #[test]
    fn documents_keep_their_text() {
        let text = r#"{"assignment_id":"0190a5e0-0000-7000-8000-000000000000","result":{"n": 9007199254740993}}"#;
        let ending: Ending = json_body::read(text.as_bytes()).expect("an ending");
        assert_eq!(ending.result.expect("a result").text(), r#"{"n": 9007199254740993}"#);
    }

    #[test]
    fn an_invalid_parameter_is_named() {
        #[derive(Debug, Deserialize)]
        #[serde(deny_unknown_fields)]
        struct Wanted {
            limit: Option<u32>,
        }
        let named = |query| match read_query::<Wanted>(query) {
            Err(Error(engine::error::Error::Problem(problem))) => problem.errors[0].pointer.clone(),
            other => panic!("{query}: {other:?}"),
        };
        assert_eq!(read_query::<Wanted>("limit=5").expect("fine").limit, Some(5));
        assert_eq!(named("limit=many"), "?limit");
        assert_eq!(named("colour=red"), "?colour");
        assert_eq!(named("limit=1&limit=2"), "?limit");
        assert_eq!(named("limit=1&colour=a%00b"), "?colour");
        assert_eq!(named("%00"), "?\u{fffd}");
    }
}
