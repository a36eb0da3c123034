//! Overview, workers and job types, in their states.

use app::{
    components::chart::{History, Range},
    pages::{
        self,
        overview::Overview,
        types::{JobTypePageData, StoredSecrets, Typed},
        worker::{LastError, WorkerPageData},
    },
};
use domain::{
    Counts, Document, JobType, Problem, Time,
    api::{Activity, BrokerStats, QueueStats, Rate, SeriesStep, Stats, TypeStats, Worker},
    dispatch::{
        retry::Backoff,
        type_limits::{ConcurrencyBy, RateLimit},
    },
    id::Uuid,
    item::{EndedAs, MaxFailures},
    job_type::{Builtin, Delivery, Executor},
    notify::alert::{Alert, AlertKind},
};

use crate::{
    Draw,
    fixtures::{at, counts, in_flight},
};

/// One hour of history with a wave of work, fifteen minutes of failures, and a minute that has just started.
pub(crate) fn history(scale: f64) -> History {
    let end = at("2026-11-20T14:03:00Z").0;
    let points = (0..60).map(|n: i32| {
        let wave = (f64::from(n) / 9.0).sin();
        let share = if n == 59 { 0.2 } else { 1.0 };
        let items = |of: f64| (of * scale * share) as i64;
        let dead = if (38..47).contains(&n) { items(620.0) } else { items(20.0 - 15.0 * wave) };
        let ended = Counts { succeeded: items(2_900.0 + 1_400.0 * wave), dead, ..Counts::default() };
        let mut activity = Activity { added: items(3_100.0 + 1_400.0 * wave), ended, ..Activity::default() };
        for _ in 0..items(20.0) {
            activity.wait.record(1.6 + 0.8 * wave);
            activity.run.record(0.7 - 0.2 * wave);
        }
        (Time(SeriesStep::Minute.after(end, i64::from(n) - 59)), activity)
    });
    History { range: Range::Hour, points: points.collect(), until: None }
}

fn broker() -> BrokerStats {
    let queue = |job_type: &str, messages| QueueStats { job_type: job_type.to_owned(), messages };
    BrokerStats {
        up: true,
        since: at("2026-11-20T09:12:00Z"),
        fault: None,
        outbox_waiting: 0,
        queues: vec![queue("invoice-shipments", 0), queue("send-check", 1_204)],
    }
}

fn stats(name: &str, waiting: i64, dead: i64, rate: f64) -> TypeStats {
    TypeStats {
        job_type: name.to_owned(),
        counts: counts(641_203, dead, 8, 12, waiting),
        open: 8,
        oldest_waiting_seconds: (waiting > 0).then_some(184.0),
        last_asked_at: Some(at("2026-11-20T14:03:05Z")),
        rates: vec![Rate { seconds: 60, in_per_second: rate, out_per_second: rate * 0.9 }],
        days: Vec::new(),
    }
}

fn alert(kind: AlertKind, message: &str, job_type: Option<&str>) -> Alert {
    Alert {
        id: Uuid::from_u128(50),
        kind,
        subject: "import".to_owned(),
        message: message.to_owned(),
        job_type: job_type.map(str::to_owned),
        root_id: None,
        job_id: None,
        item_id: job_type.is_none().then(|| Uuid::from_u128(77)),
        count: 12,
        raised_at: at("2026-11-20T13:40:00Z"),
        last_seen_at: at("2026-11-20T14:03:00Z"),
        cleared_at: None,
    }
}

fn job_type(name: &str, executor: Executor, paused: bool) -> JobType {
    JobType {
        name: name.to_owned(),
        delivery: Delivery::AtLeastOnce,
        max_failures: MaxFailures::AtMost(3),
        concurrency: paused.then_some(5),
        rate_limit: paused.then_some(RateLimit { count: 100, per_seconds: 60, burst: Some(10), key: None }),
        concurrency_by: paused.then(|| ConcurrencyBy { key: "/customer".to_owned(), limit: 2 }),
        fair_by: paused.then(|| "/customer".to_owned()),
        backoff: Backoff::default(),
        heartbeat_seconds: 60.0,
        run_timeout_seconds: None,
        steps: vec!["charged".to_owned(), "shipped".to_owned()],
        retain_seconds: Some(604_800),
        payload_schema: Some(Document::trusted("{\"type\":\"object\"}".to_owned())),
        executor,
        require_idempotency_key: false,
        paused,
        import: None,
        created_at: at("2026-11-01T08:00:00Z"),
        updated_at: at("2026-11-20T12:00:00Z"),
        version: 4,
    }
}

fn worker(name: &str, open: i64, seen: Time) -> Worker {
    let types = vec!["import".to_owned(), "invoice-shipments".to_owned()];
    Worker { worker_id: name.to_owned(), owner: "billing".to_owned(), types, open, last_seen_at: seen }
}

fn workers() -> Vec<(Uuid, Worker)> {
    vec![
        (Uuid::from_u128(1), worker("w-1", 8, at("2026-11-20T14:03:05Z"))),
        (
            Uuid::from_u128(1),
            worker("<script>alert(1)</script>-with-a-name-that-goes-on-and-on-and-on", 0, at("2026-11-20T11:00:00Z")),
        ),
    ]
}

/// A worker that fails now and then.
fn one_worker() -> WorkerPageData {
    let (credential_id, worker) = workers().remove(0);
    let errors = ["no account <b>12</b>", "the card terminal does not answer"].map(|message| LastError {
        item_id: Uuid::from_u128(31),
        ended_at: at("2026-11-20T14:02:41Z"),
        ended_as: Some(EndedAs::Failed),
        message: message.to_owned(),
    });
    WorkerPageData {
        credential_id,
        worker,
        first_seen_at: at("2026-11-20T08:00:00Z"),
        claimed: in_flight(),
        errors: errors.to_vec(),
        history: history(0.1),
        last_hour: history(0.1),
    }
}

pub(crate) fn all(add: &mut impl FnMut(&'static str, Draw)) {
    add(
        "overview",
        Box::new(|| {
            let data = vec![
                stats("import", 358_720, 12_431, 412.4),
                stats("invoice-shipments", 0, 0, 0.04),
                stats("export", 3, 0, 3.2),
            ];
            let stats = Stats {
                data,
                counted_at: Some(at("2026-11-20T14:03:00Z")),
                age_seconds: Some(7.0),
                broker: Some(broker()),
            };
            let alerts = vec![
                alert(
                    AlertKind::DeadLetters,
                    "12 failed items in import, the latest: expected a number",
                    Some("import"),
                ),
                alert(AlertKind::Worker, "The card terminal answers <b>slowly</b>", None),
            ];
            pages::overview::page(&Overview {
                stats,
                alerts,
                workers: workers().into_iter().map(|it| it.1).collect(),
                more_workers: false,
                history: history(1.0),
            })
        }),
    );
    add(
        "overview-empty",
        Box::new(|| {
            let stats = Stats { data: Vec::new(), counted_at: None, age_seconds: None, broker: None };
            pages::overview::page(&Overview {
                stats,
                alerts: Vec::new(),
                workers: Vec::new(),
                more_workers: false,
                history: history(0.0),
            })
        }),
    );
    add("workers", Box::new(|| pages::overview::workers_page(&workers(), None, true)));
    add("worker", Box::new(|| pages::worker::page(&one_worker())));
    add("workers-empty", Box::new(|| pages::overview::workers_page(&[], None, true)));
    let kinds = || {
        [
            job_type("export", Executor::builtin(Builtin::Export), false),
            job_type("invoice-shipments", Executor::pull(), true),
        ]
    };
    add("types", Box::new(move || pages::types::list_page(&kinds(), true, None)));
    let page_data = move |admin, problem| {
        let [_, job_type] = kinds();
        let mut typed = Typed::of(&job_type);
        typed.problem = problem;
        JobTypePageData {
            job_type,
            history: history(1.0),
            has_template: true,
            admin,
            flash: None,
            typed,
            stored_secrets: StoredSecrets::default(),
            refused: None,
            open_delete: false,
        }
    };
    add("type", Box::new(move || pages::types::page(&page_data(true, None))));
    add("type-support", Box::new(move || pages::types::page(&page_data(false, None))));
    add(
        "type-refused",
        Box::new(move || {
            let problem =
                Problem::invalid_body([("/backoff/factor".to_owned(), "expected a number from 1 to 1000".to_owned())]);
            pages::types::page(&page_data(true, Some(problem)))
        }),
    );
    add("type-new", Box::new(move || pages::types::new_page(&Typed::of(&kinds()[1]).copied())));
    add("shortcuts", Box::new(pages::shortcuts::page));
}
