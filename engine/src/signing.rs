//! Signatures of outbound messages by Standard Webhooks: HMAC-SHA256 over id, time and body.
//!
//! A secret is `whsec_` and base64, or any other text, whose bytes are the key. By default a key derived from the
//! deployment's key signs, one per owner and per job type: a receiver with its key can verify its messages and forge
//! none for others.

use std::fmt;

use base64::{
    Engine as _, alphabet,
    engine::{
        DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig,
        general_purpose::{STANDARD, URL_SAFE_NO_PAD},
    },
};
use domain::{dispatch::assignment::Capability, job_type::SigningSecret};
use hmac::{Hmac, KeyInit as _, Mac as _};
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use sha2::Sha256;
use subtle::ConstantTimeEq as _;
use uuid::Uuid;

/// Prefix of a secret in base64.
const PREFIX: &str = "whsec_";

/// Headers of a signed message.
pub const ID: HeaderName = HeaderName::from_static("webhook-id");
pub const TIMESTAMP: HeaderName = HeaderName::from_static("webhook-timestamp");
pub const SIGNATURE: HeaderName = HeaderName::from_static("webhook-signature");

/// Signing key. Hidden in `Debug` and compared in constant time.
#[derive(Clone)]
pub struct Key(Vec<u8>);

impl PartialEq for Key {
    fn eq(&self, other: &Self) -> bool {
        self.0.ct_eq(&other.0).into()
    }
}

impl Eq for Key {}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

impl Key {
    /// Parses a given secret.
    pub fn of(secret: &str) -> Self {
        const LENIENT: GeneralPurpose = GeneralPurpose::new(
            &alphabet::STANDARD,
            GeneralPurposeConfig::new()
                .with_decode_padding_mode(DecodePaddingMode::Indifferent)
                .with_decode_allow_trailing_bits(true),
        );
        let coded = secret.strip_prefix(PREFIX).and_then(|text| LENIENT.decode(text).ok());
        Self(coded.unwrap_or_else(|| secret.as_bytes().to_vec()))
    }

    /// Key from its stored bytes.
    pub const fn from_bytes(bytes: Vec<u8>) -> Self {
        Self(bytes)
    }

    /// Default signing key for callbacks of this owner's trees.
    #[must_use]
    pub fn of_owner(&self, owner_id: Uuid) -> Self {
        self.derived(&format!("owner/{owner_id}"))
    }

    /// Default signing key for push requests of this type.
    #[must_use]
    pub fn of_type(&self, name: &str) -> Self {
        self.derived(&format!("type/{name}"))
    }

    /// Signing key for posts of the audit log.
    #[must_use]
    pub fn of_audit(&self) -> Self {
        self.derived("audit")
    }

    /// Signing key for messages to a configured URL, such as `alerts`.
    #[must_use]
    pub fn of_purpose(&self, purpose: &str) -> Self {
        self.derived(&format!("purpose/{purpose}"))
    }

    /// Key that creates and verifies the capabilities of pushed assignments.
    #[must_use]
    pub fn of_assignments(&self) -> Self {
        self.derived("assignments")
    }

    /// Capability of a pushed assignment: 256 bits that cannot be computed without this key.
    pub fn capability(&self, id: Uuid) -> Option<Capability> {
        URL_SAFE_NO_PAD.encode(self.mac(&[id.as_bytes()])).parse().ok()
    }

    /// Verifies the capability of a pushed assignment in constant time.
    pub fn is_capability(&self, id: Uuid, given: &Capability) -> bool {
        self.capability(id).is_some_and(|expected| expected.as_bytes().ct_eq(given.as_bytes()).into())
    }

    fn derived(&self, purpose: &str) -> Self {
        Self(self.mac(&[purpose.as_bytes()]))
    }

    /// Text form for receivers: `whsec_` and base64.
    pub fn text(&self) -> String {
        format!("{PREFIX}{}", STANDARD.encode(&self.0))
    }

    /// Signature of a message with `v1,`. `timestamp`: seconds since 1970.
    pub fn sign(&self, id: &str, timestamp: i64, body: &[u8]) -> String {
        let timestamp = timestamp.to_string();
        let mac = self.mac(&[id.as_bytes(), b".", timestamp.as_bytes(), b".", body]);
        format!("v1,{}", STANDARD.encode(mac))
    }

    fn mac(&self, parts: &[&[u8]]) -> Vec<u8> {
        // HMAC accepts keys of any length.
        let Ok(mut mac) = Hmac::<Sha256>::new_from_slice(&self.0) else { return Vec::new() };
        for part in parts {
            mac.update(part);
        }
        mac.finalize().into_bytes().to_vec()
    }
}

/// Adds the three headers of a message, signed with each of these keys.
pub fn stamp(keys: &[Key], headers: &mut HeaderMap, id: &str, timestamp: i64, body: &[u8]) {
    let signatures: Vec<String> = keys.iter().map(|key| key.sign(id, timestamp, body)).collect();
    for (name, value) in [(SIGNATURE, signatures.join(" ")), (TIMESTAMP, timestamp.to_string()), (ID, id.to_owned())] {
        // Letters, digits, spaces and base64 are always valid in a header.
        if let Ok(value) = HeaderValue::try_from(value) {
            headers.insert(name, value);
        }
    }
}

/// Returns the given keys, or the default key.
pub fn keys_of(secret: Option<&SigningSecret>, default_key: impl FnOnce() -> Key) -> Vec<Key> {
    match secret {
        Some(secret) => secret.all().iter().map(|secret| Key::of(secret)).collect(),
        None => vec![default_key()],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signature_is_that_of_the_standard() {
        // Example from the libraries of the standard.
        let key = Key::of("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw");
        let signed = key.sign("msg_p5jXN8AQM9LWM0D4loKWxJek", 1_614_265_330, br#"{"test": 2432232314}"#);
        assert_eq!(signed, "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=");
        assert_eq!(key.text(), "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw");
    }

    #[test]
    fn any_text_is_a_secret() {
        assert_eq!(Key::of("whsec_c2VjcmV0"), Key::of("secret"));
        assert_eq!(Key::of("whsec_c2VjcmV0cw"), Key::of("secrets"), "without padding");
        assert_eq!(Key::of("whsec_c2VjcmV0cx"), Key::of("secrets"), "as receivers decode it");
        assert_eq!(Key::of("whsec_!"), Key::from_bytes(b"whsec_!".to_vec()));
        assert_eq!(format!("{:?}", Key::of("secret")), "***");
    }

    #[test]
    fn every_owner_and_type_has_a_key_of_its_own() {
        let key = Key::from_bytes(vec![7; 32]);
        let (a, b) = (key.of_owner(Uuid::from_u128(1)), key.of_owner(Uuid::from_u128(2)));
        assert!(a != b && a != key.of_type("a") && key.of_type("a") != key.of_type("b"));
        assert_eq!(a, key.of_owner(Uuid::from_u128(1)));
    }

    #[test]
    fn a_capability_fits_one_assignment_and_one_key() {
        let (key, other) = (Key::from_bytes(vec![7; 32]), Key::from_bytes(vec![8; 32]));
        let (a, b) = (Uuid::from_u128(1), Uuid::from_u128(2));
        let given = key.capability(a).expect("a capability");
        assert!(key.is_capability(a, &given));
        assert!(!key.is_capability(b, &given) && !other.is_capability(a, &given));
    }
}
