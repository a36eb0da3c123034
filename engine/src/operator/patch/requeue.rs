//! Placement of edited waiting rows, with the counters of their job in the same transaction.
//!
//! The job state row is updated last and refuses a canceled job, so a row that is taken and put back cannot escape the
//! propagation that ends the rows of a canceled job.

use std::collections::HashMap;

use uuid::Uuid;

use crate::{
    Core,
    error::Result,
    store::{
        Tx,
        dispatch::leases,
        enqueue::items::{self, DeferredRow, ReadyRow},
        operator::patch::{self, EditableItem},
        tree::job_states::{self, Delta},
    },
};

/// Result of moving edited rows.
#[derive(Default)]
pub(super) struct Requeued {
    /// Number of rows that were waiting.
    pub(super) moved: usize,
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
    /// Moves the waiting ones of these items to the place of their new priority and times; `rows` are of one job,
    /// sorted by id. `None` if the job is canceled or removed: nothing may be committed then.
    pub(super) async fn requeue(&self, tx: &mut Tx, job_key: i64, rows: &[EditableItem]) -> Result<Option<Requeued>> {
        let ids: Vec<Uuid> = rows.iter().map(|row| row.id).collect();
        let wanted: HashMap<Uuid, &EditableItem> = rows.iter().map(|row| (row.id, row)).collect();
        let now = items::now(tx).await?;
        let blocked_by_after = patch::blocked_by_after(tx, job_key).await?;
        let mut delta = Delta::default();
        let (mut ready, mut deferred) = (Vec::new(), Vec::new());
        let mut moved: Vec<ReadyRow> = Vec::new();
        for row in patch::take_ready(tx, &ids).await? {
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
        for row in patch::take_deferred(tx, &ids).await? {
            let Some(new) = wanted.get(&row.item_id) else { continue };
            let mut put = DeferredRow { negated_priority: -new.priority, expires_at: new.expires_at, ..row };
            if row.retryable {
                // The backoff still applies.
                put.due_at = new.run_after.map_or(row.due_at, |at| at.max(row.due_at));
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
        let blocked = patch::change_blocked(tx, rows).await?;
        let waiting_for_events = patch::change_waits(tx, rows).await?;
        self.assign_returning_turns(tx, &mut moved).await?;
        ready.append(&mut moved);
        self.make_ready(tx, &ready).await?;
        items::defer(tx, &deferred).await?;
        let moved = ready.len() + deferred.len() + blocked.len() + waiting_for_events.len();
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
        Ok(Some(Requeued { moved, ready: low_water_marks }))
    }
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
