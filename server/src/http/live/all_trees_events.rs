//! `GET /events`: live summaries of all trees that the caller may see; with `topics`, the events of those topics
//! ([`super::topics`]).
//!
//! First `snapshot` with the newest trees, then `change` with all trees changed since, older ones too. All state is
//! absolute; after too many changes another `snapshot` is sent. Like the stream of one job it has no queue.

use std::convert::Infallible;

use axum::{
    extract::{FromRequestParts as _, State},
    http::request::Parts,
    response::{Response, sse::Event},
};
use domain::{Problem, query::topic::Topic, tree::change::event};
use serde::Deserialize;
use tokio::time::{Duration, Instant};
use utoipa::IntoParams;

use crate::{
    App,
    auth::Ongoing,
    http::error::{Error, Result},
    live::{Next, OpenStream, RootsWatch},
};
use engine::{
    access::caller::{Caller, Scope},
    quotas,
};

use super::{
    job_events::{RECHECK, STREAMS, busy, bye, credentials, stream_response},
    topics,
};
use crate::http::extract::Query;

/// Shortest time between two events.
const SHORTEST: Duration = Duration::from_millis(250);
/// Delay before a failed snapshot is read again.
const PAUSE: Duration = Duration::from_secs(1);

/// Query of the event stream.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct Events {
    /// Topics to watch, separated by commas: any of `roots`, `job:ID`, `item:ID`, `imports`, `failures`, `operations`,
    /// `workers`, `types`, `overview`, `deliveries`, at most 64. Each begins with its `snapshot`; all data has its
    /// `topic` and a `version`. Topics that the caller may not see get `forbidden`. Without it: the events of all trees
    topics: Option<String>,
}

/// Watch all trees or any set of topics
///
/// Server-sent events: `snapshot` first, then `change` with the changed trees, all state absolute. Callers see their
/// own trees, staff see all. A reconnect begins with a snapshot. `busy` and `bye` end the stream.
#[utoipa::path(
    get, path = "/events", tag = "watch", params(Events),
    responses(
        (status = 200, content_type = "text/event-stream",
         description = "Events, each of this shape: `snapshot` first, then `change` whenever a tree did, at most four a second",
         body = domain::tree::change::RootsEvent),
        (status = 400, description = "No such topic, or too many", body = domain::Problem, content_type = "application/problem+json"),
        (status = 401, description = "Not signed in", body = domain::Problem, content_type = "application/problem+json"),
    )
)]
pub(crate) async fn watch_roots(
    State(app): State<App>,
    caller: Caller,
    Query(query): Query<Events>,
    parts: Parts,
) -> Result<Response> {
    if let Some(list) = query.topics {
        let topics = Topic::parse_list(&list).map_err(|expected| Problem::parameter("topics", &expected))?;
        return topics::watch(app, caller, topics, &parts).await;
    }
    caller.require(Scope::JobsRead)?;
    let counted = app.quotas.stream(caller.owner_id, caller.kind)?;
    let Some(open) = app.hub.open_stream(STREAMS) else {
        return Ok(stream_response(futures::stream::iter([Ok(busy())])));
    };
    let mut watch = app.hub.watch_roots(&app.engine, caller.visible_owner());
    let json = watch.snapshot(&app.engine, &caller).await?;
    let first = Event::default().event(event::SNAPSHOT).data(json);
    let now = Instant::now();
    let (parts, ongoing) = (credentials(&app, &parts), Ongoing::of(&app, &caller));
    let reader = Reader {
        app,
        parts,
        caller,
        ongoing,
        watch,
        first: Some(first),
        sent_at: now,
        checked_at: now,
        ended: false,
        _open: (open, counted),
    };
    Ok(stream_response(futures::stream::unfold(reader, Reader::next)))
}

/// State of one open stream.
struct Reader {
    app: App,
    /// Credentials, to check the permission again.
    parts: Parts,
    caller: Caller,
    ongoing: Ongoing,
    watch: RootsWatch,
    first: Option<Event>,
    sent_at: Instant,
    checked_at: Instant,
    ended: bool,
    _open: (OpenStream, quotas::OpenStream),
}

impl Reader {
    async fn next(mut self) -> Option<(Result<Event, Infallible>, Self)> {
        if self.ended {
            return None;
        }
        if let Some(first) = self.first.take() {
            return Some((Ok(first), self));
        }
        tokio::time::sleep_until(self.sent_at + SHORTEST).await;
        let shutdown = self.app.shutdown.clone();
        loop {
            if self.checked_at.elapsed() >= RECHECK {
                if !Box::pin(self.is_still_allowed()).await {
                    return None;
                }
                self.checked_at = Instant::now();
            }
            let event = match self.watch.next_step() {
                Next::Change(json) => Some(Event::default().event(event::CHANGE).data(json)),
                Next::Restart => match Box::pin(self.watch.snapshot(&self.app.engine, &self.caller)).await {
                    Ok(json) => Some(Event::default().event(event::SNAPSHOT).data(json)),
                    Err(error) => {
                        tracing::debug!(%error, "reading watched trees failed, will retry");
                        tokio::time::sleep(PAUSE).await;
                        continue;
                    }
                },
                Next::Nothing => None,
            };
            if let Some(event) = event {
                self.sent_at = Instant::now();
                return Some((Ok(event), self));
            }
            tokio::select! {
                () = self.watch.changed() => {}
                _ = Box::pin(self.ongoing.ended()) => return None,
                () = tokio::time::sleep_until(self.checked_at + RECHECK) => {}
                () = shutdown.cancelled() => {
                    self.ended = true;
                    return Some((Ok(bye()), self));
                }
            }
        }
    }

    /// Returns true if the caller still exists and sees the same. An unavailable database does not end the stream.
    async fn is_still_allowed(&mut self) -> bool {
        match Caller::from_request_parts(&mut self.parts, &self.app).await {
            Ok(caller) => {
                let same = caller.visible_owner() == self.caller.visible_owner();
                same && caller.require(Scope::JobsRead).is_ok()
            }
            Err(Error(engine::error::Error::Problem(problem))) => problem.status >= 500,
            Err(_) => true,
        }
    }
}
