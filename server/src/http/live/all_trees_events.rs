//! `GET /events`: live summaries of all trees that the caller may see; with `topics`, the events of those topics
//! ([`super::topics`]).
//!
//! First `snapshot` with the newest trees, then `change` with all trees changed since, older ones too. All state is
//! absolute; after too many changes another `snapshot` is sent.

use std::sync::Arc;

use axum::{
    extract::{FromRequestParts as _, State},
    http::request::Parts,
    response::{Response, sse::Event},
};
use domain::{Problem, query::topic::Topic, tree::change::event};
use futures::{
    Stream, StreamExt as _,
    future::{BoxFuture, FutureExt as _},
    stream,
};
use serde::Deserialize;
use tokio::time::{Duration, Instant};
use utoipa::IntoParams;

use super::{
    stream::{busy, credentials, open},
    topics,
};
use crate::{
    App,
    audit::Object,
    http::{callers::Reader, error::Result, extract::Query},
    live::{Next, RootsWatch},
};
use engine::access::caller::{Caller, Scope};

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
    /// `workers`, `types`, `overview`, `deliveries`, `schedules`, `notices`, at most 64. Each begins with its `snapshot`;
    /// all data has its `topic` and a `version`. Topics that the caller may not see get `forbidden`. Without it: the events of all trees
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
         description = "Events of this shape: `snapshot` first, then `change` after changes, at most 4 a second",
         body = domain::tree::change::RootsEvent),
        (status = 400, description = "Unknown topic, or too many topics",
         body = domain::Problem, content_type = "application/problem+json"),
        (status = 401, description = "Not signed in", body = domain::Problem, content_type = "application/problem+json"),
    )
)]
pub(crate) async fn watch_roots(
    State(app): State<App>,
    Reader(caller): Reader,
    Query(query): Query<Events>,
    parts: Parts,
) -> Result<Response> {
    if let Some(list) = query.topics {
        let topics = Topic::parse_list(&list).map_err(|expected| Problem::parameter("topics", &expected))?;
        return topics::watch(app, caller, topics, &parts).await;
    }
    let Some(stream) = open(&app, &caller)? else { return Ok(busy()) };
    topics::record_read(&app, &caller, "jobs.list", Object::List).await?;
    let mut updates = AllTreesUpdates::new(&app, &caller);
    let first = updates.snapshot().await?;
    let updates = stream::iter([(event::SNAPSHOT, first)]).chain(updates.stream());
    let events = updates.map(|(name, json)| Event::default().event(name).data(&*json));
    Ok(stream.send(topics::numbered(events), still_sees_the_same(&app, &caller, &parts)))
}

/// Check that a caller still exists and sees the same, which a stream asks again and again.
pub(super) fn still_sees_the_same(
    app: &App,
    caller: &Caller,
    parts: &Parts,
) -> impl Fn() -> BoxFuture<'static, Result<bool>> + Send + 'static {
    let (app, parts) = (app.clone(), credentials(app, parts));
    let (visible_owner, is_admin) = (caller.visible_owner(), caller.is_admin());
    move || {
        let (app, mut parts) = (app.clone(), parts.clone());
        async move {
            let now = Caller::from_request_parts(&mut parts, &app).await?;
            now.require(Scope::JobsRead)?;
            Ok(now.visible_owner() == visible_owner && now.is_admin() == is_admin)
        }
        .boxed()
    }
}

/// State of a stream of updates of all trees.
pub(super) struct AllTreesUpdates {
    app: App,
    caller: Caller,
    watch: RootsWatch,
    needs_snapshot: bool,
    sent_at: Option<Instant>,
}

impl AllTreesUpdates {
    pub(super) fn new(app: &App, caller: &Caller) -> Self {
        let watch = app.hub.watch_roots(&app.engine, caller.visible_owner());
        Self { app: app.clone(), caller: caller.clone(), watch, needs_snapshot: true, sent_at: None }
    }

    async fn snapshot(&mut self) -> engine::error::Result<Arc<str>> {
        let json = self.watch.snapshot(&self.app.engine, &self.caller).await?;
        self.needs_snapshot = false;
        self.sent_at = Some(Instant::now());
        Ok(json)
    }

    /// Names and data of the events: a snapshot first, unless it was taken.
    pub(super) fn stream(self) -> impl Stream<Item = (&'static str, Arc<str>)> + Send + 'static {
        stream::unfold(self, |mut updates| async move { Some((updates.next().await, updates)) })
    }

    async fn next(&mut self) -> (&'static str, Arc<str>) {
        if let Some(sent_at) = self.sent_at {
            tokio::time::sleep_until(sent_at + SHORTEST).await;
        }
        loop {
            let next_step = if self.needs_snapshot { Next::Restart } else { self.watch.next_step() };
            match next_step {
                Next::Change(json) => {
                    self.sent_at = Some(Instant::now());
                    return (event::CHANGE, json);
                }
                Next::Restart => match self.snapshot().await {
                    Ok(json) => return (event::SNAPSHOT, json),
                    Err(error) => {
                        tracing::debug!(%error, "reading watched trees failed, will retry");
                        self.needs_snapshot = true;
                        tokio::time::sleep(PAUSE).await;
                    }
                },
                Next::Nothing => self.watch.changed().await,
            }
        }
    }
}
