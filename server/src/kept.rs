//! Answers that are kept in the transaction of what they tell of (`idempotency-key`): either the thing is there and the
//! same request again gives this answer, or neither is.
//!
//! For calls that make one small thing. Apart from HTTP, as whoever makes the thing writes the answer too.

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use domain::Code;
use serde::Serialize;
use sha2::{Digest as _, Sha256};
use sqlx::PgPool;

use crate::{
    error::{Error, Result},
    store::{
        Tx,
        idempotency::{self, KeyName},
    },
};

/// The HTTP status of every call that makes a small thing.
const CREATED: i16 = 201;

/// How an answer is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keep {
    Plain,
    /// It holds a secret, which nothing stored may tell: it can be read only with the key in hand, and
    /// of the key itself only a hash is stored.
    Sealed,
}

/// Where the answer of a call goes; nowhere, for a call without a key.
#[derive(Clone, Debug, Default)]
pub struct Keeping(Option<Kept>);

impl Keeping {
    /// Of a call without a key.
    pub fn nowhere() -> Self {
        Self(None)
    }

    /// Under the key of a call that was begun.
    pub fn under(kept: Kept) -> Self {
        Self(Some(kept))
    }

    /// Keeps what was made, with its making. 409 `duplicate` where the call was answered meanwhile, by whoever had
    /// taken it over: then nothing must be committed.
    pub async fn keep(&self, tx: &mut Tx, made: &impl Serialize) -> Result<()> {
        let Some(kept) = &self.0 else { return Ok(()) };
        let text = kept.seal(&json(made)?);
        if idempotency::end(tx, &kept.name, CREATED, &text).await? { Ok(()) } else { Err(under_way()) }
    }

    /// The same for what is there already: whoever hears that it failed takes it away again.
    pub async fn keep_alone(&self, pool: &PgPool, made: &impl Serialize) -> Result<()> {
        if self.0.is_none() {
            return Ok(());
        }
        let mut tx = pool.begin().await?;
        self.keep(&mut tx, made).await?;
        Ok(crate::store::commit(tx).await?)
    }
}

/// 409 `duplicate`: the same request is on its way elsewhere.
pub fn under_way() -> Error {
    Error::refuse(Code::Duplicate, "The same request is being answered right now. Ask again in a moment.")
}

/// What was made, as it is answered.
pub fn json(made: &impl Serialize) -> Result<String> {
    serde_json::to_string(made).map_err(|e| Error::Broken(e.to_string()))
}

/// A name that is stored, and what seals its answer.
#[derive(Clone, Debug)]
pub struct Kept {
    pub name: KeyName,
    seal: Option<[u8; 32]>,
}

impl Kept {
    /// The name under which the answer to this key is stored.
    pub fn of(name: KeyName, keep: Keep) -> Self {
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

    /// An answer as it was before it was kept.
    pub fn open(&self, kept: &str) -> Result<String> {
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

#[cfg(test)]
mod tests {
    use super::*;

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
}
