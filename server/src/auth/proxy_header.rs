//! Sign-in by a proxy: the header of `TREELINE_AUTH_HEADER`, accepted only from `TREELINE_TRUSTED_PROXIES`.
//!
//! The header starts a session on the sign-in page and is compared with it at every request, so signing out or
//! switching accounts at the proxy takes effect here too. It never replaces an API token or a session.

use std::net::{IpAddr, SocketAddr};

use axum::{
    extract::ConnectInfo,
    http::{HeaderMap, request::Parts},
};
use domain::{
    Code, Problem,
    identity::account::{email_problem, name_problem},
};
use uuid::Uuid;

use super::{
    oidc,
    people::audit_row,
    second_stage::{self, FirstFactor, Method, SecondFactor},
    sessions::{Cookies, Visitor},
};
use crate::App;
use engine::{
    access::caller::{Caller, Role},
    error::{Error, Result},
    store::{
        Tx,
        access::{
            federated_accounts::{self as store, NewPerson},
            people,
        },
        notify::audit as log,
    },
    task::in_task,
};

/// Person named by the proxy; `None` if the header is repeated or does not come from a trusted proxy.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProxyUser(pub Option<String>);

impl ProxyUser {
    /// Reads the header of a request.
    pub fn of(app: &App, parts: &Parts) -> Self {
        let peer = parts.extensions.get::<ConnectInfo<SocketAddr>>().map(|peer| peer.0.ip());
        Self(read(app, peer, &parts.headers))
    }

    /// Returns true if a session is valid for this request: one started by a proxy belongs to the person it names.
    pub(crate) fn allows(&self, caller: &Caller) -> bool {
        caller.proxy_user.is_none() || caller.proxy_user == self.0
    }
}

fn read(app: &App, peer: Option<IpAddr>, headers: &HeaderMap) -> Option<String> {
    let name = app.config.identity.auth_header.as_ref()?;
    if !app.config.proxies.trusted_proxies.contains(peer?) {
        return None;
    }
    let mut values = headers.get_all(name).iter();
    let value = values.next()?.to_str().ok()?.trim();
    let is_one = values.next().is_none() && name_problem(value).is_none() && is_one_person(value);
    is_one.then(|| value.to_owned())
}

fn is_one_person(value: &str) -> bool {
    value.is_ascii() && !value.contains(',')
}

/// Starts a session for the person the proxy names. Returns the response cookies. 401 `mfa_required`.
pub async fn sign_in(app: &App, user: &str, visitor: &Visitor<'_>) -> Result<Cookies> {
    let settings = &app.config.identity;
    let (pool, name, role) = (app.pool.clone(), user.to_owned(), settings.auth_header_role.0);
    let address = visitor.address;
    let owner_id = in_task("signing in by a proxy", async move {
        let mut tx = engine::store::begin(&pool).await?;
        let owner_id = match store::find_proxy_user(&mut tx, &name).await? {
            Some(owner_id) => owner_id,
            None => first_time(&mut tx, &name, role, address).await?,
        };
        engine::store::commit(tx).await?;
        Ok(owner_id)
    })
    .await?;
    let first = FirstFactor {
        owner_id,
        method: Method::Proxy { user: user.to_owned() },
        mfa: settings.auth_header_mfa,
        age_seconds: 0,
    };
    second_stage::begin(app, first, &SecondFactor::default(), visitor).await
}

/// Links a header value to an account: the one with that email address if an admin has set it, else a new one. A name
/// alone links nothing: people choose theirs at most providers.
async fn first_time(tx: &mut Tx, value: &str, role: Option<Role>, address: Option<IpAddr>) -> Result<Uuid> {
    let email = value.contains('@').then_some(value).filter(|email| email_problem(email).is_none());
    let existing = match email {
        Some(email) => store::find_by_email(tx, email).await?,
        None => None,
    };
    let (owner_id, row) = match existing {
        Some(existing) if existing.email_by_provider => {
            return Err(Error::refuse(
                Code::Unauthenticated,
                "An account here has this email address from a provider, and the proxy is not connected with it. Ask an admin.",
            ));
        }
        Some(existing) => {
            let by = second_stage::caller(existing.id, existing.name, address);
            let detail = format!("{value}, by the email address");
            (existing.id, audit_row(&by, "user.proxy_user", existing.id, None, Some(detail)))
        }
        None => {
            let none = || Error::refuse(Code::Forbidden, "There is no account for you here. Ask an admin.");
            let role = role.ok_or_else(none)?.as_str();
            let new = NewPerson { name: value, email, email_by_provider: false, role };
            let owner_id = oidc::create_account(tx, new).await?;
            let by = second_stage::caller(owner_id, value.to_owned(), address);
            (owner_id, audit_row(&by, "user.create", owner_id, None, Some(format!("{role}, named by the proxy"))))
        }
    };
    store::insert_proxy_user(tx, value, owner_id).await?;
    log::record(tx, &row).await?;
    Ok(owner_id)
}

/// Describes the fault of a proxy user name; an empty one means none.
pub(super) fn fault_of_user(value: &str) -> Option<&'static str> {
    let is_read = value.is_empty() || (name_problem(value).is_none() && is_one_person(value) && value.trim() == value);
    (!is_read).then_some("expected what the proxy writes into the header: 1 to 100 ASCII characters without a comma")
}

/// Sets the proxy user name of an account; an empty value removes it. 409 `duplicate` if it belongs to another account.
/// Returns true if the account changed.
pub(super) async fn assign(
    tx: &mut Tx,
    by: &Caller,
    owner_id: Uuid,
    value: &str,
    reason: Option<String>,
) -> Result<bool> {
    let before = if value.is_empty() { None } else { store::find_proxy_user(tx, value).await? };
    if let Some(other) = before.filter(|other| *other != owner_id) {
        let detail = "The proxy means another account by this name.";
        return Err(Problem { id: Some(other), ..Problem::new(Code::Duplicate, detail) }.into());
    }
    let removed = store::remove_proxy_users(tx, owner_id, value).await?;
    if before.is_none() && !value.is_empty() {
        store::insert_proxy_user(tx, value, owner_id).await?;
    } else if removed == 0 {
        return Ok(false);
    }
    let mut detail = if value.is_empty() { "none".to_owned() } else { value.to_owned() };
    if removed > 0 {
        // Someone may be signed in by the previous name.
        let ended = people::end_sessions(tx, owner_id, None, Some(by.credential_id)).await?;
        detail = format!("{detail}; sessions ended: {ended}");
    }
    log::record(tx, &audit_row(by, "user.proxy_user", owner_id, reason, Some(detail))).await?;
    Ok(true)
}
