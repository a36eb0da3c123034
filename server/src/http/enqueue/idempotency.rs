//! Idempotent requests: the header `Idempotency-Key`, the equality of two bodies, and stored responses.
//!
//! Two bodies are equal if they are equal JSON ([`domain::document::canonical`]). Creating trees and adding items store
//! their responses themselves, in the transaction of their writes. [`once`] is for calls that create one small object.

use axum::{
    extract::{FromRequest, FromRequestParts, Request},
    http::{HeaderMap, HeaderValue, StatusCode, header, request::Parts},
    response::{IntoResponse as _, Response},
};
use domain::{
    Problem,
    document::canonical::{canonical, canonical_without},
    id::is_key,
};
use serde::{Serialize, de::DeserializeOwned};
use sha2::{Digest as _, Sha256};

use crate::http::extract;
use crate::{
    App,
    http::error::{Error, Result},
};
pub use engine::stored_response::{ResponseSlot, ResponseStorage};
use engine::{
    access::caller::Caller,
    store::enqueue::idempotency::KeyName,
    stored_response::{StoredResponse, json},
};

/// Header `Idempotency-Key`, if it was sent: 1 to 255 characters.
#[derive(Clone, Debug)]
pub struct Key(pub Option<String>);

impl FromRequestParts<App> for Key {
    type Rejection = Error;

    async fn from_request_parts(parts: &mut Parts, _: &App) -> Result<Self> {
        Self::read(&parts.headers)
    }
}

impl Key {
    /// Reads the key from the headers of a request.
    pub fn read(headers: &HeaderMap) -> Result<Self> {
        let mut values = headers.get_all("idempotency-key").iter();
        let Some(value) = values.next() else { return Ok(Self(None)) };
        let key = std::str::from_utf8(value.as_bytes()).ok().filter(|key| is_key(key));
        match key {
            Some(key) if values.next().is_none() => Ok(Self(Some(key.to_owned()))),
            _ => Err(Problem::parameter("Idempotency-Key", "expected one header of 1 to 255 characters").into()),
        }
    }

    /// Key within the caller's own namespace.
    pub fn name(self, caller: &Caller) -> Option<KeyName> {
        let key = self.0?;
        Some(KeyName { owner_id: caller.owner_id, scope: String::new(), key })
    }
}

/// JSON body with its text.
#[derive(Clone, Debug)]
pub struct Text<T> {
    pub value: T,
    pub text: String,
}

impl<T: DeserializeOwned> FromRequest<App> for Text<T> {
    type Rejection = Error;

    async fn from_request(request: Request, app: &App) -> Result<Self> {
        let bytes = extract::json_bytes(request, app.config.body_limit.bytes()).await?;
        let value = crate::json_body::read(&bytes)?;
        // Parsed JSON is UTF-8. Nobody else holds the bytes: they become the text without a copy.
        Ok(Self { value, text: String::from_utf8(bytes.into()).unwrap_or_default() })
    }
}

/// SHA-256 of the canonical form of a body.
pub fn fingerprint(text: &str) -> [u8; 32] {
    Sha256::digest(canonical(text)).into()
}

/// Fingerprint without the top-level id: a body sent to the path of its id need not repeat it.
pub fn fingerprint_without_id(text: &str) -> [u8; 32] {
    Sha256::digest(canonical_without(text, Some("id"))).into()
}

/// Fingerprint without a top-level secret: a fast hash of it could be brute-forced.
pub fn fingerprint_without(text: &str, secret: &str) -> [u8; 32] {
    Sha256::digest(canonical_without(text, Some(secret))).into()
}

/// Fingerprint of a sequence extended by one JSON text.
pub fn chained(before: [u8; 32], text: &str) -> [u8; 32] {
    Sha256::new().chain_update(before).chain_update(canonical(text)).finalize().into()
}

/// Creates an object once: a repeat with the same key and fingerprint gets the first response, even if the object has
/// changed since. Without a key the object is just created. A refusal frees the key. The caller of this function has
/// checked that the client may have the response.
///
/// `make` stores its response in the transaction that creates the object ([`ResponseSlot::store`]). It runs in its own task,
/// so a client that disconnects leaves no key without a response. A crash or a silent database may: a repeat is then refused
/// with 409 for a minute.
pub async fn once<T, M>(
    app: &App,
    key: Option<KeyName>,
    storage: ResponseStorage,
    call: &str,
    fingerprint: [u8; 32],
    make: impl FnOnce(ResponseSlot) -> M + Send + 'static,
) -> Result<(StatusCode, String)>
where
    T: Serialize + Send,
    M: Future<Output = engine::error::Result<T>> + Send + 'static,
{
    let Some(name) = key else {
        return Ok((StatusCode::CREATED, json(&make(ResponseSlot::none()).await?)?));
    };
    let stored_response = StoredResponse::of(name, storage);
    let (engine, call) = (app.engine.clone(), call.to_owned());
    let task = app.spawn(async move {
        let _turn = engine.lock_key(&stored_response.name).await;
        if let Some((status, text)) = engine.begin_call(&stored_response.name, &call, &fingerprint).await? {
            return Ok((StatusCode::from_u16(status).unwrap_or(StatusCode::OK), stored_response.open(&text)?));
        }
        match make(ResponseSlot::new(stored_response.clone())).await {
            Ok(created) => Ok((StatusCode::CREATED, json(&created)?)),
            Err(refused) => {
                engine.forget_call(&stored_response.name).await?;
                Err(refused)
            }
        }
    });
    Ok(task.await.map_err(|e| engine::error::Error::Broken(e.to_string()))??)
}

/// HTTP response of a call to [`once`].
pub fn answer((status, text): (StatusCode, String)) -> Response {
    (status, [(header::CONTENT_TYPE, HeaderValue::from_static("application/json"))], text).into_response()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_json_is_one_request() {
        assert_eq!(fingerprint(r#"{"a":1,"b":[1.0]}"#), fingerprint("{ \"b\": [1], \"a\": 1 }"));
        assert_ne!(fingerprint(r#"{"a":1}"#), fingerprint(r#"{"a":1,"b":null}"#));
        assert_eq!(fingerprint_without_id(r#"{"id":"x","a":1}"#), fingerprint(r#"{"a":1}"#));
    }

    #[test]
    fn a_chain_depends_on_order_and_length() {
        let start = [0; 32];
        let of = |texts: &[&str]| texts.iter().fold(start, |before, text| chained(before, text));
        assert_eq!(of(&["1", "{\"a\":2}"]), of(&["1.0", "{ \"a\" : 2 }"]));
        assert_ne!(of(&["1", "2"]), of(&["2", "1"]));
        assert_ne!(of(&["1"]), of(&["1", "1"]));
    }
}
