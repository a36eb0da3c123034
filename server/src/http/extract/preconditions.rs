//! Conditions of a request (RFC 9110): the version in `If-Match`, the tags in `If-None-Match`, and `*` in either.
//!
//! The version is compared under the lock of the row: of jobs and items in `engine/src/operator/patch.rs`.

use std::convert::Infallible;

use axum::{
    extract::FromRequestParts,
    http::{HeaderMap, HeaderName, header, request::Parts},
};
use domain::Problem;

use crate::{
    App,
    http::error::{Error, Result},
};

/// Version that no object has. A tag that is no number is a valid tag of nothing here, so that its condition fails.
const NO_VERSION: i64 = -1;

/// Version that an `If-Match` header requires; `None` without the header.
#[derive(Clone, Copy, Debug)]
pub struct IfMatch(pub Option<i64>);

impl FromRequestParts<App> for IfMatch {
    type Rejection = Error;

    async fn from_request_parts(parts: &mut Parts, _: &App) -> Result<Self> {
        let Some(value) = parts.headers.get(header::IF_MATCH) else { return Ok(Self(None)) };
        let text = value.to_str().unwrap_or_default().trim();
        if text == "*" {
            return Ok(Self(None));
        }
        let tag = text.trim_start_matches("W/");
        match tag.trim_matches('"').parse() {
            Ok(version) => Ok(Self(Some(version))),
            Err(_) if tag.len() > 1 && tag.starts_with('"') && tag.ends_with('"') => Ok(Self(Some(NO_VERSION))),
            Err(_) => Err(Problem::parameter("If-Match", "expected a version, such as \"7\"").into()),
        }
    }
}

/// True if the object must exist (`If-Match: *`), false if it must not (`If-None-Match: *`).
#[derive(Clone, Copy, Debug)]
pub struct Existence(pub Option<bool>);

impl FromRequestParts<App> for Existence {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &App) -> std::result::Result<Self, Infallible> {
        let is_any = |name: HeaderName| parts.headers.get(name).is_some_and(|tags| tags == "*");
        Ok(Self(if is_any(header::IF_NONE_MATCH) { Some(false) } else { is_any(header::IF_MATCH).then_some(true) }))
    }
}

/// Returns true if `If-None-Match` has a version among its tags. A proxy may have changed them.
pub fn names_a_version(headers: &HeaderMap) -> bool {
    tags(headers).any(|tag| bare(tag).parse::<i64>().is_ok())
}

/// Returns true if `If-None-Match` has this tag among its tags, weak or strong, or is `*`.
pub fn is_known(headers: &HeaderMap, tag: &str) -> bool {
    tags(headers).any(|known| known == "*" || bare(known) == bare(tag))
}

/// Tags of `If-None-Match`.
fn tags(headers: &HeaderMap) -> impl Iterator<Item = &str> {
    let lists = headers.get_all(header::IF_NONE_MATCH).iter();
    lists.flat_map(|list| list.to_str().unwrap_or_default().split(',')).map(str::trim)
}

/// Content of a tag, weak or strong.
fn bare(tag: &str) -> &str {
    tag.trim_start_matches("W/").trim_matches('"')
}
