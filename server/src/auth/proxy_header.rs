//! A proxy that signs people in: the header of `TREELINE_AUTH_HEADER`, believed from `TREELINE_TRUSTED_PROXIES` alone.
//!
//! The header begins a session on the sign-in page and is compared with it at every request, so whoever signs out at the
//! proxy, or in as somebody else, is that here too. It never stands in for an API token, and never is a session by itself.

use std::net::{IpAddr, SocketAddr};

use axum::{
    extract::ConnectInfo,
    http::{HeaderMap, request::Parts},
};
use domain::account::{fault_of_email, fault_of_name};

use super::{
    Caller, oidc,
    people::deed,
    second_stage::{self, First, Method, Second},
    sessions::{Cookies, Visitor},
};
use crate::{
    App,
    error::{Error, Result},
    store::{audit as log, federation as store},
    task::in_task,
};
use domain::Code;

/// The person whom the proxy names; nobody where the header does not come from a trusted one, or more than once.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProxyUser(pub Option<String>);

impl ProxyUser {
    /// Reads the header of a request.
    pub fn of(app: &App, parts: &Parts) -> Self {
        let peer = parts.extensions.get::<ConnectInfo<SocketAddr>>().map(|peer| peer.0.ip());
        Self(read(app, peer, &parts.headers))
    }

    /// True if a session may be used with this request: one that a proxy began belongs to the person whom the proxy names.
    pub(super) fn allows(&self, caller: &Caller) -> bool {
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
    let is_one_person = values.next().is_none() && fault_of_name(value).is_none() && !value.contains(',');
    is_one_person.then(|| value.to_owned())
}

/// Begins a session for whom the proxy names. Returns the cookies to answer with; 401 `mfa_required` asks for their second factor.
pub async fn sign_in(app: &App, user: &str, visitor: &Visitor<'_>) -> Result<Cookies> {
    let settings = &app.config.identity;
    let (pool, name, role) = (app.pool.clone(), user.to_owned(), settings.auth_header_role.0);
    let address = visitor.address;
    let owner_id = in_task("signing in by a proxy", async move {
        let mut tx = pool.begin().await?;
        let email = name.contains('@').then_some(name.as_str()).filter(|email| fault_of_email(email).is_none());
        // Addresses are unique and set by admins; names come after them.
        let mut found = match email {
            Some(email) => store::find_by_email(&mut tx, email).await?,
            None => None,
        };
        if found.is_none() {
            found = store::find_by_name(&mut tx, &name).await?;
        }
        if let Some((owner_id, _)) = found {
            return Ok(owner_id);
        }
        let role =
            role.ok_or_else(|| Error::refuse(Code::Forbidden, "There is no account for you here. Ask an admin."))?;
        let owner_id = oidc::create_account(&mut tx, &name, email, role).await?;
        let by = second_stage::caller(owner_id, name, address);
        let detail = format!("{}, named by the proxy", role.as_str());
        log::record(&mut tx, &deed(&by, "user.create", owner_id, None, Some(detail))).await?;
        crate::store::commit(tx).await?;
        Ok(owner_id)
    })
    .await?;
    let first = First {
        owner_id,
        method: Method::Proxy { user: user.to_owned() },
        mfa: settings.auth_header_mfa,
        age_seconds: 0,
    };
    second_stage::begin(app, first, &Second::default(), visitor).await
}
