//! Sign-in settings: roles that require a second factor, and trusted providers and proxies.
//!
//! Variables of an OpenID Connect provider contain its name, so they cannot be fields of a struct: they are read from
//! the environment for each name in `TREELINE_OIDC_PROVIDERS`, and an invalid value prevents startup.

use std::{str::FromStr, sync::Arc};

use anyhow::ensure;
use axum::http::HeaderName;
use url::{Host, Url};

use engine::{access::caller::Role, settings::Secret};

/// Settings of sign-in.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct IdentitySettings {
    /// Roles that require a second factor, comma-separated: `admin,support`. Default: none
    #[arg(long, env = "TREELINE_REQUIRE_MFA", default_value = "", hide_default_value = true)]
    pub require_mfa: Roles,

    /// `OpenID` Connect providers to sign in with, comma-separated: `google,keycloak`. Each has its own variables,
    /// `TREELINE_OIDC_<NAME>_ISSUER` and others: see docs/identity.md
    #[arg(long, env = "TREELINE_OIDC_PROVIDERS", default_value = "", hide_default_value = true)]
    pub oidc_providers: Providers,

    /// Header in which a trusted proxy names the person, such as `X-Forwarded-User`; needs `TREELINE_TRUSTED_PROXIES`
    #[arg(long, env = "TREELINE_AUTH_HEADER")]
    pub auth_header: Option<HeaderName>,

    /// Role of new accounts for people whom the proxy names; `none`: existing accounts only
    #[arg(long, env = "TREELINE_AUTH_HEADER_ROLE", default_value = "user")]
    pub auth_header_role: DefaultRole,

    /// 1: the proxy requires a second factor itself
    #[arg(long, env = "TREELINE_AUTH_HEADER_MFA", default_value = "0", action = clap::ArgAction::Set,
          value_parser = clap::builder::BoolishValueParser::new())]
    pub auth_header_mfa: bool,
}

impl IdentitySettings {
    /// Returns true if people of this role must have a second factor.
    pub fn requires_mfa(&self, role: Role) -> bool {
        self.require_mfa.0.contains(&role)
    }

    /// Finds a provider by name.
    pub fn provider(&self, name: &str) -> Option<&Arc<Provider>> {
        self.oidc_providers.0.iter().find(|provider| provider.name == name)
    }

    /// Rejects settings that would let a client choose its identity.
    pub fn check(&self, has_trusted_proxies: bool) -> anyhow::Result<()> {
        ensure!(
            self.auth_header.is_none() || has_trusted_proxies,
            "TREELINE_AUTH_HEADER is only believed from TREELINE_TRUSTED_PROXIES, which is not set."
        );
        let harmless = |name: &HeaderName| !["authorization", "cookie", "host", "origin"].contains(&name.as_str());
        ensure!(
            self.auth_header.as_ref().is_none_or(harmless),
            "TREELINE_AUTH_HEADER names a header that browsers send themselves."
        );
        Ok(())
    }
}

/// Comma-separated roles.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Roles(pub Vec<Role>);

impl FromStr for Roles {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        words(text, &[',']).map(role).collect::<Result<_, _>>().map(Self)
    }
}

/// Role of a new account; `None` if no account is created.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DefaultRole(pub Option<Role>);

impl Default for DefaultRole {
    fn default() -> Self {
        Self(Some(Role::User))
    }
}

impl FromStr for DefaultRole {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "none" { Ok(Self(None)) } else { role(text).map(|role| Self(Some(role))) }
    }
}

/// All configured providers.
#[derive(Clone, Debug, Default)]
pub struct Providers(pub Vec<Arc<Provider>>);

impl FromStr for Providers {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let read = |name| Provider::read(name, &|variable| std::env::var(variable).ok()).map(Arc::new);
        words(text, &[',']).map(read).collect::<Result<_, _>>().map(Self)
    }
}

/// An `OpenID` Connect provider.
#[derive(Clone, Debug)]
pub struct Provider {
    /// Name in URLs and in variable names.
    pub name: String,
    /// Text of the sign-in button.
    pub label: String,
    pub issuer: String,
    pub client_id: String,
    /// `None` for public clients; PKCE protects both kinds.
    pub client_secret: Option<Secret>,
    /// Scopes in addition to `openid`.
    pub scopes: Vec<String>,
    /// Claim that lists groups.
    pub groups_claim: String,
    /// Group to role; the first group that a person belongs to decides. Empty: roles are managed only here.
    pub role_map: Vec<(String, Role)>,
    /// Role of people in no mapped group.
    pub default_role: DefaultRole,
    /// True if an email address verified by the provider links to the account with that address.
    pub links_verified_email: bool,
    /// Values of `acr` and `amr` that count as a second factor.
    pub mfa_acr: Vec<String>,
    pub mfa_amr: Vec<String>,
    /// True if a sign-in counts as recent although the provider does not report the time of authentication.
    pub auth_time_optional: bool,
}

impl Provider {
    /// Reads the variables of a provider.
    pub fn read(name: &str, variable: &dyn Fn(&str) -> Option<String>) -> Result<Self, String> {
        let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
        if name.is_empty() || name.len() > 40 || !name.chars().all(plain) {
            return Err(format!("{name}: expected the name of a provider, of a-z, 0-9 and -"));
        }
        let prefix = format!("TREELINE_OIDC_{}_", name.to_ascii_uppercase().replace('-', "_"));
        let given = |what: &str| variable(&format!("{prefix}{what}")).filter(|text| !text.trim().is_empty());
        let needed = |what: &str| given(what).ok_or_else(|| format!("{prefix}{what} is not set"));
        let at = |what: &'static str| {
            let variable = format!("{prefix}{what}");
            move |fault: String| format!("{variable}: {fault}")
        };
        let list = |what: &str, default: &str| -> Vec<String> {
            words(&given(what).unwrap_or_else(|| default.to_owned()), &[',', ' ']).map(str::to_owned).collect()
        };
        let issuer = needed("ISSUER")?;
        check_issuer(&issuer).map_err(at("ISSUER"))?;
        let role_map = words(&given("ROLE_MAP").unwrap_or_default(), &[','])
            .map(|pair| {
                let (group, word) = pair.rsplit_once('=').ok_or_else(|| format!("{pair}: expected group=role"))?;
                Ok((group.trim().to_owned(), role(word.trim())?))
            })
            .collect::<Result<_, String>>()
            .map_err(at("ROLE_MAP"))?;
        let default_role = given("DEFAULT_ROLE").map_or(Ok(DefaultRole::default()), |text| text.parse());
        let links_verified_email = match given("LINK_BY_EMAIL").as_deref() {
            None | Some("never") => false,
            Some("verified") => true,
            Some(_) => return Err(at("LINK_BY_EMAIL")("expected never or verified".to_owned())),
        };
        let auth_time_optional = match given("AUTH_TIME").as_deref() {
            None | Some("required") => false,
            Some("optional") => true,
            Some(_) => return Err(at("AUTH_TIME")("expected required or optional".to_owned())),
        };
        Ok(Self {
            label: given("LABEL").unwrap_or_else(|| name.to_owned()),
            client_id: needed("CLIENT_ID")?,
            client_secret: given("CLIENT_SECRET").and_then(|text| text.parse().ok()),
            scopes: list("SCOPES", "profile email"),
            groups_claim: given("GROUPS_CLAIM").unwrap_or_else(|| "groups".to_owned()),
            role_map,
            default_role: default_role.map_err(at("DEFAULT_ROLE"))?,
            links_verified_email,
            mfa_acr: list("MFA_ACR", ""),
            mfa_amr: list("MFA_AMR", ""),
            auth_time_optional,
            name: name.to_owned(),
            issuer,
        })
    }

    /// Role of a person in these groups. `None`: the provider does not manage roles.
    pub fn role_of(&self, groups: &[String]) -> Option<Option<Role>> {
        if self.role_map.is_empty() {
            return None;
        }
        let mapped = self.role_map.iter().find(|(group, _)| groups.contains(group)).map(|(_, role)| *role);
        Some(mapped.or(self.default_role.0))
    }
}

/// Accepts https, and http to the local machine only.
fn check_issuer(issuer: &str) -> Result<(), String> {
    let url = Url::parse(issuer).map_err(|error| error.to_string())?;
    let is_local = match url.host() {
        Some(Host::Domain(name)) => name == "localhost",
        Some(Host::Ipv4(ip)) => ip.is_loopback(),
        Some(Host::Ipv6(ip)) => ip.is_loopback(),
        None => false,
    };
    let plain = url.username().is_empty() && url.password().is_none() && url.query().is_none();
    if plain && (url.scheme() == "https" || (url.scheme() == "http" && is_local)) {
        return Ok(());
    }
    Err("expected an https URL without user, password and query".to_owned())
}

fn role(word: &str) -> Result<Role, String> {
    Role::parse(word).ok_or_else(|| format!("{word}: expected user, support or admin"))
}

fn words<'a>(text: &'a str, separators: &'static [char]) -> impl Iterator<Item = &'a str> {
    text.split(separators).map(str::trim).filter(|word| !word.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(pairs: &[(&str, &str)]) -> Result<Provider, String> {
        let find = |wanted: &str| {
            let wanted = wanted.strip_prefix("TREELINE_OIDC_MY_IDP_")?;
            pairs.iter().find(|(name, _)| *name == wanted).map(|(_, value)| (*value).to_owned())
        };
        Provider::read("my-idp", &find)
    }

    #[test]
    fn roles_are_read_from_a_list() {
        assert_eq!("".parse(), Ok(Roles(vec![])));
        assert_eq!("admin, support".parse(), Ok(Roles(vec![Role::Admin, Role::Support])));
        assert!("root".parse::<Roles>().is_err());
    }

    #[test]
    fn a_provider_is_read_from_its_variables() {
        let least = [("ISSUER", "https://idp.example/realms/a"), ("CLIENT_ID", "treeline")];
        let provider = read(&least).expect("enough");
        assert_eq!((provider.label.as_str(), provider.scopes.len()), ("my-idp", 2));
        assert_eq!(provider.role_of(&["ops".to_owned()]), None, "roles are set here");
        let mapped = read(&[&least[..], &[("ROLE_MAP", "ops=admin, cn=help=support")]].concat()).expect("a map");
        let role_of = |groups: &[&str]| mapped.role_of(&groups.iter().map(|&it| it.to_owned()).collect::<Vec<_>>());
        assert_eq!(role_of(&["x", "cn=help"]), Some(Some(Role::Support)));
        assert_eq!(role_of(&["cn=help", "ops"]), Some(Some(Role::Admin)), "the first of the map");
        assert_eq!(role_of(&[]), Some(Some(Role::User)));
        for bad in [
            &[("CLIENT_ID", "a")][..],
            &[("ISSUER", "http://idp.example"), ("CLIENT_ID", "a")],
            &[("ISSUER", "https://u:p@idp.example"), ("CLIENT_ID", "a")],
            &[("ISSUER", "https://idp.example"), ("CLIENT_ID", "a"), ("ROLE_MAP", "ops")],
            &[("ISSUER", "https://idp.example"), ("CLIENT_ID", "a"), ("LINK_BY_EMAIL", "always")],
            &[("ISSUER", "https://idp.example"), ("CLIENT_ID", "a"), ("AUTH_TIME", "never")],
        ] {
            assert!(read(bad).is_err(), "{bad:?}");
        }
        assert!(Provider::read("My_IdP", &|_| None).is_err());
    }

    #[test]
    fn a_proxys_header_needs_trusted_proxies() {
        let header = |name: &'static str| IdentitySettings {
            auth_header: Some(HeaderName::from_static(name)),
            ..IdentitySettings::default()
        };
        header("x-forwarded-user").check(true).expect("trusted");
        header("x-forwarded-user").check(false).expect_err("not trusted");
        header("cookie").check(true).expect_err("a browser sends it");
    }
}
