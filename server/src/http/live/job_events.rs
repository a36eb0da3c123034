//! `GET /jobs/{id}/events`: a job with its subtree, live.
//!
//! First `snapshot`, then `change`. All state is absolute and a reconnect begins with a snapshot, so `id:` is not used.
//! The stream has no queue: when it can send, it sends the newest state. Beyond the limit a stream gets the event
//! `busy` with status 200, because an EventSource never retries after any other status.

use std::{convert::Infallible, net::SocketAddr, sync::Arc, time::Duration};

use axum::{
    extract::{ConnectInfo, FromRequestParts as _, State},
    http::{HeaderName, HeaderValue, Request, header, request::Parts},
    response::{
        IntoResponse, Response, Sse,
        sse::{Event, KeepAlive},
    },
};
use domain::{
    Job,
    tree::{
        change::{Change, event},
        share::redact_for_share,
    },
};
use futures::Stream;
use tokio::time::Instant;
use uuid::Uuid;

use crate::{
    App,
    auth::{ClientAddress, Ongoing},
    http::{
        callers::Viewer,
        error::{Error, Result},
    },
    live::{Latest, OpenStream, TreeState, Watch},
};
use engine::{access::caller::Scope, quotas};

use crate::http::extract::Path;

/// Maximum number of open streams per server; clients beyond it are told to reconnect later.
pub(crate) const STREAMS: usize = 10_000;
/// Interval at which the right to read this job is checked again. The credential is watched all the time.
pub(crate) const RECHECK: Duration = Duration::from_secs(30);

/// Watch a job
///
/// Server-sent events: `snapshot` first, then `change` with the changed jobs and the running items. All state is
/// absolute. A reconnect begins with a snapshot. `busy`, `bye` and `removed` end the stream.
#[utoipa::path(
    get, path = "/jobs/{id}/events", tag = "watch",
    params(("id" = Uuid, Path, description = "The job; its whole subtree is in the stream")),
    security(("token" = []), ("session" = []), ("share" = [])),
    responses(
        (status = 200, content_type = "text/event-stream",
         description = "Events, each of this shape: `snapshot` first, then `change` whenever something did, at most four a second",
         body = domain::tree::change::JobEvent),
        (status = 404, description = "No such job, or not the caller's", body = domain::Problem, content_type = "application/problem+json"),
        (status = 401, description = "Not signed in", body = domain::Problem, content_type = "application/problem+json"),
    )
)]
pub(crate) async fn watch_job(
    State(app): State<App>,
    viewer: Viewer,
    Path(id): Path<Uuid>,
    parts: Parts,
) -> Result<Response> {
    let (caller, is_shared) = viewer.caller_for(&app, id).await?;
    caller.require(Scope::JobsRead)?;
    let counted = app.quotas.stream(caller.owner_id, caller.kind)?;
    let Some(open) = app.hub.open_stream(STREAMS) else {
        return Ok(stream_response(futures::stream::iter([Ok(busy())])));
    };
    // The permission is checked before anything is watched.
    let job = app.engine.job(&caller, id, false).await?;
    let watch = app.hub.watch(&app.engine, job.root_id);
    let ongoing = Ongoing::of(&app, &caller);
    let parts = credentials(&app, &parts);
    let reader = Reader {
        app,
        parts,
        id,
        watch,
        not_before: job.version,
        last: None,
        in_flight: None,
        is_shared,
        ongoing,
        recheck_at: Instant::now() + RECHECK,
        ended: false,
        _open: (open, counted),
    };
    Ok(stream_response(futures::stream::unfold(reader, Reader::next)))
}

/// Event for a client beyond the limit of open streams.
pub(crate) fn busy() -> Event {
    Event::default().event(event::BUSY).data("{}").retry(retry_after(5_000, 30_000))
}

/// Event before the server stops.
pub(crate) fn bye() -> Event {
    Event::default().event(event::BYE).data("{}").retry(retry_after(1_000, 8_000))
}

pub(crate) fn stream_response(events: impl Stream<Item = Result<Event, Infallible>> + Send + 'static) -> Response {
    let keep_alive = KeepAlive::new().interval(Duration::from_secs(15));
    let mut response = Sse::new(events).keep_alive(keep_alive).into_response();
    let headers = response.headers_mut();
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store, no-transform"));
    headers.insert(HeaderName::from_static("x-accel-buffering"), HeaderValue::from_static("no"));
    response
}

/// Random delay in milliseconds, so that clients disconnected together do not reconnect together.
fn retry_after(least: u64, most: u64) -> Duration {
    Duration::from_millis(rand::random_range(least..=most))
}

/// Copies the parts of a request that identify the caller, and nothing else: a stream stays open for hours, and any
/// part of a request keeps the whole buffer read from its connection. A proxy's user is identified by header and peer.
pub(crate) fn credentials(app: &App, parts: &Parts) -> Parts {
    let (mut copy, ()) = Request::new(()).into_parts();
    let names = [header::AUTHORIZATION, header::COOKIE].into_iter().chain(app.config.identity.auth_header.clone());
    for name in names {
        for value in parts.headers.get_all(&name) {
            let Ok(value_copy) = HeaderValue::from_bytes(value.as_bytes()) else { continue };
            copy.headers.append(name.clone(), value_copy);
        }
    }
    if let Some(peer) = parts.extensions.get::<ConnectInfo<SocketAddr>>() {
        copy.extensions.insert(*peer);
    }
    if let Some(client) = parts.extensions.get::<ClientAddress>() {
        copy.extensions.insert(*client);
    }
    copy
}

/// State of one open stream.
struct Reader {
    app: App,
    /// Credentials, to check again whether the caller may see the job.
    parts: Parts,
    id: Uuid,
    watch: Watch,
    /// Version of the job when the stream was opened: the snapshot is not older.
    not_before: i64,
    /// Last state sent to this reader.
    last: Option<Arc<TreeState>>,
    /// Event sent right after the snapshot: the running items, which the snapshot does not contain.
    in_flight: Option<Event>,
    /// True if the reader sees only what a share link shows.
    is_shared: bool,
    /// Credential under which the stream is open: the caller's, or the link's.
    ongoing: Ongoing,
    recheck_at: Instant,
    ended: bool,
    _open: (OpenStream, quotas::OpenStream),
}

impl Reader {
    async fn next(mut self) -> Option<(Result<Event, Infallible>, Self)> {
        if self.ended {
            return None;
        }
        if let Some(event) = self.in_flight.take() {
            return Some((Ok(event), self));
        }
        loop {
            if Instant::now() >= self.recheck_at {
                // Boxed, because it is rare and larger than everything else.
                if !Box::pin(self.is_still_allowed()).await {
                    return None;
                }
                self.recheck_at = Instant::now() + RECHECK;
            }
            match self.watch.latest() {
                Latest::Is(state) => {
                    if let Some(event) = self.event(state) {
                        return Some((Ok(event), self));
                    }
                }
                Latest::Removed => {
                    self.ended = true;
                    return Some((Ok(Event::default().event(event::REMOVED).data("{}")), self));
                }
                Latest::Unread => {}
            }
            let shutdown = self.app.shutdown.clone();
            tokio::select! {
                () = self.watch.changed() => {}
                () = tokio::time::sleep_until(self.recheck_at) => {}
                _ = Box::pin(self.ongoing.ended()) => return None,
                () = shutdown.cancelled() => {
                    self.ended = true;
                    return Some((Ok(bye()), self));
                }
            }
        }
    }

    /// Event that brings this reader to the new state; `None` if nothing of its job changed.
    fn event(&mut self, state: Arc<TreeState>) -> Option<Event> {
        let event = match &self.last {
            None => {
                let job: &Job = state.job(self.id).filter(|job| job.version >= self.not_before)?;
                let json = if self.is_shared {
                    serde_json::to_string(&redact_for_share(job.clone()))
                } else {
                    serde_json::to_string(job)
                };
                let json = json.ok()?;
                let flights = state.items_below(self.id);
                if !self.is_shared && !flights.items.is_empty() {
                    let json = serde_json::to_string(&flights).ok()?;
                    let id = state.version().to_string();
                    self.in_flight = Some(Event::default().event(event::CHANGE).data(json).id(id));
                }
                Some(Event::default().event(event::SNAPSHOT).data(json))
            }
            Some(last) if Arc::ptr_eq(last, &state) => None,
            Some(last) => {
                let json = state.change_since(last, self.id)?;
                let json = if self.is_shared { as_shared(&json)? } else { json };
                Some(Event::default().event(event::CHANGE).data(json))
            }
        };
        let event = event.map(|event| event.id(state.version().to_string()));
        self.last = Some(state);
        event
    }

    /// Returns true if the caller still exists and may still see the job. An unavailable database does not end the
    /// stream.
    async fn is_still_allowed(&mut self) -> bool {
        let looks = async {
            let viewer = Viewer::from_request_parts(&mut self.parts, &self.app).await?;
            let (caller, is_shared) = viewer.caller_for(&self.app, self.id).await?;
            let job = self.app.engine.job(&caller, self.id, false).await?;
            Ok::<_, Error>((job, is_shared))
        };
        match looks.await {
            // A reader who loses the session and only has the link reconnects, and sees what the link shows.
            Ok((_, is_shared)) => is_shared == self.is_shared,
            Err(Error(engine::error::Error::Problem(problem))) => problem.status >= 500,
            Err(_) => true,
        }
    }
}

/// Change as a share link shows it: the jobs, without single items.
fn as_shared(json: &str) -> Option<String> {
    let change: Change = serde_json::from_str(json).ok()?;
    let change = Change { jobs: change.jobs.into_iter().map(redact_for_share).collect(), items: Vec::new() };
    serde_json::to_string(&change).ok()
}
