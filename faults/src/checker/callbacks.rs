//! Rules of callbacks: compares the received callbacks with the requests and the tables.

use std::collections::{HashMap, HashSet};

use domain::{Counts, Outcome, id::Uuid};

use super::{
    Kind, Verdict,
    history::{History, Job},
};
use crate::{
    journal::What,
    receiver::{Heard, Told},
};

const DELIVERED: i16 = 2;
const SUPERSEDED: i16 = 5;

/// Checks both rules.
pub(super) fn judge(history: &History, verdict: &mut Verdict) {
    arrived(history, verdict);
    right(history, verdict);
}

fn is_taken(heard: &Heard) -> bool {
    heard.valid && (200..300).contains(&heard.answered)
}

/// Each completion of a tree with a callback was delivered, or is recorded as not delivered.
fn arrived(history: &History, verdict: &mut Verdict) {
    let mut heard: HashMap<(Uuid, i32), Vec<&Heard>> = HashMap::new();
    for one in history.heard.iter().filter(|one| one.valid) {
        if let Some(told) = &one.told {
            heard.entry((told.job_id, told.completion)).or_default().push(one);
        }
    }
    let rows: HashMap<(Uuid, i32), i16> =
        history.deliveries.iter().map(|row| ((row.job_id, row.completion), row.state)).collect();
    // If the response was lost, the tree is identified by its name.
    let (mut asked, mut named): (HashSet<Uuid>, HashSet<&str>) = (HashSet::new(), HashSet::new());
    for call in &history.calls {
        match (&call.what, call.job) {
            (What::Create { calls: true, .. }, Some(job)) => drop(asked.insert(job)),
            (What::Create { key, calls: true, .. }, None) => drop(named.insert(key)),
            _ => {}
        }
    }
    let has_asked = |job: &Job| asked.contains(&job.id) || job.name.as_deref().is_some_and(|name| named.contains(name));
    let roots = history.jobs.values().filter(|job| job.parent_id.is_none());
    for root in roots.filter(|root| has_asked(root)) {
        for completion in 1..=root.completion {
            let of_it = (root.id, completion);
            let came = heard.get(&of_it).map(Vec::as_slice).unwrap_or_default();
            verdict.told += came.len().min(1);
            verdict.told_again += came.len().saturating_sub(1);
            let (taken, last) = (came.iter().any(|one| is_taken(one)), completion == root.completion);
            let what = format!("tree {:?}, completion {completion}", root.name.as_deref().unwrap_or_default());
            match rows.get(&of_it) {
                _ if taken => {}
                None => verdict.find(Kind::Untold, format!("{what}: nobody was told and nothing is to be delivered")),
                Some(&DELIVERED) => verdict.find(Kind::Untold, format!("{what}: delivered by the table, never taken")),
                Some(&SUPERSEDED) if last => verdict.find(Kind::Untold, format!("{what}: superseded by nothing")),
                Some(&SUPERSEDED) => {}
                Some(_) => verdict.undelivered += 1,
            }
        }
    }
}

/// Callbacks are signed, have one id per completion, are not early, and have the correct content.
fn right(history: &History, verdict: &mut Verdict) {
    // Start with the ids in the tables: a different id at every attempt differs from theirs.
    let rows = || history.deliveries.iter().map(|row| ((row.job_id, row.completion), row.id.as_str()));
    let mut of_event: HashMap<(Uuid, i32), &str> = rows().collect();
    let mut of_id: HashMap<&str, (Uuid, i32)> = rows().map(|(event, id)| (id, event)).collect();
    let mut bodies: HashMap<&str, &str> = HashMap::new();
    let trees = Trees::of(history);
    for heard in &history.heard {
        if !heard.valid {
            verdict.find(Kind::Unsigned, format!("{} from port {}", heard.id, heard.port));
            continue;
        }
        let Some(told) = &heard.told else {
            verdict.find(Kind::Untrue, format!("{}: cannot be read", heard.id));
            continue;
        };
        let event = (told.job_id, told.completion);
        let id = *of_event.entry(event).or_insert(&heard.id);
        if id != heard.id || *of_id.entry(&heard.id).or_insert(event) != event {
            verdict.find(Kind::OtherId, format!("{} and {id} of completion {} of {}", heard.id, event.1, event.0));
        } else if *bodies.entry(&heard.id).or_insert(&heard.hash) != heard.hash {
            verdict.find(Kind::Untrue, format!("{}: another body at another try", heard.id));
        }
        if history.removed.contains(&told.job_id) {
            continue;
        }
        let Some(root) = history.jobs.get(&told.job_id).filter(|job| job.parent_id.is_none()) else {
            verdict.find(Kind::Untrue, format!("{}: there is no tree {}", heard.id, told.job_id));
            continue;
        };
        if told.completion > root.completion || trees.is_early(root, told, heard.at_us as i64) {
            verdict.find(Kind::TooSoon, format!("{}: completion {} of {}", heard.id, told.completion, root.id));
        } else if told.completion == root.completion && !trees.is_so(root, told) {
            verdict.find(Kind::Untrue, format!("{}: {:?}, {:?}", heard.id, told.outcome, told.counts));
        }
    }
}

/// Counts of the items of each tree, by its root.
struct Trees {
    counts: HashMap<Uuid, Counts>,
    /// Time at which its last item ended or was added.
    moved: HashMap<Uuid, i64>,
}

impl Trees {
    fn of(history: &History) -> Self {
        let (mut counts, mut moved) = (HashMap::<Uuid, Counts>::new(), HashMap::<Uuid, i64>::new());
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
            let moved = moved.entry(root).or_default();
            *moved = item.created_us.max(*moved);
        }
        for held in &history.held {
            if let Some(root) = roots.get(&held.item_id) {
                let moved = moved.entry(*root).or_default();
                *moved = held.ended_us.unwrap_or(i64::MAX).max(*moved);
            }
        }
        Self { counts, moved }
    }

    /// True if the callback came before the last item ended. Earlier completions cannot be checked by their items.
    fn is_early(&self, root: &Job, told: &Told, at_us: i64) -> bool {
        let moved = self.moved.get(&root.id).copied().unwrap_or_default();
        told.completion == root.completion && (moved > at_us || root.completed_us.is_none_or(|then| then > at_us))
    }

    fn is_so(&self, root: &Job, told: &Told) -> bool {
        let counts = self.counts.get(&root.id).copied().unwrap_or_default();
        told.counts == counts && told.outcome == root.outcome.and_then(Outcome::from_code)
    }
}
