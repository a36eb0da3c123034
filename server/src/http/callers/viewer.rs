//! Viewer of one tree: a caller, or a browser with a share link.
//!
//! Only the three routes that a shared page needs accept a [`Viewer`]: the live stream and the two downloads. All other
//! routes ignore the share cookie. A share grants the owner's read access to its root tree only.

use axum::{
    extract::FromRequestParts,
    http::{HeaderMap, header, request::Parts},
};
use domain::{Code, Problem};
use uuid::Uuid;

use crate::{App, audit, auth::ClientAddress, http::admission::Admission};
use engine::{
    access::caller::{Caller, Scope},
    error::{Error, Result},
    secrets::hash_of,
    tree::share_links::SharedTree,
};

/// Caller, or browser with a share link.
#[derive(Clone, Debug)]
pub struct Viewer {
    caller: Option<Caller>,
    share: Option<SharedTree>,
    address: ClientAddress,
}

impl FromRequestParts<App> for Viewer {
    type Rejection = crate::http::error::Error;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, Self::Rejection> {
        let share = share_of(&parts.headers, app).await?;
        let Ok(address) = ClientAddress::from_request_parts(parts, app).await;
        match Caller::from_request_parts(parts, app).await {
            Ok(caller) => {
                caller.require(Scope::JobsRead)?;
                Ok(Self { caller: Some(caller), share, address })
            }
            Err(crate::http::error::Error(Error::Problem(problem)))
                if problem.code == Code::Unauthenticated
                    && let Some(share) = share =>
            {
                if let Some(admission) = parts.extensions.get::<Admission>() {
                    admission.admit_share(share.id)?;
                }
                Ok(Self { caller: None, share: Some(share), address })
            }
            Err(error) => Err(error),
        }
    }
}

impl Viewer {
    async fn of_share(&self, app: &App, share: SharedTree) -> Result<Caller> {
        record_share_use(app, share, self.address).await?;
        Ok(Caller { address: self.address.0, ..share.caller() })
    }

    /// Returns the caller to view a job as, and true if it is only shared. A signed-in person who may see it uses their
    /// own rights.
    pub async fn caller_for(&self, app: &App, id: Uuid) -> Result<(Caller, bool)> {
        let share = self.share.filter(|share| share.root_id == id);
        match (&self.caller, share) {
            (Some(caller), None) => Ok((caller.clone(), false)),
            (Some(caller), Some(share)) => match app.engine.job(caller, id, false).await {
                Err(Error::Problem(problem)) if problem.code == Code::NotFound => {
                    Ok((self.of_share(app, share).await?, true))
                }
                Err(error) => Err(error),
                Ok(_) => Ok((caller.clone(), false)),
            },
            (None, Some(share)) => Ok((self.of_share(app, share).await?, true)),
            (None, None) => Err(Problem::not_found("job").into()),
        }
    }
}

/// Audits the use of a link from this address, once a day.
pub async fn record_share_use(app: &App, share: SharedTree, ClientAddress(address): ClientAddress) -> Result<()> {
    audit::record_share_use(app, share.id, share.root_id, share.owner_id, address).await
}

/// Secret of the request's share cookie, if any. A request with a token ignores the cookie.
pub(super) fn share_secret<'a>(headers: &'a HeaderMap, app: &App) -> Option<&'a str> {
    if headers.contains_key(header::AUTHORIZATION) { None } else { app.auth.cookie().read_share(headers) }
}

/// Reads the tree of the request's share cookie, if any.
pub(super) async fn share_of(headers: &HeaderMap, app: &App) -> Result<Option<SharedTree>> {
    let Some(secret) = share_secret(headers, app) else { return Ok(None) };
    match app.engine.shared_tree(secret).await {
        Ok(share) => {
            app.auth.note_share(hash_of(secret));
            Ok(Some(share))
        }
        Err(Error::Problem(_)) => {
            app.auth.forget(&hash_of(secret));
            Ok(None)
        }
        Err(error) => Err(error),
    }
}
