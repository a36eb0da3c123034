//! Known devices: a signed, long-lived cookie that is not a credential.
//!
//! Failures with this cookie are counted separately, so that strangers who guess cannot slow down the account's owner;
//! failed second factors only if it was issued after one. It is signed with the account's unique and secret password
//! hash: every server can verify it without further storage, and a new password invalidates all older cookies.

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::Sha256;
use subtle::ConstantTimeEq as _;
use uuid::Uuid;

use super::throttle::Key;

/// Bytes of the account id, the device id, and the signature.
const LENGTH: usize = 16 + 16 + 32;

/// Device that has signed in before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Device {
    /// Account id and device id.
    pub(super) name: String,
    /// True if a second factor was given.
    pub(super) mfa: bool,
}

impl Device {
    /// Counters of password attempts from this device.
    pub(super) fn keys(&self) -> Vec<Key> {
        Key::of_device_or_session(&format!("device {}", self.name))
    }
}

/// Creates the cookie value for a device that signs in. `mfa`: with a second factor.
pub(super) fn seal(account: Uuid, password_hash: &str, mfa: bool) -> String {
    let device: [u8; 16] = rand::random();
    let named = [account.as_bytes().as_slice(), &device].concat();
    let signature = signature(&named, password_hash, mfa).unwrap_or_default();
    URL_SAFE_NO_PAD.encode([named.as_slice(), &signature].concat())
}

/// Returns the device if it has signed in to this account with this password, else `None`.
pub(super) fn open(cookie: &str, account: Uuid, password_hash: &str) -> Option<Device> {
    let bytes = URL_SAFE_NO_PAD.decode(cookie).ok().filter(|bytes| bytes.len() == LENGTH)?;
    let (named, signed) = bytes.split_at(32);
    let is_signed = |mfa| signature(named, password_hash, mfa).is_some_and(|expected| expected.ct_eq(signed).into());
    let mfa = is_signed(true);
    ((mfa || is_signed(false)) && named[..16] == account.as_bytes()[..])
        .then(|| Device { name: URL_SAFE_NO_PAD.encode(named), mfa })
}

/// Computes the signature. HMAC-SHA256 accepts keys of any length, so `None` never occurs; it would match nothing.
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
