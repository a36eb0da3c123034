//! People and their sessions, as the API shows them.
//!
//! A password is received, never returned. A one-time link is returned once, by the request that creates it. The rules for
//! names, addresses, and passwords are here, so that pages and the API refuse the same values.

use serde::{Deserialize, Serialize};

use crate::{Time, id::Uuid};

/// The longest name of a person, in characters.
pub const LONGEST_NAME: usize = 100;
/// The longest email address, in bytes.
pub const LONGEST_EMAIL: usize = 254;
/// The shortest password, in characters, and the longest, in bytes.
pub const SHORTEST_PASSWORD: usize = 12;
pub const LONGEST_PASSWORD: usize = 1_000;

/// Body of `POST /users`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct NewUser {
    /// Display name, 1 to 100 characters, unique among people.
    pub name: String,
    /// Email address to sign in with, unique among people regardless of case.
    pub email: String,
    /// Role: `user` (default), `support` or `admin`.
    #[serde(default)]
    pub role: Option<String>,
    /// Initial password: at least 12 characters, and not a common one. Absent or null: a one-time link is returned
    /// instead.
    #[serde(default)]
    pub password: Option<String>,
    /// True if the person must choose a new password when they sign in. Default: true if a person sends the request,
    /// false if a service does.
    #[serde(default)]
    pub must_change_password: Option<bool>,
    /// Name that the proxy of `TREELINE_AUTH_HEADER` sends for the person, to sign them in to this account. Not needed
    /// if the proxy sends the email address.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub proxy_user: Option<String>,
    /// Reason, stored in the audit log.
    #[serde(default)]
    pub reason: Option<String>,
}

/// A person.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct User {
    pub id: Uuid,
    pub name: String,
    pub email: Option<String>,
    /// Role: `user`, `support` or `admin`.
    pub role: String,
    /// True if disabled: the person cannot sign in, and all their sessions and links are refused.
    pub disabled: bool,
    /// True if the person has a password.
    pub has_password: bool,
    /// Name that the proxy of `TREELINE_AUTH_HEADER` sends for the person.
    pub proxy_user: Option<String>,
    pub created_at: Time,
    /// Time of the last request, to the minute.
    pub last_seen_at: Option<Time>,
}

/// Response of `POST /users`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct UserMade {
    #[serde(flatten)]
    pub user: User,
    /// Sign-in link that works once, within an hour; null if a password was given. Returned only once.
    pub sign_in_link: Option<String>,
}

/// Body of `PATCH /users/{id}`: the given fields change.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct UserPatch {
    /// Role: `user`, `support` or `admin`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub role: Option<String>,
    /// `true` ends every session and link of the person.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub disabled: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub email: Option<String>,
    /// Name that the proxy of `TREELINE_AUTH_HEADER` sends for the person, instead of all other names; empty for none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub proxy_user: Option<String>,
    /// Reason, stored in the audit log.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// Response of `POST /users/{id}/sign-in-link`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct LinkMade {
    /// Sign-in link that works once. Returned only once.
    pub url: String,
    pub expires_at: Time,
}

/// Body of `POST /me/password`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct NewPassword {
    /// Current password. Not required if there is none, or within an hour of signing in with a one-time link.
    #[serde(default)]
    pub current_password: Option<String>,
    pub new_password: String,
}

/// Signed-in browser or program.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Session {
    pub id: Uuid,
    /// Browser and system as far as known, such as `Firefox on Linux`.
    pub device: String,
    pub created_at: Time,
    /// Time of the last request, to the minute.
    pub last_seen_at: Time,
    /// Time when the session ends unless it is used before: after 30 idle days, and at most 90 days after it began.
    pub expires_at: Time,
    /// True for the session of this request.
    pub current: bool,
}

/// Response to a request that ends sessions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct SessionsEnded {
    pub ended: i64,
}

/// Error of a name, in words; `None` if it is valid.
pub fn name_problem(name: &str) -> Option<&'static str> {
    let fits = !name.trim().is_empty() && name.chars().count() <= LONGEST_NAME && !name.chars().any(char::is_control);
    (!fits).then_some("expected 1 to 100 characters")
}

/// Fault of an email address, in words; `None` where it has none that can be seen from here.
///
/// Addresses are ASCII, as `format: email` in the API document says: the email field of a browser takes no other letters
/// before the `@`, and sends a domain with other letters in its ASCII form (`xn--…`), which would name another account.
pub fn email_problem(email: &str) -> Option<&'static str> {
    let plain = email.len() <= LONGEST_EMAIL && email.bytes().all(|byte| byte.is_ascii_graphic());
    let is_label = |label: &str| {
        !label.is_empty()
            && !label.starts_with('-')
            && !label.ends_with('-')
            && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
    };
    let parts = email.split_once('@').is_some_and(|(name, host)| !name.is_empty() && host.split('.').all(is_label));
    let fault = "expected an email address in ASCII, such as ada@example.com (a domain with other letters as xn--…)";
    (!plain || !parts).then_some(fault)
}

/// Error of a new password, in words; `None` if it is valid.
pub fn password_problem(password: &str) -> Option<&'static str> {
    let fits = password.chars().count() >= SHORTEST_PASSWORD && password.len() <= LONGEST_PASSWORD;
    (!fits).then_some("expected at least 12 characters and at most 1,000 bytes")
}

/// Browser and system of a user agent, in two known words. A guess, because
/// every browser names several others.
pub fn device(user_agent: &str) -> String {
    const PROGRAMS: [(&str, &str); 9] = [
        ("Edg", "Edge"),
        ("OPR/", "Opera"),
        ("Firefox/", "Firefox"),
        ("Chrome/", "Chrome"),
        ("CriOS/", "Chrome"),
        ("Safari/", "Safari"),
        ("curl/", "curl"),
        ("treeline/", "treeline"),
        ("python", "Python"),
    ];
    const SYSTEMS: [(&str, &str); 6] = [
        ("Android", "Android"),
        ("iPhone", "iPhone"),
        ("iPad", "iPad"),
        ("Windows", "Windows"),
        ("Mac OS X", "macOS"),
        ("Linux", "Linux"),
    ];
    let first =
        |list: &[(&str, &'static str)]| list.iter().find(|(sign, _)| user_agent.contains(sign)).map(|(_, word)| *word);
    match (first(&PROGRAMS), first(&SYSTEMS)) {
        (Some(program), Some(system)) => format!("{program} on {system}"),
        (Some(word), None) | (None, Some(word)) => word.to_owned(),
        (None, None) => "An unknown device".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn device_name_from_user_agent() {
        let chrome =
            "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/130.0.0.0 Safari/537.36";
        assert_eq!(device(chrome), "Chrome on Linux");
        let phone = "Mozilla/5.0 (iPhone; CPU iPhone OS 18_0 like Mac OS X) AppleWebKit/605 Version/18.0 Safari/604.1";
        assert_eq!(device(phone), "Safari on iPhone");
        assert_eq!(device("curl/8.5.0"), "curl");
        assert_eq!(device("<script>"), "An unknown device");
    }

    #[test]
    fn invalid_account_fields_are_explained() {
        for good in ["ada@example.com", "a@b", "o'hara+jobs@xn--exmple-cua.de"] {
            assert_eq!(email_problem(good), None, "{good}");
        }
        for bad in ["", "ada", "@example.com", "ada@", "a b@c", "a@b@c", "a@.b", "a@b\n", "ünal@a.de", "a@exämple.de"]
        {
            assert!(email_problem(bad).is_some(), "{bad}");
        }
        assert!(name_problem(" ").is_some() && name_problem("a\u{7}").is_some());
        assert_eq!(name_problem("Ada Lovelace"), None);
        assert!(password_problem("12345678901").is_some() && password_problem(&"a".repeat(1_001)).is_some());
        assert_eq!(password_problem("ältäöüß! öäü"), None);
    }
}
