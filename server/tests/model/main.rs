//! Model test: random sequences of all actions on trees of jobs, against an in-memory reference that is written from
//! the rules alone. After each command, all readable state must be equal.
//!
//! `TREELINE_MODEL_CASES` sets the number of sequences (the default is small enough for every build). `kept.txt` stores
//! the seeds of past failures, which are tried first.

#![expect(clippy::format_collect, reason = "the stories' support writes files as they read")]

mod command;
mod compare;
mod ending;
mod model;
#[expect(dead_code, reason = "the stories of `it` need more of it")]
#[path = "../it/support/mod.rs"]
mod support;
mod trees;
mod words;
mod world;

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use proptest::test_runner::{Config, FileFailurePersistence, TestCaseError, TestError, TestRunner};
use sqlx::PgPool;

use crate::{command::TYPES, support::Server, world::World};

/// Default number of sequences per run.
const CASES: u32 = 60;
/// Concurrent sequences, each with its own job types.
const ABREAST: u32 = 4;

#[test]
fn the_engine_does_what_the_rules_say() {
    let cases = std::env::var("TREELINE_MODEL_CASES").ok().and_then(|n| n.parse().ok()).unwrap_or(CASES);
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().expect("a runtime");
    let server = Arc::new(runtime.block_on(Server::start()));
    let pool = server.running.app.pool.clone();
    let found: Vec<String> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..ABREAST)
            .map(|lane| {
                let (server, pool, handle) = (Arc::clone(&server), pool.clone(), runtime.handle().clone());
                scope.spawn(move || sequences(lane, cases.div_ceil(ABREAST), &server, &pool, &handle))
            })
            .collect();
        threads.into_iter().filter_map(|thread| thread.join().expect("a thread")).collect()
    });
    runtime.block_on(async {
        if let Some(server) = Arc::into_inner(server) {
            server.stop().await;
        }
    });
    assert!(found.is_empty(), "{}", found.join("\n\n"));
}

/// Runs sequences one after another; returns the shortest that found a difference, if any.
fn sequences(
    lane: u32,
    cases: u32,
    server: &Server,
    pool: &PgPool,
    runtime: &tokio::runtime::Handle,
) -> Option<String> {
    let kept = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/model/kept.txt");
    let config = Config {
        cases,
        failure_persistence: Some(Box::new(FileFailurePersistence::Direct(kept))),
        max_shrink_time: 60_000,
        max_shrink_iters: 2_000,
        ..Config::default()
    };
    // After a difference the types are not used again: something may be left in them.
    let differences = AtomicUsize::new(0);
    let names = |n: usize| -> [String; TYPES] { std::array::from_fn(|kind| format!("m{lane}-{n}-{kind}")) };
    runtime.block_on(World::make_types(server, &names(0)));
    let done = TestRunner::new(config).run(&command::sequences(), |commands| {
        let n = differences.load(Ordering::Relaxed);
        let patience = Duration::from_secs(if n == 0 { 20 } else { 4 });
        let types = names(n);
        let run = async { World::new(server, pool, &types, patience).run(&commands).await };
        runtime.block_on(run).map_err(|what| {
            differences.store(n + 1, Ordering::Relaxed);
            runtime.block_on(World::make_types(server, &names(n + 1)));
            TestCaseError::fail(what)
        })
    });
    match done {
        Ok(()) => None,
        Err(TestError::Fail(what, commands)) => Some(format!("{what}\n{commands:?}")),
        Err(TestError::Abort(what)) => Some(what.to_string()),
    }
}
