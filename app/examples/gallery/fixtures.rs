//! Fixtures: one of everything, with some worst cases.

use app::pages::import::new_import::ImportForm;
use domain::{
    Counts, Document, Item, ItemState, Job, JobStatus, Outcome, Time,
    api::{AffectedJob, AffectedOwner, ErrorGroup, ErrorGroupDetail, GroupChange, GroupState},
    dispatch::{
        progress,
        waiting_reason::{WaitingItems, WaitingReason},
    },
    id::Uuid,
    item::{Attempt, EndedAs, Holder, ItemError, ItemProgress, MaxFailures},
    job::{Owner, OwnerKind, TreeSummary},
};

pub(crate) fn at(text: &str) -> Time {
    Time::parse(text).expect("a time")
}

pub(crate) fn types() -> Vec<String> {
    ["import", "export", "invoice-shipments"].map(str::to_owned).to_vec()
}

pub(crate) fn form() -> ImportForm {
    ImportForm {
        job_types: types(),
        templates: vec!["import".to_owned(), "invoice-shipments".to_owned()],
        job_type: "import".to_owned(),
        header: true,
        limit_bytes: 2 << 30,
        xlsx_limit_bytes: 50 << 20,
        ..ImportForm::default()
    }
}

pub(crate) fn counts(succeeded: i64, dead: i64, running: i64, retryable: i64, available: i64) -> Counts {
    Counts { succeeded, dead, running, retryable, available, ..Counts::default() }
}

pub(crate) fn job(
    number: u128,
    name: &str,
    key: &str,
    counts: Counts,
    outcome: Option<Outcome>,
    children: Vec<Job>,
) -> Job {
    let own = if outcome.is_some() { JobStatus::Completed } else { JobStatus::of(&counts, false, false, false) };
    let mut all = counts;
    for child in &children {
        all += child.tree.counts;
    }
    let status = if outcome.is_some() { JobStatus::Completed } else { JobStatus::of(&all, false, false, false) };
    let percent = progress::percent(&all, true, None, outcome.is_some());
    Job {
        id: Uuid::from_u128(number),
        root_id: Uuid::from_u128(number),
        parent_id: None,
        key: key.to_owned(),
        job_type: key.to_owned(),
        name: (!name.is_empty()).then(|| name.to_owned()),
        status: own,
        outcome,
        sealed: true,
        item_count: counts.total(),
        item_progress: counts.finished(),
        expected_count: None,
        percent,
        message: progress::message(&all, status, outcome, percent),
        counts,
        tree: TreeSummary { status, outcome, item_count: all.total(), item_progress: all.finished(), counts: all },
        after: Vec::new(),
        feed: None,
        final_stage: false,
        max_failures: MaxFailures::AtMost(3),
        metadata: Document::empty_object(),
        dedupe_key: None,
        idempotency_key: None,
        owner: Owner { kind: OwnerKind::User, name: "Ada Lovelace".to_owned() },
        initiated_by: None,
        upload_id: Some(Uuid::from_u128(number + 1000)),
        replay_of: None,
        merged: None,
        superseded_by: None,
        completion: i32::from(outcome.is_some()),
        pinned: false,
        open_because: None,
        created_at: at("2026-11-20T13:58:00Z"),
        started_at: (all.finished() > 0).then(|| at("2026-11-20T13:58:02Z")),
        completed_at: outcome.map(|_| at("2026-11-20T14:01:14Z")),
        updated_at: at("2026-11-20T14:03:00Z"),
        run_after: None,
        expires_at: None,
        priority: 0,
        version: 7,
        children: Some(children),
    }
}

/// Reasons why a tree waits.
pub(crate) fn waiting_reasons() -> Vec<WaitingItems> {
    let waiting =
        |job_type: &str, count, waiting_reason| WaitingItems { job_type: job_type.to_owned(), count, waiting_reason };
    vec![
        waiting("invoice-shipments", 1_204, WaitingReason::NoWorker(Some(at("2026-11-20T13:03:00Z")))),
        waiting("export", 12, WaitingReason::Paused),
        waiting("import", 1, WaitingReason::AtConcurrencyLimit { open: 5, cap: 5 }),
    ]
}

pub(crate) fn running() -> Job {
    job(1, "airports.csv", "import", counts(2_019, 22, 8, 3, 3_324), None, Vec::new())
}

pub(crate) fn waiting() -> Job {
    job(2, "march-orders.csv", "import", counts(0, 0, 0, 0, 812), None, Vec::new())
}

pub(crate) fn partial() -> Job {
    job(3, "airports-europe.csv", "import", counts(4_980, 20, 0, 0, 0), Some(Outcome::Partial), Vec::new())
}

pub(crate) fn complete() -> Job {
    job(4, "customers.ndjson", "import", counts(12_400, 0, 0, 0, 0), Some(Outcome::Succeeded), Vec::new())
}

pub(crate) fn failed() -> Job {
    job(5, "wrong-file.csv", "import", counts(0, 7, 0, 0, 0), Some(Outcome::Failed), Vec::new())
}

pub(crate) fn cancelled() -> Job {
    let counts = Counts { succeeded: 200, cancelled: 650, expired: 50, ..Counts::default() };
    job(6, "nightly sync", "sync", counts, Some(Outcome::Cancelled), Vec::new())
}

pub(crate) fn million() -> Job {
    job(7, "telemetry-2026-11.csv", "import", counts(641_203, 1, 64, 12, 358_720), None, Vec::new())
}

pub(crate) fn hostile() -> Job {
    let name = "</textarea><script>alert(1)</script> \u{202e}vsc.txet 日本語 🌲 an-extremely-long-file-name-without-any-space-at-all-that-goes-on-and-on-and-on.csv";
    job(8, name, "import", counts(3, 1, 0, 0, 0), Some(Outcome::Partial), Vec::new())
}

pub(crate) fn tree() -> Job {
    let below = |number, key: &str, counts, outcome, children| {
        let mut job = job(number, "", key, counts, outcome, children);
        job.parent_id = Some(Uuid::from_u128(20));
        job
    };
    let waiting = Counts { blocked: 400, scheduled: 100, ..counts(0, 0, 0, 0, 0) };
    let mail = below(24, "send-mail", waiting, None, Vec::new());
    let checks = below(22, "send-check", counts(3_204, 41, 16, 30, 1_709), None, vec![mail]);
    let report = below(23, "report", counts(1, 0, 0, 0, 0), Some(Outcome::Succeeded), Vec::new());
    let mut root =
        job(20, "Payroll, March", "calculate-payroll", counts(5_000, 0, 0, 0, 0), None, vec![checks, report]);
    root.children
        .iter_mut()
        .flatten()
        .flat_map(|child| child.children.iter_mut().flatten())
        .for_each(|job| job.parent_id = Some(Uuid::from_u128(22)));
    root.metadata = Document::trusted("{\"team\":\"hr\",\"month\":3}".to_owned());
    root
}

pub(crate) fn groups() -> Vec<ErrorGroup> {
    let group = |message: &str, kind: &str, count| ErrorGroup {
        fingerprint: message.to_owned(),
        message: message.to_owned(),
        kind: Some(kind.to_owned()),
        job_type: "import".to_owned(),
        count,
        first_seen_at: at("2026-11-20T13:58:30Z"),
        last_seen_at: at("2026-11-20T14:01:00Z"),
        sample_item_id: Uuid::from_u128(77),
        state: GroupState::Open,
        muted_until: None,
        muted_failures: None,
    };
    vec![
        group("Column latitude: expected a number, found \u{201c}n/a\u{201d}", "invalid_row", 14),
        group("The row has 9 fields, expected 7", "field_count", 4),
        group("The row is not UTF-8 at column 3", "encoding", 2),
    ]
}

/// An error group with everything that it affects.
pub(crate) fn group_detail() -> ErrorGroupDetail {
    let mut group = groups().remove(0);
    group.state = GroupState::Regressed;
    let owner = |name: &str| Owner { kind: OwnerKind::User, name: name.to_owned() };
    let change = |state, by: Option<&str>, note: Option<&str>| GroupChange {
        at: at("2026-11-20T14:00:00Z"),
        state,
        by: by.map(str::to_owned),
        until: None,
        failures: None,
        note: note.map(str::to_owned),
    };
    let job = AffectedJob {
        job_id: Uuid::from_u128(22),
        root_id: Uuid::from_u128(20),
        name: Some("Payroll, March ".to_owned() + &"x".repeat(200)),
        owner: owner("ada"),
        count: 14,
        last_seen_at: at("2026-11-20T14:01:00Z"),
    };
    ErrorGroupDetail {
        minutes_from: at("2026-11-20T13:04:00Z"),
        minutes: (0..60).map(|n| n % 7 * 3).collect(),
        hours_from: at("2026-11-13T15:00:00Z"),
        hours: (0..168).map(|n| n % 5 * 300).collect(),
        history: vec![
            change(GroupState::Regressed, None, None),
            change(GroupState::Resolved, Some("grace"), Some("Fixed in 2.4.1")),
        ],
        jobs: vec![job],
        owners: vec![AffectedOwner { owner: owner("ada"), count: 14, last_seen_at: group.last_seen_at }],
        owner_count: 3,
        group,
    }
}

pub(crate) fn hostile_groups() -> Vec<ErrorGroup> {
    let mut groups = groups();
    groups.truncate(1);
    "hostile".clone_into(&mut groups[0].fingerprint);
    groups[0].message = "<img src=x onerror=alert(1)> ".to_owned() + &"x".repeat(300);
    groups
}

pub(crate) fn item(number: u128, row: i64, progress: Option<ItemProgress>) -> Item {
    Item {
        id: Uuid::from_u128(number),
        job_id: Uuid::from_u128(22),
        root_id: Uuid::from_u128(20),
        job_type: "send-check".to_owned(),
        seq: row - 1,
        row: Some(row),
        state: ItemState::Running,
        attempts: 1,
        failures: 0,
        max_failures: MaxFailures::AtMost(3),
        payload: None,
        original_payload: None,
        result: None,
        progress,
        step: None,
        metadata: Document::empty_object(),
        dedupe_key: None,
        serialize_key: None,
        priority: 0,
        run_after: None,
        expires_at: None,
        retry_at: None,
        created_at: at("2026-11-20T13:58:00Z"),
        updated_at: at("2026-11-20T14:03:00Z"),
        finished_at: None,
        last_error: None,
        fed_by: None,
        cancel_requested_at: None,
        assignment: Some(Holder {
            worker_id: "worker-7f3a".to_owned(),
            since: at("2026-11-20T14:02:25Z"),
            last_heartbeat_at: at("2026-11-20T14:03:00Z"),
            lease_expires_at: at("2026-11-20T14:06:00Z"),
        }),
        waiting_for: None,
        wait: None,
        event: None,
        superseded_by: None,
        debounce: None,
        version: 3,
    }
}

pub(crate) fn in_flight() -> Vec<Item> {
    let progress =
        |done, total, message: Option<&str>| Some(ItemProgress { done, total, message: message.map(str::to_owned) });
    let mut stopping = item(34, 2_049, progress(Some(8), Some(10), None));
    stopping.cancel_requested_at = Some(at("2026-11-20T14:03:00Z"));
    vec![
        item(31, 2_042, progress(Some(3), Some(10), Some("looking up the address"))),
        item(32, 2_043, progress(Some(90), Some(100), None)),
        item(33, 2_044, None),
        stopping,
        item(35, 2_050, progress(Some(1_204), None, Some("pages read"))),
    ]
}

pub(crate) fn dead_item() -> Item {
    Item {
        state: ItemState::Dead,
        attempts: 3,
        failures: 3,
        assignment: None,
        payload: Some(Document::trusted(
            "{\"iata\":\"00M\",\"name\":\"Thigpen </pre><script>alert(1)</script>\",\"latitude\":\"n/a\"}".to_owned(),
        )),
        last_error: Some(ItemError {
            message: "Column latitude: expected a number, found \u{201c}n/a\u{201d}".to_owned(),
            kind: Some("invalid_row".to_owned()),
            detail: Some(Document::trusted("{\"line\":42,\"column\":\"latitude\"}".to_owned())),
            at: at("2026-11-20T14:01:00Z"),
        }),
        ..item(77, 42, None)
    }
}

pub(crate) fn attempts() -> Vec<Attempt> {
    let attempt = |number, ended_as, message: &str| Attempt {
        attempt: number,
        worker_id: Some("worker-7f3a".to_owned()),
        started_at: Some(at("2026-11-20T14:00:00Z")),
        ended_at: Some(at("2026-11-20T14:00:02Z")),
        ended_as: Some(ended_as),
        error: (!message.is_empty()).then(|| ItemError {
            message: message.to_owned(),
            kind: None,
            detail: None,
            at: at("2026-11-20T14:00:02Z"),
        }),
        step: None,
        result: None,
        waited_for: None,
    };
    vec![
        attempt(3, EndedAs::Failed, "Column latitude: expected a number"),
        attempt(2, EndedAs::LeaseLost, "The worker was not heard from for 180 s"),
        attempt(1, EndedAs::Failed, "Column latitude: expected a number"),
    ]
}
