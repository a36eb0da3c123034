//! Reasons to refuse added items: duplicates, manual seals while a job is being filled, and jobs that are sealed,
//! canceled or removed (`sealing`, `dedupe-key`, `cancellation`).
//!
//! Separate from the adding itself, because each refusal answers one request and does not affect the others. This
//! module only reads; conditions that must hold at the commit are read under the job state lock.

use domain::{Code, Problem};

use crate::{
    error::{Error, Result},
    store::{Tx, dedupe, gates, jobs},
};

use super::{
    super::{intake::Intake, keys::OnDuplicate, prepare::Prepared},
    AddCommand,
};

/// Refuses commands with duplicates as a whole, unless they asked to skip them (`dedupe-key`).
pub(super) async fn refuse_doubles(
    tx: &mut Tx,
    commands: &[&AddCommand],
    intake: &Intake,
) -> Result<Vec<(usize, Problem)>> {
    let keyed = |item: &Prepared| item.dedupe_key.is_some();
    let mut refused = Vec::new();
    for (at, command) in commands.iter().enumerate() {
        let double = command.items.iter().position(|item| intake.is_double(item));
        let Some(place) = double.filter(|_| command.on_duplicate == OnDuplicate::Refuse) else { continue };
        // Another command may have lost a key to this one, which now releases it: run them separately.
        let beside = |other: &&AddCommand| other.job.gate_id == command.job.gate_id && other.items.iter().any(keyed);
        if commands.iter().copied().filter(beside).count() > 1 {
            return Err(Error::Broken("a double among several requests".to_owned()));
        }
        let key = command.items[place].dedupe_key.as_deref().unwrap_or_default();
        let holder = dedupe::holder(tx, command.job.gate_id, key).await?;
        // A duplicate within one request has no existing item to name.
        let own = holder.is_some_and(|id| command.items.iter().any(|item| item.id == id));
        let detail = format!("Item {place} of the request: the job has an item with the dedupe key {key:?} already.");
        let problem = Problem { id: holder.filter(|_| !own), ..Problem::new(Code::Duplicate, detail) };
        refused.push((at, problem));
    }
    Ok(refused)
}

/// Refuses manual seals of jobs that are fed or filled from a file. The end of the file seals the job; sealing it
/// earlier would lose the remaining rows. `new`: the jobs are being created, so no file fills them yet.
pub(super) async fn refuse_early_seals(
    tx: &mut Tx,
    commands: &[&AddCommand],
    new: bool,
) -> Result<Vec<(usize, Problem)>> {
    let by_hand = |command: &AddCommand| command.seal && command.place.is_none();
    let fed = commands.iter().enumerate().filter(|(_, command)| by_hand(command) && command.job.fed).map(|(at, _)| {
        let detail = "The job is fed by its parent and is sealed by itself when the parent is complete.";
        (at, Problem::new(Code::JobIsFed, detail))
    });
    let mut refused: Vec<(usize, Problem)> = fed.collect();
    let gates: Vec<i64> = commands.iter().filter(|c| by_hand(c)).map(|c| c.job.gate_id).collect();
    if new || gates.is_empty() {
        return Ok(refused);
    }
    let being_split = jobs::being_split(tx, &gates).await?;
    let problem = || {
        Problem::new(Code::JobIsFed, "The job is being filled from its file and is sealed by itself at the file's end.")
    };
    let split = |command: &AddCommand| by_hand(command) && being_split.contains(&command.job.gate_id);
    refused.extend(commands.iter().enumerate().filter(|(_, command)| split(command)).map(|(at, _)| (at, problem())));
    Ok(refused)
}

/// Refuses items for sealed or canceled jobs (`sealing`, `cancellation`). Sealing twice is allowed.
pub(super) fn refusal(gate: &gates::Locked, command: &AddCommand) -> Option<Problem> {
    if gate.removed {
        Some(removed())
    } else if gate.cancelled {
        Some(Problem::new(Code::JobCancelled, "The job is cancelled and takes no more items."))
    } else if gate.sealed && !command.items.is_empty() {
        Some(Problem::new(Code::JobSealed, "The job is sealed and takes no more items. Create another job for them."))
    } else {
        None
    }
}

pub(super) fn removed() -> Problem {
    Problem::new(Code::JobRemoved, "The job was removed.")
}
