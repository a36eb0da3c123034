//! Order in which the types of a claim are tried: the one with the item of the highest priority first, and types with
//! items of the same priority in any order, so that they take turns (`claiming`).

use std::collections::{BTreeMap, HashMap};

use rand::seq::SliceRandom as _;

use super::ClaimCommand;
use crate::{
    Core,
    error::Result,
    store::{
        Tx,
        dispatch::leases::{self, ClaimCursor},
    },
};

/// Types of each claim of `wanted`, in order. What waits is read only for claims of several types, without locks: it is a
/// hint, and every type of a claim that is not filled is tried.
pub(super) async fn type_orders(
    core: &Core,
    tx: &mut Tx,
    claims: &[&ClaimCommand],
    wanted: &[usize],
) -> Result<Vec<Vec<i32>>> {
    let mut orders: Vec<Vec<i32>> = wanted.iter().map(|&at| claims[at].types.clone()).collect();
    let several: Vec<&mut Vec<i32>> = orders.iter_mut().filter(|types| types.len() > 1).collect();
    if several.is_empty() {
        return Ok(orders);
    }
    let mut starts: BTreeMap<i32, ClaimCursor> = BTreeMap::new();
    for &type_id in several.iter().flat_map(|types| types.iter()) {
        let Some(info) = core.types.by_id(type_id).filter(|info| !info.paused) else { continue };
        starts.entry(type_id).or_insert_with(|| core.low_water_marks.look(type_id));
        if info.limits.is_keyed() {
            // Items that a limit of their key parks, until a claim of their type admits them.
            starts.insert(-type_id, ClaimCursor::BOTTOM);
        }
    }
    let mut first: HashMap<i32, i16> = HashMap::new();
    for (queue_id, found) in leases::first_waiting(tx, &starts).await? {
        if queue_id > 0 {
            core.low_water_marks.added(queue_id, found);
        }
        let negated_priority = first.entry(queue_id.abs()).or_insert(found.negated_priority);
        *negated_priority = found.negated_priority.min(*negated_priority);
    }
    for types in several {
        types.shuffle(&mut rand::rng());
        types.sort_by_key(|type_id| first.get(type_id).copied().unwrap_or(i16::MAX));
    }
    Ok(orders)
}
