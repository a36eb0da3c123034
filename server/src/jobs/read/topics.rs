//! The state of topics of the event stream: the same as pages and lists, as JSON, for one scope and not for one caller.
//!
//! Each is read for everybody who watches it, so nothing here depends on who asks beyond the owner that is given.

use std::collections::HashMap;

use domain::{Item, api::ErrorGroup};
use uuid::Uuid;

use crate::{
    error::Result,
    store::{
        contracts, searching,
        trees::{self, GroupQuery},
    },
};

use super::super::Engine;

/// Groups in an event, the largest; `dead` counts all of them.
const GROUPS: i64 = 200;
/// Dead items in an event.
const NEWEST: i64 = 20;

impl Engine {
    /// The error groups of an owner or of all, the largest first, and the dead items of all of them.
    pub(crate) async fn failures_of(&self, owner_id: Option<Uuid>) -> Result<(Vec<ErrorGroup>, i64)> {
        let query = GroupQuery { owner_id, limit: GROUPS, ..GroupQuery::default() };
        Ok(trees::owner_groups(&self.0.core.pools.read, &query).await?)
    }

    /// The newest dead items of an owner or of all, without payloads.
    pub(crate) async fn newest_dead(&self, owner_id: Option<Uuid>) -> Result<Vec<Item>> {
        let core = &self.0.core;
        let ids = searching::newest_dead(&core.pools.read, owner_id, NEWEST).await?;
        core.views(&ids, false).await
    }

    /// An item as it is now, whoever asks; nothing where its tree is gone.
    pub(crate) async fn item_now(&self, id: Uuid) -> Result<Option<Item>> {
        Ok(self.0.core.views(&[id], true).await?.pop())
    }

    /// Whose these jobs are; removed ones are not there. Those that are in work are known without a statement.
    pub(crate) async fn owners_of(&self, ids: &[Uuid]) -> Result<HashMap<Uuid, Uuid>> {
        let core = &self.0.core;
        let mut owners = core.jobs.owners_of(ids);
        let missing: Vec<Uuid> = ids.iter().filter(|id| !owners.contains_key(id)).copied().collect();
        if !missing.is_empty() {
            owners.extend(contracts::owners_of(&core.pools.read, &missing).await?);
        }
        Ok(owners)
    }
}
