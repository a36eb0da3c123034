//! Counters of a request, from its first byte to the beginning of its response.
//!
//! [`identify`](super::layers::identify) creates them for every request. The caller is known once a handler extracts
//! it; from then on the request counts toward that caller. Requests of workers count toward nobody, and those
//! with a share link toward the link. A refused request under `/api` whose caller never becomes known counts toward its
//! client address.

use std::{
    net::IpAddr,
    sync::{Arc, Mutex, PoisonError},
};

use axum::{
    http::{HeaderMap, HeaderName, HeaderValue, StatusCode, Uri},
    response::Response,
};
use domain::Problem;
use uuid::Uuid;

use engine::{
    access::caller::{Caller, Scope},
    quotas::{CountedRequest, Kind, Quotas, RateStatus},
};

use super::error::problem_response;

const RATE_LIMIT: HeaderName = HeaderName::from_static("ratelimit");
const RATE_LIMIT_POLICY: HeaderName = HeaderName::from_static("ratelimit-policy");

/// Path of the requests of workers: those with the scope `work`.
const OF_WORKERS: &str = "/api/v1/assignments";

/// Request in progress, stored in its extensions.
#[derive(Clone, Debug)]
pub struct Admission(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    quotas: Quotas,
    address: Option<IpAddr>,
    is_of_worker: bool,
    is_api: bool,
    kind: Kind,
    counted: Mutex<Option<Counted>>,
}

/// Request that counted toward a caller, or exceeded one of the caller's limits.
#[derive(Debug)]
struct Counted {
    request: Option<CountedRequest>,
    rate: Option<RateStatus>,
}

impl Admission {
    /// Begins a request.
    pub fn begin(quotas: &Quotas, address: Option<IpAddr>, uri: &Uri) -> Self {
        Self(Arc::new(Inner {
            quotas: quotas.clone(),
            address,
            is_of_worker: uri.path().starts_with(OF_WORKERS),
            is_api: uri.path().starts_with("/api/"),
            kind: if searches(uri.query()) { Kind::Search } else { Kind::Other },
            counted: Mutex::default(),
        }))
    }

    /// Fails if too many recent requests of the address were refused. Many callers may share an address, so this is only
    /// for requests without a valid credential.
    pub fn check_address(&self) -> Result<(), RateStatus> {
        self.0.address.filter(|_| self.0.is_api).map_or(Ok(()), |address| self.0.quotas.check_address(address))
    }

    /// Counts the request toward a caller, once. Fails with 429 over the limits.
    pub fn admit(&self, caller: &Caller) -> Result<(), Problem> {
        if self.0.is_of_worker && caller.scopes.contains(&Scope::Work) {
            return Ok(());
        }
        self.count(caller.owner_id, caller.credential_id)
    }

    /// Counts the request toward a share link, whose holders have no part of the owner's limits.
    pub fn admit_share(&self, share_id: Uuid) -> Result<(), Problem> {
        self.count(share_id, share_id)
    }

    fn count(&self, owner_id: Uuid, credential_id: Uuid) -> Result<(), Problem> {
        let mut counted = self.0.counted.lock().unwrap_or_else(PoisonError::into_inner);
        if counted.as_ref().is_some_and(|counted| counted.request.is_some()) {
            return Ok(());
        }
        match self.0.quotas.begin(owner_id, credential_id, self.0.kind) {
            Ok((request, rate)) => *counted = Some(Counted { request: Some(request), rate: Some(rate) }),
            Err(refused) => {
                *counted = Some(Counted { request: None, rate: refused.rate });
                return Err(*refused.problem);
            }
        }
        Ok(())
    }

    /// Ends the count when the response begins, and adds the headers of the caller's or the address's limit.
    pub fn end(&self, status: StatusCode, headers: &mut HeaderMap) {
        let counted = self.0.counted.lock().unwrap_or_else(PoisonError::into_inner).take();
        if !self.0.is_api {
            return;
        }
        let rate = match (counted, self.0.address) {
            (Some(counted), _) => counted.rate,
            (None, Some(address)) if status == StatusCode::UNAUTHORIZED => Some(self.0.quotas.refused(address)),
            (None, _) => None,
        };
        if let Some(rate) = rate {
            add_headers(&rate, headers);
        }
    }
}

/// 429 of a request that exceeds a limit, with its headers.
pub fn too_many(rate: &RateStatus) -> Response {
    let mut response = problem_response(&rate.refusal());
    add_headers(rate, response.headers_mut());
    response
}

fn add_headers(rate: &RateStatus, headers: &mut HeaderMap) {
    for (name, value) in [(RATE_LIMIT_POLICY, rate.policy()), (RATE_LIMIT, rate.status())] {
        if let Ok(value) = HeaderValue::try_from(value) {
            headers.insert(name, value);
        }
    }
}

/// Returns true if the query searches a list for text.
fn searches(query: Option<&str>) -> bool {
    // Decoded, as the list reads it: the name can also be written in percent-encoded form, such as `%71`.
    query.is_some_and(|query| {
        form_urlencoded::parse(query.as_bytes()).any(|(name, text)| name == "q" && !text.is_empty())
    })
}

#[cfg(test)]
mod tests {
    use super::searches;

    #[test]
    fn a_search_has_a_text() {
        for (query, is_search) in
            [("q=a", true), ("job=1&q=a", true), ("%71=a", true), ("q=", false), ("sq=a", false), ("", false)]
        {
            assert_eq!(searches(Some(query)), is_search, "{query}");
        }
    }
}
