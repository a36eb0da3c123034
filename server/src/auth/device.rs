//! Devices that have signed in before: a signed cookie, for years, that is no credential.
//!
//! Whoever sends it with an account's address has their failures counted apart, so that strangers who guess cannot slow
//! them down; those of second factors only where it was made after one. It is signed with the account's stored password hash, which no two accounts share and nobody sees: every
//! server can check it, nothing more is kept, and a new password makes every older cookie worthless.

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::Sha256;
use subtle::ConstantTimeEq as _;
use uuid::Uuid;

use super::attempts::Key;

/// Bytes of the account's id, of the device's, and of the signature.
const LENGTH: usize = 16 + 16 + 32;

/// A device that has signed in before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Device {
    /// The account with the device's own number.
    pub(super) name: String,
    /// True if a second factor was given, too.
    pub(super) mfa: bool,
}

impl Device {
    /// Counters of its passwords.
    pub(super) fn keys(&self) -> Vec<Key> {
        Key::own(&format!("device {}", self.name))
    }
}

/// Makes the value of the cookie for a device that signs in. `mfa`: with a second factor.
pub(super) fn seal(account: Uuid, password_hash: &str, mfa: bool) -> String {
    let device: [u8; 16] = rand::random();
    let named = [account.as_bytes().as_slice(), &device].concat();
    let signature = signature(&named, password_hash, mfa).unwrap_or_default();
    URL_SAFE_NO_PAD.encode([named.as_slice(), &signature].concat())
}

/// The device, if it has signed in to this account with this password; `None` for any other.
pub(super) fn open(cookie: &str, account: Uuid, password_hash: &str) -> Option<Device> {
    let bytes = URL_SAFE_NO_PAD.decode(cookie).ok().filter(|bytes| bytes.len() == LENGTH)?;
    let (named, signed) = bytes.split_at(32);
    let is_signed = |mfa| signature(named, password_hash, mfa).is_some_and(|own| own.ct_eq(signed).into());
    let mfa = is_signed(true);
    ((mfa || is_signed(false)) && named[..16] == account.as_bytes()[..])
        .then(|| Device { name: URL_SAFE_NO_PAD.encode(named), mfa })
}

/// HMAC-SHA256 takes a key of any length, so there is always one; where there were none, nothing would fit it.
fn signature(named: &[u8], password_hash: &str, mfa: bool) -> Option<[u8; 32]> {
    let mut mac = Hmac::<Sha256>::new_from_slice(password_hash.as_bytes()).ok()?;
    mac.update(if mfa { b"treeline device with a second factor ".as_slice() } else { b"treeline device " });
    mac.update(named);
    Some(mac.finalize().into_bytes().into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_our_own_cookies_of_this_account_and_password_count() {
        let (ada, eve) = (Uuid::from_u128(1), Uuid::from_u128(2));
        let cookie = seal(ada, "$argon2id$ada", false);
        assert_eq!(open(&cookie, ada, "$argon2id$ada").map(|device| device.mfa), Some(false));
        let with_factor = seal(ada, "$argon2id$ada", true);
        assert_eq!(open(&with_factor, ada, "$argon2id$ada").map(|device| device.mfa), Some(true));
        assert_eq!(open(&cookie, eve, "$argon2id$ada"), None);
        assert_eq!(open(&cookie, ada, "$argon2id$new"), None);
        for forged in ["", "abc", &"A".repeat(86), &cookie.to_lowercase(), &format!("{cookie}AA")] {
            assert_eq!(open(forged, ada, "$argon2id$ada"), None, "{forged}");
        }
        let other = seal(ada, "$argon2id$ada", false);
        assert_ne!(open(&other, ada, "$argon2id$ada"), open(&cookie, ada, "$argon2id$ada"));
    }
}
