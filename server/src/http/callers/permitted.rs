//! Callers with the permission that a route requires. All others get 403 `forbidden`.
//!
//! In a handler's arguments these extractors precede the query and the body: a caller without the permission learns
//! nothing about either, and their body is not read. The use cases check permissions again, because they have callers
//! other than HTTP. Permissions that depend on the object, such as its owner, are decided only there.

use axum::{extract::FromRequestParts, http::request::Parts};
use domain::{Code, Problem};

use crate::{
    App,
    http::error::{Error, Result},
};
use engine::access::caller::{Caller, Scope};

macro_rules! permitted {
    ($($(#[$doc:meta])* $name:ident = $check:expr;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Debug)]
        pub struct $name(pub Caller);

        impl FromRequestParts<App> for $name {
            type Rejection = Error;

            async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self> {
                let caller = Caller::from_request_parts(parts, app).await?;
                let check: fn(&Caller) -> Result<(), Problem> = $check;
                check(&caller)?;
                Ok(Self(caller))
            }
        }
    )*};
}

permitted! {
    /// Caller that may read jobs.
    Reader = |caller| caller.require(Scope::JobsRead);
    /// Caller that may create and change jobs.
    Writer = |caller| caller.require(Scope::JobsWrite);
    /// Caller that may change the jobs that it finds by a filter, or share one.
    BulkWriter = |caller| caller.require(Scope::JobsWrite).and_then(|()| caller.require(Scope::JobsRead));
    /// Caller that may process items: a service with a token of scope `work`.
    Worker = |caller| caller.require(Scope::Work);
    /// Caller that may read jobs or process items.
    ReaderOrWorker = |caller| caller.require(Scope::JobsRead).or_else(|no| caller.require(Scope::Work).map_err(|_| no));
    /// Caller that sees the work of all owners.
    Staff = |caller| {
        let refused = "This needs the role support or admin, or the scope admin.";
        if caller.sees_all() { Ok(()) } else { Err(Problem::new(Code::Forbidden, refused)) }
    };
    /// Caller that may administer.
    Admin = |caller| caller.require(Scope::Admin);
    /// Person, not a service.
    Person = |caller| {
        let refused = "Only people have this, not the tokens of services.";
        if caller.role.is_some() { Ok(()) } else { Err(Problem::new(Code::Forbidden, refused)) }
    };
}
