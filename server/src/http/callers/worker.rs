//! Callers that may process items: services with a token of scope `work`.
//!
//! The extractor precedes the body in a handler's arguments, so that a caller without the scope is refused before the
//! body is read. The engine checks the scope again, because it has callers other than HTTP.

use axum::{extract::FromRequestParts, http::request::Parts};

use crate::{
    App,
    http::error::{Error, Result},
};
use engine::access::caller::{Caller, Scope};

/// Caller with the scope `work`. All others get 403 `forbidden`.
#[derive(Clone, Debug)]
pub struct Worker(pub Caller);

impl FromRequestParts<App> for Worker {
    type Rejection = Error;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self> {
        let caller = Caller::from_request_parts(parts, app).await?;
        caller.require(Scope::Work)?;
        Ok(Self(caller))
    }
}
