//! The cookies that carry secrets: a session's and that of a device that signed in before, for this host alone; a
//! share's, for the API of its tree alone; and one that shows a new secret once, to the page that a form leads to.
//!
//! Knows only the header lines; whether a secret is good is asked elsewhere. Under https they are `Secure`
//! and bear a prefix that says so, so that no sibling domain can set them.

use axum::http::{HeaderMap, HeaderValue, header};
use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use uuid::Uuid;

/// A session ends after so long at most.
const SESSION_SECONDS: u32 = 90 * 86_400;

/// The longest life that browsers grant, for the device that has signed in before.
const DEVICE_SECONDS: u32 = 400 * 86_400;

/// How the session cookie is written and read.
#[derive(Clone, Copy, Debug)]
pub struct SessionCookie {
    secure: bool,
}

impl SessionCookie {
    /// `secure`: whether people reach the server by https.
    pub const fn new(secure: bool) -> Self {
        Self { secure }
    }

    const fn name(self) -> &'static str {
        if self.secure { "__Host-treeline_session" } else { "treeline_session" }
    }

    /// The session's secret, from a request.
    pub fn read(self, headers: &HeaderMap) -> Option<&str> {
        find(headers, self.name())
    }

    /// `Set-Cookie` that begins a session.
    pub fn set(self, secret: &str) -> HeaderValue {
        self.write(self.name(), secret, SESSION_SECONDS)
    }

    /// `Set-Cookie` that takes it away.
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

    /// Reads the cookie of a device that signed in before.
    pub fn read_device(self, headers: &HeaderMap) -> Option<&str> {
        find(headers, self.device_name())
    }

    /// `Set-Cookie` that says that this device has signed in. It opens nothing.
    pub fn set_device(self, sealed: &str) -> HeaderValue {
        self.write(self.device_name(), sealed, DEVICE_SECONDS)
    }

    const fn share_name(self) -> &'static str {
        if self.secure { "__Secure-treeline_share" } else { "treeline_share" }
    }

    /// The secret of a share, from a request.
    pub fn read_share(self, headers: &HeaderMap) -> Option<&str> {
        find(headers, self.share_name())
    }

    /// `Set-Cookie` that opens a tree: browsers send it to the API of this job and nowhere else.
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

    /// A secret on its way to the page at `path`, which shows it once.
    pub fn read_once(self, headers: &HeaderMap) -> Option<String> {
        let bytes = URL_SAFE_NO_PAD.decode(find(headers, self.once_name())?).ok()?;
        String::from_utf8(bytes).ok()
    }

    /// `Set-Cookie` that takes a new secret to the page at `path`.
    pub fn set_once(self, secret: &str, path: &str) -> HeaderValue {
        self.write_once(&URL_SAFE_NO_PAD.encode(secret), path, 120)
    }

    /// `Set-Cookie` that takes it away, once it was shown.
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

/// The values are base64url of our own making and ids, so the line is always a header.
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
