//! Viewer of one tree: a caller, or a browser with a share link.
//!
//! Only the three routes that a shared page needs accept a [`Viewer`]: the live stream and the two downloads. All other
//! routes ignore the share cookie. A share grants the owner's read access to its root tree only.

use axum::{
    extract::FromRequestParts,
    http::{HeaderMap, header, request::Parts},
};
use domain::{Code, Problem, job::OwnerKind};
use uuid::Uuid;

use crate::{App, audit, auth::ClientAddress};
use engine::{
    access::caller::{Caller, Scope},
    error::{Error, Result},
    secrets::hash_of,
    store::operator::shares,
};

/// Tree that is visible through a share link.
#[derive(Clone, Copy, Debug)]
pub struct SharedTree {
    pub id: Uuid,
    pub root_id: Uuid,
    owner_id: Uuid,
}

impl SharedTree {
    /// Finds the tree of a link's secret. 404 if there is no such link, 410 if it was revoked, has expired, or its
    /// owner or creator is disabled. The existence of the tree itself is not checked.
    pub async fn find(app: &App, secret: &str) -> Result<Self> {
        let found = shares::find_by_hash(&app.pool, &hash_of(secret)).await?;
        let share = found.ok_or_else(|| Problem::not_found("link"))?;
        if share.revoked {
            return Err(Error::refuse(Code::LinkUsed, "Whoever shared this has taken the link back."));
        }
        if share.expired {
            return Err(Error::refuse(Code::LinkUsed, "This link has expired."));
        }
        if share.disabled {
            return Err(Error::refuse(Code::LinkUsed, "The account of whoever shared this was closed."));
        }
        if !share.seen_lately {
            let pool = app.pool.clone();
            app.tasks.spawn(async move {
                if let Err(error) = shares::touch(&pool, share.id).await {
                    tracing::debug!(%error, "recording a share link's last use failed");
                }
            });
        }
        Ok(Self { id: share.id, root_id: share.root_id, owner_id: share.owner_id })
    }

    /// Audits the use of the link from this address, once a day.
    pub async fn record_use(&self, app: &App, ClientAddress(address): ClientAddress) -> Result<()> {
        audit::record_share_use(app, self.id, self.root_id, self.owner_id, address).await
    }

    /// Caller with the owner's view. Its user must restrict the request to `root_id`.
    pub fn caller(&self) -> Caller {
        Caller {
            owner_id: self.owner_id,
            kind: OwnerKind::User,
            name: "a share".to_owned(),
            role: None,
            scopes: vec![Scope::JobsRead],
            credential_id: self.id,
            work_types: None,
            must_change_password: false,
            enrolls: false,
            proxy_user: None,
            address: None,
        }
    }
}

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
            Ok(caller) => Ok(Self { caller: Some(caller), share, address }),
            Err(crate::http::error::Error(Error::Problem(problem)))
                if share.is_some() && problem.code == Code::Unauthenticated =>
            {
                Ok(Self { caller: None, share, address })
            }
            Err(error) => Err(error),
        }
    }
}

impl Viewer {
    async fn of_share(&self, app: &App, share: SharedTree) -> Result<Caller> {
        share.record_use(app, self.address).await?;
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

/// Reads the tree of the request's share cookie, if any. A request with a token ignores the cookie.
async fn share_of(headers: &HeaderMap, app: &App) -> Result<Option<SharedTree>> {
    if headers.contains_key(header::AUTHORIZATION) {
        return Ok(None);
    }
    let Some(secret) = app.auth.cookie().read_share(headers) else { return Ok(None) };
    match SharedTree::find(app, secret).await {
        Ok(share) => Ok(Some(share)),
        Err(Error::Problem(_)) => Ok(None),
        Err(error) => Err(error),
    }
}
