//! Slots of a claim: one for each item that it may get.

use std::collections::HashMap;

use domain::id::Uuid;

/// One slot to be filled by a claim.
#[derive(Clone, Debug)]
pub struct ClaimSlot {
    pub assignment_id: Uuid,
    pub credential_id: Uuid,
    pub worker_id: String,
}

/// Slots as columns. PostgreSQL finds an element of a text array by scanning from its start, so a column with one
/// name per slot would have quadratic cost: each worker is listed once.
pub(crate) struct SlotColumns<'a> {
    pub(crate) assignment_ids: Vec<Uuid>,
    pub(crate) credentials: Vec<Uuid>,
    pub(crate) workers: Vec<&'a str>,
    /// Number of the worker, from 1.
    pub(crate) worker: Vec<i32>,
}

impl<'a> SlotColumns<'a> {
    pub(crate) fn of(slots: &'a [ClaimSlot]) -> Self {
        let mut workers: Vec<&str> = Vec::new();
        let mut places: HashMap<&str, i32> = HashMap::new();
        let mut place = |slot: &'a ClaimSlot| {
            *places.entry(&slot.worker_id).or_insert_with(|| {
                workers.push(&slot.worker_id);
                workers.len() as i32
            })
        };
        let worker = slots.iter().map(&mut place).collect();
        Self {
            assignment_ids: slots.iter().map(|slot| slot.assignment_id).collect(),
            credentials: slots.iter().map(|slot| slot.credential_id).collect(),
            workers,
            worker,
        }
    }
}
