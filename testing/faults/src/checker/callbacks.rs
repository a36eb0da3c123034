//! Rules of callbacks: compares the received callbacks with the requests and the tables.

use std::collections::{HashMap, HashSet};

use domain::{Counts, Outcome, id::Uuid};

use super::{
    Kind, Verdict,
    history::{History, Job},
};
use crate::{
    journal::Request,
    receiver::{CallbackPayload, ReceivedCallback},
};

const PENDING: i16 = 1;
const DELIVERED: i16 = 2;
const SUPERSEDED: i16 = 5;

/// Checks both rules.
pub(super) fn check(history: &History, verdict: &mut Verdict) {
    check_delivered(history, verdict);
    check_content(history, verdict);
}

fn is_accepted(received: &ReceivedCallback) -> bool {
    received.valid && (200..300).contains(&received.response_status)
}

/// Each completion of a tree with a callback was delivered, or is recorded as not delivered. None is pending at the end.
fn check_delivered(history: &History, verdict: &mut Verdict) {
    let mut received: HashMap<(Uuid, i32), Vec<&ReceivedCallback>> = HashMap::new();
    for one in history.received.iter().filter(|one| one.valid) {
        if let Some(payload) = &one.payload {
            received.entry((payload.job_id, payload.completion)).or_default().push(one);
        }
    }
    let rows: HashMap<(Uuid, i32), i16> =
        history.deliveries.iter().map(|row| ((row.job_id, row.completion), row.state)).collect();
    // If the response was lost, the tree is identified by its name.
    let (mut requested, mut named): (HashSet<Uuid>, HashSet<&str>) = (HashSet::new(), HashSet::new());
    for call in &history.calls {
        match (&call.request, call.job) {
            (Request::Create { calls: true, .. }, Some(job)) => drop(requested.insert(job)),
            (Request::Create { key, calls: true, .. }, None) => drop(named.insert(key)),
            _ => {}
        }
    }
    let has_callback =
        |job: &Job| requested.contains(&job.id) || job.name.as_deref().is_some_and(|name| named.contains(name));
    let roots = history.jobs.values().filter(|job| job.parent_id.is_none());
    for root in roots.filter(|root| has_callback(root)) {
        for completion in 1..=root.completion {
            let event = (root.id, completion);
            let matching = received.get(&event).map(Vec::as_slice).unwrap_or_default();
            verdict.callbacks_delivered += matching.len().min(1);
            verdict.callback_retries += matching.len().saturating_sub(1);
            let (accepted, last) = (matching.iter().any(|one| is_accepted(one)), completion == root.completion);
            let what = format!("tree {:?}, completion {completion}", root.name.as_deref().unwrap_or_default());
            match rows.get(&event) {
                _ if accepted => {}
                None => verdict.add_finding(
                    Kind::CallbackMissing,
                    format!("{what}: no callback was received and none is pending"),
                ),
                Some(&DELIVERED) => {
                    verdict.add_finding(
                        Kind::CallbackMissing,
                        format!("{what}: delivered according to the table, but never received"),
                    );
                }
                Some(&SUPERSEDED) if last => {
                    verdict.add_finding(
                        Kind::CallbackMissing,
                        format!("{what}: marked as superseded, but nothing supersedes it"),
                    );
                }
                Some(&SUPERSEDED) => {}
                Some(&PENDING) => verdict.add_finding(Kind::Stuck, format!("{what}: its callback is pending")),
                Some(_) => verdict.undelivered += 1,
            }
        }
    }
}

/// Callbacks are signed, have one id per completion, are not early, and have the correct content.
fn check_content(history: &History, verdict: &mut Verdict) {
    // Start with the ids in the tables: a different id at every attempt differs from theirs.
    let rows = || history.deliveries.iter().map(|row| ((row.job_id, row.completion), row.id.as_str()));
    let mut of_event: HashMap<(Uuid, i32), &str> = rows().collect();
    let mut of_id: HashMap<&str, (Uuid, i32)> = rows().map(|(event, id)| (id, event)).collect();
    let mut bodies: HashMap<&str, &str> = HashMap::new();
    let trees = Trees::of(history);
    for received in &history.received {
        if !received.valid {
            verdict.add_finding(Kind::CallbackUnsigned, format!("{} from port {}", received.id, received.port));
            continue;
        }
        let Some(payload) = &received.payload else {
            verdict.add_finding(Kind::CallbackWrong, format!("{}: cannot be read", received.id));
            continue;
        };
        let event = (payload.job_id, payload.completion);
        let id = *of_event.entry(event).or_insert(&received.id);
        if id != received.id || *of_id.entry(&received.id).or_insert(event) != event {
            verdict.add_finding(
                Kind::CallbackIdChanged,
                format!("{} and {id} of completion {} of {}", received.id, event.1, event.0),
            );
        } else if *bodies.entry(&received.id).or_insert(&received.hash) != received.hash {
            verdict.add_finding(Kind::CallbackWrong, format!("{}: a retry had another body", received.id));
        }
        if history.deleted_jobs.contains(&payload.job_id) {
            continue;
        }
        let Some(root) = history.jobs.get(&payload.job_id).filter(|job| job.parent_id.is_none()) else {
            verdict.add_finding(Kind::CallbackWrong, format!("{}: there is no tree {}", received.id, payload.job_id));
            continue;
        };
        if payload.completion > root.completion || trees.is_early(root, payload, received.at_us as i64) {
            verdict.add_finding(
                Kind::CallbackEarly,
                format!("{}: completion {} of {}", received.id, payload.completion, root.id),
            );
        } else if payload.completion == root.completion && !trees.is_correct(root, payload) {
            verdict.add_finding(
                Kind::CallbackWrong,
                format!("{}: {:?}, {:?}", received.id, payload.outcome, payload.counts),
            );
        }
    }
}

/// Counts of the items of each tree, by its root.
struct Trees {
    counts: HashMap<Uuid, Counts>,
    /// Time at which its last item ended or was added.
    last_change: HashMap<Uuid, i64>,
}

impl Trees {
    fn of(history: &History) -> Self {
        let (mut counts, mut last_change) = (HashMap::<Uuid, Counts>::new(), HashMap::<Uuid, i64>::new());
        let mut roots = HashMap::new();
        for item in &history.items {
            let Some(root) = history.jobs.get(&item.job_id).map(|job| job.root_id) else { continue };
            roots.insert(item.id, root);
            let counts = counts.entry(root).or_default();
            match item.state {
                Some(1) => counts.succeeded += 1,
                Some(2) => counts.dead += 1,
                Some(3) => counts.cancelled += 1,
                Some(4) => counts.expired += 1,
                // Not final: reported as stuck.
                _ => counts.available += 1,
            }
            let last_change = last_change.entry(root).or_default();
            *last_change = item.created_us.max(*last_change);
        }
        for assignment in &history.assignments {
            if let Some(root) = roots.get(&assignment.item_id) {
                let last_change = last_change.entry(*root).or_default();
                *last_change = assignment.ended_us.unwrap_or(i64::MAX).max(*last_change);
            }
        }
        Self { counts, last_change }
    }

    /// True if the callback came before the last item ended. Earlier completions cannot be checked by their items.
    fn is_early(&self, root: &Job, payload: &CallbackPayload, at_us: i64) -> bool {
        let last_change = self.last_change.get(&root.id).copied().unwrap_or_default();
        payload.completion == root.completion
            && (last_change > at_us || root.completed_us.is_none_or(|then| then > at_us))
    }

    fn is_correct(&self, root: &Job, payload: &CallbackPayload) -> bool {
        let counts = self.counts.get(&root.id).copied().unwrap_or_default();
        payload.counts == counts && payload.outcome == root.outcome.and_then(Outcome::from_code)
    }
}
