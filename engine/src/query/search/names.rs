//! Search for bulk operations, schedules, people, services, and saved views, by id and by a part of the name.
//!
//! Each kind is as visible as its list: people and services to admins, operations and schedules to their owner and to
//! staff, views to their owner and, if they are shared, to everyone.

use domain::{
    api::SearchHit,
    dispatch::progress::grouped,
    saved_view::{SavedView, ViewList},
};
use uuid::Uuid;

use super::{MOST, NAMES, contains_ignoring_case, like_pattern};
use crate::{
    Engine,
    access::caller::Caller,
    error::Result,
    store::query::search_names::{self, FoundOwner},
};

/// Name of the field that has matched.
fn matched(id: Option<Uuid>, name: &str) -> String {
    id.map_or(name, |_| "id").to_owned()
}

impl Engine {
    /// Bulk operations by id, or by a part of their reason.
    pub(super) async fn operations_with(&self, caller: &Caller, q: &str) -> Result<Vec<SearchHit>> {
        let id = Uuid::parse_str(q).ok();
        let pool = self.0.core.pools.reads().await;
        let found = search_names::operations(pool, caller.visible_owner(), id, &like_pattern(q), MOST).await?;
        let hit = |one: search_names::FoundOperation| SearchHit {
            path: format!("/bulk/{}", one.id),
            title: one.reason.unwrap_or_else(|| format!("{} {}", one.action, one.target)),
            matched: matched(id, "reason"),
            detail: Some(format!("{} {} {}, {}", one.action, grouped(one.total), one.target, one.state)),
            id: one.id.to_string(),
        };
        Ok(found.into_iter().map(hit).collect())
    }

    /// Schedules by id, or by a part of their name.
    pub(super) async fn schedules_with(&self, caller: &Caller, q: &str) -> Result<Vec<SearchHit>> {
        let id = Uuid::parse_str(q).ok();
        let pool = self.0.core.pools.reads().await;
        let found = search_names::schedules(pool, caller.visible_owner(), id, &like_pattern(q), MOST).await?;
        let hit = |one: search_names::FoundSchedule| SearchHit {
            path: format!("/schedules/{}", one.id),
            title: one.name,
            matched: matched(id, "name"),
            detail: Some(format!("{} {}{}", one.cron, one.time_zone, if one.paused { ", paused" } else { "" })),
            id: one.id.to_string(),
        };
        Ok(found.into_iter().map(hit).collect())
    }

    /// People by id, or by a part of their name or address.
    pub(super) async fn people_with(&self, caller: &Caller, q: &str) -> Result<Vec<SearchHit>> {
        self.owners_with(caller, "user", q, |one| format!("/people/{}", one.id)).await
    }

    /// Services by id, or by a part of their name.
    pub(super) async fn services_with(&self, caller: &Caller, q: &str) -> Result<Vec<SearchHit>> {
        self.owners_with(caller, "service", q, |_| "/services".to_owned()).await
    }

    async fn owners_with(
        &self,
        caller: &Caller,
        kind: &str,
        q: &str,
        path: impl Fn(&FoundOwner) -> String,
    ) -> Result<Vec<SearchHit>> {
        if !caller.is_admin() {
            return Ok(Vec::new());
        }
        let id = Uuid::parse_str(q).ok();
        let found = search_names::owners(self.0.core.pools.reads().await, kind, id, &like_pattern(q), MOST).await?;
        let hit = |one: FoundOwner| {
            let field = if contains_ignoring_case(&one.name, q) { "name" } else { "email" };
            let detail = [one.role.as_deref(), one.email.as_deref(), one.disabled.then_some("disabled")];
            let detail = detail.into_iter().flatten().collect::<Vec<_>>().join(", ");
            SearchHit {
                path: path(&one),
                id: one.id.to_string(),
                title: one.name,
                matched: matched(id, field),
                detail: Some(detail).filter(|detail| !detail.is_empty()),
            }
        };
        Ok(found.into_iter().map(hit).collect())
    }

    /// Saved views that the caller may use, by id, or by a part of their name.
    pub(super) async fn views_with(&self, caller: &Caller, q: &str) -> Result<Vec<SearchHit>> {
        let id = Uuid::parse_str(q).ok();
        let views = self.views_by_name(caller, None, NAMES).await?;
        let named = views
            .into_iter()
            .filter(|view| id.map_or_else(|| contains_ignoring_case(&view.name, q), |id| view.id == id));
        let hit = |view: SavedView| SearchHit {
            path: path_of(&view),
            id: view.id.to_string(),
            matched: matched(id, "name"),
            detail: Some(format!("{}, {}", view.list.as_str(), view.owner.name)),
            title: view.name,
        };
        Ok(named.take(MOST as usize).map(hit).collect())
    }
}

/// The list with the filter and the order of a view.
fn path_of(view: &SavedView) -> String {
    let list = match view.list {
        ViewList::Jobs => "/jobs",
        ViewList::Items => "/items",
        ViewList::Failures => "/dead",
    };
    let mut query = form_urlencoded::Serializer::new(String::new());
    if !view.q.is_empty() {
        query.append_pair("q", &view.q);
    }
    if let Some(sort) = &view.sort {
        query.append_pair("sort", sort);
    }
    if view.q.is_empty() && view.sort.is_none() {
        // The bare path opens the default view.
        query.append_pair("view", "all");
    }
    format!("{list}?{}", query.finish())
}
