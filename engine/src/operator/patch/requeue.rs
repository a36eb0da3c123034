//! Placement of edited waiting rows, with the counters of their job in the same transaction.
//!
//! The job state row is updated last and refuses a canceled job, so a row that is taken and put back cannot escape the
//! propagation that ends the rows of a canceled job.

use std::{
    collections::{HashMap, HashSet},
    time::Duration,
};

use time::OffsetDateTime;
use uuid::Uuid;

use crate::{
    Core,
    error::{Error, Result},
    store::{
        Tx,
        dispatch::leases,
        enqueue::{
            items::{self, DeferredRow, ReadyRow},
            pending_rows,
        },
        operator::patch::{self, EditableItem},
        tree::job_states::{self, Delta},
    },
};

/// Number of looks for rows that others hold, and the pause between two.
const LOOKS: usize = 5;
const PAUSE: Duration = Duration::from_millis(5);

/// Result of moving edited rows.
#[derive(Default)]
pub(super) struct Requeued {
    /// Items that no longer wait: they run, or have ended.
    pub(super) left: HashSet<Uuid>,
    /// Types and positions where claims may find new items.
    ready: Vec<(i32, leases::ClaimCursor)>,
}

impl Requeued {
    pub(super) fn after_commit(&self, core: &Core) {
        for &(type_id, mark) in &self.ready {
            core.low_water_marks.added(type_id, mark);
            core.waiters.wake(type_id, 1);
            core.live.work_added(type_id);
        }
    }
}

impl Core {
    /// Writes the new priority and times of the waiting ones of these items, and moves them to their place; `rows` are of one
    /// job, sorted by id. `None` if the job is canceled or removed, and `Conflict` if others hold some: nothing may be committed
    /// then.
    pub(super) async fn requeue(&self, tx: &mut Tx, job_key: i64, rows: &[EditableItem]) -> Result<Option<Requeued>> {
        let wanted: HashMap<Uuid, &EditableItem> = rows.iter().map(|row| (row.id, row)).collect();
        let now = items::now(tx).await?;
        let blocked_by_after = patch::blocked_by_after(tx, job_key).await?;
        let mut delta = Delta::default();
        let (mut ready, mut deferred) = (Vec::new(), Vec::new());
        let mut moved: Vec<ReadyRow> = Vec::new();
        let waiting = take_waiting(tx, rows).await?;
        let left: Vec<Uuid> = waiting.left.iter().copied().collect();
        let canceled: HashSet<Uuid> = patch::canceled_by_after(tx, &left).await?.into_iter().collect();
        // Those that a claim has taken meanwhile keep the values of their assignments.
        let is_edited = |row: &&EditableItem| !waiting.left.contains(&row.id) || canceled.contains(&row.id);
        let edited: Vec<EditableItem> = rows.iter().filter(is_edited).copied().collect();
        patch::write_items(tx, &edited).await?;
        for row in waiting.ready {
            let Some(new) = wanted.get(&row.item_id) else { continue };
            let put = ReadyRow { negated_priority: -new.priority, expires_at: new.expires_at, ..row };
            if let Some(due_at) = new.run_after.filter(|at| *at > now) {
                delta.counts.available -= 1;
                delta.counts.scheduled += 1;
                deferred.push(put.scheduled(due_at));
            } else if put.negated_priority == row.negated_priority {
                ready.push(put);
            } else {
                moved.push(put);
            }
        }
        let retry_times = retry_times(tx, &waiting.deferred).await?;
        for row in waiting.deferred {
            let Some(new) = wanted.get(&row.item_id) else { continue };
            let mut put = DeferredRow { negated_priority: -new.priority, expires_at: new.expires_at, ..row };
            if row.retryable {
                // The backoff still applies, unless a person has made the item due. A previous `run_after` does not.
                let backoff_end = retry_times.get(&row.item_id).map_or(row.due_at, |at| row.due_at.min(*at));
                put.due_at = new.run_after.map_or(backoff_end, |at| at.max(backoff_end));
                deferred.push(put);
            } else if let Some(due_at) = new.run_after.filter(|at| *at > now) {
                put.due_at = due_at;
                deferred.push(put);
            } else if blocked_by_after || row.serialize_queue_id.is_some() {
                // The sweep of due items checks the other reasons to hold it.
                put.due_at = now;
                deferred.push(put);
            } else {
                delta.counts.scheduled -= 1;
                delta.counts.available += 1;
                moved.push(to_ready(put));
            }
        }
        self.assign_returning_turns(tx, &mut moved).await?;
        ready.append(&mut moved);
        self.make_ready(tx, &ready).await?;
        items::defer(tx, &deferred).await?;
        if job_states::apply(tx, &[(job_key, delta)]).await?.is_empty() {
            return Ok(None);
        }
        let mut low_water_marks: Vec<(i32, leases::ClaimCursor)> = Vec::new();
        for row in &ready {
            let mark = leases::ClaimCursor { negated_priority: row.negated_priority, fair_turn: row.fair_turn };
            match low_water_marks.iter_mut().find(|(type_id, _)| *type_id == row.type_id) {
                Some((_, lowest)) => *lowest = mark.min(*lowest),
                None => low_water_marks.push((row.type_id, mark)),
            }
        }
        Ok(Some(Requeued { left: waiting.left, ready: low_water_marks }))
    }
}

/// Rows that were waiting and were taken out of their tables, and the items that no longer wait.
struct Waiting {
    ready: Vec<ReadyRow>,
    deferred: Vec<DeferredRow>,
    left: HashSet<Uuid>,
}

/// Takes the waiting ones of these items, or changes them where they stay. A claim, a sweep, or the end of the item before
/// may hold some at this moment; those that it leaves must follow the edit, too. `Conflict` if it takes longer.
async fn take_waiting(tx: &mut Tx, rows: &[EditableItem]) -> Result<Waiting> {
    let (mut ready, mut deferred) = (Vec::new(), Vec::new());
    let mut left: Vec<EditableItem> = rows.to_vec();
    for look in 0..LOOKS {
        if look > 0 {
            tokio::time::sleep(PAUSE).await;
        }
        let ids: Vec<Uuid> = left.iter().map(|row| row.id).collect();
        let (more_ready, more_deferred) = (patch::take_ready(tx, &ids).await?, patch::take_deferred(tx, &ids).await?);
        let mut done: HashSet<Uuid> = more_ready.iter().map(|row| row.item_id).collect();
        done.extend(more_deferred.iter().map(|row| row.item_id));
        // In the order of tables in which pending rows are taken.
        done.extend(patch::change_waits(tx, &left).await?);
        done.extend(patch::change_blocked(tx, &left).await?);
        ready.extend(more_ready);
        deferred.extend(more_deferred);
        left.retain(|row| !done.contains(&row.id));
        let ids: Vec<Uuid> = left.iter().map(|row| row.id).collect();
        if ids.is_empty() || pending_rows::find(tx, &ids).await?.is_empty() {
            return Ok(Waiting { ready, deferred, left: ids.into_iter().collect() });
        }
    }
    Err(Error::Conflict("an item is being moved"))
}

/// Ends of the backoffs of those of these items that failed.
async fn retry_times(tx: &mut Tx, deferred: &[DeferredRow]) -> Result<HashMap<Uuid, OffsetDateTime>> {
    let retryable = deferred.iter().filter(|row| row.retryable);
    let (ids, attempts): (Vec<Uuid>, Vec<i32>) = retryable.map(|row| (row.item_id, row.attempts)).unzip();
    if ids.is_empty() {
        return Ok(HashMap::new());
    }
    Ok(patch::retry_times(tx, &ids, &attempts).await?.into_iter().collect())
}

fn to_ready(row: DeferredRow) -> ReadyRow {
    let DeferredRow {
        item_id,
        job_key,
        type_id,
        negated_priority,
        expires_at,
        attempts,
        failures,
        serialize_queue_id,
        ..
    } = row;
    ReadyRow {
        item_id,
        job_key,
        type_id,
        negated_priority,
        fair_turn: 0,
        expires_at,
        attempts,
        failures,
        serialize_queue_id,
    }
}
