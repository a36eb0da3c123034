//! Content of the views of a job: its history for the chart, its results, and the audit log of its tree.

use app::{
    components::chart::{History, Range},
    pages::job::{Activity, Results},
};
use domain::{Item, ItemState, Job, JobStatus, Time};
use serde::Serialize;
use time::{Duration, OffsetDateTime};
use uuid::Uuid;

use super::address;
use crate::{
    App,
    http::query::cursor::{Paged as _, paged},
};
use engine::{
    ItemFilter, Span,
    access::caller::Caller,
    activity_counters::CHARTED_ITEMS,
    error::Result,
    store::{notify::audit::AuditQuery, query::item_list_jobs::ItemOrder},
};

/// Number of rows on a page of results or entries.
const ROWS: i64 = 50;
/// Greatest number of items in the summary that wait for an event.
const EVENT_WAITS: i64 = 3;
/// Least and greatest number of points of a chart.
const POINTS: (i64, i64) = (10, 60);

/// Range and span of the chart of a job, from its creation to its end or to now: minutes, unless it is too long or too
/// old for them.
fn life(created: OffsetDateTime, completed: Option<OffsetDateTime>, now: OffsetDateTime) -> (Range, Span) {
    let end = completed.unwrap_or(now).max(created);
    let is_stored = |age: Duration| now - created < age;
    let range = if end - created < Duration::minutes(POINTS.1 - 1) && is_stored(Duration::hours(47)) {
        Range::Hour
    } else if end - created < Duration::hours(POINTS.1 - 1) && is_stored(Duration::days(29)) {
        Range::Day
    } else {
        Range::Month
    };
    let step = range.step();
    let points = (step.floor(end) - step.floor(created)).whole_seconds() / step.seconds() + 1;
    (range, Span::last(step, points.clamp(POINTS.0, POINTS.1), end))
}

/// Activity over the life of a job, in at most sixty points; `None` if it has too few items to have a history.
pub(super) async fn history(app: &App, job: &Job) -> Result<Option<History>> {
    if job.tree.counts.total() < CHARTED_ITEMS {
        return Ok(None);
    }
    let completed = job.completed_at.filter(|_| job.tree.status == JobStatus::Completed);
    let (range, span) = life(job.created_at.0, completed.map(|at| at.0), OffsetDateTime::now_utc());
    let points = app.engine.job_activity(job, span).await?;
    let points = points.into_iter().map(|(at, activity)| (Time(at), activity)).collect();
    Ok(Some(History { range, points, until: completed }))
}

/// Place in a view; a cursor is bound to the job.
#[derive(Clone, Debug, Serialize)]
struct ViewPlace {
    job: Uuid,
    view: &'static str,
    #[serde(skip_serializing)]
    cursor: Option<String>,
}

paged!(ViewPlace, "view of a job", |_| Some(ROWS));

impl ViewPlace {
    fn next(&self, cursor: Option<String>) -> Option<String> {
        cursor.map(|cursor| address(&format!("/jobs/{}", self.job), &[("view", self.view), ("cursor", &cursor)]))
    }
}

/// Items in a state, of a tree or of a job within one.
fn in_state(job: &Job, state: ItemState) -> ItemFilter {
    let (root, own) = if job.parent_id.is_none() { (Some(job.id), None) } else { (None, Some(job.id)) };
    ItemFilter { root, job: own, states: vec![state], ..ItemFilter::default() }
}

/// Number of items that wait for an event or a time up to which the first of them are looked for.
const SEARCHED: i64 = 1_000;

/// First items that wait for an event. Empty if they would have to be looked for among many others.
pub(super) async fn event_waits(app: &App, caller: &Caller, job: &Job) -> Result<Vec<Item>> {
    let counts = job.tree.counts;
    if counts.waiting_for_event == 0 || counts.waiting_for_event + counts.retryable + counts.scheduled > SEARCHED {
        return Ok(Vec::new());
    }
    let filter = in_state(job, ItemState::WaitingForEvent);
    Ok(app.engine.list_items(caller, &filter, ItemOrder::Oldest, None, EVENT_WAITS).await?.0)
}

/// Succeeded items of a tree, or of a job within one, newest first.
pub(super) async fn results(app: &App, caller: &Caller, job: &Job, cursor: Option<String>) -> Result<Results> {
    let place = ViewPlace { job: job.id, view: "results", cursor };
    let filter = in_state(job, ItemState::Succeeded);
    let after = place.place::<(i64, i64)>()?;
    let (items, next) = app.engine.list_items(caller, &filter, ItemOrder::Newest, after, ROWS).await?;
    let page = place.page(items, next);
    Ok(Results { items: page.data, next: place.next(page.next_cursor) })
}

/// Entries of the audit log about the tree of a job, newest first.
pub(super) async fn activity(app: &App, caller: &Caller, job: &Job, cursor: Option<String>) -> Result<Activity> {
    let place = ViewPlace { job: job.id, view: "activity", cursor };
    let behind = place.place::<(Time, Uuid)>()?;
    let query = AuditQuery {
        root_id: Some(job.root_id),
        behind: behind.map(|(at, id)| (at.0, id)),
        limit: ROWS + 1,
        ..AuditQuery::default()
    };
    let found = app.engine.audit(caller, query).await?;
    let page = place.page_of(found, |entry| (entry.at, entry.id))?;
    Ok(Activity { entries: page.data, next: place.next(page.next_cursor), staff: caller.sees_all() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chart_covers_the_life_of_a_job() {
        let at = |seconds: i64| OffsetDateTime::from_unix_timestamp(1_000_000_020 + seconds).expect("a time");
        let points = |(range, span): (Range, Span)| (range, span.starts().count(), span.to > span.from);
        assert_eq!(points(life(at(0), None, at(5))), (Range::Hour, 10, true));
        assert_eq!(points(life(at(0), Some(at(1_800)), at(9_000))), (Range::Hour, 31, true));
        assert_eq!(points(life(at(0), None, at(36_000))), (Range::Day, 11, true));
        let old = at(0) + Duration::days(100);
        assert_eq!(points(life(at(0), Some(at(60)), old)), (Range::Month, 10, true), "its minutes are gone");
        assert_eq!(points(life(at(0), None, old)), (Range::Month, 60, true));
        let (_, span) = life(at(0), Some(at(1_800)), at(9_000));
        assert!(span.starts().any(|start| start <= at(0)) && span.to > at(1_800));
    }
}
