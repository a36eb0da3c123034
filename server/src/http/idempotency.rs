//! Requests that can be sent again: the header `Idempotency-Key`, what makes two bodies equal, and the
//! first answer given a second time.
//!
//! Two bodies are equal when they are equal JSON ([`domain::document::canonical`]). Making trees and
//! adding items have ways of their own, in the transaction of what they write; [`once`] is for calls that
//! make one small thing.

use axum::{
    extract::{FromRequest, FromRequestParts, Request},
    http::{HeaderMap, HeaderValue, StatusCode, header, request::Parts},
    response::{IntoResponse as _, Response},
};
use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use domain::{
    Problem,
    document::canonical::{canonical, canonical_without},
    id::is_key,
};
use serde::{Serialize, de::DeserializeOwned};
use sha2::{Digest as _, Sha256};

use super::extract;
use crate::{
    App,
    auth::Caller,
    error::{Error, Result},
    store::idempotency::KeyName,
};

/// The header `Idempotency-Key`, if it was sent: 1 to 255 characters.
#[derive(Clone, Debug)]
pub struct Key(pub Option<String>);

impl FromRequestParts<App> for Key {
    type Rejection = Error;

    async fn from_request_parts(parts: &mut Parts, _: &App) -> Result<Self> {
        Self::read(&parts.headers)
    }
}

impl Key {
    /// The key among the headers of a request.
    pub fn read(headers: &HeaderMap) -> Result<Self> {
        let mut values = headers.get_all("idempotency-key").iter();
        let Some(value) = values.next() else { return Ok(Self(None)) };
        let key = std::str::from_utf8(value.as_bytes()).ok().filter(|key| is_key(key));
        match key {
            Some(key) if values.next().is_none() => Ok(Self(Some(key.to_owned()))),
            _ => Err(Problem::parameter("Idempotency-Key", "expected one header of 1 to 255 characters").into()),
        }
    }

    /// The key in the caller's space.
    pub fn name(self, caller: &Caller) -> Option<KeyName> {
        let key = self.0?;
        Some(KeyName { owner_id: caller.owner_id, scope: String::new(), key })
    }
}

/// A JSON body with its text.
#[derive(Clone, Debug)]
pub struct Text<T> {
    pub value: T,
    pub text: String,
}

impl<T: DeserializeOwned> FromRequest<App> for Text<T> {
    type Rejection = Error;

    async fn from_request(request: Request, app: &App) -> Result<Self> {
        let bytes = extract::json_bytes(request, app.config.body_limit.bytes()).await?;
        let value = extract::read(&bytes)?;
        // JSON that was read is UTF-8. The bytes are nobody else's: they become the text without a copy.
        Ok(Self { value, text: String::from_utf8(bytes.into()).unwrap_or_default() })
    }
}

/// SHA-256 of the one spelling of a body.
pub fn fingerprint(text: &str) -> [u8; 32] {
    Sha256::digest(canonical(text)).into()
}

/// The same without the id at the top: a body sent to the id's own path need not repeat it.
pub fn fingerprint_without_id(text: &str) -> [u8; 32] {
    Sha256::digest(canonical_without(text, Some("id"))).into()
}

/// The same without a secret at the top: a fast hash of it would be a gift to whoever guesses.
pub fn fingerprint_without(text: &str, secret: &str) -> [u8; 32] {
    Sha256::digest(canonical_without(text, Some(secret))).into()
}

/// The fingerprint of a sequence, with one more JSON text at its end.
pub fn chained(before: [u8; 32], text: &str) -> [u8; 32] {
    Sha256::new().chain_update(before).chain_update(canonical(text)).finalize().into()
}

/// How an answer is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keep {
    Plain,
    /// It holds a secret, which nothing stored may tell: it can be read only with the key in hand, and
    /// of the key itself only a hash is stored.
    Sealed,
}

/// Makes something once: the same key and fingerprint again give the first answer, whatever it was made
/// into meanwhile. Without a key it is made, and that is all. What is refused frees the key. The caller
/// has checked that whoever asks may have the answer.
///
/// The making runs in a task of its own, so that a client that goes away leaves no key without an answer.
pub async fn once<T, F>(
    app: &App,
    key: Option<KeyName>,
    keep: Keep,
    call: &str,
    fingerprint: [u8; 32],
    make: F,
) -> Result<(StatusCode, String)>
where
    T: Serialize + Send,
    F: Future<Output = Result<(StatusCode, T)>> + Send + 'static,
{
    let Some(name) = key else {
        let (status, made) = make.await?;
        return Ok((status, json(&made)?));
    };
    let kept = Kept::of(name, keep);
    let (engine, call) = (app.engine.clone(), call.to_owned());
    let task = app.tasks.spawn(async move {
        let _turn = engine.key_turn(&kept.name).await;
        if let Some((status, text)) = engine.begin_call(&kept.name, &call, &fingerprint).await? {
            return Ok((StatusCode::from_u16(status).unwrap_or(StatusCode::OK), kept.open(&text)?));
        }
        let text = match make.await.and_then(|(status, made)| Ok((status, json(&made)?))) {
            Ok(made) => made,
            Err(refused) => {
                engine.end_call(&kept.name, None).await?;
                return Err(refused);
            }
        };
        engine.end_call(&kept.name, Some((text.0.as_u16(), &kept.seal(&text.1)))).await?;
        Ok(text)
    });
    task.await.map_err(|e| Error::Broken(e.to_string()))?
}

/// A name that is stored, and what seals its answer.
struct Kept {
    name: KeyName,
    seal: Option<[u8; 32]>,
}

impl Kept {
    fn of(name: KeyName, keep: Keep) -> Self {
        if keep == Keep::Plain {
            return Self { name, seal: None };
        }
        let hash = |what: &str| -> [u8; 32] {
            Sha256::new().chain_update(what).chain_update(name.owner_id).chain_update(&name.key).finalize().into()
        };
        let (seal, stored) = (hash("treeline answer seal"), hash("treeline answer name"));
        let key = format!("sealed:{}", URL_SAFE_NO_PAD.encode(stored));
        Self { name: KeyName { key, ..name }, seal: Some(seal) }
    }

    fn seal(&self, text: &str) -> String {
        match self.seal {
            Some(seal) => URL_SAFE_NO_PAD.encode(masked(seal, text.as_bytes())),
            None => text.to_owned(),
        }
    }

    fn open(&self, kept: &str) -> Result<String> {
        let Some(seal) = self.seal else { return Ok(kept.to_owned()) };
        let broken = || Error::Broken("a sealed answer cannot be read".to_owned());
        let bytes = URL_SAFE_NO_PAD.decode(kept).map_err(|_| broken())?;
        String::from_utf8(masked(seal, &bytes)).map_err(|_| broken())
    }
}

/// Bytes under a mask that is as long as they are: SHA-256 of the seal and the block's number. A seal is
/// used for one answer only, as a key is.
fn masked(seal: [u8; 32], bytes: &[u8]) -> Vec<u8> {
    let blocks = bytes.chunks(32).zip(0_u64..);
    let masked = blocks.flat_map(|(block, number)| {
        let mask = Sha256::new().chain_update(seal).chain_update(number.to_be_bytes()).finalize();
        block.iter().zip(mask).map(|(byte, mask)| byte ^ mask).collect::<Vec<u8>>()
    });
    masked.collect()
}

fn json(made: &impl Serialize) -> Result<String> {
    serde_json::to_string(made).map_err(|e| Error::Broken(e.to_string()))
}

/// The answer of [`once`] as a response.
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
    fn a_sealed_answer_is_read_with_its_key_alone() {
        let name = |key: &str| KeyName { owner_id: uuid::Uuid::nil(), scope: String::new(), key: key.to_owned() };
        let kept = Kept::of(name("k"), Keep::Sealed);
        assert!(!kept.name.key.contains("k-") && kept.name.key.starts_with("sealed:"));
        let secret = format!("{{\"secret\":\"{}\"}}", "s".repeat(100));
        let sealed = kept.seal(&secret);
        assert!(!sealed.contains("sss"));
        assert_eq!(Kept::of(name("k"), Keep::Sealed).open(&sealed).expect("the answer"), secret);
        assert_ne!(Kept::of(name("other"), Keep::Sealed).open(&sealed).ok(), Some(secret));
        assert_eq!(Kept::of(name("k"), Keep::Plain).seal("{}"), "{}");
    }

    #[test]
    fn a_chain_tells_order_and_length() {
        let start = [0; 32];
        let of = |texts: &[&str]| texts.iter().fold(start, |before, text| chained(before, text));
        assert_eq!(of(&["1", "{\"a\":2}"]), of(&["1.0", "{ \"a\" : 2 }"]));
        assert_ne!(of(&["1", "2"]), of(&["2", "1"]));
        assert_ne!(of(&["1"]), of(&["1", "1"]));
    }
}
