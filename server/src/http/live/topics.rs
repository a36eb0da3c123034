//! `GET /events?topics=…`: any set of topics over one connection.
//!
//! Each topic is a stream of its own that begins with its snapshot. Here they are merged, and they end together with
//! the credential. Content depends on the caller's scope and is read once for all callers with the same scope. Rights
//! are checked when the connection opens and again every 30 seconds; a caller with changed rights must reconnect.

use std::sync::Arc;

use axum::{
    http::request::Parts,
    response::{Response, sse::Event},
};
use domain::{
    Code, Job,
    query::topic::Topic,
    tree::change::{Roots, event},
};
use futures::{
    Stream, StreamExt as _,
    future::BoxFuture,
    stream::{self, BoxStream, SelectAll},
};
use serde::Serialize;
use serde_json::json;
use uuid::Uuid;

use crate::{
    App,
    audit::{self, AuditedRead, Object},
    http::error::{Error, Result},
    job_types,
    live::{self, Read, State, View},
};
use engine::{
    Engine, JobFilter,
    access::caller::Caller,
    store::{
        notify::{alerts::AlertQuery, deliveries::DeliveryQuery},
        page_range::{NamedOrder, NamedPageRange, PageRange},
    },
};

use super::{
    all_trees_events::{AllTreesUpdates, still_sees_the_same},
    job_events::{JobUpdate, JobUpdates},
    stream::{busy, open},
};
use crate::http::query::stats;

/// Number of rows of a list that a topic shows: the first page.
const ROWS: i64 = 50;
/// Number of workers and job types that a topic shows.
const MANY: i64 = 1_000;

/// Opens a connection for these topics.
pub(super) async fn watch(app: App, caller: Caller, topics: Vec<Topic>, parts: &Parts) -> Result<Response> {
    let Some(stream) = open(&app, &caller)? else { return Ok(busy()) };
    let mut all: SelectAll<BoxStream<'static, Event>> = SelectAll::new();
    for topic in topics {
        all.push(topic_events(&app, &caller, topic).await?);
    }
    // The connection stays open even if every topic is over or forbidden: a browser would keep reconnecting.
    Ok(stream.send(numbered(all.chain(stream::pending())), still_sees_the_same(&app, &caller, parts)))
}

/// Adds ids, which say nothing: a reconnect begins with snapshots.
pub(super) fn numbered(events: impl Stream<Item = Event>) -> impl Stream<Item = Event> {
    events.enumerate().map(|(n, event)| event.id(n.to_string()))
}

/// Events of one topic.
async fn topic_events(app: &App, caller: &Caller, topic: Topic) -> Result<BoxStream<'static, Event>> {
    Ok(match topic {
        Topic::Roots => {
            record_read(app, caller, "jobs.list", Object::List).await?;
            roots(app, caller)
        }
        Topic::Job(id) => match visible(app.engine.job(caller, id, false).await)? {
            Visible::Is(job) => {
                record_read(app, caller, "job.read", Object::Job(id)).await?;
                job_events(app, topic, &job)
            }
            Visible::Not(event) => once(topic, event),
        },
        Topic::Item(id) => match visible(app.engine.item(caller, id).await)? {
            Visible::Is(item) => {
                record_read(app, caller, "item.read", Object::Item(id)).await?;
                let engine = app.engine.clone();
                let read = reading(move || {
                    let engine = engine.clone();
                    async move { Ok(item_with_log(&engine, id).await?) }
                });
                view(app, View { topic, owner: None, is_admin: false }, Some(item.root_id), read)
            }
            Visible::Not(event) => once(topic, event),
        },
        // Notices belong to people; others have none.
        Topic::Notices if caller.role.is_none() => once(topic, event::FORBIDDEN),
        // The statistics of GET /stats cover all work.
        Topic::Overview if !caller.sees_all() => once(topic, event::FORBIDDEN),
        _ => {
            match topic {
                Topic::Failures | Topic::Operations => record_read(app, caller, "items.list", Object::List).await?,
                Topic::Schedules => record_read(app, caller, "schedules.list", Object::List).await?,
                Topic::Deliveries => record_read(app, caller, "deliveries.list", Object::List).await?,
                _ => {}
            }
            // Always the caller's own uploads, like the page.
            let own = matches!(topic, Topic::Imports | Topic::Notices);
            let owner = if own { Some(caller.owner_id) } else { caller.visible_owner() };
            let is_admin = topic == Topic::Types && caller.is_admin() || topic == Topic::Notices && caller.sees_all();
            let (app_of_view, reader) = (app.clone(), caller.clone());
            let read = reading(move || {
                let (app, caller) = (app_of_view.clone(), reader.clone());
                async move { Ok(Some(list(&app, &caller, topic).await?)) }
            });
            view(app, View { topic, owner, is_admin }, None, read)
        }
    })
}

/// State of a list, in the scope of the caller.
async fn list(app: &App, caller: &Caller, topic: Topic) -> Result<String> {
    let engine = &app.engine;
    match topic {
        Topic::Failures => {
            let (groups, dead) = engine.failures_of(caller.visible_owner()).await?;
            if caller.visible_owner().is_none() {
                app.dead_item_count.set(dead).await;
            }
            let items = if dead > 0 { engine.newest_dead(caller.visible_owner()).await? } else { Vec::new() };
            text(&json!({"groups": groups, "dead": dead, "items": items}))
        }
        Topic::Imports => {
            let filter = JobFilter { root: Some(true), uploaded_by: Some(caller.owner_id), ..JobFilter::default() };
            let (jobs, _) = engine.list_jobs(caller, &filter, false, None, ROWS).await?;
            text(&Roots { jobs, removed: Vec::new() })
        }
        Topic::Operations => text(&ListBody { data: engine.list_bulk(caller, PageRange::newest(None, ROWS)).await? }),
        Topic::Workers => {
            let workers = engine.workers(caller, NamedOrder::ByName, None, MANY).await?;
            text(&ListBody { data: workers.into_iter().map(|(_, worker)| worker).collect::<Vec<_>>() })
        }
        Topic::Types => {
            let types = job_types::list(app, &NamedPageRange::by_name(MANY)).await?;
            text(&ListBody { data: types.into_iter().map(|it| job_types::visible_to(caller, it)).collect::<Vec<_>>() })
        }
        Topic::Overview => {
            let query = AlertQuery { owner_id: None, kind: None, all: false, part: PageRange::newest(None, ROWS) };
            let alerts = engine.alerts(caller, query).await?;
            text(&json!({"stats": stats::stats(app, caller).await?, "alerts": alerts}))
        }
        Topic::Deliveries => {
            let query = DeliveryQuery { limit: ROWS, ..DeliveryQuery::default() };
            text(&ListBody { data: engine.deliveries(caller, query).await? })
        }
        Topic::Notices => text(&engine.notice_list(caller).await?),
        Topic::Schedules => text(&ListBody { data: engine.schedules(caller, PageRange::newest(None, ROWS)).await? }),
        Topic::Roots | Topic::Job(_) | Topic::Item(_) => {
            Err(Error(engine::error::Error::Broken(format!("{topic} is not a list"))))
        }
    }
}

/// List in the shape of API responses.
#[derive(Serialize)]
struct ListBody<T> {
    data: Vec<T>,
}

fn text(value: &impl Serialize) -> Result<String> {
    serde_json::to_string(value).map_err(|e| Error(engine::error::Error::Broken(e.to_string())))
}

/// An item with the last lines of its newest log as `log`. Written as text: exact numbers survive no `flatten`.
async fn item_with_log(engine: &Engine, id: Uuid) -> Result<Option<String>> {
    let (item, log) = futures::try_join!(engine.item_now(id), engine.log_tail(id, None))?;
    let Some(item) = item else { return Ok(None) };
    let mut json = text(&item)?;
    if let Some(log) = log {
        json.truncate(json.len() - 1);
        json.push_str(",\"log\":");
        json.push_str(&text(&log)?);
        json.push('}');
    }
    Ok(Some(json))
}

/// Wraps a function that reads a view, for any number of calls.
fn reading<F>(read: impl Fn() -> F + Send + Sync + 'static) -> Read
where
    F: Future<Output = engine::error::Result<Option<String>>> + Send + 'static,
{
    Arc::new(move || -> BoxFuture<'static, _> { Box::pin(read()) })
}

/// Object as a caller sees it: itself, or the event for a missing or forbidden one.
enum Visible<T> {
    Is(T),
    Not(&'static str),
}

/// Maps a deleted object to `removed`, and other refusals to `forbidden`: other people's objects look missing.
fn visible<T>(found: engine::error::Result<T>) -> Result<Visible<T>> {
    match found {
        Ok(it) => Ok(Visible::Is(it)),
        Err(engine::error::Error::Problem(problem)) if problem.code == Code::JobRemoved => {
            Ok(Visible::Not(event::REMOVED))
        }
        Err(engine::error::Error::Problem(problem)) if problem.status < 500 => Ok(Visible::Not(event::FORBIDDEN)),
        Err(error) => Err(error.into()),
    }
}

/// Records in the audit log that staff read an object.
pub(super) async fn record_read(app: &App, caller: &Caller, action: &'static str, object: Object) -> Result<()> {
    if caller.sees_all() {
        audit::record_read(app, caller, AuditedRead { action, object }).await?;
    }
    Ok(())
}

fn event_of(name: &str, data: impl AsRef<str>) -> Event {
    Event::default().event(name).data(data)
}

/// Event with only its topic.
fn only(topic: Topic, name: &str) -> Event {
    event_of(name, live::of_topic(topic, None, "{}"))
}

fn once(topic: Topic, name: &'static str) -> BoxStream<'static, Event> {
    stream::iter([only(topic, name)]).boxed()
}

/// Events of a topic that is one document.
fn view(app: &App, view: View, root_id: Option<Uuid>, read: Read) -> BoxStream<'static, Event> {
    let topic = view.topic;
    let watch = app.hub.follow(&app.engine, view, root_id, read);
    stream::unfold(Some((watch, event::SNAPSHOT)), move |watching| async move {
        let (mut watch, name) = watching?;
        Some(match watch.next().await {
            State::Is(data) => (event_of(name, data), Some((watch, event::CHANGE))),
            State::Gone | State::Unread => (only(topic, event::REMOVED), None),
        })
    })
    .boxed()
}

/// Events of the topic of all trees.
fn roots(app: &App, caller: &Caller) -> BoxStream<'static, Event> {
    let mut version = 0;
    let event = move |(name, json): (&str, Arc<str>)| {
        version = live::next_version(version);
        event_of(name, live::of_topic(Topic::Roots, Some(version), &json))
    };
    AllTreesUpdates::new(app, caller).stream().map(event).boxed()
}

/// Events of the topic of one job with its subtree.
fn job_events(app: &App, topic: Topic, job: &Job) -> BoxStream<'static, Event> {
    let event = move |update: JobUpdate| {
        // A job has its own version.
        let version = update.version.filter(|_| update.name != event::SNAPSHOT);
        event_of(update.name, live::of_topic(topic, version, &update.json))
    };
    JobUpdates::stream(app, job, false).map(event).boxed()
}
