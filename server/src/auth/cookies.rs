//! Cookies that hold secrets: of a session and of a known device, for this host only; of a share, for the API of its
//! tree only; and one that shows a new secret once, on the page that a form leads to.
//!
//! This module handles header lines only and verifies no secrets. With https the cookies are `Secure` and have a name
//! prefix that prevents sibling domains from setting them.

use axum::http::{HeaderMap, HeaderValue, header};
use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use uuid::Uuid;

/// Maximum lifetime of a session.
const SESSION_SECONDS: u32 = 90 * 86_400;

/// Lifetime of the known-device cookie: the longest that browsers allow.
const DEVICE_SECONDS: u32 = 400 * 86_400;

/// Names and attributes of the cookies.
#[derive(Clone, Copy, Debug)]
pub struct SessionCookie {
    secure: bool,
}

impl SessionCookie {
    /// `secure`: true if people reach the server over https.
    pub const fn new(secure: bool) -> Self {
        Self { secure }
    }

    const fn name(self) -> &'static str {
        if self.secure { "__Host-treeline_session" } else { "treeline_session" }
    }

    /// Reads the session secret of a request.
    pub fn read(self, headers: &HeaderMap) -> Option<&str> {
        find(headers, self.name())
    }

    /// `Set-Cookie` that starts a session.
    pub fn set(self, secret: &str) -> HeaderValue {
        self.write(self.name(), secret, SESSION_SECONDS)
    }

    /// `Set-Cookie` that removes the session cookie.
    pub fn clear(self) -> HeaderValue {
        self.write(self.name(), "", 0)
    }

    fn write(self, name: &str, value: &str, max_age: u32) -> HeaderValue {
        let secure = if self.secure { "; Secure" } else { "" };
        line(&format!("{name}={value}; Path=/; HttpOnly; SameSite=Lax; Max-Age={max_age}{secure}"))
    }

    const fn device_name(self) -> &'static str {
        if self.secure { "__Host-treeline_device" } else { "treeline_device" }
    }

    /// Reads the known-device cookie.
    pub fn read_device(self, headers: &HeaderMap) -> Option<&str> {
        find(headers, self.device_name())
    }

    /// `Set-Cookie` that marks the device as known. It grants no access.
    pub fn set_device(self, sealed: &str) -> HeaderValue {
        self.write(self.device_name(), sealed, DEVICE_SECONDS)
    }

    const fn share_name(self) -> &'static str {
        if self.secure { "__Secure-treeline_share" } else { "treeline_share" }
    }

    /// Reads the share secret of a request.
    pub fn read_share(self, headers: &HeaderMap) -> Option<&str> {
        find(headers, self.share_name())
    }

    /// `Set-Cookie` that opens a tree: browsers send it only to the API of this job.
    pub fn set_share(self, secret: &str, root_id: Uuid) -> HeaderValue {
        let secure = if self.secure { "; Secure" } else { "" };
        let name = self.share_name();
        line(&format!(
            "{name}={secret}; Path=/api/v1/jobs/{root_id}; HttpOnly; SameSite=Strict; Max-Age=604800{secure}"
        ))
    }

    const fn once_name(self) -> &'static str {
        if self.secure { "__Secure-treeline_once" } else { "treeline_once" }
    }

    /// Reads a new secret for the page at `path`, which shows it once.
    pub fn read_once(self, headers: &HeaderMap) -> Option<String> {
        let bytes = URL_SAFE_NO_PAD.decode(find(headers, self.once_name())?).ok()?;
        String::from_utf8(bytes).ok()
    }

    /// `Set-Cookie` that passes a new secret to the page at `path`.
    pub fn set_once(self, secret: &str, path: &str) -> HeaderValue {
        self.write_once(&URL_SAFE_NO_PAD.encode(secret), path, 120)
    }

    /// `Set-Cookie` that removes the secret after it was shown.
    pub fn clear_once(self, path: &str) -> HeaderValue {
        self.write_once("", path, 0)
    }

    fn write_once(self, value: &str, path: &str, max_age: u32) -> HeaderValue {
        let secure = if self.secure { "; Secure" } else { "" };
        let name = self.once_name();
        line(&format!("{name}={value}; Path={path}; HttpOnly; SameSite=Strict; Max-Age={max_age}{secure}"))
    }
}

fn find<'a>(headers: &'a HeaderMap, wanted: &str) -> Option<&'a str> {
    headers
        .get_all(header::COOKIE)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|line| line.split(';'))
        .filter_map(|pair| pair.trim().split_once('='))
        .find_map(|(name, value)| (name == wanted && !value.is_empty()).then_some(value))
}

/// Builds the header value. The parts are base64url and ids, so it is always valid.
fn line(text: &str) -> HeaderValue {
    HeaderValue::try_from(text).unwrap_or_else(|_| HeaderValue::from_static(""))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_session_is_found_among_other_cookies() {
        let mut headers = HeaderMap::new();
        headers.append(header::COOKIE, HeaderValue::from_static("theme=dark; treeline_session=abc"));
        assert_eq!(SessionCookie::new(false).read(&headers), Some("abc"));
        assert_eq!(SessionCookie::new(true).read(&headers), None);
    }

    #[test]
    fn https_makes_the_cookie_secure() {
        let plain = SessionCookie::new(false).set("abc");
        assert_eq!(plain, "treeline_session=abc; Path=/; HttpOnly; SameSite=Lax; Max-Age=7776000");
        let share = SessionCookie::new(true).set_share("abc", Uuid::nil());
        assert_eq!(
            share,
            "__Secure-treeline_share=abc; Path=/api/v1/jobs/00000000-0000-0000-0000-000000000000; HttpOnly; \
             SameSite=Strict; Max-Age=604800; Secure"
        );
        let secure = SessionCookie::new(true).clear();
        assert_eq!(secure, "__Host-treeline_session=; Path=/; HttpOnly; SameSite=Lax; Max-Age=0; Secure");
    }
}
