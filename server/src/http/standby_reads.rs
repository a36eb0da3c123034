//! Layer of requests that may read from a standby (`TREELINE_READ_URL`): GET and HEAD, which decide nothing.
//!
//! The engine chooses the standby or the primary with the first read of a request. A response that the standby cannot
//! vouch for is not sent: the request runs again, on the primary. The layer is inside that of the audit, so a repeated
//! request is recorded once. Event streams read for all watchers and are outside.

use std::{sync::Arc, time::Duration};

use axum::{
    body::Body,
    extract::{Request, State},
    http::{Method, StatusCode},
    middleware::Next,
    response::Response,
};
use engine::{read_source::ReadSource, store::Standby};

use crate::App;

/// Time after which a request that reads from the standby is stuck: statements are canceled earlier, if the standby
/// can still do so.
const LONGEST_READ: Duration = Duration::from_secs(15);

/// Statuses that may be due to a row that was created or deleted after the standby was asked.
const DOUBTFUL: [StatusCode; 3] = [StatusCode::NOT_FOUND, StatusCode::GONE, StatusCode::INTERNAL_SERVER_ERROR];

/// Runs a request, and again on the primary if the standby fails.
pub(super) async fn read(State(app): State<App>, request: Request, next: Next) -> Response {
    let Some(standby) = app.pools.standby.as_ref().filter(|_| is_read(&request)) else {
        return next.run(request).await;
    };
    let (parts, body) = request.into_parts();
    let again = Request::from_parts(parts.clone(), Body::empty());
    let source = Arc::new(ReadSource::default());
    let running = source.scope(next.clone().run(Request::from_parts(parts, body)));
    let response = tokio::select! {
        response = running => Some(response),
        () = stuck(&source, standby) => None,
    };
    let is_doubtful = response.as_ref().is_some_and(|response| DOUBTFUL.contains(&response.status()));
    let must_repeat = standby.must_repeat(&source, is_doubtful);
    match response {
        Some(response) if !must_repeat => response,
        _ => next.run(again).await,
    }
}

fn is_read(request: &Request) -> bool {
    matches!(*request.method(), Method::GET | Method::HEAD)
}

/// Resolves when a request has waited for the standby for too long.
async fn stuck(source: &ReadSource, standby: &Standby) {
    loop {
        tokio::time::sleep(LONGEST_READ).await;
        if source.is_standby() && !source.is_on_primary() {
            return standby.give_up(source);
        }
    }
}
