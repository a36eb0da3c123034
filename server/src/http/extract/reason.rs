//! The reason for an action, as a parameter of the query or in the body.
//!
//! Apart from the other extractors, as it reads two places: a client that cannot send a body with `DELETE` uses the
//! parameter. Whether a reason is required is decided by the use case, which knows whose work it is.

use axum::extract::{FromRequest, FromRequestParts as _, Request};
use domain::{
    Problem,
    audit::{LONGEST_REASON, ReasonBody},
    limits::is_text,
};
use serde::Deserialize;
use utoipa::IntoParams;

use super::{JsonOrDefault, Query};
use crate::{
    App,
    error::{Error, Result},
};

/// The parameter `reason` of an operation whose body is a [`ReasonBody`], for the API document.
#[derive(Clone, Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct ReasonParameter {
    /// Required on somebody else's work; the body's wins
    reason: Option<String>,
}

/// The reason in the body of a request, else the one in its query. 400 where the parameter is too long, 422 where the
/// body's is, whether or not it is the one that counts and whether or not there is anything left to do.
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
