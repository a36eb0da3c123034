//! Keys of limits (`concurrency-by-key`, `rate-limit`), and the items that they park.
//!
//! A key is made of hashes of the pointer and of the value in the payload, and a bit for the kind of limit: another
//! pointer makes other keys, so a change of the limit cannot confuse them.

use std::{
    collections::HashMap,
    sync::{Mutex, PoisonError},
};

use domain::dispatch::type_limits::{TypeLimits, key_value};
use sha2::{Digest as _, Sha256};
use uuid::Uuid;

use crate::{
    Core, Engine,
    error::Result,
    store::{
        Tx,
        dispatch::{
            leases::{self, ClaimCursor},
            rate_windows,
        },
        enqueue::{
            items::{self, ReadyRow},
            parked_items,
        },
    },
    task::in_task,
};

/// Kind of limit of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum KeyKind {
    Concurrency,
    Rate,
}

impl KeyKind {
    /// Kind of a key: the lowest bit of its last byte.
    pub(crate) fn of(key: Uuid) -> Self {
        if key.as_bytes()[15] & 1 == 0 { Self::Concurrency } else { Self::Rate }
    }

    /// True if a key is of a value at this pointer, and not of an earlier limit.
    pub(crate) fn is_at(key: Uuid, pointer: &str) -> bool {
        key.as_bytes()[..4] == Sha256::digest(pointer)[..4]
    }

    fn key(self, pointer: &str, payload: &str) -> Option<Uuid> {
        let value = key_value(pointer, payload)?;
        let hash = Sha256::digest(value);
        let mut bytes = [0; 16];
        bytes[..4].copy_from_slice(&Sha256::digest(pointer)[..4]);
        bytes[4..].copy_from_slice(&hash[..12]);
        bytes[15] = bytes[15] & !1 | u8::from(self == Self::Rate);
        Some(Uuid::from_bytes(bytes))
    }
}

/// Keys of an item under the limits of its type.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ItemKeys {
    pub(crate) concurrency: Option<Uuid>,
    pub(crate) rate: Option<Uuid>,
}

impl ItemKeys {
    pub(crate) fn of(limits: &TypeLimits, payload: &str) -> Self {
        Self {
            concurrency: limits.concurrency_by.as_ref().and_then(|limit| KeyKind::Concurrency.key(&limit.key, payload)),
            rate: limits.keyed_rate().and_then(|(_, pointer)| KeyKind::Rate.key(pointer, payload)),
        }
    }

    /// Key by which a new item is parked.
    fn first(self) -> Option<Uuid> {
        self.concurrency.or(self.rate)
    }
}

/// Limits for which all keys with parked items were hinted at by this process, by type.
#[derive(Default)]
pub(crate) struct HintedLimits(Mutex<HashMap<i32, TypeLimits>>);

impl HintedLimits {
    fn has(&self, type_id: i32, limits: &TypeLimits) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get(&type_id) == Some(limits)
    }

    fn insert(&self, type_id: i32, limits: TypeLimits) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(type_id, limits);
    }
}

/// Number of rows in one step of a sweep.
const STEP: i64 = 2_000;

impl Core {
    /// True if a limit of a key may hold one of these items.
    pub(crate) fn has_keyed_limits(&self, rows: &[ReadyRow]) -> bool {
        let mut types = rows.chunk_by(|one, next| one.type_id == next.type_id).map(|rows| rows[0].type_id);
        types.any(|id| self.types.by_id(id).is_some_and(|info| info.limits.is_keyed()))
    }

    /// Makes items claimable; those with a limited key are parked until a claim admits them.
    pub(crate) async fn park_by_key(&self, tx: &mut Tx, rows: &[ReadyRow]) -> Result<()> {
        let ids: Vec<Uuid> = rows.iter().map(|row| row.item_id).collect();
        let payloads: HashMap<Uuid, String> = leases::payloads(tx, &ids).await?.into_iter().collect();
        let (mut free, mut parked, mut keys) = (Vec::new(), Vec::new(), Vec::new());
        for row in rows {
            let key = self.types.by_id(row.type_id).and_then(|info| {
                let payload = payloads.get(&row.item_id).filter(|_| info.limits.is_keyed())?;
                ItemKeys::of(&info.limits, payload).first()
            });
            match key {
                Some(key) => {
                    parked.push(*row);
                    keys.push(key);
                }
                None => free.push(*row),
            }
        }
        items::make_ready(tx, &free).await?;
        if !parked.is_empty() {
            parked_items::park(tx, &parked, &keys).await?;
            parked_items::hint(tx, parked.iter().map(|row| row.type_id).zip(keys)).await?;
        }
        Ok(())
    }

    /// Wakes waiting claims of types whose parked items are to be looked at. Returns the number of those types.
    pub(crate) async fn wake_hinted(&self, types: &[i32]) -> Result<usize> {
        let keyed: Vec<i32> = types
            .iter()
            .copied()
            .filter(|&type_id| self.types.by_id(type_id).is_some_and(|info| info.limits.is_keyed()))
            .collect();
        if keyed.is_empty() {
            return Ok(0);
        }
        let hinted = parked_items::hinted_types(&self.pools.read, &keyed).await?;
        for &type_id in &hinted {
            self.waiters.wake(type_id, 1);
        }
        Ok(hinted.len())
    }

    /// Announces items of a type that became claimable at some position.
    fn announce_released(&self, type_id: i32) {
        self.low_water_marks.added(type_id, ClaimCursor::BOTTOM);
        self.live.work_added(type_id);
        self.waiters.wake(type_id, 1);
    }

    /// Releases the parked items of a type without keyed limits, or hints at their keys if its limits have changed.
    async fn follow_limits(&self, type_id: i32) -> Result<usize> {
        let Some(info) = self.types.by_id(type_id) else { return Ok(0) };
        if !info.limits.is_keyed() {
            let n = parked_items::release(&self.pools.hot, type_id, STEP).await?;
            self.announce_released(type_id);
            return Ok(n as usize);
        }
        if self.hinted_limits.has(type_id, &info.limits) {
            return Ok(0);
        }
        let mut after = Uuid::nil();
        while let Some(last) = parked_items::hint_all(&self.pools.hot, type_id, after, STEP).await? {
            after = last;
        }
        self.hinted_limits.insert(type_id, info.limits.clone());
        self.announce_released(type_id);
        Ok(1)
    }
}

impl Engine {
    /// Applies changed limits of types to the items that are parked. Returns the number of steps and rows.
    pub async fn sweep_parked_items(&self) -> Result<usize> {
        let core = std::sync::Arc::clone(&self.0.core);
        in_task("following the limits of types", async move {
            let mut done = 0;
            for type_id in parked_items::parked_types(&core.pools.hot).await? {
                done += core.follow_limits(type_id).await?;
            }
            Ok(done)
        })
        .await
    }

    /// Deletes rate windows that limit nothing any more. Returns their number.
    pub async fn delete_old_rate_windows(&self) -> Result<usize> {
        Ok(rate_windows::delete_expired(&self.0.core.pools.read, STEP).await? as usize)
    }
}

#[cfg(test)]
mod tests {
    use domain::dispatch::type_limits::ConcurrencyBy;

    use super::*;

    #[test]
    fn keys_differ_by_kind_pointer_and_value() {
        let key = |kind: KeyKind, pointer: &str, payload: &str| kind.key(pointer, payload).expect("a key");
        let a = key(KeyKind::Concurrency, "/a", r#"{"a":"x","b":"x"}"#);
        assert_eq!(a, key(KeyKind::Concurrency, "/a", r#"{"b":1,"a":"\u0078"}"#));
        assert_ne!(a, key(KeyKind::Rate, "/a", r#"{"a":"x"}"#));
        assert_ne!(a, key(KeyKind::Concurrency, "/b", r#"{"b":"x"}"#));
        assert_ne!(a, key(KeyKind::Concurrency, "/a", r#"{"a":"y"}"#));
        assert!(KeyKind::is_at(a, "/a") && !KeyKind::is_at(a, "/b"));
        assert_eq!(KeyKind::of(a), KeyKind::Concurrency);
        assert_eq!(KeyKind::of(key(KeyKind::Rate, "/a", r#"{"a":"x"}"#)), KeyKind::Rate);
        let limits = TypeLimits {
            concurrency_by: Some(ConcurrencyBy { key: "/a".to_owned(), limit: 2 }),
            ..TypeLimits::default()
        };
        assert_eq!(ItemKeys::of(&limits, r#"{"a":null}"#), ItemKeys::default());
        assert_eq!(ItemKeys::of(&limits, r#"{"a":"x"}"#).first(), Some(a));
    }
}
