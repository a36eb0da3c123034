//! Order in which the types of a claim are tried: the one with the item of the highest priority first, and types with
//! items of the same priority in any order, so that they take turns (`claiming`).

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

use rand::seq::SliceRandom as _;

use super::ClaimCommand;
use crate::{
    Core,
    error::Result,
    store::{Tx, dispatch::leases, enqueue::parked_items, tree::definitions::TypeInfo},
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
    let ids = several.iter().flat_map(|types| types.iter()).copied();
    let infos: BTreeMap<i32, Arc<TypeInfo>> = ids.filter_map(|id| Some((id, core.types.by_id(id)?))).collect();
    let starts = infos.keys().map(|&type_id| (type_id, core.low_water_marks.look(type_id))).collect();
    let mut first: HashMap<i32, i16> = HashMap::new();
    for (type_id, found) in leases::first_waiting(tx, &starts).await? {
        core.low_water_marks.added(type_id, found);
        first.insert(type_id, found.negated_priority);
    }
    let keyed: Vec<i32> =
        infos.iter().filter(|(_, info)| info.limits.is_keyed()).map(|(&type_id, _)| type_id).collect();
    if !keyed.is_empty() {
        for (type_id, negated_priority) in parked_items::first_admissible(tx, &keyed).await? {
            let found = first.entry(type_id).or_insert(negated_priority);
            *found = negated_priority.min(*found);
        }
    }
    for types in several {
        types.shuffle(&mut rand::rng());
        types.sort_by_key(|type_id| first.get(type_id).copied().unwrap_or(i16::MAX));
    }
    Ok(orders)
}
