//! Secrets at rest: sealed with a key that is not in the database.
//!
//! Passwords, headers and signing secrets of executors, receivers of callbacks, the deployment's signing key and all
//! other secrets that must be read back are stored as `sealed:v1:KEY_ID:…`: XChaCha20-Poly1305 with a random nonce, and
//! the context (the purpose of the secret) as associated data, so that a value copied to another kind of column does
//! not open. The key comes from `TREELINE_SECRET_KEY` or the file `secret.key`; during a rotation a server knows two.
//! The module must never log a key or an opened value, and contains no SQL.

pub mod channel_target; // sealed receivers of alert channels
mod key_file; // key file in the data folder
pub mod stored_secrets; // sealed secrets of executors and callbacks

use std::{
    fmt,
    sync::{Arc, PoisonError, RwLock},
};

use base64::{
    Engine as _,
    engine::general_purpose::{STANDARD, STANDARD_NO_PAD, URL_SAFE, URL_SAFE_NO_PAD},
};
use chacha20poly1305::{
    KeyInit as _, XChaCha20Poly1305, XNonce,
    aead::{Aead as _, Payload},
};
use sha2::{Digest as _, Sha256};

pub use key_file::KeyFile;

/// Prefix of every sealed text.
const PREFIX: &str = "sealed:v1:";

/// Bytes of a key and of a nonce.
const KEY_BYTES: usize = 32;
const NONCE_BYTES: usize = 24;

/// Reason why a sealed text cannot be opened.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SealError {
    /// Not a sealed text.
    #[error("the value is not sealed")]
    NotSealed,
    /// Sealed with a key that this server does not have.
    #[error("the value is sealed with the key {0}, which this server does not have")]
    UnknownKey(String),
    /// Modified, or sealed for another context.
    #[error("the sealed value is damaged")]
    Damaged,
}

/// Sealing key.
#[derive(Clone)]
pub struct SealingKey {
    id: String,
    bytes: [u8; KEY_BYTES],
}

impl fmt::Debug for SealingKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SealingKey({})", self.id)
    }
}

impl SealingKey {
    /// Generates a random key.
    pub fn generate() -> Self {
        Self::from_bytes(rand::random())
    }

    fn from_bytes(bytes: [u8; KEY_BYTES]) -> Self {
        let mut digest = Sha256::new();
        digest.update(b"treeline sealing key");
        digest.update(bytes);
        let id = digest.finalize()[..8].iter().fold(String::new(), |text, byte| format!("{text}{byte:02x}"));
        Self { id, bytes }
    }

    /// Parses 32 bytes in hexadecimal or base64 (either alphabet, with or without padding).
    pub fn parse(text: &str) -> Option<Self> {
        let text = text.trim();
        let bytes = hexadecimal(text).or_else(|| {
            [&STANDARD, &STANDARD_NO_PAD, &URL_SAFE, &URL_SAFE_NO_PAD]
                .into_iter()
                .find_map(|alphabet| alphabet.decode(text).ok())
        })?;
        Some(Self::from_bytes(bytes.try_into().ok()?))
    }

    /// Id of the key, which reveals nothing about it; part of every text it seals.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Base64 form for the key file.
    fn text(&self) -> String {
        STANDARD.encode(self.bytes)
    }

    fn cipher(&self) -> XChaCha20Poly1305 {
        XChaCha20Poly1305::new(&self.bytes.into())
    }

    fn seal(&self, context: &str, secret: &[u8]) -> String {
        let nonce: [u8; NONCE_BYTES] = rand::random();
        let payload = Payload { msg: secret, aad: context.as_bytes() };
        // Fails only for messages of more than 256 GiB, which no column holds.
        let sealed = self.cipher().encrypt(&XNonce::from(nonce), payload).unwrap_or_default();
        format!("{PREFIX}{}:{}", self.id, URL_SAFE_NO_PAD.encode([&nonce[..], &sealed].concat()))
    }

    fn open(&self, context: &str, sealed: &str) -> Result<Vec<u8>, SealError> {
        let bytes = URL_SAFE_NO_PAD.decode(sealed).map_err(|_| SealError::Damaged)?;
        let (nonce, sealed) = bytes.split_first_chunk::<NONCE_BYTES>().ok_or(SealError::Damaged)?;
        let payload = Payload { msg: sealed, aad: context.as_bytes() };
        self.cipher().decrypt(&XNonce::from(*nonce), payload).map_err(|_| SealError::Damaged)
    }
}

/// Seals and opens secrets. Cheap to clone; all clones share rotations.
#[derive(Clone, Debug)]
pub struct Sealer(Arc<RwLock<Ring>>);

#[derive(Debug)]
struct Ring {
    keys: Vec<SealingKey>,
    /// Index of the key that seals.
    current: usize,
}

impl Sealer {
    /// Creates a sealer that seals with the first key and opens with all keys.
    pub fn new(first: SealingKey, others: impl IntoIterator<Item = SealingKey>) -> Self {
        let sealer = Self(Arc::new(RwLock::new(Ring { keys: vec![first], current: 0 })));
        sealer.learn(others);
        sealer
    }

    /// Creates the sealer of a server or a command: the given key, those of the key file, and the previous key. `None` if
    /// there is neither of the first two.
    pub fn load(given: Option<SealingKey>, stored: Vec<SealingKey>, previous: Option<SealingKey>) -> Option<Self> {
        let mut keys = given.into_iter().chain(stored);
        let first = keys.next()?;
        Some(Self::new(first, keys.chain(previous)))
    }

    /// Seals a secret for a context with the current key.
    pub fn seal(&self, context: &str, secret: &[u8]) -> String {
        let ring = self.0.read().unwrap_or_else(PoisonError::into_inner);
        ring.keys[ring.current].seal(context, secret)
    }

    /// Opens a text sealed for the same context with any known key.
    pub fn open(&self, context: &str, text: &str) -> Result<Vec<u8>, SealError> {
        let rest = text.strip_prefix(PREFIX).ok_or(SealError::NotSealed)?;
        let (id, sealed) = rest.split_once(':').ok_or(SealError::Damaged)?;
        let ring = self.0.read().unwrap_or_else(PoisonError::into_inner);
        let key = ring.keys.iter().find(|key| key.id == id).ok_or_else(|| SealError::UnknownKey(id.to_owned()))?;
        key.open(context, sealed)
    }

    /// Opens a sealed text as a string.
    pub fn open_text(&self, context: &str, text: &str) -> Result<String, SealError> {
        String::from_utf8(self.open(context, text)?).map_err(|_| SealError::Damaged)
    }

    /// Opens a stored text; one from before sealing is returned unchanged.
    pub fn open_stored(&self, context: &str, text: &str) -> Result<String, SealError> {
        if is_sealed(text) { self.open_text(context, text) } else { Ok(text.to_owned()) }
    }

    /// Id of the key that seals.
    pub fn current_id(&self) -> String {
        let ring = self.0.read().unwrap_or_else(PoisonError::into_inner);
        ring.keys[ring.current].id.clone()
    }

    /// Ids of all keys that open.
    pub fn ids(&self) -> Vec<String> {
        let ring = self.0.read().unwrap_or_else(PoisonError::into_inner);
        ring.keys.iter().map(|key| key.id.clone()).collect()
    }

    /// Seals with the key of this id from now on. False without a change if it is unknown.
    pub fn use_key(&self, id: &str) -> bool {
        let mut ring = self.0.write().unwrap_or_else(PoisonError::into_inner);
        let found = ring.keys.iter().position(|key| key.id == id);
        ring.current = found.unwrap_or(ring.current);
        found.is_some()
    }

    /// Adds keys that open.
    pub fn learn(&self, keys: impl IntoIterator<Item = SealingKey>) {
        let mut ring = self.0.write().unwrap_or_else(PoisonError::into_inner);
        for key in keys {
            if ring.keys.iter().all(|existing| existing.id != key.id) {
                ring.keys.push(key);
            }
        }
    }
}

/// Returns true if a stored text is sealed.
pub fn is_sealed(text: &str) -> bool {
    text.starts_with(PREFIX)
}

/// Returns true if a stored text is sealed with the key of this id.
pub fn is_sealed_with(text: &str, id: &str) -> bool {
    text.strip_prefix(PREFIX).and_then(|rest| rest.split_once(':')).is_some_and(|(with, _)| with == id)
}

fn hexadecimal(text: &str) -> Option<Vec<u8>> {
    let digits = text.len() == 2 * KEY_BYTES && text.bytes().all(|digit| digit.is_ascii_hexdigit());
    digits.then(|| (0..text.len()).step_by(2).filter_map(|at| u8::from_str_radix(&text[at..at + 2], 16).ok()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sealed_text_opens_only_with_its_context_and_key() {
        let sealer = Sealer::new(SealingKey::generate(), []);
        let sealed = sealer.seal("executor", b"hunter2");
        assert!(is_sealed(&sealed) && is_sealed_with(&sealed, &sealer.current_id()) && !sealed.contains("hunter2"));
        assert_eq!(sealer.open("executor", &sealed).as_deref(), Ok(&b"hunter2"[..]));
        assert_eq!(sealer.open("callback", &sealed), Err(SealError::Damaged), "another context");
        assert_ne!(sealer.seal("executor", b"hunter2"), sealed, "a nonce of its own");
        let mut changed = sealed.clone().into_bytes();
        let last = changed.len() - 1;
        changed[last] = if changed[last] == b'A' { b'B' } else { b'A' };
        let changed = String::from_utf8(changed).expect("text");
        assert_eq!(sealer.open("executor", &changed), Err(SealError::Damaged));
        assert_eq!(sealer.open("executor", "hunter2"), Err(SealError::NotSealed));
        assert_eq!(sealer.open_stored("executor", "hunter2").as_deref(), Ok("hunter2"));
        let stranger = Sealer::new(SealingKey::generate(), []);
        assert_eq!(stranger.open("executor", &sealed), Err(SealError::UnknownKey(sealer.current_id())));
    }

    #[test]
    fn both_keys_open_during_a_rotation() {
        let (old, new) = (SealingKey::generate(), SealingKey::generate());
        let before = Sealer::new(old.clone(), []);
        let sealed = before.seal("a", b"secret");
        let rotating = Sealer::new(new.clone(), [old]);
        assert_eq!(rotating.open_text("a", &sealed).as_deref(), Ok("secret"));
        assert!(
            rotating.use_key(&before.current_id()) && is_sealed_with(&rotating.seal("a", b""), &before.current_id())
        );
        assert!(rotating.use_key(new.id()) && !rotating.use_key("unknown"));
        assert_eq!(rotating.current_id(), new.id());
    }

    #[test]
    fn a_key_is_32_bytes_in_either_spelling() {
        let key = SealingKey::generate();
        let hex = key.bytes.iter().fold(String::new(), |text, byte| format!("{text}{byte:02X}"));
        for spelling in [key.text(), hex, URL_SAFE_NO_PAD.encode(key.bytes), format!(" {}\n", key.text())] {
            assert_eq!(SealingKey::parse(&spelling).map(|key| key.id), Some(key.id.clone()), "{spelling}");
        }
        for bad in ["", "secret", &STANDARD.encode([1; 31]), &"ä".repeat(32)] {
            assert!(SealingKey::parse(bad).is_none(), "{bad}");
        }
        assert!(!format!("{key:?}").contains(&key.text()));
    }
}
