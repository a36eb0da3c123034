//! Forged histories: a clean one, and one for each kind of fault, which must be detected.

use domain::id::Uuid;

#[path = "callback_tests.rs"]
mod callbacks; // forged callbacks

use super::{
    Kind, Verdict,
    history::{AssignmentRow, AuditRow, History, Item, Job},
    rules,
};
use crate::{
    journal::{Call, CallOutcome, Request},
    ledger::{Entry, WorkEvent},
};

const LEASE_US: i64 = 2_000_000;

fn job(id: u128, job_type: &str) -> Job {
    Job {
        id: Uuid::from_u128(id),
        root_id: Uuid::from_u128(id),
        parent_id: None,
        name: Some(format!("tree-{id}")),
        of_type: job_type.to_owned(),
        once: job_type == "once",
        fed: false,
        max_failures: Some(if job_type == "once" { 1 } else { 3 }),
        cap: (job_type == "capped").then_some(1),
        lease_us: LEASE_US,
        cancelled_us: None,
        complete: true,
        completion: 1,
        outcome: Some(1),
        completed_us: Some(30_000),
    }
}

/// An item that succeeded at its first attempt, and that attempt.
fn done(id: u128, job: u128, started_us: i64) -> (Item, AssignmentRow) {
    let assignment = assignment(id * 100 + 1, id, 1, started_us, 1);
    let item = Item {
        id: Uuid::from_u128(id),
        job_id: Uuid::from_u128(job),
        seq: id as i64,
        dedupe_key: Some(format!("item-{id}")),
        serialize_key: None,
        fed_by: None,
        state: Some(1),
        failures: Some(0),
        error_kind: None,
        created_us: started_us - 1,
        result_by: Some(assignment.id.to_string()),
    };
    (item, assignment)
}

fn assignment(id: u128, item: u128, attempt: i32, started_us: i64, ended_as: i16) -> AssignmentRow {
    let lived = if ended_as == 3 { LEASE_US + 1 } else { 1_000 };
    AssignmentRow {
        id: Uuid::from_u128(id),
        item_id: Uuid::from_u128(item),
        attempt,
        started_us,
        ended_us: Some(started_us + lived),
        ended_as: Some(ended_as),
    }
}

fn acknowledged_call(request: Request, job: Option<u128>) -> Call {
    Call { request, outcome: CallOutcome::Ok, job: job.map(Uuid::from_u128), answered_us: 0 }
}

fn event(item: u128, assignment: u128, event: WorkEvent) -> Entry {
    Entry { item: Uuid::from_u128(item), assignment: Uuid::from_u128(assignment), event, at_us: 0, since_us: 0 }
}

fn start(item: u128, assignment: u128, attempt: i32, job_type: &str, step: Option<&str>) -> Entry {
    event(item, assignment, WorkEvent::Start { attempt, job_type: job_type.to_owned(), step: step.map(str::to_owned) })
}

/// One tree of one type with two items, all acknowledged, all done.
fn clean(job_type: &str) -> History {
    let mut history = History::default();
    history.jobs.insert(Uuid::from_u128(1), job(1, job_type));
    for (item, assignment) in [done(10, 1, 0), done(11, 1, 10_000)] {
        history.items.push(item);
        history.assignments.push(assignment);
    }
    let items = vec!["item-10".to_owned(), "item-11".to_owned()];
    history.calls.push(acknowledged_call(Request::Create { key: "tree-1".to_owned(), items, calls: false }, Some(1)));
    history
}

#[track_caller]
fn only(history: &History, kind: Kind) -> Verdict {
    let verdict = rules::check(history);
    let found: Vec<Kind> = verdict.findings().map(|(kind, ..)| kind).collect();
    assert_eq!(found, [kind], "{:?}", verdict.findings().collect::<Vec<_>>());
    verdict
}

#[test]
fn a_clean_history_is_clean() {
    for job_type in ["plain", "once", "capped", "steps"] {
        let verdict = rules::check(&clean(job_type));
        assert!(verdict.is_clean(), "{job_type}: {:?}", verdict.findings().collect::<Vec<_>>());
        assert_eq!(verdict.acknowledged, 3);
    }
}

#[test]
fn what_was_acknowledged_and_is_not_there_is_lost() {
    let mut history = clean("plain");
    history.items.pop();
    history.assignments.pop();
    assert_eq!(only(&history, Kind::Lost).count(Kind::Lost), 1);

    let mut history = clean("plain");
    let job = Uuid::from_u128(1);
    history.calls.push(acknowledged_call(Request::Add { job, items: vec!["item-12".to_owned()] }, None));
    only(&history, Kind::Lost);

    let mut history = clean("plain");
    history.calls.push(acknowledged_call(
        Request::Create { key: "tree-2".to_owned(), items: Vec::new(), calls: false },
        Some(2),
    ));
    only(&history, Kind::Lost);

    // A cancel that was acknowledged and is not in the tables.
    let mut history = clean("plain");
    history.calls.push(acknowledged_call(Request::Cancel { job }, None));
    only(&history, Kind::Lost);

    // An assignment that a worker was given and the tables do not know.
    let mut history = clean("plain");
    history.work_events.push(start(10, 999, 1, "plain", None));
    only(&history, Kind::Lost);
}

#[test]
fn what_nobody_answered_may_be_there_or_not() {
    let mut history = clean("plain");
    let job = Uuid::from_u128(1);
    let items = vec!["item-12".to_owned(), "item-13".to_owned()];
    history.calls.push(Call { outcome: CallOutcome::Info, ..acknowledged_call(Request::Add { job, items }, None) });
    let (item, assignment) = done(12, 1, 20_000);
    history.items.push(item);
    history.assignments.push(assignment);
    assert!(rules::check(&history).is_clean());
}

#[test]
fn what_nobody_asked_for_is_unexpected() {
    let mut history = clean("plain");
    let (item, assignment) = done(12, 1, 20_000);
    history.items.push(item);
    history.assignments.push(assignment);
    only(&history, Kind::Unexpected);
    let mut history = clean("plain");
    history.jobs.insert(Uuid::from_u128(2), job(2, "plain"));
    only(&history, Kind::Unexpected);
}

#[test]
fn doubles_are_found() {
    // Two trees of one Idempotency-Key.
    let mut history = clean("plain");
    history.jobs.insert(Uuid::from_u128(2), Job { name: Some("tree-1".to_owned()), ..job(2, "plain") });
    only(&history, Kind::Doubled);

    // Two items of one dedupe key.
    let mut history = clean("plain");
    let (item, assignment) = done(12, 1, 20_000);
    history.items.push(Item { dedupe_key: Some("item-10".to_owned()), ..item });
    history.assignments.push(assignment);
    only(&history, Kind::Doubled);

    // Two accepted results of one item.
    let mut history = clean("plain");
    history.assignments.push(second_assignment(1));
    only(&history, Kind::Doubled);
}

/// A second attempt at item 10.
fn second_assignment(ended_as: i16) -> AssignmentRow {
    assignment(1002, 10, 2, 5_000_000, ended_as)
}

#[test]
fn what_is_not_over_is_stuck() {
    let mut history = clean("plain");
    history.items[1].state = None;
    history.assignments.pop();
    only(&history, Kind::Stuck);
    let mut history = clean("plain");
    for job in history.jobs.values_mut() {
        job.complete = false;
    }
    only(&history, Kind::Stuck);
    // All jobs are complete, but not their tree.
    let mut history = clean("plain");
    for job in history.jobs.values_mut() {
        (job.completed_us, job.outcome) = (None, None);
    }
    assert_eq!(only(&history, Kind::Stuck).count(Kind::Stuck), 1);
}

#[test]
fn only_what_a_standstill_explains_is_about_time() {
    let of = |kinds: &[Kind]| {
        let mut verdict = Verdict::default();
        for kind in kinds {
            verdict.add_finding(*kind, "an example");
        }
        (verdict.is_about_time(), verdict.is_only_slow())
    };
    assert_eq!(of(&[]), (false, false));
    assert_eq!(of(&[Kind::Slow]), (true, true));
    assert_eq!(of(&[Kind::Slow, Kind::NotInTime, Kind::Stuck]), (true, false));
    for kind in [Kind::Log, Kind::Tables, Kind::Scenario, Kind::Lost, Kind::CallbackMissing] {
        assert_eq!(of(&[kind, Kind::NotInTime]), (false, false), "{kind:?}");
    }
}

/// An item that lost its lease at its first attempt and succeeded at its second.
fn lost_once(job_type: &str) -> History {
    let mut history = clean(job_type);
    history.assignments[0].ended_as = Some(3);
    history.assignments[0].ended_us = Some(LEASE_US + 1);
    history.assignments.push(second_assignment(1));
    history.items[0].result_by = Some(Uuid::from_u128(1002).to_string());
    history.items[0].failures = Some(1);
    history
}

#[test]
fn a_lost_lease_and_another_attempt_are_no_fault() {
    let verdict = rules::check(&lost_once("plain"));
    assert!(verdict.is_clean(), "{:?}", verdict.findings().collect::<Vec<_>>());
    assert_eq!(verdict.leases_lost, 1);
}

#[test]
fn a_lease_that_ends_before_its_time_is_found() {
    let mut history = lost_once("plain");
    history.assignments[0].ended_us = Some(LEASE_US / 2);
    only(&history, Kind::EarlyLoss);
}

#[test]
fn overlapping_assignments_are_found() {
    let mut history = lost_once("plain");
    history.assignments[2].started_us = LEASE_US / 2;
    only(&history, Kind::Overlap);
}

#[test]
fn a_result_of_a_closed_assignment_is_found() {
    // The result that counts was brought by the assignment that was lost.
    let mut history = lost_once("plain");
    history.items[0].result_by = Some(history.assignments[0].id.to_string());
    only(&history, Kind::StaleResult);
    // A late result was answered with 200.
    let mut history = lost_once("plain");
    history.work_events.push(event(10, 1001, WorkEvent::Answer { status: 200, well: true }));
    only(&history, Kind::StaleResult);
    // With 409 it is as it should be.
    let mut history = lost_once("plain");
    history.work_events.push(event(10, 1001, WorkEvent::Answer { status: 409, well: true }));
    assert_eq!(rules::check(&history).refused_late, 1);
    assert!(rules::check(&history).is_clean());
}

#[test]
fn at_most_once_is_once() {
    let mut history = clean("once");
    history.assignments[0].ended_as = Some(3);
    history.assignments[0].ended_us = Some(LEASE_US + 1);
    history.assignments.push(second_assignment(1));
    history.items[0].result_by = Some(Uuid::from_u128(1002).to_string());
    history.items[0].failures = Some(1);
    only(&history, Kind::HandedOutTwice);
    // Given back and handed out again is allowed.
    let mut history = clean("once");
    history.assignments[0].ended_as = Some(5);
    history.assignments.push(second_assignment(1));
    history.items[0].result_by = Some(Uuid::from_u128(1002).to_string());
    assert!(rules::check(&history).is_clean());
}

#[test]
fn who_gives_an_item_back_gets_one_more_attempt() {
    let retry = || acknowledged_call(Request::Retry { item: Uuid::from_u128(10), by: None }, None);
    let mut history = clean("once");
    history.assignments[0].ended_as = Some(2);
    history.assignments.push(second_assignment(1));
    history.items[0].result_by = Some(Uuid::from_u128(1002).to_string());
    history.calls.push(retry());
    assert!(rules::check(&history).is_clean());
    // Two were accepted, one attempt came of them.
    history.calls.push(retry());
    only(&history, Kind::Lost);
    // None was accepted.
    history.calls.truncate(1);
    let verdict = rules::check(&history);
    assert_eq!(verdict.count(Kind::HandedOutTwice), 1);
}

#[test]
fn a_file_makes_as_many_items_as_it_has_rows() {
    let filled = |rows| {
        let mut history = clean("plain");
        for item in &mut history.items {
            item.dedupe_key = None;
        }
        history.calls = vec![acknowledged_call(Request::File { key: "tree-1".to_owned(), rows }, Some(1))];
        history
    };
    assert!(rules::check(&filled(2)).is_clean());
    only(&filled(3), Kind::Lost);
    only(&filled(1), Kind::Doubled);
}

#[test]
fn a_cap_that_is_exceeded_is_found() {
    let mut history = clean("capped");
    history.assignments[1].started_us = 500;
    only(&history, Kind::OverCap);
}

#[test]
fn serialize_keys_that_overlap_or_turn_round_are_found() {
    let keyed = || {
        let mut history = clean("serial");
        for item in &mut history.items {
            item.serialize_key = Some("key".to_owned());
        }
        history
    };
    assert!(rules::check(&keyed()).is_clean());
    let mut history = keyed();
    history.assignments[1].started_us = 500;
    only(&history, Kind::Serialize);
    let mut history = keyed();
    (history.items[0].seq, history.items[1].seq) = (2, 1);
    only(&history, Kind::Serialize);
}

#[test]
fn what_happens_after_a_cancel_is_found() {
    let cancelled = |at| {
        let mut history = clean("plain");
        for job in history.jobs.values_mut() {
            job.cancelled_us = Some(at);
        }
        history.calls.push(acknowledged_call(Request::Cancel { job: Uuid::from_u128(1) }, None));
        history
    };
    assert!(rules::check(&cancelled(50_000)).is_clean());
    only(&cancelled(5_000), Kind::AfterCancel);
    let mut history = cancelled(50_000);
    history.items[0].created_us = 60_000;
    only(&history, Kind::AfterCancel);
}

#[test]
fn budgets_are_exact() {
    // Dead after one failure of three.
    let mut history = clean("plain");
    history.assignments[0].ended_as = Some(2);
    (history.items[0].state, history.items[0].failures) = (Some(2), Some(1));
    only(&history, Kind::Budget);
    // A failure that was not counted.
    let mut history = lost_once("plain");
    history.items[0].failures = Some(0);
    only(&history, Kind::Budget);
    // An attempt that is missing.
    let mut history = lost_once("plain");
    history.assignments.remove(0);
    history.items[0].failures = Some(0);
    only(&history, Kind::Budget);
}

#[test]
fn steps_only_move_forward() {
    let stepped = |reported_step| {
        let mut history = lost_once("steps");
        history.work_events.push(start(10, 1001, 1, "steps", None));
        history.work_events.push(event(10, 1001, WorkEvent::Step { name: "fetched".to_owned() }));
        history.work_events.push(start(10, 1002, 2, "steps", reported_step));
        history
    };
    assert!(rules::check(&stepped(Some("fetched"))).is_clean());
    only(&stepped(None), Kind::Step);
    let mut history = stepped(Some("fetched"));
    history.work_events.push(event(10, 1002, WorkEvent::Step { name: "fetched".to_owned() }));
    only(&history, Kind::Step);
}

#[test]
fn every_success_feeds_once() {
    let feeding = || {
        let mut history = clean("plain");
        let parent = Some(Uuid::from_u128(1));
        history.jobs.insert(Uuid::from_u128(2), Job { parent_id: parent, fed: true, ..job(2, "plain") });
        for (id, source) in [(20, 10), (21, 11)] {
            let (item, assignment) = done(id, 2, 100_000);
            history.items.push(Item { fed_by: Some(Uuid::from_u128(source)), ..item });
            history.assignments.push(assignment);
        }
        history
    };
    assert!(rules::check(&feeding()).is_clean());
    let mut history = feeding();
    history.items.pop();
    history.assignments.pop();
    only(&history, Kind::Unfed);
    let mut history = feeding();
    history.items[2].fed_by = Some(Uuid::from_u128(11));
    let verdict = rules::check(&history);
    assert_eq!((verdict.count(Kind::Unfed), verdict.count(Kind::Doubled)), (1, 1));
}

#[test]
fn what_people_do_is_in_the_audit_log_once_under_their_name() {
    let item = Uuid::from_u128(10);
    let logged = |by: &str| AuditRow { item_id: item, actor_name: by.to_owned(), action: "item.retry".to_owned() };
    let retry_call =
        |outcome| Call { outcome, ..acknowledged_call(Request::Retry { item, by: Some("anna".to_owned()) }, None) };
    let retried = |outcome: CallOutcome, log: &[&str]| {
        let mut history = clean("once");
        history.assignments[0].ended_as = Some(2);
        history.assignments.push(second_assignment(1));
        history.items[0].result_by = Some(Uuid::from_u128(1002).to_string());
        history.calls.push(acknowledged_call(Request::Retry { item, by: None }, None));
        history.calls.push(retry_call(outcome));
        history.audit = log.iter().map(|by| logged(by)).collect();
        history
    };
    let mut accepted = retried(CallOutcome::Ok, &["anna"]);
    accepted.assignments.push(AssignmentRow { attempt: 3, ..assignment(1003, 10, 3, 9_000_000, 1) });
    accepted.assignments[2].ended_as = Some(2);
    accepted.items[0].result_by = Some(Uuid::from_u128(1003).to_string());
    assert!(rules::check(&accepted).is_clean(), "{:?}", rules::check(&accepted).findings().collect::<Vec<_>>());
    for log in [&[][..], &["ben"], &["anna", "anna"]] {
        accepted.audit = log.iter().map(|by| logged(by)).collect();
        only(&accepted, Kind::Audit);
    }
    // Refused: nothing was done, nothing is there.
    assert!(rules::check(&retried(CallOutcome::Fail, &[])).is_clean());
    only(&retried(CallOutcome::Fail, &["anna"]), Kind::Audit);
}
