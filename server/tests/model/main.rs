//! Model test: random sequences of all actions on trees of jobs, against an in-memory reference that is written from
//! the rules alone. After each command, all readable state must be equal.
//!
//! `TREELINE_MODEL_CASES` sets the number of sequences (the default is small enough for every build). `regressions.txt` stores
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
mod wire_format;
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
const CONCURRENT: u32 = 4;

#[test]
fn random_command_sequences_match_the_reference_model() {
    let cases = std::env::var("TREELINE_MODEL_CASES").ok().and_then(|n| n.parse().ok()).unwrap_or(CASES);
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().expect("a runtime");
    let server = Arc::new(runtime.block_on(Server::start()));
    let pool = server.running.app.pool.clone();
    let failures: Vec<String> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..CONCURRENT)
            .map(|runner| {
                let (server, pool, handle) = (Arc::clone(&server), pool.clone(), runtime.handle().clone());
                scope.spawn(move || sequences(runner, cases.div_ceil(CONCURRENT), &server, &pool, &handle))
            })
            .collect();
        threads.into_iter().filter_map(|thread| thread.join().expect("a thread")).collect()
    });
    runtime.block_on(async {
        if let Some(server) = Arc::into_inner(server) {
            server.stop().await;
        }
    });
    assert!(failures.is_empty(), "{}", failures.join("\n\n"));
}

/// Runs sequences one after another; returns the shortest that found a difference, if any.
fn sequences(
    runner: u32,
    cases: u32,
    server: &Server,
    pool: &PgPool,
    runtime: &tokio::runtime::Handle,
) -> Option<String> {
    let regressions = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/model/regressions.txt");
    let config = Config {
        cases,
        failure_persistence: Some(Box::new(FileFailurePersistence::Direct(regressions))),
        max_shrink_time: 60_000,
        max_shrink_iters: 2_000,
        ..Config::default()
    };
    // After a difference the types are not used again: something may be left in them.
    let differences = AtomicUsize::new(0);
    let names = |n: usize| -> [String; TYPES] { std::array::from_fn(|kind| format!("m{runner}-{n}-{kind}")) };
    runtime.block_on(World::make_types(server, &names(0)));
    let done = TestRunner::new(config).run(&command::sequences(), |commands| {
        let n = differences.load(Ordering::Relaxed);
        let timeout = Duration::from_secs(if n == 0 { 20 } else { 4 });
        let types = names(n);
        let run = async { World::new(server, pool, &types, timeout).run(&commands).await };
        runtime.block_on(run).map_err(|message| {
            differences.store(n + 1, Ordering::Relaxed);
            runtime.block_on(World::make_types(server, &names(n + 1)));
            TestCaseError::fail(message)
        })
    });
    match done {
        Ok(()) => None,
        Err(TestError::Fail(message, commands)) => Some(format!("{message}\n{commands:?}")),
        Err(TestError::Abort(message)) => Some(message.to_string()),
    }
}
