//! Items over HTTP: read, listed, and why they are where they are.

use axum::{Json as Answer, extract::State};
use domain::{
    Item, ItemState, Problem,
    api::{ErrorGroup, Page},
    item::Attempt,
};
use serde::{Deserialize, Serialize};
use utoipa::IntoParams;
use uuid::Uuid;

use super::{
    cursor::Paged,
    extract::{Path, Query},
};
use crate::{App, auth::Caller, error::Result, jobs::ItemFilter};

/// Filters of the list of items; all that are given must hold.
#[derive(Clone, Debug, Default, Serialize, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct ItemList {
    /// Items of this job
    job: Option<Uuid>,
    /// Items of this tree
    root: Option<Uuid>,
    /// The name of a job type
    #[serde(rename = "type")]
    job_type: Option<String>,
    /// States with commas between them: any of them
    state: Option<String>,
    /// The fingerprint of a group of errors
    error: Option<String>,
    /// The first line of its record in the upload
    row: Option<i64>,
    /// Text in payload or error; needs `job`, `root`, or a `state` other than succeeded
    q: Option<String>,
    /// Rows on the page, 1 to 1,000; default 50
    #[serde(skip_serializing)]
    limit: Option<i64>,
    /// The `next_cursor` of the page before
    #[serde(skip_serializing)]
    cursor: Option<String>,
}

impl Paged for ItemList {
    const LIST: &'static str = "items";
    fn cursor(&self) -> Option<&str> {
        self.cursor.as_deref()
    }
    fn limit(&self) -> Option<i64> {
        self.limit
    }
}

impl ItemList {
    fn filter(&self) -> Result<ItemFilter> {
        let mut states = Vec::new();
        for word in self.state.iter().flat_map(|words| words.split(',')) {
            let state = ItemState::parse(word.trim());
            states.push(state.ok_or_else(|| Problem::parameter("state", "expected states of an item, with commas"))?);
        }
        let narrow = !states.is_empty() && !states.contains(&ItemState::Succeeded);
        if self.q.is_some() && self.job.is_none() && self.root.is_none() && !narrow {
            return Err(Problem::parameter("q", "expected beside job, root, or a state other than succeeded").into());
        }
        Ok(ItemFilter {
            job: self.job,
            root: self.root,
            job_type: self.job_type.clone(),
            states,
            error: self.error.clone(),
            row: self.row,
            q: self.q.clone(),
        })
    }
}

/// List items
#[utoipa::path(get, path = "/items", tag = "items", params(ItemList), responses((status = 200, body = Page<Item>)))]
pub async fn list_items(
    State(app): State<App>,
    caller: Caller,
    Query(query): Query<ItemList>,
) -> Result<Answer<Page<Item>>> {
    let (limit, after) = (query.rows()?, query.place::<(i64, i64)>()?);
    let (items, next) = app.engine.list_items(&caller, &query.filter()?, after, limit).await?;
    Ok(Answer(query.page(items, next)))
}

/// An item
#[utoipa::path(get, path = "/items/{id}", tag = "items", params(("id" = Uuid, Path)),
    responses((status = 200, body = Item)))]
pub async fn get_item(State(app): State<App>, caller: Caller, Path(id): Path<Uuid>) -> Result<Answer<Item>> {
    Ok(Answer(app.engine.item(&caller, id).await?))
}

/// The attempts at an item, oldest first
#[utoipa::path(get, path = "/items/{id}/attempts", tag = "items", params(("id" = Uuid, Path)),
    responses((status = 200, body = Page<Attempt>)))]
pub async fn list_attempts(
    State(app): State<App>,
    caller: Caller,
    Path(id): Path<Uuid>,
) -> Result<Answer<Page<Attempt>>> {
    Ok(Answer(Page { data: app.engine.attempts(&caller, id).await?, next_cursor: None }))
}

/// List dead letters: the items in state `dead`
#[utoipa::path(get, path = "/dead-letters", tag = "dead letters", params(ItemList),
    responses((status = 200, body = Page<Item>)))]
pub async fn list_dead_letters(
    state: State<App>,
    caller: Caller,
    Query(query): Query<ItemList>,
) -> Result<Answer<Page<Item>>> {
    if query.state.as_deref().is_some_and(|state| state != "dead") {
        return Err(Problem::parameter("state", "expected dead, or nothing").into());
    }
    list_items(state, caller, Query(ItemList { state: Some("dead".into()), ..query })).await
}

/// Which job's groups.
#[derive(Clone, Copy, Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct GroupList {
    /// The job, with everything below it
    job: Uuid,
}

/// Dead letters of a tree, grouped by what their errors say; the largest group first
#[utoipa::path(get, path = "/dead-letters/groups", tag = "dead letters", params(GroupList),
    responses((status = 200, body = Page<ErrorGroup>)))]
pub async fn list_groups(
    State(app): State<App>,
    caller: Caller,
    Query(query): Query<GroupList>,
) -> Result<Answer<Page<ErrorGroup>>> {
    Ok(Answer(Page { data: app.engine.error_groups(&caller, query.job).await?, next_cursor: None }))
}
