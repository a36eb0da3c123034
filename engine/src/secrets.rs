//! Generated secrets: 256 random bits as text, stored only as SHA-256.
//!
//! A plain hash is enough because they are random; looking one up by its hash leaks no useful timing.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use sha2::{Digest, Sha256};

/// SHA-256 of a secret.
pub type Hash = [u8; 32];

/// Generates a secret: the prefix, then 43 characters of base64url.
pub fn new_secret(prefix: &str) -> String {
    format!("{prefix}{}", URL_SAFE_NO_PAD.encode(rand::random::<[u8; 32]>()))
}

/// Returns the stored hash of a secret.
pub fn hash_of(secret: &str) -> Hash {
    Sha256::digest(secret.as_bytes()).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_long_and_never_the_same() {
        let (a, b) = (new_secret("trl_"), new_secret("trl_"));
        assert_eq!(a.len(), 47);
        assert_ne!(a, b);
        assert_ne!(hash_of(&a), hash_of(&b));
    }
}
