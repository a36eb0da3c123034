//! Sign-in by OpenID Connect: the redirect to a provider and the callback.
//!
//! Authorization code flow with PKCE, state and nonce. State between the two requests is sealed in a cookie of this
//! browser, so a foreign link cannot sign anyone in to another account. `openidconnect` checks signatures, issuer,
//! audience, nonce and times; [`accounts`] maps the identity to a person.

mod accounts;
mod bounded_http;
mod connections;
mod providers;

pub(super) use accounts::create as create_account;
pub use connections::{disconnect, list};
pub use providers::ProviderCache;
use providers::{OtherClaims, client, find, metadata};

use std::time::Duration;

use domain::Code;
use openidconnect::{
    AuthenticationFlow, AuthorizationCode, CsrfToken, Nonce, OAuth2TokenResponse as _, PkceCodeChallenge,
    PkceCodeVerifier, Scope, TokenResponse as _, UserInfoClaims,
    core::{CoreAuthPrompt, CoreGenderClaim, CoreResponseType},
};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use time::OffsetDateTime;
use uuid::Uuid;

use super::{
    Key, envelope,
    second_stage::{self, FirstFactor, Method, SecondFactor},
    sessions::{Cookies, Visitor},
    step_up, throttle,
};
use crate::{App, audit, config::identity::Provider};
use engine::{access::caller::Caller, secrets::hash_of};
use engine::{
    error::{Error, Result},
    store::access::factors,
    task::in_task,
};

/// Minutes until a started sign-in expires.
const MINUTES: i64 = 10;

/// Maximum age of an authentication at a provider: the maximum age of sessions.
const MAX_AUTHENTICATION_AGE: Duration = Duration::from_hours(90 * 24);

/// Longest return path after sign-in, in bytes: it is stored in a cookie, and cookies have 4 KiB.
const MAX_RETURN_PATH: usize = 1_000;

/// Longest callback query that is read, in bytes.
const MAX_CALLBACK_BYTES: usize = 16 * 1024;

const PURPOSE: &str = "way to an OpenID Connect provider";

/// Content of the state cookie.
#[derive(Serialize, Deserialize)]
struct SignInState {
    provider: String,
    state: String,
    nonce: String,
    verifier: String,
    back: String,
    /// Session whose person adds this sign-in to their account.
    links: Option<Uuid>,
    /// True if the person must authenticate again.
    fresh: bool,
}

/// URL that the browser is redirected to, and the state cookie.
pub struct AuthorizationRedirect {
    pub url: String,
    pub cookie: String,
}

/// Outcome of a callback.
#[derive(Debug)]
pub enum CallbackOutcome {
    /// Signed in: the cookies, and the page to go to.
    SignedIn(Cookies, String),
    /// The sign-in was added to the account of the caller.
    Linked,
}

/// Person as described by a provider.
#[derive(Clone, Debug)]
struct Identity {
    issuer: String,
    subject: String,
    name: Option<String>,
    email: Option<String>,
    email_verified: bool,
    groups: Vec<String>,
    mfa: bool,
    /// Seconds since the person authenticated; `None` if the provider does not report it.
    age_seconds: Option<i64>,
}

/// Redirects to a provider. `fresh`: requires a new authentication. `caller`: adds the sign-in to this account.
pub async fn start_authorization(
    app: &App,
    name: &str,
    back: &str,
    fresh: bool,
    caller: Option<&Caller>,
) -> Result<AuthorizationRedirect> {
    let provider = find(app, name)?;
    if let Some(caller) = caller {
        super::factors::person(caller)?;
        step_up::require(app, caller).await?;
    }
    let metadata = metadata(app, provider, false).await?;
    let (challenge, verifier) = PkceCodeChallenge::new_random_sha256();
    let client = client(app, provider, &metadata)?;
    let mut request = client
        .authorize_url(
            AuthenticationFlow::<CoreResponseType>::AuthorizationCode,
            CsrfToken::new_random,
            Nonce::new_random,
        )
        .set_pkce_challenge(challenge)
        .add_scopes(provider.scopes.iter().cloned().map(Scope::new));
    // With `max_age` set to any value, a provider reports the time of authentication in the token.
    request = request.set_max_age(if fresh { Duration::ZERO } else { MAX_AUTHENTICATION_AGE });
    if fresh {
        request = request.add_prompt(CoreAuthPrompt::Login);
    }
    let (url, state, nonce) = request.url();
    let sign_in_state = SignInState {
        provider: provider.name.clone(),
        state: state.into_secret(),
        nonce: nonce.secret().clone(),
        verifier: verifier.into_secret(),
        back: if back.len() > MAX_RETURN_PATH { "/".to_owned() } else { back.to_owned() },
        links: caller.map(|caller| caller.credential_id),
        fresh,
    };
    Ok(AuthorizationRedirect { url: url.into(), cookie: envelope::seal(app, PURPOSE, MINUTES, &sign_in_state) })
}

/// Handles the callback from a provider, with the state cookie of the browser.
pub async fn handle_callback(
    app: &App,
    name: &str,
    query: &str,
    cookie: Option<&str>,
    caller: Option<&Caller>,
    visitor: &Visitor<'_>,
) -> Result<CallbackOutcome> {
    let provider = find(app, name)?;
    let over = || refused("This sign-in took too long, or was begun in another browser. Begin again.");
    let sign_in_state: SignInState = cookie.and_then(|cookie| envelope::open(app, PURPOSE, cookie)).ok_or_else(over)?;
    let answer = Callback::read(query).ok_or_else(|| refused("The provider's answer cannot be read. Begin again."))?;
    if sign_in_state.provider != provider.name || answer.state.as_deref() != Some(sign_in_state.state.as_str()) {
        return Err(over());
    }
    if answer.issuer.as_ref().is_some_and(|issuer| *issuer != provider.issuer) {
        return Err(refused("The answer is another provider's. Begin again."));
    }
    if let Some(error) = answer.error {
        tracing::info!(provider = provider.name, error, "sign-in refused by the provider");
        return Err(refused("The provider did not sign you in. Begin again, or use another way."));
    }
    let code = answer.code.ok_or_else(over)?;
    // Anyone who starts a sign-in can send made-up codes, each of which costs a request to the provider.
    let attempt = throttle::begin(app, Key::of_provider(visitor.address)).await?;
    // Once only, even if the provider would accept the code again.
    if !use_state(app, &sign_in_state.state).await? {
        attempt.failed(app).await?;
        return Err(over());
    }
    let identity = match identify(app, provider, code, sign_in_state.nonce, sign_in_state.verifier).await {
        Ok(identity) => identity,
        Err(error) => {
            attempt.failed(app).await?;
            let how = format!("by the provider {}: its answer does not fit", provider.name);
            audit::record_refused_sign_in(app, None, visitor.address, &how).await;
            return Err(error);
        }
    };
    attempt.succeeded(app).await?;
    if let Some(session) = sign_in_state.links {
        let caller = caller.filter(|caller| caller.credential_id == session).ok_or_else(over)?;
        accounts::link(app, provider, caller, &identity).await?;
        return Ok(CallbackOutcome::Linked);
    }
    let age_seconds = age(provider, &identity, sign_in_state.fresh)?;
    let owner_id = accounts::find_or_create(app, provider, &identity, visitor.address).await?;
    let first = FirstFactor {
        owner_id,
        method: Method::Oidc { provider: provider.name.clone() },
        mfa: identity.mfa,
        age_seconds,
    };
    let cookies = second_stage::begin(app, first, &SecondFactor::default(), visitor).await?;
    Ok(CallbackOutcome::SignedIn(cookies, sign_in_state.back))
}

/// Marks the state of a sign-in as used. False if it was used before.
async fn use_state(app: &App, state: &str) -> Result<bool> {
    let (pool, hash) = (app.pool.clone(), hash_of(&format!("state of a way to a provider {state}")));
    in_task("using the state of a sign-in", async move {
        let mut tx = engine::store::begin(&pool).await?;
        // Longer than its cookie can be opened.
        let seconds = i32::try_from(MINUTES * 60 + 60).unwrap_or(i32::MAX);
        let is_new = factors::use_challenge(&mut tx, &hash, seconds).await?;
        engine::store::commit(tx).await?;
        Ok(is_new)
    })
    .await
}

/// Seconds since the person authenticated. A provider that does not report it is trusted only if its settings say so;
/// the request for a fresh authentication passes through the browser, which can remove it from the URL.
fn age(provider: &Provider, identity: &Identity, fresh: bool) -> Result<i64> {
    let recent = i64::from(step_up::RECENT_SECONDS);
    match identity.age_seconds {
        Some(age) if fresh && age > recent => {
            Err(refused("The provider did not ask you to sign in again. Sign out there, then begin again."))
        }
        Some(age) => Ok(age),
        None if provider.auth_time_optional => Ok(0),
        None if fresh => Err(refused(
            "The provider does not say when you proved who you are, so this is no recent sign-in. Use another way, or ask \
             whoever runs this server (AUTH_TIME in docs/identity.md).",
        )),
        None => Ok(recent + 1),
    }
}

/// Page that a sign-in started with this cookie leads to; for the second-step page.
pub fn destination(app: &App, cookie: Option<&str>) -> Option<String> {
    envelope::open::<SignInState>(app, PURPOSE, cookie?).map(|sign_in_state| sign_in_state.back)
}

/// Query of a provider's callback.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Callback {
    pub code: Option<String>,
    pub state: Option<String>,
    pub issuer: Option<String>,
    pub error: Option<String>,
}

impl Callback {
    /// Parses a query. `None` if it is too long or repeats a parameter.
    pub fn read(query: &str) -> Option<Self> {
        if query.len() > MAX_CALLBACK_BYTES {
            return None;
        }
        let mut read = Self::default();
        for (name, value) in form_urlencoded::parse(query.as_bytes()) {
            let field = match &*name {
                "code" => &mut read.code,
                "state" => &mut read.state,
                "iss" => &mut read.issuer,
                "error" => &mut read.error,
                _ => continue,
            };
            if field.replace(value.into_owned()).is_some() {
                return None;
            }
        }
        Some(read)
    }
}

/// Exchanges the code and verifies the tokens.
async fn identify(app: &App, provider: &Provider, code: String, nonce: String, verifier: String) -> Result<Identity> {
    let failed = |what: &str, error: &dyn std::fmt::Display| {
        tracing::warn!(provider = provider.name, what, %error, "sign-in through a provider failed");
        refused("The provider's answer cannot be accepted. Begin again; the log of the server says why.")
    };
    let provider_metadata = metadata(app, provider, false).await?;
    let client = client(app, provider, &provider_metadata)?;
    let tokens = client
        .exchange_code(AuthorizationCode::new(code))
        .map_err(|error| failed("no token endpoint", &error))?
        .set_pkce_verifier(PkceCodeVerifier::new(verifier))
        .request_async(&bounded_http::send)
        .await
        .map_err(|error| failed("exchanging the code", &error))?;
    let id_token = tokens.id_token().ok_or_else(|| failed("no ID token", &"missing"))?;
    let nonce = Nonce::new(nonce);
    let claims = if let Ok(claims) = id_token.claims(&client.id_token_verifier(), &nonce) {
        claims.clone()
    } else {
        // The provider may have rotated its keys.
        let fresh = metadata(app, provider, true).await?;
        let client = self::client(app, provider, &fresh)?;
        let claims = id_token.claims(&client.id_token_verifier(), &nonce);
        claims.map_err(|error| failed("the ID token", &error))?.clone()
    };
    // Many providers put only the subject into the token and serve the rest as user info.
    let more: Option<UserInfoClaims<OtherClaims, CoreGenderClaim>> =
        match client.user_info(tokens.access_token().clone(), Some(claims.subject().clone())) {
            Ok(request) => {
                Some(request.request_async(&bounded_http::send).await.map_err(|error| failed("user info", &error))?)
            }
            Err(_) => None,
        };
    let text = |value: Option<String>| value.map(|text| text.trim().to_owned()).filter(|text| !text.is_empty());
    let more = more.as_ref();
    let name = claims
        .name()
        .or(more.and_then(|more| more.name()))
        .and_then(|names| names.get(None).or_else(|| names.iter().next().map(|(_, name)| name)))
        .map(|name| name.to_string())
        .or_else(|| claims.preferred_username().map(|name| name.to_string()))
        .or_else(|| more.and_then(|more| more.preferred_username()).map(|name| name.to_string()));
    // Take address and verification from the same source.
    let (email, email_verified) = match claims.email() {
        Some(email) => (Some(email.to_string()), claims.email_verified()),
        None => (
            more.and_then(|more| more.email()).map(|email| email.to_string()),
            more.and_then(UserInfoClaims::email_verified),
        ),
    };
    let groups = claims
        .additional_claims()
        .0
        .get(&provider.groups_claim)
        .or_else(|| more.and_then(|more| more.additional_claims().0.get(&provider.groups_claim)));
    let acr = claims.auth_context_ref().map(|acr| acr.as_str().to_owned());
    let amr = claims.auth_method_refs().map(|all| all.iter().map(|amr| amr.as_str().to_owned()).collect::<Vec<_>>());
    let now = OffsetDateTime::now_utc().unix_timestamp();
    Ok(Identity {
        issuer: provider.issuer.clone(),
        subject: claims.subject().to_string(),
        name: text(name),
        email: text(email),
        email_verified: email_verified == Some(true),
        groups: names_in(groups),
        mfa: acr.is_some_and(|acr| provider.mfa_acr.contains(&acr))
            || amr.unwrap_or_default().iter().any(|amr| provider.mfa_amr.contains(amr)),
        age_seconds: claims.auth_time().map(|at| (now - at.timestamp()).clamp(0, 86_400 * 365)),
    })
}

/// Strings of a claim that is a string or a list of strings.
fn names_in(claim: Option<&Value>) -> Vec<String> {
    match claim {
        Some(Value::String(one)) => vec![one.clone()],
        Some(Value::Array(all)) => all.iter().filter_map(Value::as_str).take(1_000).map(str::to_owned).collect(),
        _ => Vec::new(),
    }
}

fn refused(detail: &str) -> Error {
    Error::refuse(Code::Unauthenticated, detail)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_read_once_or_not_at_all() {
        let read = Callback::read("code=a%20b&state=s&iss=https%3A%2F%2Fi&session_state=x").expect("read");
        assert_eq!((read.code.as_deref(), read.issuer.as_deref()), (Some("a b"), Some("https://i")));
        assert_eq!(Callback::read("state=a&state=b"), None);
        assert_eq!(Callback::read(&format!("code={}", "a".repeat(MAX_CALLBACK_BYTES))), None);
        assert_eq!(Callback::read(""), Some(Callback::default()));
    }

    #[test]
    fn groups_are_a_text_or_a_list() {
        assert_eq!(names_in(Some(&serde_json::json!(["a", 1, "b"]))), ["a", "b"]);
        assert_eq!(names_in(Some(&serde_json::json!("a"))), ["a"]);
        assert!(names_in(Some(&serde_json::json!({"a": 1}))).is_empty() && names_in(None).is_empty());
    }
}
