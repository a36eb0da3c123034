//! Signatures of what is posted, as Standard Webhooks says: HMAC-SHA256 over id, time and body.
//!
//! A secret is `whsec_` and base64, or any other text, whose bytes it then is. Where nobody gave one, the
//! deployment's own key signs, made into another for each owner and each job type: a receiver that knows its
//! key can check what comes to it, and can forge nothing for anybody else.

use std::fmt;

use base64::{
    Engine as _, alphabet,
    engine::{
        DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig,
        general_purpose::{STANDARD, URL_SAFE_NO_PAD},
    },
};
use domain::{assignment::Capability, job_type::SigningSecret};
use hmac::{Hmac, KeyInit as _, Mac as _};
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use sha2::Sha256;
use subtle::ConstantTimeEq as _;
use uuid::Uuid;

/// What a secret begins with that is written as base64.
const PREFIX: &str = "whsec_";

/// The headers of a signed message.
pub const ID: HeaderName = HeaderName::from_static("webhook-id");
pub const TIMESTAMP: HeaderName = HeaderName::from_static("webhook-timestamp");
pub const SIGNATURE: HeaderName = HeaderName::from_static("webhook-signature");

/// A key that signs. It does not show in `Debug`, and is compared in constant time.
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
    /// The key that somebody gave as text.
    pub fn of(secret: &str) -> Self {
        const LENIENT: GeneralPurpose = GeneralPurpose::new(
            &alphabet::STANDARD,
            GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
        );
        let coded = secret.strip_prefix(PREFIX).and_then(|text| LENIENT.decode(text).ok());
        Self(coded.unwrap_or_else(|| secret.as_bytes().to_vec()))
    }

    /// A key as it is stored.
    pub const fn from_bytes(bytes: Vec<u8>) -> Self {
        Self(bytes)
    }

    /// The key that signs callbacks of this owner's trees where they name no secret.
    #[must_use]
    pub fn of_owner(&self, owner_id: Uuid) -> Self {
        self.derived(&format!("owner/{owner_id}"))
    }

    /// The key that signs posts to the workers of this type where it has no secret.
    #[must_use]
    pub fn of_type(&self, name: &str) -> Self {
        self.derived(&format!("type/{name}"))
    }

    /// The key that signs the posts of the audit log.
    #[must_use]
    pub fn of_audit(&self) -> Self {
        self.derived("audit")
    }

    /// The key that signs what goes to a URL of the configuration, such as `alerts`.
    #[must_use]
    pub fn of_purpose(&self, purpose: &str) -> Self {
        self.derived(&format!("purpose/{purpose}"))
    }

    /// The key that makes and checks the capabilities of pushed assignments.
    #[must_use]
    pub fn of_assignments(&self) -> Self {
        self.derived("assignments")
    }

    /// The capability of a pushed assignment: 256 bits that nobody can compute without this key.
    pub fn capability(&self, id: Uuid) -> Option<Capability> {
        URL_SAFE_NO_PAD.encode(self.mac(&[id.as_bytes()])).parse().ok()
    }

    /// Checks the capability of a pushed assignment, in constant time.
    pub fn is_capability(&self, id: Uuid, shown: &Capability) -> bool {
        self.capability(id).is_some_and(|own| own.as_bytes().ct_eq(shown.as_bytes()).into())
    }

    fn derived(&self, purpose: &str) -> Self {
        Self(self.mac(&[purpose.as_bytes()]))
    }

    /// As receivers write it: `whsec_` and base64.
    pub fn text(&self) -> String {
        format!("{PREFIX}{}", STANDARD.encode(&self.0))
    }

    /// `v1,` and the signature of a message sent at this time, in seconds since 1970.
    pub fn sign(&self, id: &str, timestamp: i64, body: &[u8]) -> String {
        let timestamp = timestamp.to_string();
        let mac = self.mac(&[id.as_bytes(), b".", timestamp.as_bytes(), b".", body]);
        format!("v1,{}", STANDARD.encode(mac))
    }

    fn mac(&self, parts: &[&[u8]]) -> Vec<u8> {
        // HMAC takes keys of any length.
        let Ok(mut mac) = Hmac::<Sha256>::new_from_slice(&self.0) else { return Vec::new() };
        for part in parts {
            mac.update(part);
        }
        mac.finalize().into_bytes().to_vec()
    }
}

/// Adds the three headers of a message that each of these keys signs.
pub fn stamp(keys: &[Key], headers: &mut HeaderMap, id: &str, timestamp: i64, body: &[u8]) {
    let signatures: Vec<String> = keys.iter().map(|key| key.sign(id, timestamp, body)).collect();
    for (name, value) in [(SIGNATURE, signatures.join(" ")), (TIMESTAMP, timestamp.to_string()), (ID, id.to_owned())] {
        // Letters, digits, spaces and base64: always a header.
        if let Ok(value) = HeaderValue::try_from(value) {
            headers.insert(name, value);
        }
    }
}

/// The keys that somebody gave, or the one that signs where nobody did.
pub fn keys_of(secret: Option<&SigningSecret>, own: impl FnOnce() -> Key) -> Vec<Key> {
    match secret {
        Some(secret) => secret.all().iter().map(|secret| Key::of(secret)).collect(),
        None => vec![own()],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signature_is_that_of_the_standard() {
        // The example of the standard's own libraries.
        let key = Key::of("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw");
        let signed = key.sign("msg_p5jXN8AQM9LWM0D4loKWxJek", 1_614_265_330, br#"{"test": 2432232314}"#);
        assert_eq!(signed, "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=");
        assert_eq!(key.text(), "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw");
    }

    #[test]
    fn any_text_is_a_secret() {
        assert_eq!(Key::of("whsec_c2VjcmV0"), Key::of("secret"));
        assert_eq!(Key::of("whsec_c2VjcmV0cw"), Key::of("secrets"), "without padding");
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
        let shown = key.capability(a).expect("a capability");
        assert!(key.is_capability(a, &shown));
        assert!(!key.is_capability(b, &shown) && !other.is_capability(a, &shown));
    }
}
