//! The rules, each a pure function from a history to findings. The tests use forged histories.

use std::collections::{BTreeMap, HashMap, HashSet};

use domain::id::Uuid;

use super::{
    Kind, Verdict, audited, callbacks,
    history::{Held, History, Item},
};
use crate::{
    journal::{Said, What},
    ledger::Deed,
    worker::STEPS,
};

const SUCCEEDED: i16 = 1;
const DEAD: i16 = 2;
const LEASE_LOST: i16 = 3;

/// A history with indexes for the rules.
struct Seen<'a> {
    history: &'a History,
    items: HashMap<Uuid, &'a Item>,
    /// Ascending by start.
    held: HashMap<Uuid, Vec<&'a Held>>,
    /// Number of acknowledged manual retries.
    retries: HashMap<Uuid, usize>,
}

/// Checks a history by every rule.
pub(super) fn judge(history: &History) -> Verdict {
    let mut held: HashMap<Uuid, Vec<&Held>> = HashMap::new();
    for one in &history.held {
        held.entry(one.item_id).or_default().push(one);
    }
    for of_item in held.values_mut() {
        of_item.sort_by_key(|one| (one.started_us, one.attempt));
    }
    let items = history.items.iter().map(|item| (item.id, item)).collect();
    let mut retries: HashMap<Uuid, usize> = HashMap::new();
    for call in history.calls.iter().filter(|call| call.said == Said::Ok) {
        if let What::Retry { item, .. } = call.what {
            *retries.entry(item).or_default() += 1;
        }
    }
    let seen = Seen { history, items, held, retries };
    let mut verdict = Verdict::default();
    let rules: [fn(&Seen<'_>, &mut Verdict); 11] =
        [created, ended, fed, alone, capped, serialized, fenced, cancelled, budgets, stepped, handed_out];
    for rule in rules {
        rule(&seen, &mut verdict);
    }
    callbacks::judge(history, &mut verdict);
    audited::judge(history, &mut verdict);
    verdict
}

/// Everything acknowledged exists once, and everything that exists was requested.
fn created(seen: &Seen<'_>, verdict: &mut Verdict) {
    let mut trees: HashMap<&str, Vec<Uuid>> = HashMap::new();
    for job in seen.history.jobs.values().filter(|job| job.parent_id.is_none()) {
        trees.entry(job.name.as_deref().unwrap_or_default()).or_default().push(job.id);
    }
    let mut found: HashMap<(Uuid, &str), usize> = HashMap::new();
    for item in seen.history.items.iter().filter(|item| item.fed_by.is_none()) {
        *found.entry((item.job_id, item.dedupe_key.as_deref().unwrap_or_default())).or_default() += 1;
    }
    let mut asked: HashSet<(Uuid, &str)> = HashSet::new();
    let mut named: HashSet<&str> = HashSet::new();
    let mut filled: HashSet<Uuid> = HashSet::new();
    for call in &seen.history.calls {
        let (jobs, items): (Vec<Uuid>, &[String]) = match &call.what {
            What::Create { key, items, .. } => {
                let made = trees.get(key.as_str()).cloned().unwrap_or_default();
                named.insert(key);
                if call.said == Said::Ok {
                    verdict.acknowledged += 1;
                    if call.job.is_none_or(|job| !made.contains(&job)) {
                        verdict.find(Kind::Lost, format!("tree {key}"));
                    }
                }
                if made.len() > 1 {
                    verdict.find(Kind::Doubled, format!("{} trees of the key {key}", made.len()));
                }
                (made, items)
            }
            What::Add { job, items } => (vec![*job], items),
            What::File { key, rows } => {
                named.insert(key);
                let made = trees.get(key.as_str()).cloned().unwrap_or_default();
                files(seen, verdict, call.said, key, *rows, &made);
                filled.extend(made);
                continue;
            }
            What::Cancel { .. } | What::Retry { .. } => continue,
        };
        for key in items {
            asked.extend(jobs.iter().map(|job| (*job, key.as_str())));
            if call.said == Said::Ok {
                verdict.acknowledged += 1;
                if !jobs.iter().any(|job| found.contains_key(&(*job, key.as_str()))) {
                    verdict.find(Kind::Lost, format!("item {key}"));
                }
            }
        }
    }
    for (name, of_name) in trees.iter().filter(|(name, _)| !named.contains(*name)) {
        verdict.find(Kind::Unexpected, format!("{} trees {name:?}", of_name.len()));
    }
    for ((job, key), n) in found.into_iter().filter(|((job, _), _)| !filled.contains(job)) {
        if n > 1 {
            verdict.find(Kind::Doubled, format!("{n} items {key} in {job}"));
        }
        if !asked.contains(&(job, key)) {
            verdict.find(Kind::Unexpected, format!("item {key} in {job}"));
        }
    }
}

/// A file makes one tree with one item per row.
fn files(seen: &Seen<'_>, verdict: &mut Verdict, said: Said, key: &str, rows: usize, made: &[Uuid]) {
    let items = seen.history.items.iter().filter(|item| made.contains(&item.job_id)).count();
    if said == Said::Ok {
        verdict.acknowledged += rows + 1;
    }
    if made.len() > 1 || items > rows {
        verdict.find(Kind::Doubled, format!("{} trees and {items} items of the {rows} rows of {key}", made.len()));
    } else if items < rows && (said == Said::Ok || !made.is_empty()) {
        verdict.find(Kind::Lost, format!("{items} items of the {rows} rows of {key}"));
    }
}

/// All work has ended: items are final, jobs complete, no lease is open.
fn ended(seen: &Seen<'_>, verdict: &mut Verdict) {
    for item in seen.history.items.iter().filter(|item| item.state.is_none()) {
        verdict.find(Kind::Stuck, format!("item {}", item.id));
    }
    for job in seen.history.jobs.values().filter(|job| !job.complete) {
        verdict.find(Kind::Stuck, format!("job {} of type {}", job.id, job.of_type));
    }
    for one in seen.history.held.iter().filter(|one| one.ended_us.is_none()) {
        verdict.find(Kind::Stuck, format!("open assignment {}", one.id));
    }
}

/// Each source that succeeded has fed exactly one item to each job that its job feeds.
fn fed(seen: &Seen<'_>, verdict: &mut Verdict) {
    let mut by_source: HashMap<(Uuid, Uuid), usize> = HashMap::new();
    for item in &seen.history.items {
        if let Some(source) = item.fed_by {
            *by_source.entry((item.job_id, source)).or_default() += 1;
        }
    }
    for child in seen.history.jobs.values().filter(|job| job.fed && job.cancelled_us.is_none()) {
        let sources = seen.history.items.iter().filter(|item| Some(item.job_id) == child.parent_id);
        for source in sources.filter(|item| item.state == Some(SUCCEEDED)) {
            match by_source.remove(&(child.id, source.id)) {
                Some(1) => {}
                Some(n) => verdict.find(Kind::Doubled, format!("{n} items fed by {}", source.id)),
                None => verdict.find(Kind::Unfed, format!("{} feeds nothing", source.id)),
            }
        }
        for ((job, source), _) in by_source.iter().filter(|((job, _), _)| *job == child.id) {
            verdict.find(Kind::Unexpected, format!("an item of {job} fed by {source}, which did not succeed"));
        }
    }
}

/// At most one open assignment per item; attempts are numbered without gaps.
fn alone(seen: &Seen<'_>, verdict: &mut Verdict) {
    for (item, held) in &seen.held {
        for pair in held.windows(2) {
            if pair[0].ended_us.is_none_or(|ended| ended > pair[1].started_us) {
                verdict.find(Kind::Overlap, format!("{} and {} of item {item}", pair[0].id, pair[1].id));
            }
        }
        let numbers: Vec<i32> = held.iter().map(|one| one.attempt).collect();
        if numbers.iter().zip(1..).any(|(number, expected)| *number != expected) {
            verdict.find(Kind::Budget, format!("item {item} has the attempts {numbers:?}"));
        }
        let won = held.iter().filter(|one| one.ended_as == Some(SUCCEEDED)).count();
        if won > 1 {
            verdict.find(Kind::Doubled, format!("{won} accepted results of item {item}"));
        }
        for one in held.iter().filter(|one| one.ended_as == Some(LEASE_LOST)) {
            verdict.leases_lost += 1;
            let lease =
                seen.items.get(item).and_then(|item| seen.history.jobs.get(&item.job_id)).map(|job| job.lease_us);
            if let (Some(ended), Some(lease)) = (one.ended_us, lease)
                && ended - one.started_us < lease
            {
                let lived = ended - one.started_us;
                verdict.find(Kind::EarlyLoss, format!("{} after {lived} of {lease} µs", one.id));
            }
        }
    }
}

/// The number of concurrent assignments of a capped type never exceeds its cap.
fn capped(seen: &Seen<'_>, verdict: &mut Verdict) {
    let mut edges: BTreeMap<(&str, i32), Vec<(i64, i32)>> = BTreeMap::new();
    for one in &seen.history.held {
        let Some(job) = seen.items.get(&one.item_id).and_then(|item| seen.history.jobs.get(&item.job_id)) else {
            continue;
        };
        let Some(cap) = job.cap else { continue };
        let of_type = edges.entry((&job.of_type, cap)).or_default();
        of_type.push((one.started_us, 1));
        of_type.extend(one.ended_us.map(|ended| (ended, -1)));
    }
    for ((job_type, cap), mut of_type) in edges {
        // At the same time, ends come first.
        of_type.sort_unstable();
        let (mut open, mut most) = (0, 0);
        for (_, step) in of_type {
            open += step;
            most = most.max(open);
        }
        if most > cap {
            verdict.find(Kind::OverCap, format!("{most} of {job_type} at once, the cap is {cap}"));
        }
    }
}

/// Items of one serialize key run one after the other, in order of acceptance.
fn serialized(seen: &Seen<'_>, verdict: &mut Verdict) {
    let mut lanes: HashMap<&str, Vec<&Item>> = HashMap::new();
    for item in &seen.history.items {
        if let Some(key) = &item.serialize_key {
            lanes.entry(key).or_default().push(item);
        }
    }
    for (key, mut items) in lanes {
        items.sort_by_key(|item| item.seq);
        let mut before: Option<(i64, Uuid)> = None;
        for item in items {
            let Some(held) = seen.held.get(&item.id) else { continue };
            let (first, last) = (held[0].started_us, held.iter().map(|one| one.ended_us.unwrap_or(i64::MAX)).max());
            if let Some((ended, other)) = before
                && first < ended
            {
                verdict.find(Kind::Serialize, format!("{} began before {other} was over, key {key}", item.id));
            }
            before = last.map(|last| (before.map_or(last, |(ended, _)| ended.max(last)), item.id));
        }
    }
}

/// A result counts only for the assignment that reported it, and only while that was open.
fn fenced(seen: &Seen<'_>, verdict: &mut Verdict) {
    for item in seen.history.items.iter().filter(|item| item.state == Some(SUCCEEDED)) {
        let held = seen.held.get(&item.id).map(Vec::as_slice).unwrap_or_default();
        let won = held.iter().find(|one| one.ended_as == Some(SUCCEEDED));
        match (won, &item.result_by) {
            (Some(won), Some(by)) if won.id.to_string() == *by => {}
            (won, by) => {
                let won = won.map(|won| won.id);
                verdict.find(Kind::Fence, format!("item {}: {won:?} won with the result of {by:?}", item.id));
            }
        }
    }
    let by_id: HashMap<Uuid, &Held> = seen.history.held.iter().map(|one| (one.id, one)).collect();
    for entry in &seen.history.deeds {
        let Deed::Answer { status, well: true } = entry.deed else { continue };
        let counts = by_id.get(&entry.assignment).is_some_and(|one| one.ended_as == Some(SUCCEEDED));
        match status {
            200 if !counts => {
                verdict.find(Kind::Fence, format!("{} was accepted and does not count", entry.assignment));
            }
            409 if counts => verdict.find(Kind::Fence, format!("{} was refused and counts", entry.assignment)),
            409 => verdict.refused_late += 1,
            _ => {}
        }
    }
}

/// After a cancel was acknowledged, nothing below it is assigned or succeeds.
fn cancelled(seen: &Seen<'_>, verdict: &mut Verdict) {
    let mut trees: HashMap<Uuid, i64> = HashMap::new();
    for call in &seen.history.calls {
        let What::Cancel { job } = call.what else { continue };
        if call.said != Said::Ok {
            continue;
        }
        match seen.history.jobs.get(&job).map(|job| job.cancelled_us) {
            Some(Some(at)) => drop(trees.insert(job, at)),
            _ => verdict.find(Kind::Lost, format!("the cancel of {job}")),
        }
    }
    for item in &seen.history.items {
        let Some(at) = seen.history.jobs.get(&item.job_id).and_then(|job| trees.get(&job.root_id)) else { continue };
        if item.created_us > *at {
            verdict.find(Kind::AfterCancel, format!("item {} was added", item.id));
        }
        for one in seen.held.get(&item.id).into_iter().flatten() {
            let late = one.ended_as == Some(SUCCEEDED) && one.ended_us > Some(*at);
            if one.started_us > *at || late {
                verdict.find(Kind::AfterCancel, format!("{} of item {}", one.id, item.id));
            }
        }
    }
}

/// Failures match the attempts, and an item is dead exactly when its retry budget is spent.
fn budgets(seen: &Seen<'_>, verdict: &mut Verdict) {
    // A manual retry resets the budget: `handed_out` counts the attempts of these items.
    for item in seen.history.items.iter().filter(|item| !seen.retries.contains_key(&item.id)) {
        let Some(job) = seen.history.jobs.get(&item.job_id) else { continue };
        let held = seen.held.get(&item.id).map(Vec::as_slice).unwrap_or_default();
        let failed = held.iter().filter(|one| matches!(one.ended_as, Some(2..=4))).count() as i32;
        // An item cancelled while it ran keeps its failures.
        if matches!(item.state, Some(SUCCEEDED | DEAD)) && item.failures != Some(failed) {
            verdict.find(
                Kind::Budget,
                format!("item {}: {:?} failures, {failed} attempts failed", item.id, item.failures),
            );
        }
        let Some(max) = job.max_failures else { continue };
        let (dead, spent) = (item.state == Some(DEAD), failed >= max);
        let unreadable = item.error_kind.as_deref() == Some("feed_invalid");
        if failed > max || (dead && !spent && !unreadable) || (item.state.is_none() && spent) {
            verdict.find(Kind::Budget, format!("item {}: {failed} of {max} failures, dead: {dead}", item.id));
        }
    }
}

/// The next attempt begins at the last acknowledged step, and repeats none. No clock is needed: a step acknowledged to
/// one attempt was committed before the next attempt began.
fn stepped(seen: &Seen<'_>, verdict: &mut Verdict) {
    let place = |name: &str| STEPS.iter().position(|step| *step == name).map_or(0, |at| at + 1);
    let attempts: HashMap<Uuid, i32> = seen.history.held.iter().map(|one| (one.id, one.attempt)).collect();
    let mut reached: HashMap<Uuid, Vec<(i32, usize)>> = HashMap::new();
    for entry in &seen.history.deeds {
        if let (Deed::Step { name }, Some(attempt)) = (&entry.deed, attempts.get(&entry.assignment)) {
            reached.entry(entry.item).or_default().push((*attempt, place(name)));
        }
    }
    for entry in &seen.history.deeds {
        let Deed::Start { attempt, step, .. } = &entry.deed else { continue };
        let Some(reached) = reached.get(&entry.item) else { continue };
        let told = step.as_deref().map_or(0, place);
        let before = reached.iter().filter(|(earlier, _)| earlier < attempt).map(|(_, at)| *at).max().unwrap_or(0);
        if told < before {
            verdict.find(Kind::Step, format!("item {}: attempt {attempt} began at {told} after {before}", entry.item));
        }
        if let Some((_, at)) = reached.iter().find(|(same, at)| same == attempt && *at <= before) {
            verdict.find(Kind::Step, format!("item {}: attempt {attempt} did step {at} again", entry.item));
        }
    }
}

/// An at_most_once item is assigned at most once, in the tables and in the ledgers. An assignment that a worker began
/// but the tables do not have is a finding, too.
fn handed_out(seen: &Seen<'_>, verdict: &mut Verdict) {
    let mut begun: HashMap<Uuid, HashSet<Uuid>> = HashMap::new();
    for entry in seen.history.deeds.iter().filter(|entry| matches!(entry.deed, Deed::Start { .. })) {
        begun.entry(entry.item).or_default().insert(entry.assignment);
        if !seen.held.get(&entry.item).is_some_and(|held| held.iter().any(|one| one.id == entry.assignment)) {
            verdict.find(Kind::Lost, format!("assignment {} that a worker began", entry.assignment));
        }
    }
    for item in &seen.history.items {
        let once = seen.history.jobs.get(&item.job_id).is_some_and(|job| job.once);
        let by_workers = begun.get(&item.id).map_or(0, HashSet::len);
        let held = seen.held.get(&item.id).map(Vec::as_slice).unwrap_or_default();
        let given_back = held.iter().filter(|one| one.ended_as == Some(5)).count();
        let retries = seen.retries.get(&item.id).copied().unwrap_or(0);
        let allowed = given_back + retries + 1;
        let n = held.len();
        if once && retries > 0 && n < allowed {
            verdict.find(Kind::Lost, format!("item {}: {n} assignments after {retries} retries", item.id));
        } else if once && (n > allowed || by_workers > allowed) {
            verdict.find(Kind::Twice, format!("item {}: {n} assignments, {by_workers} begun", item.id));
        } else if by_workers > 1 {
            verdict.repeated += 1;
        }
    }
}
