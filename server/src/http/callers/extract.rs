//! Extractors from a request to its [`Caller`]: the bearer token first, else the session cookie.
//!
//! An unknown token is refused even beside a valid cookie, because the client meant to use it. The use of a credential
//! is recorded off the request path.

use std::{
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use axum::{
    extract::{FromRequestParts, OriginalUri},
    http::{HeaderMap, header, request::Parts},
};
use domain::Code;
use uuid::Uuid;

use super::viewer;
use crate::{
    App,
    auth::{ClientAddress, lookup, proxy_header::ProxyUser},
    http::{
        admission::Admission,
        error::{Error, Result},
    },
};
use engine::{
    access::caller::Caller,
    secrets::{Hash, hash_of},
};

/// Slot for the caller in the request extensions: filled by the handler's extractor, read by layers afterwards.
#[derive(Clone, Debug, Default)]
pub struct CallerSlot(Arc<OnceLock<Caller>>);

impl CallerSlot {
    fn fill(&self, caller: &Caller) {
        // A second extraction yields the same caller.
        let _ = self.0.set(caller.clone());
    }

    /// Takes the caller, if known.
    pub fn take(self) -> Option<Caller> {
        Arc::try_unwrap(self.0).map_or_else(|shared| shared.get().cloned(), OnceLock::into_inner)
    }
}

/// Caller in the request extensions, once known. Body limits depend on it.
#[derive(Clone, Copy, Debug)]
pub struct KnownCaller {
    pub owner_id: Uuid,
    pub credential_id: Uuid,
}

/// Flag of a connection that has carried a request of an authenticated caller, in the extensions of its requests.
#[derive(Clone, Debug, Default)]
pub struct SeenCaller(pub Arc<AtomicBool>);

/// Longest wait for the lookup of a credential from an address with too many refused requests.
const KNOWN_WAIT: Duration = Duration::from_secs(1);

/// Optional caller: for pages that are also open to anonymous visitors.
#[derive(Clone, Debug)]
pub struct MaybeCaller(pub Option<Caller>);

impl FromRequestParts<App> for Caller {
    type Rejection = Error;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self> {
        let (found, refusal) = match credential(&parts.headers, app) {
            Credential::Token(hash) => (lookup::by_token(app, hash).await?, "The token is not known, or was revoked."),
            Credential::Session(hash) => {
                (lookup::by_session(app, hash).await?, "The session has ended. Sign in again.")
            }
            Credential::Odd => (None, "Expected the header `Authorization: Bearer <token>`."),
            Credential::None => (None, "Send a token as `Authorization: Bearer <token>`, or sign in with a browser."),
        };
        let caller = found.ok_or_else(|| Error::refuse(Code::Unauthenticated, refusal))?;
        if !ProxyUser::of(app, parts).allows(&caller) {
            return Err(Error::refuse(Code::Unauthenticated, "The proxy names somebody else. Sign in again."));
        }
        if caller.must_change_password && !is_open_to_change(parts) {
            return Err(Error::refuse(
                Code::PasswordChangeRequired,
                "Somebody else chose your password. Choose one of your own first, on your account page or by POST /me/password.",
            ));
        }
        if caller.enrolls && !is_open_to_enrollment(parts) {
            return Err(Error::refuse(
                Code::MfaEnrollmentRequired,
                "Your role requires a second factor. Add an authenticator app or a passkey on your account page first.",
            ));
        }
        let Ok(ClientAddress(address)) = ClientAddress::from_request_parts(parts, app).await;
        let caller = Self { address, ..caller };
        if let Some(slot) = parts.extensions.get::<CallerSlot>() {
            slot.fill(&caller);
        }
        if let Some(admission) = parts.extensions.get::<Admission>() {
            admission.admit(&caller)?;
        }
        if let Some(seen) = parts.extensions.get::<SeenCaller>() {
            seen.0.store(true, Ordering::Relaxed);
        }
        parts.extensions.insert(KnownCaller { owner_id: caller.owner_id, credential_id: caller.credential_id });
        Ok(caller)
    }
}

impl FromRequestParts<App> for MaybeCaller {
    type Rejection = Error;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self> {
        match Caller::from_request_parts(parts, app).await {
            Ok(caller) => Ok(Self(Some(caller))),
            Err(Error(engine::error::Error::Problem(problem))) if problem.code == Code::Unauthenticated => {
                Ok(Self(None))
            }
            Err(other) => Err(other),
        }
    }
}

/// Returns true for paths open to a session that must still add a second factor: pages and calls that add one, the
/// password, sessions, and sign-out. Excluded are notices, and providers that can sign in without the factor.
fn is_open_to_enrollment(parts: &Parts) -> bool {
    let path = path(parts);
    let alone = ["/api/v1/me", "/account"];
    let calls = ["factors", "totp", "passkeys", "recovery-codes", "step-up", "password", "sessions"];
    let others = ["/api/v1/session", "/step-up", "/sign-out", "/sign-in", "/theme", "/sidebar", "/language"];
    let is_below = |root: &str| path.strip_prefix(root).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
    let below = path.strip_prefix("/api/v1/me/").or_else(|| path.strip_prefix("/account/"));
    let name = below.map(|rest| rest.split('/').next().unwrap_or(rest));
    alone.contains(&path) || name.is_some_and(|name| calls.contains(&name)) || others.into_iter().any(is_below)
}

/// Returns true for paths open to a session that must still choose a password: password, sessions, and sign-out.
/// Excluded is what would outlast the change, such as a second factor added by someone who knows the first password.
fn is_open_to_change(parts: &Parts) -> bool {
    let path = path(parts);
    let calls = ["/api/v1/me", "/api/v1/me/password", "/api/v1/me/step-up", "/api/v1/session"];
    let pages = ["/account", "/account/password", "/step-up", "/sign-out", "/sign-in", "/theme", "/language"];
    let below = ["/api/v1/me/sessions", "/account/sessions/", "/sign-in/"];
    calls.into_iter().chain(pages).any(|open| open == path) || below.into_iter().any(|root| path.starts_with(root))
}

/// Original request path, before routers strip prefixes.
fn path(parts: &Parts) -> &str {
    parts.extensions.get::<OriginalUri>().map_or(&parts.uri, |uri| &uri.0).path()
}

enum Credential {
    Token(Hash),
    Session(Hash),
    Odd,
    None,
}

/// Returns true if the request carries a valid credential or share link. Used where strangers are refused, so they must
/// not keep the database busy: those in use are remembered, and of the others, one is looked up at a time.
pub async fn is_known(app: &App, headers: &HeaderMap) -> bool {
    let credential = credential(headers, app);
    // A link beside a session vouches only once the session is known to be none: it is looked up first.
    let hash = match credential {
        Credential::Token(hash) | Credential::Session(hash) => Some(hash),
        Credential::None => viewer::share_secret(headers, app).map(hash_of),
        Credential::Odd => None,
    };
    let Some(hash) = hash else { return false };
    if app.auth.was_valid_recently(&hash) {
        return true;
    }
    let permit = tokio::time::timeout(KNOWN_WAIT, app.auth.stranger_lookups.acquire()).await;
    let Ok(Ok(_permit)) = permit else { return false };
    let caller = match credential {
        Credential::Token(hash) => lookup::by_token(app, hash).await,
        Credential::Session(hash) => lookup::by_session(app, hash).await,
        Credential::Odd | Credential::None => Ok(None),
    };
    match caller {
        Ok(None) => viewer::share_of(headers, app).await.is_ok_and(|share| share.is_some()),
        caller => caller.is_ok(),
    }
}

fn credential(headers: &HeaderMap, app: &App) -> Credential {
    if let Some(header) = headers.get(header::AUTHORIZATION) {
        let token = header.to_str().ok().and_then(|line| line.split_once(' ')).and_then(|(scheme, token)| {
            let token = token.trim();
            (scheme.eq_ignore_ascii_case("bearer") && !token.is_empty()).then_some(token)
        });
        return token.map_or(Credential::Odd, |token| Credential::Token(hash_of(token)));
    }
    app.auth.cookie().read(headers).map_or(Credential::None, |secret| Credential::Session(hash_of(secret)))
}
