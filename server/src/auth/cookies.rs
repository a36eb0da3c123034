//! The cookie that carries a session: HttpOnly, SameSite=Lax, for this host alone.
//!
//! Knows only the header lines; whether a secret is good is asked elsewhere. Under https it is `Secure` and bears the `__Host-` prefix, so that no sibling domain can set it.

use axum::http::{HeaderMap, HeaderValue, header};

/// Longest life that browsers grant. The session itself ends earlier, after 30 days of idleness.
const MAX_AGE_SECONDS: u32 = 400 * 86_400;

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
        headers
            .get_all(header::COOKIE)
            .iter()
            .filter_map(|value| value.to_str().ok())
            .flat_map(|line| line.split(';'))
            .filter_map(|pair| pair.trim().split_once('='))
            .find_map(|(name, value)| (name == self.name() && !value.is_empty()).then_some(value))
    }

    /// `Set-Cookie` that begins a session.
    pub fn set(self, secret: &str) -> HeaderValue {
        self.write(secret, MAX_AGE_SECONDS)
    }

    /// `Set-Cookie` that takes it away.
    pub fn clear(self) -> HeaderValue {
        self.write("", 0)
    }

    fn write(self, value: &str, max_age: u32) -> HeaderValue {
        let secure = if self.secure { "; Secure" } else { "" };
        let line = format!("{}={value}; Path=/; HttpOnly; SameSite=Lax; Max-Age={max_age}{secure}", self.name());
        // The value is base64url of our own making, so the line is always a header.
        HeaderValue::try_from(line).unwrap_or_else(|_| HeaderValue::from_static(""))
    }
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
        assert_eq!(plain, "treeline_session=abc; Path=/; HttpOnly; SameSite=Lax; Max-Age=34560000");
        let secure = SessionCookie::new(true).clear();
        assert_eq!(secure, "__Host-treeline_session=; Path=/; HttpOnly; SameSite=Lax; Max-Age=0; Secure");
    }
}
