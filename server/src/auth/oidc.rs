//! Sign-in by OpenID Connect: the way to a provider and back.
//!
//! Authorization code flow with PKCE, state and nonce; what must survive the way stands sealed in a cookie of this browser, so
//! nobody can be signed in to somebody else's account by a foreign link. Signatures, issuer, audience, nonce and times
//! are checked by `openidconnect`; who the person is here is decided in [`accounts`].

mod accounts;
mod bounded_http;

pub(super) use accounts::create as create_account;

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use domain::Code;
use openidconnect::{
    AdditionalClaims, AuthenticationFlow, AuthorizationCode, ClientId, ClientSecret, CsrfToken, EmptyExtraTokenFields,
    IdTokenFields, IssuerUrl, Nonce, OAuth2TokenResponse as _, PkceCodeChallenge, PkceCodeVerifier, RedirectUrl, Scope,
    StandardErrorResponse, StandardTokenResponse, TokenResponse as _, UserInfoClaims,
    core::{
        CoreAuthDisplay, CoreAuthPrompt, CoreErrorResponseType, CoreGenderClaim, CoreJsonWebKey,
        CoreJweContentEncryptionAlgorithm, CoreJwsSigningAlgorithm, CoreProviderMetadata, CoreResponseType,
        CoreRevocableToken, CoreRevocationErrorResponse, CoreTokenIntrospectionResponse, CoreTokenType,
    },
};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use time::OffsetDateTime;
use uuid::Uuid;

use super::{
    Caller, envelope,
    second_stage::{self, First, Method, Second},
    sessions::{Cookies, Visitor},
    step_up,
};
use crate::{
    App,
    config::identity::Provider,
    error::{Error, Result},
};

/// How long the way to the provider and back may take.
const MINUTES: i64 = 10;

/// How long a provider's description and keys are remembered. Keys that are not among them are looked for again at once, but
/// not more often than once a minute.
const REMEMBERED: Duration = Duration::from_hours(1);
const AGAIN_AFTER: Duration = Duration::from_mins(1);

/// The longest query that a provider may send people back with, in bytes.
const LONGEST_CALLBACK: usize = 16 * 1024;

const PURPOSE: &str = "way to an OpenID Connect provider";

/// Every claim that is not one of the standard ones: groups are among them.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(transparent)]
struct OtherClaims(Map<String, Value>);

impl AdditionalClaims for OtherClaims {}

type TokenFields = IdTokenFields<
    OtherClaims,
    EmptyExtraTokenFields,
    CoreGenderClaim,
    CoreJweContentEncryptionAlgorithm,
    CoreJwsSigningAlgorithm,
>;

type Client = openidconnect::Client<
    OtherClaims,
    CoreAuthDisplay,
    CoreGenderClaim,
    CoreJweContentEncryptionAlgorithm,
    CoreJsonWebKey,
    CoreAuthPrompt,
    StandardErrorResponse<CoreErrorResponseType>,
    StandardTokenResponse<TokenFields, CoreTokenType>,
    CoreTokenIntrospectionResponse,
    CoreRevocableToken,
    CoreRevocationErrorResponse,
    openidconnect::EndpointSet,
    openidconnect::EndpointNotSet,
    openidconnect::EndpointNotSet,
    openidconnect::EndpointNotSet,
    openidconnect::EndpointMaybeSet,
    openidconnect::EndpointMaybeSet,
>;

/// Descriptions of providers that were fetched lately, by name.
#[derive(Debug, Default)]
pub struct Known(Mutex<HashMap<String, (Instant, Arc<CoreProviderMetadata>)>>);

/// What survives the way, in the cookie.
#[derive(Serialize, Deserialize)]
struct Way {
    provider: String,
    state: String,
    nonce: String,
    verifier: String,
    back: String,
    /// The session whose person adds this sign-in to their account.
    links: Option<Uuid>,
}

/// Where the browser goes, and the cookie that it takes along.
pub struct Departure {
    pub url: String,
    pub cookie: String,
}

/// What came of the way back.
#[derive(Debug)]
pub enum Arrival {
    /// Signed in: the cookies, and where to go then.
    SignedIn(Cookies, String),
    /// The sign-in was added to the account of the caller.
    Linked,
}

/// What a provider says of a person.
#[derive(Clone, Debug)]
struct Identity {
    issuer: String,
    subject: String,
    name: Option<String>,
    email: Option<String>,
    email_verified: bool,
    groups: Vec<String>,
    mfa: bool,
    /// Seconds since the person proved who they are, as far as the provider tells.
    age_seconds: i64,
}

/// Sends the browser to a provider. `fresh`: the person proves anew who they are. `caller`: adds the sign-in to this account.
pub async fn depart(app: &App, name: &str, back: &str, fresh: bool, caller: Option<&Caller>) -> Result<Departure> {
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
    if fresh {
        request = request.add_prompt(CoreAuthPrompt::Login).set_max_age(Duration::ZERO);
    }
    let (url, state, nonce) = request.url();
    let way = Way {
        provider: provider.name.clone(),
        state: state.into_secret(),
        nonce: nonce.secret().clone(),
        verifier: verifier.into_secret(),
        back: back.to_owned(),
        links: caller.map(|caller| caller.credential_id),
    };
    Ok(Departure { url: url.into(), cookie: envelope::seal(app, PURPOSE, MINUTES, &way) })
}

/// Takes the browser back from a provider, with the cookie that it left with.
pub async fn arrive(
    app: &App,
    name: &str,
    query: &str,
    cookie: Option<&str>,
    caller: Option<&Caller>,
    visitor: &Visitor<'_>,
) -> Result<Arrival> {
    let provider = find(app, name)?;
    let over = || refused("This sign-in took too long, or was begun in another browser. Begin again.");
    let way: Way = cookie.and_then(|cookie| envelope::open(app, PURPOSE, cookie)).ok_or_else(over)?;
    let answer = Callback::read(query).ok_or_else(|| refused("The provider's answer cannot be read. Begin again."))?;
    if way.provider != provider.name || answer.state.as_deref() != Some(way.state.as_str()) {
        return Err(over());
    }
    if answer.issuer.as_ref().is_some_and(|issuer| *issuer != provider.issuer) {
        return Err(refused("The answer is another provider's. Begin again."));
    }
    if let Some(error) = answer.error {
        tracing::info!(provider = provider.name, error, "the provider refused a sign-in");
        return Err(refused("The provider did not sign you in. Begin again, or use another way."));
    }
    let code = answer.code.ok_or_else(over)?;
    let identity = identify(app, provider, code, way.nonce, way.verifier).await?;
    if let Some(session) = way.links {
        let caller = caller.filter(|caller| caller.credential_id == session).ok_or_else(over)?;
        accounts::link(app, provider, caller, &identity).await?;
        return Ok(Arrival::Linked);
    }
    let owner_id = accounts::find_or_create(app, provider, &identity, visitor.address).await?;
    let first = First {
        owner_id,
        method: Method::Oidc { provider: provider.name.clone() },
        mfa: identity.mfa,
        age_seconds: identity.age_seconds,
    };
    let cookies = second_stage::begin(app, first, &Second::default(), visitor).await?;
    Ok(Arrival::SignedIn(cookies, way.back))
}

/// Where a sign-in that was begun so wanted to go; for the second step's page.
pub fn destination(app: &App, cookie: Option<&str>) -> Option<String> {
    envelope::open::<Way>(app, PURPOSE, cookie?).map(|way| way.back)
}

/// What a provider sends people back with.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Callback {
    pub code: Option<String>,
    pub state: Option<String>,
    pub issuer: Option<String>,
    pub error: Option<String>,
}

impl Callback {
    /// Reads a query. `None`: it is too long, or says something twice.
    pub fn read(query: &str) -> Option<Self> {
        if query.len() > LONGEST_CALLBACK {
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

/// Exchanges the code, and checks everything that came back.
async fn identify(app: &App, provider: &Provider, code: String, nonce: String, verifier: String) -> Result<Identity> {
    let failed = |what: &str, error: &dyn std::fmt::Display| {
        tracing::warn!(provider = provider.name, what, %error, "sign-in by a provider failed");
        refused("The provider's answer cannot be accepted. Begin again; the log of the server says why.")
    };
    let known = metadata(app, provider, false).await?;
    let client = client(app, provider, &known)?;
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
        // The provider may have new keys.
        let fresh = metadata(app, provider, true).await?;
        let client = self::client(app, provider, &fresh)?;
        let claims = id_token.claims(&client.id_token_verifier(), &nonce);
        claims.map_err(|error| failed("the ID token", &error))?.clone()
    };
    // Many providers tell only the subject in the token, and the rest to whoever asks.
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
    // Address and verification from the same place.
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
        age_seconds: claims.auth_time().map_or(0, |at| (now - at.timestamp()).clamp(0, 86_400 * 365)),
    })
}

/// A claim that is a text or a list of texts.
fn names_in(claim: Option<&Value>) -> Vec<String> {
    match claim {
        Some(Value::String(one)) => vec![one.clone()],
        Some(Value::Array(all)) => all.iter().filter_map(Value::as_str).take(1_000).map(str::to_owned).collect(),
        _ => Vec::new(),
    }
}

fn find<'a>(app: &'a App, name: &str) -> Result<&'a Provider> {
    let provider = app.config.identity.provider(name);
    provider.map(|provider| &**provider).ok_or_else(|| Error::refuse(Code::NotFound, "There is no such provider."))
}

fn client(app: &App, provider: &Provider, metadata: &CoreProviderMetadata) -> Result<Client> {
    let redirect = format!("{}/sign-in/oidc/{}/callback", app.public_url.as_str(), provider.name);
    let redirect = RedirectUrl::new(redirect).map_err(|error| Error::Broken(error.to_string()))?;
    let secret = provider.client_secret.as_ref().map(|secret| ClientSecret::new(secret.reveal().to_owned()));
    let id = ClientId::new(provider.client_id.clone());
    Ok(Client::from_provider_metadata(metadata.clone(), id, secret).set_redirect_uri(redirect))
}

/// The description and keys of a provider. `again`: even if they are remembered, unless that is a minute ago.
async fn metadata(app: &App, provider: &Provider, again: bool) -> Result<Arc<CoreProviderMetadata>> {
    let lasts = if again { AGAIN_AFTER } else { REMEMBERED };
    let lock = || app.auth.providers.0.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some((since, known)) = lock().get(&provider.name)
        && since.elapsed() < lasts
    {
        return Ok(Arc::clone(known));
    }
    let issuer = IssuerUrl::new(provider.issuer.clone()).map_err(|error| Error::Broken(error.to_string()))?;
    let fetched = CoreProviderMetadata::discover_async(issuer, &bounded_http::send).await.map_err(|error| {
        tracing::warn!(provider = provider.name, %error, "a provider cannot be reached");
        refused("The provider cannot be reached at the moment. Try again later, or use another way.")
    })?;
    let fetched = Arc::new(fetched);
    lock().insert(provider.name.clone(), (Instant::now(), Arc::clone(&fetched)));
    Ok(fetched)
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
        assert_eq!(Callback::read(&format!("code={}", "a".repeat(LONGEST_CALLBACK))), None);
        assert_eq!(Callback::read(""), Some(Callback::default()));
    }

    #[test]
    fn groups_are_a_text_or_a_list() {
        assert_eq!(names_in(Some(&serde_json::json!(["a", 1, "b"]))), ["a", "b"]);
        assert_eq!(names_in(Some(&serde_json::json!("a"))), ["a"]);
        assert!(names_in(Some(&serde_json::json!({"a": 1}))).is_empty() && names_in(None).is_empty());
    }
}
