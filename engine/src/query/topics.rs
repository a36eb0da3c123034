//! State of event stream topics: the same JSON as pages and lists, for a scope instead of a single caller.
//!
//! Each state is read once for all watchers, so it depends only on the given owner, not on the caller.

use std::collections::HashMap;

use domain::{Item, api::ErrorGroup};
use uuid::Uuid;

use crate::{
    error::Result,
    store::{
        query::{
            job_views::{self, GroupQuery},
            search,
        },
        tree::definitions,
    },
};

use super::super::Engine;

/// Maximum number of groups in an event, the latest failures first; `dead` counts all of them.
const GROUPS: i64 = 200;
/// Maximum number of dead items in an event.
const NEWEST: i64 = 20;

impl Engine {
    /// Error groups of an owner or of all owners, the latest failures first, and the number of dead items in all of them.
    pub async fn failures_of(&self, owner_id: Option<Uuid>) -> Result<(Vec<ErrorGroup>, i64)> {
        let query = GroupQuery { owner_id, limit: GROUPS, ..GroupQuery::default() };
        Ok(job_views::owner_groups(self.0.core.pools.reads().await, &query).await?)
    }

    /// Newest dead items of an owner or of all owners, without payloads.
    pub async fn newest_dead(&self, owner_id: Option<Uuid>) -> Result<Vec<Item>> {
        let core = &self.0.core;
        let ids = search::newest_dead(core.pools.reads().await, owner_id, NEWEST).await?;
        core.views(&ids, false).await
    }

    /// Current state of an item, without a visibility check; `None` if its tree is gone.
    pub async fn item_now(&self, id: Uuid) -> Result<Option<Item>> {
        Ok(self.0.core.views(&[id], true).await?.pop())
    }

    /// Owners of these jobs, without deleted ones. Cached jobs need no statement.
    pub async fn owners_of(&self, ids: &[Uuid]) -> Result<HashMap<Uuid, Uuid>> {
        let core = &self.0.core;
        let mut owners = core.jobs.owners_of(ids);
        let missing: Vec<Uuid> = ids.iter().filter(|id| !owners.contains_key(id)).copied().collect();
        if !missing.is_empty() {
            owners.extend(definitions::owners_of(&core.pools.read, &missing).await?);
        }
        Ok(owners)
    }
}
