//! Refusal of query parameters of reads that have none; other operations refuse those that they do not know themselves.

use std::{collections::HashSet, sync::LazyLock};

use axum::{
    extract::{MatchedPath, Request},
    http::Method,
    middleware::Next,
    response::{IntoResponse as _, Response},
};
use domain::Problem;
use utoipa::openapi::{
    RefOr,
    path::{Operation, Parameter, ParameterIn},
};

use crate::http::error::Error;

/// Path of each read of the API without query parameters.
static WITHOUT_PARAMETERS: LazyLock<HashSet<String>> = LazyLock::new(|| {
    let paths = super::described().2.paths.paths.into_iter();
    let reads = paths.filter_map(|(path, item)| Some((path, item.get?)));
    reads.filter(|(path, read)| path.starts_with("/api/") && has_none(read)).map(|(path, _)| path).collect()
});

fn has_none(operation: &Operation) -> bool {
    let is_query = |parameter: &RefOr<Parameter>| match parameter {
        RefOr::T(parameter) => parameter.parameter_in == ParameterIn::Query,
        RefOr::Ref(_) => true,
    };
    !operation.parameters.iter().flatten().any(is_query)
}

/// 400 `invalid_parameter` for a parameter of a read that has none. Rights come first: only what would be answered is
/// refused.
pub(super) async fn refuse(request: Request, next: Next) -> Response {
    let unknown = unknown_parameter(&request);
    let response = next.run(request).await;
    match unknown {
        Some(name) if response.status().is_success() => {
            Error::from(Problem::parameter(&name, "expected no parameters")).into_response()
        }
        _ => response,
    }
}

fn unknown_parameter(request: &Request) -> Option<String> {
    let query = request.uri().query().filter(|query| !query.is_empty())?;
    let is_read = matches!(*request.method(), Method::GET | Method::HEAD);
    let path = request.extensions().get::<MatchedPath>().filter(|_| is_read)?;
    WITHOUT_PARAMETERS.contains(path.as_str()).then_some(())?;
    form_urlencoded::parse(query.as_bytes()).next().map(|(name, _)| name.replace('\0', "\u{fffd}"))
}
