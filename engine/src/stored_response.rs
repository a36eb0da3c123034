//! Stored responses for idempotent requests (`idempotency-key`), written in the transaction that creates the resource,
//! so that both exist or neither does.
//!
//! For calls that create one small resource. Independent of HTTP: the creating transaction also writes the response.

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use domain::{Code, Problem};
use serde::Serialize;
use sha2::{Digest as _, Sha256};
use sqlx::PgPool;

use crate::{
    error::{Error, Result},
    store::{
        Tx,
        enqueue::idempotency::{self, KeyName},
    },
};

/// HTTP status of every call that creates a small resource.
const CREATED: i16 = 201;

/// Storage of a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResponseStorage {
    Plain,
    /// For responses with a secret: readable only with the key itself, of which only a hash is stored.
    Sealed,
}

/// Destination of a call's response; empty for a call without a key.
#[derive(Clone, Debug, Default)]
pub struct ResponseSlot(Option<StoredResponse>);

impl ResponseSlot {
    /// For a call without a key.
    pub fn none() -> Self {
        Self(None)
    }

    /// For a call with a key.
    pub fn new(stored: StoredResponse) -> Self {
        Self(Some(stored))
    }

    /// Idempotency-Key of the call, if it has one.
    pub(crate) fn key(&self) -> Option<&str> {
        self.0.as_ref().map(|stored| stored.name.key.as_str())
    }

    /// Stores the created resource in its transaction. 409 `duplicate` if another request with this key was answered
    /// meanwhile: then the transaction must not be committed.
    pub async fn store(&self, tx: &mut Tx, created: &impl Serialize) -> Result<()> {
        let Some(stored) = &self.0 else { return Ok(()) };
        let text = stored.seal(&json(created)?);
        if idempotency::end(tx, &stored.name, CREATED, &text).await? { Ok(()) } else { Err(under_way()) }
    }

    /// Stores the response of an existing resource in its own transaction; on failure the caller deletes the resource.
    pub async fn store_separately(&self, pool: &PgPool, created: &impl Serialize) -> Result<()> {
        if self.0.is_none() {
            return Ok(());
        }
        let mut tx = crate::store::begin(pool).await?;
        self.store(&mut tx, created).await?;
        Ok(crate::store::commit(tx).await?)
    }
}

/// 409 `duplicate`: the same request is being processed elsewhere.
pub fn under_way() -> Error {
    let problem = Problem::new(Code::Duplicate, "The same request is being answered right now. Ask again in a moment.");
    Problem { retry_after_seconds: Some(1), ..problem }.into()
}

/// Response body of the created resource.
pub fn json(created: &impl Serialize) -> Result<String> {
    serde_json::to_string(created).map_err(|e| Error::Broken(e.to_string()))
}

/// Name of a stored response, and the key that seals it.
#[derive(Clone, Debug)]
pub struct StoredResponse {
    pub name: KeyName,
    seal: Option<[u8; 32]>,
}

impl StoredResponse {
    /// Name of the stored response of this key.
    pub fn of(name: KeyName, storage: ResponseStorage) -> Self {
        if storage == ResponseStorage::Plain {
            return Self { name, seal: None };
        }
        let hash = |what: &str| -> [u8; 32] {
            Sha256::new().chain_update(what).chain_update(name.owner_id).chain_update(&name.key).finalize().into()
        };
        let (seal, name_hash) = (hash("treeline answer seal"), hash("treeline answer name"));
        let key = format!("sealed:{}", URL_SAFE_NO_PAD.encode(name_hash));
        Self { name: KeyName { key, ..name }, seal: Some(seal) }
    }

    fn seal(&self, text: &str) -> String {
        match self.seal {
            Some(seal) => URL_SAFE_NO_PAD.encode(masked(seal, text.as_bytes())),
            None => text.to_owned(),
        }
    }

    /// Opens a stored response.
    pub fn open(&self, stored: &str) -> Result<String> {
        let Some(seal) = self.seal else { return Ok(stored.to_owned()) };
        let broken = || Error::Broken("a sealed answer cannot be read".to_owned());
        let bytes = URL_SAFE_NO_PAD.decode(stored).map_err(|_| broken())?;
        String::from_utf8(masked(seal, &bytes)).map_err(|_| broken())
    }
}

/// Masks bytes with a keystream: SHA-256 of the seal and the block number. A seal is used for one response only, like
/// its key.
fn masked(seal: [u8; 32], bytes: &[u8]) -> Vec<u8> {
    let blocks = bytes.chunks(32).zip(0_u64..);
    let masked = blocks.flat_map(|(block, number)| {
        let mask = Sha256::new().chain_update(seal).chain_update(number.to_be_bytes()).finalize();
        block.iter().zip(mask).map(|(byte, mask)| byte ^ mask).collect::<Vec<u8>>()
    });
    masked.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sealed_response_opens_with_its_key_only() {
        let name = |key: &str| KeyName { owner_id: uuid::Uuid::nil(), scope: String::new(), key: key.to_owned() };
        let stored = StoredResponse::of(name("k"), ResponseStorage::Sealed);
        assert!(!stored.name.key.contains("k-") && stored.name.key.starts_with("sealed:"));
        let secret = format!("{{\"secret\":\"{}\"}}", "s".repeat(100));
        let sealed = stored.seal(&secret);
        assert!(!sealed.contains("sss"));
        assert_eq!(StoredResponse::of(name("k"), ResponseStorage::Sealed).open(&sealed).expect("the answer"), secret);
        assert_ne!(StoredResponse::of(name("other"), ResponseStorage::Sealed).open(&sealed).ok(), Some(secret));
        assert_eq!(StoredResponse::of(name("k"), ResponseStorage::Plain).seal("{}"), "{}");
    }
}
