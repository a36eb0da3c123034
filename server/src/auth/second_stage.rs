//! Second stage of sign-in: after the first factor, the session starts once no second factor is missing.
//!
//! All sign-in methods end here: password, one-time link, OpenID Connect, proxy header. A person with a second factor
//! must give it, whoever created the link. Nothing is stored in between: a sealed state represents the first factor for
//! ten minutes, and a link is used up only by the second stage. A new password invalidates the state.

use std::net::IpAddr;

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use domain::{Code, Problem, identity::factors::PasskeyAnswer, job::OwnerKind};
use serde::{Deserialize, Serialize};
use time::{Duration, OffsetDateTime};
use uuid::Uuid;

use super::{
    Key, device, envelope,
    factors::{self, passkeys::Proof},
    sessions::{self, Cookies, Visitor},
    step_up, throttle,
};
use crate::{App, audit};
use engine::{
    access::caller::Caller,
    error::{Error, Result},
    secrets::{Hash, hash_of},
    store::access::{
        factors::{self as store, Candidate},
        identity,
    },
    task::in_task,
};

/// Lifetime of the sealed state, in minutes.
const STATE_MINUTES: i64 = 10;

const PURPOSE: &str = "second stage";

/// The first factor of a sign-in.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Method {
    Password,
    /// With the hash of the link, which is used up when the session starts.
    Link {
        hash: Hash,
        made_by: Option<String>,
    },
    Passkey,
    Oidc {
        provider: String,
    },
    /// With the header value.
    Proxy {
        user: String,
    },
}

impl Method {
    /// Value in the sessions table.
    const fn word(&self) -> &'static str {
        match self {
            Self::Password => "password",
            Self::Link { .. } => "link",
            Self::Passkey => "passkey",
            Self::Oidc { .. } => "oidc",
            Self::Proxy { .. } => "proxy",
        }
    }

    /// Text for the audit log.
    fn in_words(&self) -> String {
        match self {
            Self::Password => "by password".to_owned(),
            Self::Link { made_by: Some(name), .. } => format!("by a one-time link made by {name}"),
            Self::Link { made_by: None, .. } => "by a one-time link of the server".to_owned(),
            Self::Passkey => "by passkey".to_owned(),
            Self::Oidc { provider } => format!("by the provider {provider}"),
            Self::Proxy { user } => format!("by the proxy, as {user}"),
        }
    }
}

/// Person who has passed the first factor.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct FirstFactor {
    pub(crate) owner_id: Uuid,
    pub(crate) method: Method,
    /// True if it counts as two factors.
    pub(crate) mfa: bool,
    /// Seconds since the first factor, if another system checked it.
    pub(crate) age_seconds: i64,
}

/// Second factor as submitted.
#[derive(Clone, Debug, Default)]
pub struct SecondFactor {
    pub code: Option<String>,
    pub recovery_code: Option<String>,
}

/// Accepted second factor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Factor {
    AuthenticatorApp,
    RecoveryCode,
}

impl SecondFactor {
    fn is_given(&self) -> bool {
        self.code.is_some() || self.recovery_code.is_some()
    }
}

/// Content of the sealed state that represents the first factor.
#[derive(Serialize, Deserialize)]
struct State {
    first: FirstFactor,
    /// Hash of the password hash: a new password invalidates the state.
    password_fingerprint: Hash,
}

/// Starts the session, or returns 401 `mfa_required` with the state to send back. Returns the response cookies.
pub(crate) async fn begin(
    app: &App,
    first: FirstFactor,
    second: &SecondFactor,
    visitor: &Visitor<'_>,
) -> Result<Cookies> {
    let until = OffsetDateTime::now_utc() + Duration::minutes(STATE_MINUTES);
    go_on(app, first, until.unix_timestamp(), second, visitor).await
}

/// Asks for a second factor until then, or starts the session.
async fn go_on(
    app: &App,
    first: FirstFactor,
    until: i64,
    second: &SecondFactor,
    visitor: &Visitor<'_>,
) -> Result<Cookies> {
    let person = find(app, first.owner_id).await?;
    let summary = store::summary(&app.pool, first.owner_id).await?;
    let mut factor = None;
    if summary.any() && !first.mfa {
        let mfa_required = |errors: Problem| Problem {
            methods: summary.methods(),
            state: Some(envelope::seal_until(
                app,
                PURPOSE,
                until,
                &State { first: first.clone(), password_fingerprint: password_fingerprint(&person) },
            )),
            ..Problem { errors: errors.errors, ..Problem::new(Code::MfaRequired, "Send a second factor as well.") }
        };
        if !second.is_given() {
            return Err(mfa_required(Problem::new(Code::MfaRequired, "")).into());
        }
        match verify(app, first.owner_id, second, keys(&first, &person, second, visitor)).await {
            Ok(given) => factor = Some(given),
            Err(Error::Problem(problem)) if problem.code == Code::InvalidBody => {
                let how = format!("{}: the second factor does not fit", first.method.in_words());
                audit::record_refused_sign_in(app, Some(first.owner_id), visitor.address, &how).await;
                return Err(mfa_required(*problem).into());
            }
            Err(error) => return Err(error),
        }
    }
    let first = match &first.method {
        // A proxy does not report the time of authentication: with a factor here, step-up asks for it.
        Method::Proxy { .. } if summary.any() => {
            FirstFactor { age_seconds: i64::from(step_up::RECENT_SECONDS) + 1, ..first }
        }
        _ => first,
    };
    open(app, first, factor, person, None, visitor).await
}

/// Handles the second request: the state of the first one, and a second factor.
pub(crate) async fn resume(app: &App, state: &str, second: &SecondFactor, visitor: &Visitor<'_>) -> Result<Cookies> {
    let over = || Error::refuse(Code::Unauthenticated, "This sign-in took too long. Begin again.");
    let (State { first, password_fingerprint: before }, until) =
        envelope::open_with_end(app, PURPOSE, state).ok_or_else(over)?;
    let person = find(app, first.owner_id).await?;
    if password_fingerprint(&person) != before {
        return Err(over());
    }
    // A wrong factor gives no new time: the first factor counts for ten minutes in all.
    go_on(app, first, until, second, visitor).await
}

/// Starts a session with a passkey, which counts as both factors.
pub(crate) async fn begin_with_passkey(app: &App, answer: &PasskeyAnswer, visitor: &Visitor<'_>) -> Result<Cookies> {
    let attempt = throttle::begin(app, Key::of_passkey(visitor.address)).await?;
    let proof = match factors::passkeys::authenticate(app, answer).await {
        Ok(proof) => proof,
        Err(error) => {
            attempt.failed(app).await?;
            audit::record_refused_sign_in(app, None, visitor.address, "by passkey: it does not fit").await;
            return Err(error);
        }
    };
    attempt.succeeded(app).await?;
    let person = find(app, proof.owner_id).await?;
    let first = FirstFactor { owner_id: proof.owner_id, method: Method::Passkey, mfa: true, age_seconds: 0 };
    open(app, first, None, person, Some(proof), visitor).await
}

/// Counters of a second factor at sign-in. Recovery codes cannot be guessed, so they are counted separately from wrong
/// codes. Six-digit codes are counted per first factor: someone who knows the password cannot block a one-time link or
/// a new password.
fn keys(first: &FirstFactor, person: &Candidate, second: &SecondFactor, visitor: &Visitor<'_>) -> Vec<Key> {
    if second.code.is_none() {
        return Key::of_recovery(visitor.address);
    }
    let password = person.password_hash.as_deref();
    let device = visitor.device.zip(password).and_then(|(cookie, hash)| device::open(cookie, first.owner_id, hash));
    let which = match &first.method {
        Method::Password => URL_SAFE_NO_PAD.encode(password_fingerprint(person)),
        Method::Link { hash, .. } => URL_SAFE_NO_PAD.encode(hash),
        Method::Oidc { provider } => provider.clone(),
        Method::Proxy { .. } | Method::Passkey => String::new(),
    };
    let first_factor = format!("{} {} {which}", first.owner_id, first.method.word());
    Key::of_code(&first_factor, visitor.address, device.filter(|it| it.mfa).as_ref().map(|it| it.name.as_str()))
}

/// Verifies a second factor and marks it as used. 422 at the wrong field; 429 after too many failures with these
/// counters.
pub(super) async fn verify(app: &App, owner_id: Uuid, second: &SecondFactor, keys: Vec<Key>) -> Result<Factor> {
    let attempt = throttle::begin(app, keys).await?;
    let (is_accepted, refusal, factor) = match second {
        SecondFactor { code: Some(code), .. } => {
            (factors::totp::accept(app, owner_id, code).await?, factors::totp::wrong_code(), Factor::AuthenticatorApp)
        }
        SecondFactor { recovery_code: Some(code), .. } => {
            let hash = factors::recovery::hash(owner_id, code);
            let detail = "this recovery code is not known, or was used".to_owned();
            let refusal = Problem::invalid_body([("/recovery_code".to_owned(), detail)]).into();
            (store::use_recovery_code(&app.pool, owner_id, &hash).await?, refusal, Factor::RecoveryCode)
        }
        _ => (false, factors::totp::wrong_code(), Factor::AuthenticatorApp),
    };
    if !is_accepted {
        attempt.failed(app).await?;
        return Err(refusal);
    }
    attempt.succeeded(app).await?;
    Ok(factor)
}

/// Starts the session.
async fn open(
    app: &App,
    first: FirstFactor,
    factor: Option<Factor>,
    person: Candidate,
    proof: Option<Proof>,
    visitor: &Visitor<'_>,
) -> Result<Cookies> {
    let (pool, user_agent, address) = (app.pool.clone(), visitor.user_agent.to_owned(), visitor.address);
    let device = matches!(first.method, Method::Password).then(|| person.password_hash.clone()).flatten();
    let owner_id = first.owner_id;
    let secret = in_task("signing in", async move {
        let mut tx = engine::store::begin(&pool).await?;
        if let Method::Link { hash, .. } = &first.method
            && identity::use_link(&mut tx, hash).await? != Some(Some(owner_id))
        {
            return Err(Error::refuse(
                Code::LinkUsed,
                "This link was used or has expired. Ask an admin for a new one.",
            ));
        }
        if let Some(proof) = proof {
            proof.record(&mut tx).await?;
        }
        let mfa = first.mfa || factor.is_some();
        let with = match factor {
            Some(Factor::AuthenticatorApp) => ", with the authenticator app",
            Some(Factor::RecoveryCode) => ", with a recovery code",
            None => "",
        };
        let how = format!("{}{with}", first.method.in_words());
        let by_link = matches!(first.method, Method::Link { .. });
        let Some(secret) = sessions::begin(&mut tx, owner_id, &user_agent, by_link, address, &how).await? else {
            return Err(unknown_account());
        };
        let age = if factor.is_some() { 0 } else { first.age_seconds };
        let proxy_user = if let Method::Proxy { user } = &first.method { Some(user.as_str()) } else { None };
        store::describe_session(&mut tx, &hash_of(&secret), first.method.word(), mfa, age, proxy_user).await?;
        engine::store::commit(tx).await?;
        tracing::info!(%owner_id, method = first.method.word(), mfa, "signed in");
        Ok(secret)
    })
    .await?;
    let cookie = app.auth.cookie();
    let device = device.map(|stored| cookie.set_device(&device::seal(owner_id, &stored, factor.is_some())));
    Ok(std::iter::once(cookie.set(&secret)).chain(device).collect())
}

async fn find(app: &App, owner_id: Uuid) -> Result<Candidate> {
    let person = store::find_candidate(&app.pool, owner_id).await?;
    person.filter(|person| !person.disabled).ok_or_else(unknown_account)
}

fn unknown_account() -> Error {
    Error::refuse(Code::Unauthenticated, "This account cannot sign in. Ask an admin.")
}

fn password_fingerprint(person: &Candidate) -> Hash {
    hash_of(person.password_hash.as_deref().unwrap_or_default())
}

/// Builds a caller for the audit log before a session exists.
pub(super) fn caller(owner_id: Uuid, name: String, address: Option<IpAddr>) -> Caller {
    Caller {
        owner_id,
        kind: OwnerKind::User,
        name,
        role: None,
        scopes: Vec::new(),
        credential_id: owner_id,
        work_types: None,
        must_change_password: false,
        address,
        enrolls: false,
        proxy_user: None,
    }
}
