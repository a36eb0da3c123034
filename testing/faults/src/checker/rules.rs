//! The rules, each a pure function from a history to findings. The tests use forged histories.

use std::collections::{BTreeMap, HashMap, HashSet};

use domain::id::Uuid;

use super::{
    Kind, Verdict, audit_log, callbacks,
    history::{AssignmentRow, History, Item},
};
use crate::{
    journal::{CallOutcome, Request},
    ledger::WorkEvent,
    worker::STEPS,
};

const SUCCEEDED: i16 = 1;
const DEAD: i16 = 2;
const LEASE_LOST: i16 = 3;

/// A history with indexes for the rules.
struct Index<'a> {
    history: &'a History,
    items: HashMap<Uuid, &'a Item>,
    /// Ascending by start.
    assignments: HashMap<Uuid, Vec<&'a AssignmentRow>>,
    /// Number of acknowledged manual retries.
    retries: HashMap<Uuid, usize>,
}

/// Checks a history by every rule.
pub(super) fn check(history: &History) -> Verdict {
    let mut assignments: HashMap<Uuid, Vec<&AssignmentRow>> = HashMap::new();
    for one in &history.assignments {
        assignments.entry(one.item_id).or_default().push(one);
    }
    for of_item in assignments.values_mut() {
        of_item.sort_by_key(|one| (one.started_us, one.attempt));
    }
    let items = history.items.iter().map(|item| (item.id, item)).collect();
    let mut retries: HashMap<Uuid, usize> = HashMap::new();
    for call in history.calls.iter().filter(|call| call.outcome == CallOutcome::Ok) {
        if let Request::Retry { item, .. } = call.request {
            *retries.entry(item).or_default() += 1;
        }
    }
    let index = Index { history, items, assignments, retries };
    let mut verdict = Verdict::default();
    let rules: [fn(&Index<'_>, &mut Verdict); 11] =
        [created, ended, fed, alone, capped, serialized, fenced, cancelled, budgets, stepped, handed_out];
    for rule in rules {
        rule(&index, &mut verdict);
    }
    callbacks::check(history, &mut verdict);
    audit_log::check(history, &mut verdict);
    verdict
}

/// Everything acknowledged exists once, and everything that exists was requested.
fn created(index: &Index<'_>, verdict: &mut Verdict) {
    let mut trees: HashMap<&str, Vec<Uuid>> = HashMap::new();
    for job in index.history.jobs.values().filter(|job| job.parent_id.is_none()) {
        trees.entry(job.name.as_deref().unwrap_or_default()).or_default().push(job.id);
    }
    let mut found: HashMap<(Uuid, &str), usize> = HashMap::new();
    for item in index.history.items.iter().filter(|item| item.fed_by.is_none()) {
        *found.entry((item.job_id, item.dedupe_key.as_deref().unwrap_or_default())).or_default() += 1;
    }
    let mut requested: HashSet<(Uuid, &str)> = HashSet::new();
    let mut named: HashSet<&str> = HashSet::new();
    let mut filled: HashSet<Uuid> = HashSet::new();
    for call in &index.history.calls {
        let (jobs, items): (Vec<Uuid>, &[String]) = match &call.request {
            Request::Create { key, items, .. } => {
                let made = trees.get(key.as_str()).cloned().unwrap_or_default();
                named.insert(key);
                if call.outcome == CallOutcome::Ok {
                    verdict.acknowledged += 1;
                    if call.job.is_none_or(|job| !made.contains(&job)) {
                        verdict.add_finding(Kind::Lost, format!("tree {key}"));
                    }
                }
                if made.len() > 1 {
                    verdict.add_finding(Kind::Doubled, format!("{} trees for the key {key}", made.len()));
                }
                (made, items)
            }
            Request::Add { job, items } => (vec![*job], items),
            Request::File { key, rows } => {
                named.insert(key);
                let made = trees.get(key.as_str()).cloned().unwrap_or_default();
                files(index, verdict, call.outcome, key, *rows, &made);
                filled.extend(made);
                continue;
            }
            Request::Cancel { .. } | Request::Retry { .. } => continue,
        };
        for key in items {
            requested.extend(jobs.iter().map(|job| (*job, key.as_str())));
            if call.outcome == CallOutcome::Ok {
                verdict.acknowledged += 1;
                if !jobs.iter().any(|job| found.contains_key(&(*job, key.as_str()))) {
                    verdict.add_finding(Kind::Lost, format!("item {key}"));
                }
            }
        }
    }
    for (name, of_name) in trees.iter().filter(|(name, _)| !named.contains(*name)) {
        verdict.add_finding(Kind::Unexpected, format!("{} trees {name:?}", of_name.len()));
    }
    for ((job, key), n) in found.into_iter().filter(|((job, _), _)| !filled.contains(job)) {
        if n > 1 {
            verdict.add_finding(Kind::Doubled, format!("{n} items with the key {key} in {job}"));
        }
        if !requested.contains(&(job, key)) {
            verdict.add_finding(Kind::Unexpected, format!("item {key} in {job}"));
        }
    }
}

/// A file makes one tree with one item per row.
fn files(index: &Index<'_>, verdict: &mut Verdict, outcome: CallOutcome, key: &str, rows: usize, made: &[Uuid]) {
    let items = index.history.items.iter().filter(|item| made.contains(&item.job_id)).count();
    if outcome == CallOutcome::Ok {
        verdict.acknowledged += rows + 1;
    }
    if made.len() > 1 || items > rows {
        verdict.add_finding(
            Kind::Doubled,
            format!("{} trees and {items} items from the {rows} rows of {key}", made.len()),
        );
    } else if items < rows && (outcome == CallOutcome::Ok || !made.is_empty()) {
        verdict.add_finding(Kind::Lost, format!("{items} items from the {rows} rows of {key}"));
    }
}

/// All work has ended: items are final, jobs and trees complete, no lease is open.
fn ended(index: &Index<'_>, verdict: &mut Verdict) {
    for item in index.history.items.iter().filter(|item| item.state.is_none()) {
        verdict.add_finding(Kind::Stuck, format!("item {}", item.id));
    }
    for job in index.history.jobs.values().filter(|job| !job.complete) {
        verdict.add_finding(Kind::Stuck, format!("job {} of type {}", job.id, job.of_type));
    }
    let roots = index.history.jobs.values().filter(|job| job.parent_id.is_none());
    for root in roots.filter(|root| root.completed_us.is_none()) {
        verdict.add_finding(Kind::Stuck, format!("tree {:?}", root.name.as_deref().unwrap_or_default()));
    }
    for one in index.history.assignments.iter().filter(|one| one.ended_us.is_none()) {
        verdict.add_finding(Kind::Stuck, format!("open assignment {}", one.id));
    }
}

/// Each source that succeeded has fed exactly one item to each job that its job feeds.
fn fed(index: &Index<'_>, verdict: &mut Verdict) {
    let mut by_source: HashMap<(Uuid, Uuid), usize> = HashMap::new();
    for item in &index.history.items {
        if let Some(source) = item.fed_by {
            *by_source.entry((item.job_id, source)).or_default() += 1;
        }
    }
    for child in index.history.jobs.values().filter(|job| job.fed && job.cancelled_us.is_none()) {
        let sources = index.history.items.iter().filter(|item| Some(item.job_id) == child.parent_id);
        for source in sources.filter(|item| item.state == Some(SUCCEEDED)) {
            match by_source.remove(&(child.id, source.id)) {
                Some(1) => {}
                Some(n) => verdict.add_finding(Kind::Doubled, format!("{n} items fed by {}", source.id)),
                None => verdict.add_finding(Kind::Unfed, format!("{} created no item in the dependent job", source.id)),
            }
        }
        for ((job, source), _) in by_source.iter().filter(|((job, _), _)| *job == child.id) {
            verdict.add_finding(Kind::Unexpected, format!("an item of {job} fed by {source}, which did not succeed"));
        }
    }
}

/// At most one open assignment per item; attempts are numbered without gaps.
fn alone(index: &Index<'_>, verdict: &mut Verdict) {
    for (item, assignments) in &index.assignments {
        for pair in assignments.windows(2) {
            if pair[0].ended_us.is_none_or(|ended| ended > pair[1].started_us) {
                verdict.add_finding(Kind::Overlap, format!("{} and {} of item {item}", pair[0].id, pair[1].id));
            }
        }
        let numbers: Vec<i32> = assignments.iter().map(|one| one.attempt).collect();
        if numbers.iter().zip(1..).any(|(number, expected)| *number != expected) {
            verdict.add_finding(Kind::Budget, format!("item {item} has the attempts {numbers:?}"));
        }
        let won = assignments.iter().filter(|one| one.ended_as == Some(SUCCEEDED)).count();
        if won > 1 {
            verdict.add_finding(Kind::Doubled, format!("{won} accepted results of item {item}"));
        }
        for one in assignments.iter().filter(|one| one.ended_as == Some(LEASE_LOST)) {
            verdict.leases_lost += 1;
            one.ended_us.into_iter().for_each(|ended| verdict.add_loss_time(ended));
            let lease =
                index.items.get(item).and_then(|item| index.history.jobs.get(&item.job_id)).map(|job| job.lease_us);
            if let (Some(ended), Some(lease)) = (one.ended_us, lease)
                && ended - one.started_us < lease
            {
                let lived = ended - one.started_us;
                verdict.add_finding(Kind::EarlyLoss, format!("{} expired after {lived} of {lease} µs", one.id));
            }
        }
    }
}

/// The number of concurrent assignments of a capped type never exceeds its cap.
fn capped(index: &Index<'_>, verdict: &mut Verdict) {
    let mut edges: BTreeMap<(&str, i32), Vec<(i64, i32)>> = BTreeMap::new();
    for one in &index.history.assignments {
        let Some(job) = index.items.get(&one.item_id).and_then(|item| index.history.jobs.get(&item.job_id)) else {
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
            verdict.add_finding(Kind::OverCap, format!("{most} items of {job_type} ran at once; the cap is {cap}"));
        }
    }
}

/// Items of one serialize key run one after the other, in order of acceptance.
fn serialized(index: &Index<'_>, verdict: &mut Verdict) {
    let mut by_key: HashMap<&str, Vec<&Item>> = HashMap::new();
    for item in &index.history.items {
        if let Some(key) = &item.serialize_key {
            by_key.entry(key).or_default().push(item);
        }
    }
    for (key, mut items) in by_key {
        items.sort_by_key(|item| item.seq);
        let mut before: Option<(i64, Uuid)> = None;
        for item in items {
            let Some(assignments) = index.assignments.get(&item.id) else { continue };
            let (first, last) =
                (assignments[0].started_us, assignments.iter().map(|one| one.ended_us.unwrap_or(i64::MAX)).max());
            if let Some((ended, other)) = before
                && first < ended
            {
                verdict.add_finding(Kind::Serialize, format!("{} began before {other} ended, key {key}", item.id));
            }
            before = last.map(|last| (before.map_or(last, |(ended, _)| ended.max(last)), item.id));
        }
    }
}

/// A result counts only for the assignment that reported it, and only while that was open.
fn fenced(index: &Index<'_>, verdict: &mut Verdict) {
    for item in index.history.items.iter().filter(|item| item.state == Some(SUCCEEDED)) {
        let assignments = index.assignments.get(&item.id).map(Vec::as_slice).unwrap_or_default();
        let won = assignments.iter().find(|one| one.ended_as == Some(SUCCEEDED));
        match (won, &item.result_by) {
            (Some(won), Some(by)) if won.id.to_string() == *by => {}
            (won, by) => {
                let won = won.map(|won| won.id);
                verdict.add_finding(
                    Kind::StaleResult,
                    format!("item {}: the result is of {by:?}, but {won:?} ended the item", item.id),
                );
            }
        }
    }
    let by_id: HashMap<Uuid, &AssignmentRow> = index.history.assignments.iter().map(|one| (one.id, one)).collect();
    for entry in &index.history.work_events {
        let WorkEvent::Answer { status, well: true } = entry.event else { continue };
        let counts = by_id.get(&entry.assignment).is_some_and(|one| one.ended_as == Some(SUCCEEDED));
        match status {
            200 if !counts => {
                verdict.add_finding(Kind::StaleResult, format!("{} was accepted, but is not stored", entry.assignment));
            }
            409 if counts => {
                verdict.add_finding(Kind::StaleResult, format!("{} was rejected, but is stored", entry.assignment));
            }
            409 => verdict.refused_late += 1,
            _ => {}
        }
    }
}

/// After a cancel was acknowledged, nothing below it is assigned or succeeds.
fn cancelled(index: &Index<'_>, verdict: &mut Verdict) {
    let mut trees: HashMap<Uuid, i64> = HashMap::new();
    for call in &index.history.calls {
        let Request::Cancel { job } = call.request else { continue };
        if call.outcome != CallOutcome::Ok {
            continue;
        }
        match index.history.jobs.get(&job).map(|job| job.cancelled_us) {
            Some(Some(at)) => drop(trees.insert(job, at)),
            _ => verdict.add_finding(Kind::Lost, format!("the cancel of {job}")),
        }
    }
    for item in &index.history.items {
        let Some(at) = index.history.jobs.get(&item.job_id).and_then(|job| trees.get(&job.root_id)) else { continue };
        if item.created_us > *at {
            verdict.add_finding(Kind::AfterCancel, format!("item {} was added", item.id));
        }
        for one in index.assignments.get(&item.id).into_iter().flatten() {
            let late = one.ended_as == Some(SUCCEEDED) && one.ended_us > Some(*at);
            if one.started_us > *at || late {
                verdict.add_finding(Kind::AfterCancel, format!("{} of item {}", one.id, item.id));
            }
        }
    }
}

/// Failures match the attempts, and an item is dead exactly when its retry budget is spent.
fn budgets(index: &Index<'_>, verdict: &mut Verdict) {
    // A manual retry resets the budget: `handed_out` counts the attempts of these items.
    for item in index.history.items.iter().filter(|item| !index.retries.contains_key(&item.id)) {
        let Some(job) = index.history.jobs.get(&item.job_id) else { continue };
        let assignments = index.assignments.get(&item.id).map(Vec::as_slice).unwrap_or_default();
        let failed = assignments.iter().filter(|one| matches!(one.ended_as, Some(2..=4))).count() as i32;
        // An item cancelled while it ran keeps its failures.
        if matches!(item.state, Some(SUCCEEDED | DEAD)) && item.failures != Some(failed) {
            verdict.add_finding(
                Kind::Budget,
                format!("item {}: {:?} failures, {failed} attempts failed", item.id, item.failures),
            );
        }
        let Some(max) = job.max_failures else { continue };
        let (dead, spent) = (item.state == Some(DEAD), failed >= max);
        let unreadable = item.error_kind.as_deref() == Some("feed_invalid");
        if failed > max || (dead && !spent && !unreadable) || (item.state.is_none() && spent) {
            verdict.add_finding(Kind::Budget, format!("item {}: {failed} of {max} failures, dead: {dead}", item.id));
        }
    }
}

/// The next attempt begins at the last acknowledged step, and repeats none. No clock is needed: a step acknowledged to
/// one attempt was committed before the next attempt began.
fn stepped(index: &Index<'_>, verdict: &mut Verdict) {
    let step_number = |name: &str| STEPS.iter().position(|step| *step == name).map_or(0, |at| at + 1);
    let attempts: HashMap<Uuid, i32> = index.history.assignments.iter().map(|one| (one.id, one.attempt)).collect();
    let mut reached: HashMap<Uuid, Vec<(i32, usize)>> = HashMap::new();
    for entry in &index.history.work_events {
        if let (WorkEvent::Step { name }, Some(attempt)) = (&entry.event, attempts.get(&entry.assignment)) {
            reached.entry(entry.item).or_default().push((*attempt, step_number(name)));
        }
    }
    for entry in &index.history.work_events {
        let WorkEvent::Start { attempt, step, .. } = &entry.event else { continue };
        let Some(reached) = reached.get(&entry.item) else { continue };
        let reported_step = step.as_deref().map_or(0, step_number);
        let before = reached.iter().filter(|(earlier, _)| earlier < attempt).map(|(_, at)| *at).max().unwrap_or(0);
        if reported_step < before {
            verdict.add_finding(
                Kind::Step,
                format!(
                    "item {}: attempt {attempt} began at step {reported_step}; the last completed step was {before}",
                    entry.item
                ),
            );
        }
        if let Some((_, at)) = reached.iter().find(|(same, at)| same == attempt && *at <= before) {
            verdict.add_finding(Kind::Step, format!("item {}: attempt {attempt} repeated step {at}", entry.item));
        }
    }
}

/// An at_most_once item is assigned at most once, in the tables and in the ledgers. An assignment that a worker began
/// but the tables do not have is a finding, too.
fn handed_out(index: &Index<'_>, verdict: &mut Verdict) {
    let mut begun: HashMap<Uuid, HashSet<Uuid>> = HashMap::new();
    for entry in index.history.work_events.iter().filter(|entry| matches!(entry.event, WorkEvent::Start { .. })) {
        begun.entry(entry.item).or_default().insert(entry.assignment);
        if !index
            .assignments
            .get(&entry.item)
            .is_some_and(|assignments| assignments.iter().any(|one| one.id == entry.assignment))
        {
            verdict.add_finding(Kind::Lost, format!("assignment {}, which a worker started", entry.assignment));
        }
    }
    for item in &index.history.items {
        let once = index.history.jobs.get(&item.job_id).is_some_and(|job| job.once);
        let by_workers = begun.get(&item.id).map_or(0, HashSet::len);
        let assignments = index.assignments.get(&item.id).map(Vec::as_slice).unwrap_or_default();
        let given_back = assignments.iter().filter(|one| one.ended_as == Some(5)).count();
        let retries = index.retries.get(&item.id).copied().unwrap_or(0);
        let allowed = given_back + retries + 1;
        let n = assignments.len();
        if once && retries > 0 && n < allowed {
            verdict.add_finding(Kind::Lost, format!("item {}: {n} assignments after {retries} retries", item.id));
        } else if once && (n > allowed || by_workers > allowed) {
            verdict.add_finding(
                Kind::HandedOutTwice,
                format!("item {}: {n} assignments, {by_workers} of them started by workers", item.id),
            );
        } else if by_workers > 1 {
            verdict.repeated += 1;
        }
    }
}
