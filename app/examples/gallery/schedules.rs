//! Schedules and their runs.

use std::collections::HashMap;

use app::pages::schedules::{SchedulePageData, Schedules, Typed, list_page, new_page, page};
use domain::{
    Code, Document, Job, Problem,
    api::{CatchUp, Overlap, RunState, Schedule, ScheduleRun},
    id::Uuid,
    job::{Owner, OwnerKind},
};

use crate::{
    Draw,
    fixtures::{at, complete, running},
};

fn run(seq: i64, tick: &str, state: RunState, job: Option<&Job>) -> ScheduleRun {
    ScheduleRun {
        seq,
        tick: at(tick),
        at: at(tick),
        state,
        job_id: job.map(|job| job.id),
        reason: (state == RunState::Skipped).then(|| "overlap".to_owned()),
        problem: (state == RunState::Failed)
            .then(|| Problem::new(Code::UnknownJobType, "There is no job type payroll.")),
        by_hand: seq == 7,
    }
}

fn schedule(n: u128, name: &str, cron: &str, paused: bool, last_run: Option<ScheduleRun>) -> Schedule {
    let next = ["2026-11-21T01:00:00Z", "2026-11-22T01:00:00Z", "2026-11-23T01:00:00Z"].map(at);
    Schedule {
        id: Uuid::from_u128((0x01a1_fcd9 << 96) + n),
        owner: Owner { kind: OwnerKind::User, name: "Ada Lovelace".to_owned() },
        name: name.to_owned(),
        cron: cron.to_owned(),
        time_zone: "Europe/Berlin".to_owned(),
        job: Document::trusted("{\n  \"type\": \"render-pdf\",\n  \"items\": [{ \"payload\": {} }]\n}".to_owned()),
        overlap: Overlap::Skip,
        catch_up: CatchUp::Last,
        catch_up_window_seconds: 3_600,
        starts_at: None,
        ends_at: None,
        paused,
        next_runs: if paused { Vec::new() } else { next.to_vec() },
        last_run,
        created_at: at("2026-11-01T08:00:00Z"),
        updated_at: at("2026-11-01T08:00:00Z"),
    }
}

fn typed(problem: Option<Problem>) -> Typed {
    Typed { name: "Nightly statements".to_owned(), problem, ..Typed::new("render-pdf", "0 2 * * *") }
}

pub(crate) fn all(add: &mut impl FnMut(&'static str, Draw)) {
    let (done, open) = (complete(), running());
    let jobs: HashMap<Uuid, Job> = [&done, &open].map(|job| (job.id, job.clone())).into();
    let runs = vec![
        run(7, "2026-11-20T13:00:00Z", RunState::Started, Some(&open)),
        run(6, "2026-11-20T01:00:00Z", RunState::Started, Some(&done)),
        run(5, "2026-11-19T01:00:00Z", RunState::Skipped, None),
        run(4, "2026-11-18T01:00:00Z", RunState::Failed, None),
        run(3, "2026-11-17T01:00:00Z", RunState::Queued, None),
        run(2, "2026-11-16T01:00:00Z", RunState::Started, None),
    ];
    let list = Schedules {
        all: vec![
            schedule(1, "Nightly statements", "0 2 * * *", false, runs.first().cloned()),
            schedule(2, "Catalog sync", "*/15 * * * *", false, runs.get(1).cloned()),
            schedule(3, "<script>alert(1)</script>", "0 0 L * *", true, runs.get(3).cloned()),
            schedule(4, "Monthly payroll", "58 13 22 * *", false, None),
        ],
        jobs: jobs.clone(),
        first: true,
        ..Schedules::default()
    };
    add("schedules", Box::new(move || list_page(&list)));
    add("schedules-empty", Box::new(|| list_page(&Schedules { first: true, ..Schedules::default() })));
    add("schedule-new", Box::new(|| new_page(&typed(None))));
    add(
        "schedule-refused",
        Box::new(|| {
            let faults = [("/cron".to_owned(), "expected a minute from 0 to 59".to_owned())];
            new_page(&typed(Some(Problem::invalid_body(faults))))
        }),
    );
    let one = SchedulePageData {
        one: schedule(1, "Nightly statements", "0 2 * * *", false, runs.first().cloned()),
        runs,
        jobs,
        older: Some("/schedules".to_owned()),
        others: false,
        typed: typed(None),
        refused: None,
        flash: None,
        open: None,
        key: String::new(),
    };
    add("schedule", Box::new(move || page(&one)));
}
