//! What counts under the limits on starts at a moment, for the reasons why items wait (`rate-limit`,
//! `concurrency-by-key`).

use std::collections::{BTreeSet, HashMap};

use domain::{
    Time,
    dispatch::{rate_window::RateWindow, type_limits::RateLimit, waiting_reason::WaitingReason},
};
use time::OffsetDateTime;
use uuid::Uuid;

use crate::{
    enqueue::limit_keys::ItemKeys,
    error::Result,
    store::{dispatch::rate_windows, enqueue::parked_items, operator::item_changes, tree::definitions::TypeInfo},
};

use super::super::Core;

/// Running items and recent starts of limited types and of the keys of some items.
#[derive(Default)]
pub(crate) struct LimitUse {
    now: Option<OffsetDateTime>,
    keys: HashMap<Uuid, ItemKeys>,
    running: HashMap<Uuid, i64>,
    windows: HashMap<(i32, Uuid), RateWindow>,
}

impl Core {
    /// Looks up what counts for these waiting items, or for whole types. Costs nothing for types without limits.
    pub(crate) async fn limit_use(&self, waiting: &[(i32, Option<Uuid>)]) -> Result<LimitUse> {
        let limited: Vec<_> = waiting
            .iter()
            .filter_map(|&(type_id, item_id)| {
                Some((self.types.by_id(type_id).filter(|info| !info.limits.is_empty())?, item_id))
            })
            .collect();
        if limited.is_empty() {
            return Ok(LimitUse::default());
        }
        let pool = self.pools.reads().await;
        let ids: Vec<Uuid> =
            limited.iter().filter(|(info, _)| info.limits.is_keyed()).filter_map(|(_, item_id)| *item_id).collect();
        let payloads = if ids.is_empty() { HashMap::new() } else { item_changes::payloads(pool, &ids).await? };
        let mut found = LimitUse { now: Some(rate_windows::now(pool).await?), ..LimitUse::default() };
        let (mut types, mut keys) = (BTreeSet::new(), BTreeSet::from([Uuid::nil()]));
        for (info, item_id) in limited {
            types.insert(info.id);
            if let Some((id, payload)) = item_id.and_then(|id| Some((id, payloads.get(&id)?))) {
                let item_keys = ItemKeys::of(&info.limits, payload);
                keys.extend(item_keys.concurrency.into_iter().chain(item_keys.rate));
                found.keys.insert(id, item_keys);
            }
        }
        let (types, keys): (Vec<i32>, Vec<Uuid>) = (types.into_iter().collect(), keys.into_iter().collect());
        found.windows = rate_windows::look(pool, &types, &keys).await?;
        found.running = parked_items::running(pool, &types, &keys).await?.into_iter().collect();
        Ok(found)
    }
}

impl LimitUse {
    /// The limit that keeps an available item of a type from starting; without an item, the limit of the whole type.
    pub(crate) fn waiting_reason(&self, info: &TypeInfo, item_id: Option<Uuid>) -> Option<WaitingReason> {
        let keys = item_id.and_then(|id| self.keys.get(&id).copied()).unwrap_or_default();
        if let Some((limit, key)) = info.limits.concurrency_by.as_ref().zip(keys.concurrency)
            && self.running.get(&key).is_some_and(|running| *running >= limit.limit)
        {
            return Some(WaitingReason::AtKeyLimit { pointer: limit.key.clone(), limit: limit.limit });
        }
        let rate = info.limits.rate_limit.as_ref()?;
        let key = if rate.key.is_none() { Uuid::nil() } else { keys.rate? };
        let until = self.next_start(rate, self.windows.get(&(info.id, key))?)?;
        Some(WaitingReason::RateLimited { until: Some(Time(until)), rate: rate.clone() })
    }

    /// Time of the next start under a rate limit; `None` if it is now.
    fn next_start(&self, rate: &RateLimit, window: &RateWindow) -> Option<OffsetDateTime> {
        let now = (self.now?.unix_timestamp_nanos() / 1_000) as i64;
        if window.allowed(rate, now) > 0 {
            return None;
        }
        OffsetDateTime::from_unix_timestamp_nanos(i128::from(window.next_at(rate, now)) * 1_000).ok()
    }
}
