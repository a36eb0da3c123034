//! Error groups: dead items of a job with similar errors, counted once per batch.
//!
//! A job has at most a thousand groups; further errors are counted as `other`, so that a hostile file in which every
//! row fails differently cannot produce a page of a million groups.

use std::collections::BTreeMap;

use uuid::Uuid;

use crate::{
    Core,
    error::Result,
    error_counters::GroupCount,
    store::{
        Tx,
        dispatch::endings::{self, FinalRow, GroupDelta, OwnerDelta},
        operator::item_changes,
        tree::definitions::JobInfo,
    },
};

/// Maximum number of groups of a job.
const GROUPS: i64 = 1_000;
/// Fingerprint of the group for all other errors.
const OTHER: &str = "other";

/// Adds dead items to their groups, in key order. Call this after updating the job state rows.
/// Returns the numbers for [`crate::error_counters`], which takes them after the commit.
#[must_use = "the charts of groups count them after the commit"]
pub(crate) async fn count(core: &Core, tx: &mut Tx, dead: &[FinalRow]) -> Result<Vec<GroupCount>> {
    if dead.is_empty() {
        return Ok(Vec::new());
    }
    core.announce_dead(tx, dead).await?;
    let mut groups = group(dead);
    let mut job_keys: Vec<i64> = groups.iter().map(|g| g.job_key).collect();
    job_keys.dedup();
    for job_key in job_keys {
        if endings::group_count(tx, job_key).await? >= GROUPS {
            let prints: Vec<String> =
                groups.iter().filter(|g| g.job_key == job_key).map(|g| g.fingerprint.clone()).collect();
            let existing = endings::known_groups(tx, job_key, &prints).await?;
            groups = fold_unknown(groups, job_key, &existing);
        }
    }
    endings::count_groups(tx, &groups).await?;
    count_for_owners(core, tx, &groups).await
}

/// Same across all jobs of an owner. Each job decides which fingerprints count as `other`, so an owner has at most a
/// thousand groups per job.
/// Muted groups count down, and resolved ones come back.
async fn count_for_owners(core: &Core, tx: &mut Tx, groups: &[GroupDelta]) -> Result<Vec<GroupCount>> {
    let jobs = core.jobs.by_job_keys(&mut **tx, groups.iter().map(|g| g.job_key)).await?;
    let mut owners: BTreeMap<(Uuid, i32, &str), OwnerDelta> = BTreeMap::new();
    for group in groups {
        let Some(job) = jobs.get(&group.job_key) else { continue };
        owners
            .entry((job.owner_id, job.type_id, &group.fingerprint))
            .and_modify(|delta| delta.n += group.n)
            .or_insert_with(|| OwnerDelta {
                owner_id: job.owner_id,
                type_id: job.type_id,
                fingerprint: group.fingerprint.clone(),
                message: group.message.clone(),
                kind: group.kind.clone(),
                n: group.n,
                sample_item_id: group.sample_item_id,
            });
    }
    let owners: Vec<OwnerDelta> = owners.into_values().collect();
    endings::count_owner_errors(tx, &owners).await?;
    Ok(owners.into_iter().map(|delta| (delta.type_id, delta.fingerprint, delta.n)).collect())
}

/// Removes retried items from their groups: their jobs and fingerprints. Call this under the job state locks.
pub(crate) async fn uncount(tx: &mut Tx, back: &[(&JobInfo, &str)]) -> Result<()> {
    if back.is_empty() {
        return Ok(());
    }
    let mut counts: BTreeMap<(i64, &str), i64> = BTreeMap::new();
    let mut jobs: BTreeMap<i64, &JobInfo> = BTreeMap::new();
    for &(job, fingerprint) in back {
        *counts.entry((job.job_key, fingerprint)).or_default() += 1;
        jobs.insert(job.job_key, job);
    }
    let job_keys: Vec<i64> = counts.keys().map(|key| key.0).collect();
    let prints: Vec<&str> = counts.keys().map(|key| key.1).collect();
    let counts: Vec<i64> = counts.values().copied().collect();
    // Groups of owners are locked in the order in which they are counted.
    let mut owners: BTreeMap<(Uuid, i32, String), i64> = BTreeMap::new();
    for (job_key, fingerprint, n) in item_changes::uncount(tx, &job_keys, &prints, &counts).await? {
        if let Some(job) = jobs.get(&job_key) {
            *owners.entry((job.owner_id, job.type_id, fingerprint)).or_default() += n;
        }
    }
    for ((owner_id, type_id, fingerprint), n) in owners {
        item_changes::uncount_for_owner(tx, owner_id, type_id, &fingerprint, n).await?;
    }
    Ok(())
}

/// Dead rows by group, sorted by key.
fn group(dead: &[FinalRow]) -> Vec<GroupDelta> {
    let mut groups: BTreeMap<(i64, &str), GroupDelta> = BTreeMap::new();
    for row in dead {
        let Some(error) = &row.error else { continue };
        groups
            .entry((row.job_key, &error.fingerprint))
            .or_insert_with(|| GroupDelta {
                job_key: row.job_key,
                fingerprint: error.fingerprint.clone(),
                message: error.message.clone(),
                kind: error.kind.clone(),
                n: 0,
                sample_item_id: row.item_id,
            })
            .n += 1;
    }
    groups.into_values().collect()
}

/// Moves new groups of a full job into `other`.
fn fold_unknown(groups: Vec<GroupDelta>, job_key: i64, existing: &[String]) -> Vec<GroupDelta> {
    let mut merged: BTreeMap<(i64, String), GroupDelta> = BTreeMap::new();
    for mut group in groups {
        if group.job_key == job_key && !existing.contains(&group.fingerprint) {
            OTHER.clone_into(&mut group.fingerprint);
            "Other problems".clone_into(&mut group.message);
            group.kind = None;
        }
        let n = group.n;
        merged.entry((group.job_key, group.fingerprint.clone())).and_modify(|g| g.n += n).or_insert(group);
    }
    merged.into_values().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn delta(fingerprint: &str, n: i64) -> GroupDelta {
        GroupDelta {
            job_key: 1,
            fingerprint: fingerprint.to_owned(),
            message: String::new(),
            kind: None,
            n,
            sample_item_id: Uuid::nil(),
        }
    }

    #[test]
    fn a_full_job_counts_new_groups_as_other() {
        let folded = fold_unknown(vec![delta("a", 1), delta("b", 2), delta("c", 3)], 1, &["b".to_owned()]);
        let counts: Vec<(&str, i64)> = folded.iter().map(|g| (g.fingerprint.as_str(), g.n)).collect();
        assert_eq!(counts, [("b", 2), ("other", 4)]);
    }
}
