//! The five examples as tests, each with a server of its own. An example checks its promises itself; these tests then
//! check the state through the API.

mod calls;
mod support;

use std::process::Stdio;

use client::{ItemFilter, JobFilter, demo};
use domain::{
    Document, ItemState, JobStatus, Outcome,
    api::{NewItem, NewJob},
    item::EndedAs,
    job_type::JobTypeSpec,
};
use examples::{import, invoices, payroll, refund, site};
use tokio::process::Command;

use crate::support::{Server, TOKEN};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn payroll_feeds_two_levels_and_pays_in_order() {
    let server = Server::start().await;
    let report = payroll::run(&server.client).await.expect("as promised");
    assert_eq!((report.paid, report.booked, report.most_at_once), (11, 22, 1));
    let tree = server.client.job(report.root).await.expect("the tree");
    let states: Vec<_> = tree.subtree().iter().map(|job| (job.key.clone(), job.sealed, job.status)).collect();
    let complete = |key: &str| (key.to_owned(), true, JobStatus::Completed);
    assert_eq!(states, ["wages", "payments", "bookings"].map(complete));
    // A second run on the same server creates a second payroll.
    let second = payroll::run(&server.client).await.expect("as promised");
    assert_ne!(second.root, report.root);
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_refund_is_made_once_though_its_workers_die() {
    let server = Server::start().await;
    let report = refund::run(&server.client).await.expect("as promised");
    assert_eq!((report.deaths, report.effects), (4, 3));
    assert!(report.requests > report.effects);
    let attempts = server.client.attempts(report.item).await.expect("attempts").data;
    let numbers: Vec<i32> = attempts.iter().map(|attempt| attempt.attempt).collect();
    assert!(numbers.iter().copied().eq(1..=numbers.len() as i32), "{numbers:?}");
    let (last, lost) = attempts.split_last().expect("attempts");
    assert_eq!(last.ended_as, Some(EndedAs::Succeeded));
    assert!(lost.iter().all(|attempt| attempt.ended_as == Some(EndedAs::LeaseLost)), "{lost:?}");
    let failed = server.client.job(report.failed).await.expect("the tree");
    assert_eq!((failed.tree.outcome, failed.superseded_by), (Some(Outcome::Failed), Some(report.instead)));
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_site_is_repaired_and_another_given_up_and_made_anew() {
    let server = Server::start().await;
    let report = site::run(&server.client).await.expect("as promised");
    let repaired = server.client.job(report.repaired).await.expect("the tree");
    assert_eq!((repaired.tree.outcome, repaired.completion), (Some(Outcome::Succeeded), 2));
    let gone = server.client.job(report.given_up).await.expect_err("it was deleted");
    assert_eq!(gone.status(), Some(410));
    let anew = server.client.job(report.anew).await.expect("the tree");
    assert_eq!((anew.tree.outcome, anew.tree.counts.succeeded), (Some(Outcome::Succeeded), 5));
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_import_returns_its_bad_rows() {
    let server = Server::start().await;
    let report = import::run(&server.client).await.expect("as promised");
    assert_eq!((report.good, report.bad.as_slice()), (9_995, &[3, 57, 100, 512, 2_000][..]));
    let table = std::fs::read_to_string(&report.failures).expect("the table of failures");
    assert!(table.lines().next().is_some_and(|header| header.ends_with("_line,_code,_problem")), "{table}");
    let dead = ItemFilter { root: Some(report.root), states: vec![ItemState::Dead], ..ItemFilter::default() };
    let rows: Vec<_> = server.client.items(&dead).await.expect("dead letters").data.iter().map(|i| i.row).collect();
    assert_eq!(rows, report.bad.iter().map(|&line| Some(line)).collect::<Vec<_>>());
    std::fs::remove_dir_all(report.failures.parent().expect("a folder")).expect("the folder goes");
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn invoices_keep_their_cap_their_attempts_and_their_times() {
    let server = Server::start().await;
    let report = invoices::run(&server.client).await.expect("as promised");
    assert_eq!(report.invoiced, 20);
    assert!(report.most_at_once <= 5);
    for (root, outcome) in [
        (report.dead, Outcome::Failed),
        (report.replayed, Outcome::Succeeded),
        (report.later, Outcome::Succeeded),
        (report.expired, Outcome::Failed),
        (report.unknown, Outcome::Failed),
    ] {
        assert_eq!(server.client.job(root).await.expect("the tree").tree.outcome, Some(outcome));
    }
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn demo_data_is_created_once() {
    let server = Server::start().await;
    let first = demo::run(&server.client).await.expect("the data");
    assert_eq!((first.people, first.services, first.schedules, first.trees), (5, 3, 1, 20));
    let waiting = JobFilter { root: Some(true), status: Some("waiting".to_owned()), ..JobFilter::default() };
    assert_eq!(server.client.jobs(&waiting).await.expect("trees").data.len(), 5, "the type of the postcards is paused");
    let second = demo::run(&server.client).await.expect("nothing new");
    assert_eq!(second, demo::Report::default());
    let dead = ItemFilter { states: vec![ItemState::Dead], limit: Some(1_000), ..ItemFilter::default() };
    let dead = server.client.items(&dead).await.expect("failures").data;
    for kind in ["timeout", "unknown_customer", "bad_image", "too_few_fields"] {
        let has_kind = |item: &domain::Item| item.last_error.as_ref().is_some_and(|e| e.kind.as_deref() == Some(kind));
        assert!(dead.iter().any(has_kind), "no failure of the kind {kind}");
    }
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_program_says_what_happens_and_whether_it_was_as_promised() {
    let server = Server::start().await;
    let program = |token: Option<&str>| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_payroll"));
        command.env("TREELINE_URL", &server.url).env_remove("TREELINE_TOKEN").stdin(Stdio::null());
        command.envs(token.map(|token| ("TREELINE_TOKEN", token)));
        command
    };
    let output = program(Some(TOKEN)).output().await.expect("the program runs");
    let text = String::from_utf8(output.stdout).expect("text");
    assert!(output.status.success(), "{text}\n{}", String::from_utf8_lossy(&output.stderr));
    assert!(text.contains("11 of 12 paid, 22 bookings"), "{text}");
    for (token, why) in [(None, "TREELINE_TOKEN is not set"), (Some("wrong"), "Treeline does not know us")] {
        let refused = program(token).output().await.expect("the program runs");
        assert_eq!(refused.status.code(), Some(1));
        assert!(String::from_utf8_lossy(&refused.stderr).contains(why), "{refused:?}");
    }
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_of_sixty_lines_of_python_does_the_work_and_leaves_nothing_behind() {
    let text = include_str!("../../worker/plain.py");
    assert!(text.lines().count() <= 60, "it is meant to be read at a glance");
    let server = Server::start().await;
    server.client.put_job_type(&JobTypeSpec::named("letters")).await.expect("a type");
    let items = (0..25).map(|n| NewItem { payload: Some(Document::of(&n)), ..NewItem::default() }).collect();
    let new = NewJob { items, sealed: true, ..NewJob::of("letters") };
    let job = server.client.create_job(&new).await.expect("a job").id;
    let mut worker = Command::new("python3")
        .arg(concat!(env!("CARGO_MANIFEST_DIR"), "/worker/plain.py"))
        .arg("letters")
        .env("TREELINE_URL", &server.url)
        .env("TREELINE_TOKEN", TOKEN)
        .kill_on_drop(true)
        .spawn()
        .expect("python3 runs");
    let mut done = server.client.job(job).await.expect("the job");
    while done.status != JobStatus::Completed {
        done = server.client.newer_job(job, done.version, 20).await.expect("the job").expect("it goes on");
    }
    assert_eq!((done.outcome, done.counts.succeeded), (Some(Outcome::Succeeded), 25));
    // After SIGTERM the worker stops by itself; its long poll ends within seconds, because there is an item to claim.
    let leave = Command::new("kill").arg(worker.id().expect("it runs").to_string()).status().await.expect("kill runs");
    assert!(leave.success());
    let more = NewJob { items: vec![NewItem::default()], sealed: true, ..NewJob::of("letters") };
    let more = server.client.create_job(&more).await.expect("a job").id;
    let status = worker.wait().await.expect("it ends");
    assert!(status.success(), "{status}");
    assert_eq!(server.client.job(more).await.expect("the job").counts.running, 0);
    server.stop().await;
}
