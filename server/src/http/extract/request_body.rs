//! Reading of request bodies: limited in size and time, and counted against the memory that all bodies share.

use std::time::Duration;

use axum::{
    body::{Body, Bytes},
    extract::Request,
    http::header,
};
use domain::Code;
use futures::StreamExt as _;

use crate::{
    body_memory::{BodyShare, SMALL_BODY},
    config::http::HttpSettings,
    http::{
        callers::KnownCaller,
        error::{Error, Result},
    },
};

/// Timeout for receiving a body, stored in the extensions of a request.
#[derive(Clone, Copy, Debug)]
pub struct BodyTimeout(pub Duration);

impl Default for BodyTimeout {
    fn default() -> Self {
        Self(HttpSettings::default().body_timeout())
    }
}

/// Timeout for the small body of a request without a known caller.
const ANONYMOUS_BODY_TIMEOUT: Duration = Duration::from_secs(30);

/// Sets the number of bytes that a request's body occupies in memory, replacing the previous value. 503 `busy` if all
/// requests together occupy too much.
pub fn hold(request: &axum::http::Extensions, bytes: usize) -> Result<()> {
    let is_known = request.get::<KnownCaller>().is_some();
    if let Some(share) = request.get::<BodyShare>() {
        share.hold(bytes, is_known)?;
    }
    Ok(())
}

/// Reads the whole body, up to the limit in bytes. 413 beyond it.
///
/// A request without a known caller gets at most [`SMALL_BODY`]. The caller is extracted before the body, and marked in
/// the request's extensions.
pub async fn body(request: Request, limit: usize) -> Result<Bytes> {
    let is_known = request.extensions().get::<KnownCaller>().is_some();
    let limit = if is_known { limit } else { limit.min(SMALL_BODY) };
    let share = request.extensions().get::<BodyShare>().cloned();
    let announced = request
        .headers()
        .get(header::CONTENT_LENGTH)
        .and_then(|value| value.to_str().ok())
        .and_then(|text| text.parse::<u64>().ok());
    let timeout = request.extensions().get::<BodyTimeout>().copied().unwrap_or_default();
    let timeout = if is_known { timeout.0 } else { timeout.0.min(ANONYMOUS_BODY_TIMEOUT) };
    let mut chunks = request.into_body().into_data_stream();
    let mut whole = Vec::with_capacity(announced.map_or(0, |n| usize::try_from(n).unwrap_or(limit)).min(limit));
    let mut too_large = announced.is_some_and(|n| n > limit as u64);
    let arriving = async {
        while !too_large && let Some(chunk) = chunks.next().await {
            let chunk = chunk.map_err(|_| Error::refuse(Code::InvalidJson, "The body broke off."))?;
            too_large = whole.len() + chunk.len() > limit;
            if !too_large {
                if let Some(share) = &share {
                    share.hold(whole.len() + chunk.len(), is_known)?;
                }
                whole.extend_from_slice(&chunk);
            }
        }
        Ok::<_, Error>(())
    };
    let arrived = tokio::time::timeout(timeout, arriving)
        .await
        .map_err(|_| Error::refuse(Code::InvalidJson, "The body took too long to arrive."))?;
    arrived?;
    if too_large {
        return Err(Error::refuse(Code::TooLarge, format!("The body may have at most {limit} bytes.")));
    }
    Ok(whole.into())
}

/// Body as a stream, for handlers that read it chunk by chunk.
pub fn chunks(body: Body) -> axum::body::BodyDataStream {
    body.into_data_stream()
}
