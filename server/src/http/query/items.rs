//! HTTP handlers for items: read, list, attempts, dead letters and their groups.

use axum::{Json as Answer, extract::State, http::header, response::IntoResponse};
use domain::{
    Item, ItemState, Problem, Time,
    api::{ErrorGroup, ErrorGroupDetail, ErrorGroupPatch, GroupState, Page},
    item::{Attempt, StepCounts},
    limits::GREATEST_COUNT,
};
use serde::{Deserialize, Serialize};
use utoipa::IntoParams;
use uuid::Uuid;

use super::{
    cursor::{Of, Paged as _, paged},
    sort::{OfAttempts, OfGroups, OfItems},
};
use crate::http::callers::{Reader, Staff};
use crate::http::extract::{Json, Path, Query, ids, read_query};
use crate::{App, http::error::Result};
use engine::{GroupFilter, ItemFilter, store::query::item_list_jobs::ItemOrder};

/// Filters of the item list; all given filters must match.
#[derive(Clone, Debug, Default, Serialize, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct ItemList {
    /// Any of these ids, separated by commas, at most 1,000
    id: Option<String>,
    /// Items of this job
    job: Option<Uuid>,
    /// Items of this tree
    root: Option<Uuid>,
    /// Name of a job type
    #[serde(rename = "type")]
    job_type: Option<String>,
    /// Any of these states, separated by commas
    state: Option<String>,
    /// Fingerprint of an error group
    error: Option<String>,
    /// First line of the item's record in the upload
    row: Option<i64>,
    /// Text in payload or error; needs `id`, `job`, `root`, or a `state` other than succeeded
    q: Option<String>,
    /// Worker that holds the item, or that ended it
    worker: Option<String>,
    dedupe_key: Option<String>,
    serialize_key: Option<String>,
    /// Last step that the item reached
    step: Option<String>,
    #[param(value_type = Option<String>, format = DateTime)]
    created_after: Option<Time>,
    #[param(value_type = Option<String>, format = DateTime)]
    created_before: Option<Time>,
    /// `-job` (default): newest job first, the items of each in insertion order; `-created_at`: newest job first,
    /// newest item of each first; `created_at`: oldest first
    #[serde(default)]
    #[param(value_type = Option<String>)]
    sort: OfItems,
    /// Maximum number of rows on the page, 1 to 1,000; default 50
    #[serde(skip_serializing)]
    limit: Option<i64>,
    /// `next_cursor` of the previous page
    #[serde(skip_serializing)]
    cursor: Option<String>,
}

paged!(ItemList, "items");

impl ItemList {
    /// Parses a query into its filter.
    pub(crate) fn read(query: &str) -> Result<ItemFilter> {
        read_query::<Self>(query)?.filter()
    }

    /// Parses a query into its filter and order.
    pub(crate) fn read_ordered(query: &str) -> Result<(ItemFilter, ItemOrder)> {
        let list = read_query::<Self>(query)?;
        Ok((list.filter()?, list.sort.into()))
    }

    fn filter(&self) -> Result<ItemFilter> {
        let mut states = Vec::new();
        for word in self.state.iter().flat_map(|words| words.split(',')) {
            let state = ItemState::parse(word.trim());
            states.push(state.ok_or_else(|| Problem::parameter("state", "expected states of an item, with commas"))?);
        }
        if self.row.is_some_and(|row| !(1..=GREATEST_COUNT).contains(&row)) {
            return Err(Problem::parameter("row", "expected a whole number from 1").into());
        }
        states.sort_unstable_by_key(|state| state.code());
        states.dedup();
        let narrow = !states.is_empty() && !states.contains(&ItemState::Succeeded);
        let named = self.id.is_some() || self.job.is_some() || self.root.is_some();
        if self.q.is_some() && !named && !narrow {
            let expected = "expected beside id, job, root, or a state other than succeeded";
            return Err(Problem::parameter("q", expected).into());
        }
        Ok(ItemFilter {
            ids: ids(self.id.as_deref())?,
            job: self.job,
            root: self.root,
            job_type: self.job_type.clone(),
            states,
            error: self.error.clone(),
            row: self.row,
            q: self.q.clone(),
            worker: self.worker.clone(),
            dedupe_key: self.dedupe_key.clone(),
            serialize_key: self.serialize_key.clone(),
            step: self.step.clone(),
            created_after: self.created_after,
            created_before: self.created_before,
        })
    }
}

/// List items
///
/// Callers see items of their own jobs, staff see all. A filter without an index may return a short or even empty page
/// with a `next_cursor`.
#[utoipa::path(get, path = "/items", tag = "items", params(ItemList), responses((status = 200, body = Page<Item>)))]
pub async fn list_items(
    State(app): State<App>,
    Reader(caller): Reader,
    Query(query): Query<ItemList>,
) -> Result<Answer<Page<Item>>> {
    let (limit, after) = (query.rows()?, query.place::<(i64, i64)>()?);
    let (items, next) = app.engine.list_items(&caller, &query.filter()?, query.sort.into(), after, limit).await?;
    Ok(Answer(query.page(items, next)))
}

/// Get an item
///
/// With its payload, result, progress, last error, and the reason why it is not running (`waiting_for`).
#[utoipa::path(get, path = "/items/{id}", tag = "items", params(("id" = Uuid, Path)),
    responses((status = 200, body = Item, headers(("ETag" = String)))))]
pub async fn get_item(
    State(app): State<App>,
    Reader(caller): Reader,
    Path(id): Path<Uuid>,
) -> Result<impl IntoResponse> {
    let item = app.engine.item(&caller, id).await?;
    Ok(([(header::ETAG, format!("\"{}\"", item.version))], Answer(item)))
}

/// Query parameters of the list of attempts.
#[derive(Clone, Debug, Default, Serialize, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct AttemptList {
    /// `created_at` (default): first attempt first; `-created_at`: last attempt first
    #[serde(default)]
    #[param(value_type = Option<String>)]
    sort: OfAttempts,
    /// Maximum number of rows on the page, 1 to 1,000; default 50
    #[serde(skip_serializing)]
    limit: Option<i64>,
    /// `next_cursor` of the previous page
    #[serde(skip_serializing)]
    cursor: Option<String>,
}

paged!(AttemptList, "attempts");

/// List the attempts of an item
///
/// First attempt first unless `sort` is given. One for each time a worker received the item: the worker, the outcome,
/// error, step and result.
#[utoipa::path(get, path = "/items/{id}/attempts", tag = "items", params(("id" = Uuid, Path), AttemptList),
    responses((status = 200, body = Page<Attempt>)))]
pub async fn list_attempts(
    State(app): State<App>,
    Reader(caller): Reader,
    Path(id): Path<Uuid>,
    Query(query): Query<AttemptList>,
) -> Result<Answer<Page<Attempt>>> {
    let list = Of(id, &query);
    let (newest_first, rows) = (query.sort == OfAttempts::Newest, list.rows_to_read()?);
    let found = app.engine.attempts_behind(&caller, id, newest_first, list.place()?, rows).await?;
    Ok(Answer(list.page_of(found, |attempt| attempt.attempt)?))
}

/// Count the items of a job by step
///
/// The last step that each has reached, for a type that declares steps, in their order; otherwise the list is empty. Each
/// is counted up to 10,000. `GET /items?job=…&step=…` lists them.
#[utoipa::path(get, path = "/jobs/{id}/steps", tag = "items", params(("id" = Uuid, Path)),
    responses((status = 200, body = StepCounts)))]
pub async fn count_job_steps(
    State(app): State<App>,
    Reader(caller): Reader,
    Path(id): Path<Uuid>,
) -> Result<Answer<StepCounts>> {
    Ok(Answer(app.engine.job_steps(&caller, id).await?))
}

/// List dead letters
///
/// Items in state `dead`: out of attempts or not retryable, waiting for a person. Takes the filters of `GET /items`.
#[utoipa::path(get, path = "/dead-letters", tag = "dead letters", params(ItemList),
    responses((status = 200, body = Page<Item>)))]
pub async fn list_dead_letters(
    state: State<App>,
    Reader(caller): Reader,
    Query(query): Query<ItemList>,
) -> Result<Answer<Page<Item>>> {
    if query.state.as_deref().is_some_and(|state| state != "dead") {
        return Err(Problem::parameter("state", "expected dead, or nothing").into());
    }
    list_items(state, Reader(caller), Query(ItemList { state: Some("dead".into()), ..query })).await
}

/// Filters of groups of dead letters; all given filters must match.
#[derive(Clone, Debug, Default, Serialize, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct GroupList {
    /// Dead letters of this job and everything below it
    job: Option<Uuid>,
    /// Dead letters of this tree
    root: Option<Uuid>,
    /// Name of a job type
    #[serde(rename = "type")]
    job_type: Option<String>,
    /// Name of a user or service
    owner: Option<String>,
    /// Text in the message
    q: Option<String>,
    /// Any of these states, separated by commas: `open`, `muted`, `resolved`, `regressed`. Muted and resolved groups then
    /// include those without dead letters
    state: Option<String>,
    /// `-last_seen_at` (default): group with the latest dead item first; `last_seen_at`, `-first_seen_at`,
    /// `first_seen_at`; `-count`: largest first; `count`
    #[serde(default)]
    #[param(value_type = Option<String>)]
    sort: OfGroups,
    /// Maximum number of groups, 1 to 1,000; default 50
    #[serde(skip_serializing)]
    limit: Option<i64>,
    /// Accepted as on every list; this list has a single page and returns no cursor
    #[serde(skip_serializing)]
    cursor: Option<String>,
}

paged!(GroupList, "groups");

impl GroupList {
    fn states(&self) -> Result<Option<Vec<GroupState>>> {
        let Some(words) = &self.state else { return Ok(None) };
        let expected = || Problem::parameter("state", "expected states of an error group, with commas");
        let states: Option<_> = words.split(',').map(|word| GroupState::parse(word.trim())).collect();
        Ok(Some(states.ok_or_else(expected)?))
    }
}

/// List groups of dead letters
///
/// A group has the dead items of one type whose last errors are equal without numbers, ids and quoted values. The group
/// with the latest dead item comes first. Its `fingerprint` is the filter `error` of `GET /items`. Its `state` counts for
/// all owners.
#[utoipa::path(get, path = "/dead-letters/groups", tag = "dead letters", params(GroupList),
    responses((status = 200, body = Page<ErrorGroup>)))]
pub async fn list_groups(
    State(app): State<App>,
    Reader(caller): Reader,
    Query(query): Query<GroupList>,
) -> Result<Answer<Page<ErrorGroup>>> {
    let limit = query.rows()?;
    query.place::<()>()?;
    let states = query.states()?;
    let filter = GroupFilter {
        job: query.job,
        alone: false,
        root: query.root,
        job_type: query.job_type,
        owner: query.owner,
        q: query.q,
        states,
        order: query.sort.into(),
    };
    Ok(Answer(Page { data: app.engine.groups(&caller, &filter, limit).await?, next_cursor: None }))
}

/// Get a group of dead letters
///
/// Staff only. The group over all owners, even if all its items were retried: failures by minute and hour, the history of
/// its state, and the jobs and owners that it affects.
#[utoipa::path(get, path = "/dead-letters/groups/{type}/{fingerprint}", tag = "dead letters",
    params(("type" = String, Path), ("fingerprint" = String, Path)),
    responses((status = 200, body = ErrorGroupDetail)))]
pub async fn get_group(
    State(app): State<App>,
    Staff(caller): Staff,
    Path((job_type, fingerprint)): Path<(String, String)>,
) -> Result<Answer<ErrorGroupDetail>> {
    Ok(Answer(app.engine.error_group(&caller, &job_type, &fingerprint).await?))
}

/// Mute, resolve or reopen a group of dead letters
///
/// Staff only; counts for all owners. A muted group raises no alerts until `until`, or until it has failed `failures` more
/// times. A resolved group becomes `regressed` with the next failure. The items stay as they are.
#[utoipa::path(patch, path = "/dead-letters/groups/{type}/{fingerprint}", tag = "dead letters",
    params(("type" = String, Path), ("fingerprint" = String, Path)), request_body = ErrorGroupPatch,
    responses((status = 200, body = ErrorGroup)))]
pub async fn patch_group(
    State(app): State<App>,
    Staff(caller): Staff,
    Path((job_type, fingerprint)): Path<(String, String)>,
    Json(patch): Json<ErrorGroupPatch>,
) -> Result<Answer<ErrorGroup>> {
    Ok(Answer(app.engine.change_error_group(&caller, &job_type, &fingerprint, patch).await?))
}
