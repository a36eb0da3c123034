//! Reason for an action, as a query parameter or in the body.
//!
//! It is separate from the other extractors because it reads two places: a client that cannot send a body with `DELETE`
//! uses the parameter. The use case decides if a reason is required, because it knows the owner of the object.

use axum::extract::{FromRequest, FromRequestParts as _, Request};
use domain::{
    Problem,
    identity::audit::{LONGEST_REASON, ReasonBody},
    limits::is_text,
};
use serde::Deserialize;
use utoipa::IntoParams;

use super::{JsonOrDefault, Query};
use crate::{
    App,
    http::error::{Error, Result},
};

/// Query parameter `reason` of an operation whose body is a [`ReasonBody`], for the API document.
#[derive(Clone, Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct ReasonParameter {
    /// Reason, required for another owner's object; a reason in the body takes precedence
    reason: Option<String>,
}

/// Reason from the body of a request, or else from its query. 400 if the parameter is too long, 422 if the body's
/// reason is, even if the other one is used or nothing is left to do.
#[derive(Clone, Debug)]
pub struct Reason(pub Option<String>);

impl FromRequest<App> for Reason {
    type Rejection = Error;

    async fn from_request(request: Request, app: &App) -> Result<Self> {
        let (mut parts, body) = request.into_parts();
        let Query(parameter) = Query::<ReasonParameter>::from_request_parts(&mut parts, app).await?;
        let request = Request::from_parts(parts, body);
        let JsonOrDefault(body) = JsonOrDefault::<ReasonBody>::from_request(request, app).await?;
        let is_wrong = |reason: &String| !is_text(reason, 0, LONGEST_REASON);
        let expected = format!("expected at most {LONGEST_REASON} characters");
        if parameter.reason.as_ref().is_some_and(is_wrong) {
            return Err(Problem::parameter("reason", &expected).into());
        }
        if body.reason.as_ref().is_some_and(is_wrong) {
            return Err(Problem::invalid_body([("/reason".to_owned(), expected)]).into());
        }
        Ok(Self(body.reason.or(parameter.reason)))
    }
}
