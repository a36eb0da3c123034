//! Fair turns by owner or key (`fair-by`). Claims know nothing of it: an item gets its turn when it becomes available, and
//! claims take turns in order, however many items wait.
//!
//! Items that become available again take turns beside those that are new: they were served in their turn once.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

use domain::{dispatch::type_limits::key_value, fair_by::FairBy};
use sha2::{Digest as _, Sha256};
use uuid::Uuid;

use crate::{
    Core, Engine,
    error::Result,
    store::{
        Tx,
        dispatch::leases,
        enqueue::{fair_groups, items::ReadyRow},
        tree::definitions::{JobInfo, TypeInfo},
    },
};

use super::add::rows::ITEMS_PER_FAIR_TURN;

/// Number of groups that one sweep deletes at most.
const STEP: i64 = 2_000;

/// Group of a value at a pointer; items without a value are one group.
fn group_of(pointer: &str, payload: Option<&String>) -> Uuid {
    let Some(value) = payload.and_then(|payload| key_value(pointer, payload)) else { return Uuid::nil() };
    let hash = Sha256::new().chain_update(pointer).chain_update([0]).chain_update(value).finalize();
    let mut bytes = [0; 16];
    bytes.copy_from_slice(&hash[..16]);
    Uuid::from_bytes(bytes)
}

/// Rows of each group, by type and priority.
type Groups = BTreeMap<(i32, i16), BTreeMap<Uuid, Vec<usize>>>;

impl Core {
    /// Types among those of the rows whose items take turns by another group than the tree.
    fn grouped_types(&self, rows: &[ReadyRow]) -> HashMap<i32, Arc<TypeInfo>> {
        // Neighbors share their type: it is looked up once.
        let types = rows.chunk_by(|one, next| one.type_id == next.type_id).map(|rows| rows[0].type_id);
        types
            .filter_map(|type_id| {
                Some((type_id, self.types.by_id(type_id).filter(|info| info.fair_by != FairBy::Tree)?))
            })
            .collect()
    }

    /// Gives items that have never started the turns of their groups, where their type has some.
    pub(crate) async fn assign_fair_turns(&self, tx: &mut Tx, rows: &mut [ReadyRow]) -> Result<()> {
        let types = self.grouped_types(rows);
        if types.is_empty() {
            return Ok(());
        }
        let is_new = |row: &ReadyRow| row.attempts == 0 && types.contains_key(&row.type_id);
        for (rank, groups) in self.fair_groups(tx, &types, rows, is_new).await? {
            let lowest = self.lowest_waiting_turn(tx, rank.0, rank.1).await? * ITEMS_PER_FAIR_TURN;
            let keys: Vec<Uuid> = groups.keys().copied().collect();
            let numbers: Vec<i64> = groups.values().map(|rows| rows.len() as i64).collect();
            // In a commit of its own: the group may be everybody's.
            let before = fair_groups::reserve(&self.pools.hints, rank, &keys, &numbers, lowest).await?;
            for (group, mut turn) in before {
                for &at in groups.get(&group).into_iter().flatten() {
                    rows[at].fair_turn = turn / ITEMS_PER_FAIR_TURN;
                    turn += 1;
                }
            }
        }
        Ok(())
    }

    /// Gives turns to items that become available again or later than they came: due, retried, released, or edited ones,
    /// oldest first. They do not wait behind what their group has added since, so they start at the lowest turn that waits.
    /// Yet they take turns like all others: a group whose items are all due at once does not block the rest.
    pub(crate) async fn assign_returning_turns(&self, tx: &mut Tx, rows: &mut [ReadyRow]) -> Result<()> {
        if rows.is_empty() {
            return Ok(());
        }
        rows.sort_unstable_by_key(|row| row.item_id);
        self.assign_fair_turns(tx, rows).await?;
        let types = self.grouped_types(rows);
        let others = |row: &ReadyRow| row.attempts > 0 || !types.contains_key(&row.type_id);
        for (rank, groups) in self.fair_groups(tx, &types, rows, others).await? {
            let lowest = self.lowest_waiting_turn(tx, rank.0, rank.1).await?;
            for (group, of_group) in groups {
                for at in of_group {
                    rows[at].fair_turn = self.returning_turns.take(rank, group, lowest);
                }
            }
        }
        Ok(())
    }

    /// Groups of some of the rows, by type and priority. `types` are those whose items take turns by another group than the
    /// tree.
    async fn fair_groups(
        &self,
        tx: &mut Tx,
        types: &HashMap<i32, Arc<TypeInfo>>,
        rows: &[ReadyRow],
        wanted: impl Fn(&ReadyRow) -> bool,
    ) -> Result<Groups> {
        let wanted: Vec<(usize, &ReadyRow, &FairBy)> = rows
            .iter()
            .enumerate()
            .filter(|(_, row)| wanted(row))
            .map(|(at, row)| (at, row, types.get(&row.type_id).map_or(&FairBy::Tree, |info| &info.fair_by)))
            .collect();
        let keyed = wanted.iter().filter(|(_, _, by)| matches!(by, FairBy::Key(_)));
        let ids: Vec<Uuid> = keyed.map(|(_, row, _)| row.item_id).collect();
        let payloads: HashMap<Uuid, String> =
            if ids.is_empty() { HashMap::new() } else { leases::payloads(tx, &ids).await?.into_iter().collect() };
        let of_jobs = wanted.iter().filter(|(_, _, by)| !matches!(by, FairBy::Key(_)));
        let jobs: HashMap<i64, Arc<JobInfo>> =
            self.jobs.by_job_keys(&mut **tx, of_jobs.map(|(_, row, _)| row.job_key)).await?;
        let mut groups = Groups::new();
        for (at, row, by) in wanted {
            let job = jobs.get(&row.job_key);
            let group = match by {
                FairBy::Key(pointer) => group_of(pointer, payloads.get(&row.item_id)),
                FairBy::Owner => job.map_or(Uuid::nil(), |job| job.owner_id),
                FairBy::Tree => job.map_or(Uuid::nil(), |job| job.root_id),
            };
            groups.entry((row.type_id, row.negated_priority)).or_default().entry(group).or_default().push(at);
        }
        Ok(groups)
    }
}

impl Engine {
    /// Deletes the turns of groups that are over. Returns their number.
    pub async fn delete_idle_fair_groups(&self) -> Result<usize> {
        Ok(fair_groups::delete_idle(&self.0.core.pools.read, ITEMS_PER_FAIR_TURN, STEP).await? as usize)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_differ_by_pointer_and_value() {
        let group = |pointer: &str, payload: &str| group_of(pointer, Some(&payload.to_owned()));
        assert_eq!(group("/a", r#"{"a":"x"}"#), group("/a", r#"{"a":"\u0078","b":1}"#));
        assert_ne!(group("/a", r#"{"a":"x"}"#), group("/a", r#"{"a":"y"}"#));
        assert_ne!(group("/a", r#"{"a":"x"}"#), group("/b", r#"{"b":"x"}"#));
        assert_eq!(group("/a", r#"{"a":null}"#), Uuid::nil());
    }
}
