//! `GET /jobs/{id}/events`: a job with its subtree, live.
//!
//! First `snapshot`, then `change`. All state is absolute and a reconnect begins with a snapshot, so `id:` is not used.

use std::sync::Arc;

use axum::{
    extract::{FromRequestParts as _, State},
    http::request::Parts,
    response::{Response, sse::Event},
};
use domain::{
    Job,
    tree::{
        change::{Change, event},
        share_link::redact_for_share,
    },
};
use futures::{
    Stream,
    future::FutureExt as _,
    stream::{self, StreamExt as _},
};
use uuid::Uuid;

use super::stream::{busy, credentials, open};
use crate::{
    App,
    http::{callers::Viewer, error::Result, extract::Path},
    live::{Latest, TreeState, Watch},
};

/// Watch a job
///
/// Server-sent events: `snapshot` first, then `change` with the changed jobs and the running items. All state is
/// absolute. A reconnect begins with a snapshot. `busy`, `bye` and `removed` end the stream.
#[utoipa::path(
    get, path = "/jobs/{id}/events", tag = "watch",
    params(("id" = Uuid, Path, description = "Id of the job; the stream contains its whole subtree")),
    security(("token" = []), ("session" = []), ("share" = [])),
    responses(
        (status = 200, content_type = "text/event-stream",
         description = "Events of this shape: `snapshot` first, then `change` after changes, at most 4 a second",
         body = domain::tree::change::JobEvent),
        (status = 404, description = "The job does not exist, or the caller may not see it",
         body = domain::Problem, content_type = "application/problem+json"),
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
    let Some(stream) = open(&app, &caller)? else { return Ok(busy()) };
    // The permission is checked before anything is watched.
    let job = app.engine.job(&caller, id, false).await?;
    let updates = JobUpdates::stream(&app, &job, is_shared).map(|update| match update.version {
        Some(version) => Event::default().event(update.name).data(update.json).id(version.to_string()),
        None => Event::default().event(update.name).data(update.json),
    });
    let parts = credentials(&app, &parts);
    // A reader who loses the session and only has the link reconnects, and sees what the link shows.
    let may_read = move || {
        let (app, mut parts) = (app.clone(), parts.clone());
        async move {
            let viewer = Viewer::from_request_parts(&mut parts, &app).await?;
            let (caller, still_shared) = viewer.caller_for(&app, id).await?;
            app.engine.job(&caller, id, false).await?;
            Ok(still_shared == is_shared)
        }
        .boxed()
    };
    Ok(stream.send(updates, may_read))
}

/// Event about a job, without its form.
pub(super) struct JobUpdate {
    pub(super) name: &'static str,
    pub(super) json: String,
    /// Version of the tree's state; none once the job is deleted.
    pub(super) version: Option<i64>,
}

/// State of a stream of updates of a job and its subtree.
pub(super) struct JobUpdates {
    id: Uuid,
    watch: Watch,
    /// Version of the job when the stream was opened: the snapshot is not older.
    not_before: i64,
    /// Last state sent to this reader.
    last: Option<Arc<TreeState>>,
    /// Update sent right after the snapshot: the running items, which the snapshot does not contain.
    in_flight: Option<JobUpdate>,
    /// True if the reader sees only what a share link shows.
    is_shared: bool,
}

impl JobUpdates {
    /// Snapshot, changes, and the deletion, which ends the stream.
    pub(super) fn stream(app: &App, job: &Job, is_shared: bool) -> impl Stream<Item = JobUpdate> + Send + 'static {
        let watch = app.hub.watch(&app.engine, job.root_id);
        let updates = Self { id: job.id, watch, not_before: job.version, last: None, in_flight: None, is_shared };
        stream::unfold(Some(updates), |updates| async move {
            let mut updates = updates?;
            let update = updates.next().await;
            let continues = update.name != event::REMOVED;
            Some((update, continues.then_some(updates)))
        })
    }

    async fn next(&mut self) -> JobUpdate {
        if let Some(update) = self.in_flight.take() {
            return update;
        }
        loop {
            match self.watch.latest() {
                Latest::Is(state) => {
                    if let Some(update) = self.update(&state) {
                        return update;
                    }
                }
                Latest::Removed => return JobUpdate { name: event::REMOVED, json: "{}".into(), version: None },
                Latest::Unread => {}
            }
            self.watch.changed().await;
        }
    }

    /// Update that brings this reader to the new state; `None` if nothing of its job changed.
    fn update(&mut self, state: &Arc<TreeState>) -> Option<JobUpdate> {
        let version = Some(state.version());
        if self.last.is_none() && state.job(self.id)?.version < self.not_before {
            return None;
        }
        let Some(last) = self.last.replace(Arc::clone(state)) else {
            let job = state.job(self.id)?;
            let json = if self.is_shared {
                serde_json::to_string(&redact_for_share(job.clone()))
            } else {
                serde_json::to_string(job)
            };
            let flights = state.items_below(self.id);
            if !self.is_shared && !flights.items.is_empty() {
                let json = serde_json::to_string(&flights).ok()?;
                self.in_flight = Some(JobUpdate { name: event::CHANGE, json, version });
            }
            return Some(JobUpdate { name: event::SNAPSHOT, json: json.ok()?, version });
        };
        if Arc::ptr_eq(&last, state) {
            return None;
        }
        let json = state.change_since(&last, self.id)?;
        let json = if self.is_shared { as_shared(&json)? } else { json };
        Some(JobUpdate { name: event::CHANGE, json, version })
    }
}

/// Change as a share link shows it: the jobs, without single items.
fn as_shared(json: &str) -> Option<String> {
    let change: Change = serde_json::from_str(json).ok()?;
    let change = Change { jobs: change.jobs.into_iter().map(redact_for_share).collect(), items: Vec::new() };
    serde_json::to_string(&change).ok()
}
