//! Reasons to refuse added items: duplicates, manual seals while a job is being filled, and jobs that are sealed,
//! canceled or removed (`sealing`, `dedupe-key`, `cancellation`).
//!
//! Separate from the adding itself, because each refusal answers one request and does not affect the others. This
//! module only reads; conditions that must hold at the commit are read under the job state lock.

use domain::{Code, Problem};

use crate::{
    error::{Error, Result},
    store::{
        Tx,
        enqueue::dedupe,
        tree::{job_states, jobs},
    },
};

use super::{
    super::{idempotency_keys::OnDuplicate, item_intake::Intake, item_validation::PreparedItem},
    AddCommand,
};

/// Refuses commands with duplicates as a whole, unless they asked to skip them (`dedupe-key`).
pub(super) async fn refuse_duplicates(
    tx: &mut Tx,
    commands: &[&AddCommand],
    intake: &Intake,
) -> Result<Vec<(usize, Problem)>> {
    let keyed = |item: &PreparedItem| item.dedupe_key.is_some();
    let mut refused = Vec::new();
    for (at, command) in commands.iter().enumerate() {
        let duplicate = command.items.iter().position(|item| intake.is_duplicate(item));
        let Some(position) = duplicate.filter(|_| command.on_duplicate == OnDuplicate::Refuse) else { continue };
        // Another command may have lost a key to this one, which now releases it: run them separately.
        let beside = |other: &&AddCommand| other.job.job_key == command.job.job_key && other.items.iter().any(keyed);
        if commands.iter().copied().filter(beside).count() > 1 {
            return Err(Error::Broken("a double among several requests".to_owned()));
        }
        let key = command.items[position].dedupe_key.as_deref().unwrap_or_default();
        let holder = dedupe::holder(tx, command.job.job_key, key).await?;
        // A duplicate within one request has no existing item to name.
        let is_own = holder.is_some_and(|id| command.items.iter().any(|item| item.id == id));
        let (place, detail) =
            (format!("/{position}/dedupe_key"), format!("the job has an item with the key {key:?} already"));
        let problem = Problem::at(Code::Duplicate, place, detail);
        refused.push((at, Problem { id: holder.filter(|_| !is_own), ..problem }));
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
    let by_hand = |command: &AddCommand| command.seal && command.cursor_move.is_none();
    let fed = commands.iter().enumerate().filter(|(_, command)| by_hand(command) && command.job.fed).map(|(at, _)| {
        let detail = "The job is fed by its parent and is sealed by itself when the parent is complete.";
        (at, Problem::new(Code::JobIsFed, detail))
    });
    let mut refused: Vec<(usize, Problem)> = fed.collect();
    let job_keys: Vec<i64> = commands.iter().filter(|c| by_hand(c)).map(|c| c.job.job_key).collect();
    if new || job_keys.is_empty() {
        return Ok(refused);
    }
    let being_split = jobs::being_imported(tx, &job_keys).await?;
    let problem = || {
        Problem::new(Code::JobIsFed, "The job is being filled from its file and is sealed by itself at the file's end.")
    };
    let split = |command: &AddCommand| by_hand(command) && being_split.contains(&command.job.job_key);
    refused.extend(commands.iter().enumerate().filter(|(_, command)| split(command)).map(|(at, _)| (at, problem())));
    Ok(refused)
}

/// Refuses items for sealed or canceled jobs (`sealing`, `cancellation`), even if there are none. Sealing twice is
/// allowed, and so is the end of a file or of a stream with an Idempotency-Key that adds no more items.
pub(super) fn refusal(job_state: &job_states::LockedJobState, command: &AddCommand) -> Option<Problem> {
    let continues = command.key.as_ref().is_some_and(|key| key.from.is_some());
    let adds = !command.items.is_empty() || !(command.seal || command.cursor_move.is_some() || continues);
    if job_state.deleted {
        Some(removed())
    } else if job_state.cancelled {
        Some(Problem::new(Code::JobCancelled, "The job is canceled and takes no more items."))
    } else if job_state.sealed && adds {
        Some(Problem::new(Code::JobSealed, "The job is sealed and takes no more items. Create another job for them."))
    } else {
        None
    }
}

pub(super) fn removed() -> Problem {
    Problem::new(Code::JobRemoved, "The job was removed.")
}
