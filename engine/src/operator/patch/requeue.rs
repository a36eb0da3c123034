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
        let mut fair_turns: HashMap<(i32, i16), i64> = HashMap::new();
        for row in patch::take_ready(tx, &ids).await? {
            let Some(new) = wanted.get(&row.item_id) else { continue };
            let mut put = ReadyRow { negated_priority: -new.priority, expires_at: new.expires_at, ..row };
            if let Some(due_at) = new.run_after.filter(|at| *at > now) {
                delta.counts.available -= 1;
                delta.counts.scheduled += 1;
                deferred.push(put.scheduled(due_at));
            } else {
                if put.negated_priority != row.negated_priority {
                    put.fair_turn = put
                        .fair_turn
                        .max(self.lowest_fair_turn(tx, &mut fair_turns, put.type_id, put.negated_priority).await?);
                }
                ready.push(put);
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
                let fair_turn = self.lowest_fair_turn(tx, &mut fair_turns, put.type_id, put.negated_priority).await?;
                ready.push(to_ready(put, fair_turn));
            }
        }
        let blocked = patch::change_blocked(tx, rows).await?;
        let waiting_for_events = patch::change_waits(tx, rows).await?;
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

    /// Fair turn that is being served at a rank; later items must not go first.
    async fn lowest_fair_turn(
        &self,
        tx: &mut Tx,
        cache: &mut HashMap<(i32, i16), i64>,
        type_id: i32,
        negated_priority: i16,
    ) -> Result<i64> {
        if let Some(&fair_turn) = cache.get(&(type_id, negated_priority)) {
            return Ok(fair_turn);
        }
        let fair_turn = self.lowest_waiting_turn(tx, type_id, negated_priority).await?;
        cache.insert((type_id, negated_priority), fair_turn);
        Ok(fair_turn)
    }
}

fn to_ready(row: DeferredRow, fair_turn: i64) -> ReadyRow {
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
        fair_turn,
        expires_at,
        attempts,
        failures,
        serialize_queue_id,
    }
}
