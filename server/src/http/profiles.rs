//! CPU and heap profiles of the process, for admins. One at a time in a process: a profile costs time and memory.
//!
//! They name functions and numbers, no data.

use std::{fmt::Write as _, time::Duration};

use axum::{
    http::header,
    response::{IntoResponse as _, Response},
};
use domain::{Code, Problem};
use jemalloc_pprof::PROF_CTL;
use pprof::{ProfilerGuardBuilder, Report};
use serde::Deserialize;
use tokio::sync::{Semaphore, SemaphorePermit};

use super::extract::Query;
use crate::http::callers::Admin;
use crate::http::error::{Error, Result};

/// Samples per second. Not a divisor of common intervals, so that periodic work is not always or never hit.
const FREQUENCY: i32 = 99;

/// Default and maximum duration of a CPU profile.
const DEFAULT_SECONDS: u64 = 10;
const MAX_SECONDS: u64 = 60;

/// Libraries whose stacks are not walked: a sample that interrupts their own locks could block.
const BLOCKLIST: [&str; 4] = ["libc", "libgcc", "pthread", "vdso"];

/// Permit for the one profile at a time.
static TURN: Semaphore = Semaphore::const_new(1);

/// Query parameters of a CPU profile.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProfileQuery {
    seconds: Option<u64>,
}

/// `GET /debug/pprof/profile`: samples the process for `seconds`. Each line is a stack, outermost function first, and its
/// number of samples: the folded format of flame graph programs.
pub async fn get_cpu_profile(_: Admin, Query(query): Query<ProfileQuery>) -> Result<Response> {
    let seconds = query.seconds.unwrap_or(DEFAULT_SECONDS);
    if !(1..=MAX_SECONDS).contains(&seconds) {
        return Err(Problem::parameter("seconds", "a number from 1 to 60").into());
    }
    let turn = turn()?;
    let guard = ProfilerGuardBuilder::default().frequency(FREQUENCY).blocklist(&BLOCKLIST).build().map_err(broken)?;
    // The duration of the profile.
    tokio::time::sleep(Duration::from_secs(seconds)).await;
    let report = tokio::task::spawn_blocking(move || {
        // Also if nobody waits for the result anymore: the next profile begins after this one.
        let _turn = turn;
        guard.report().build().map(|report| folded(&report))
    });
    let text = report.await.map_err(broken)?.map_err(broken)?;
    Ok(([(header::CONTENT_TYPE, "text/plain; charset=utf-8")], text).into_response())
}

/// `GET /debug/pprof/heap`: memory in use by the stacks that requested it, as a gzipped pprof file. The allocator samples
/// only in a process that was started with `_RJEM_MALLOC_CONF=prof:true,prof_active:true`.
pub async fn get_heap_profile(_: Admin) -> Result<Response> {
    let turn = turn()?;
    let Some(control) = PROF_CTL.as_ref() else {
        let how = "Start the server with _RJEM_MALLOC_CONF=prof:true,prof_active:true to get heap profiles.";
        return Err(Error::refuse(Code::ProfilingOff, how));
    };
    let dump = tokio::task::spawn_blocking(move || {
        let _turn = turn;
        control.blocking_lock().dump_pprof()
    });
    let profile = dump.await.map_err(broken)?.map_err(broken)?;
    let name = "attachment; filename=\"heap.pb.gz\"";
    Ok(([(header::CONTENT_TYPE, "application/octet-stream"), (header::CONTENT_DISPOSITION, name)], profile)
        .into_response())
}

fn turn() -> Result<SemaphorePermit<'static>> {
    let busy = |_| Error::refuse(Code::TooManyRequests, "Another profile is being taken. Try again when it is done.");
    TURN.try_acquire().map_err(busy)
}

fn broken(error: impl std::fmt::Display) -> Error {
    Error(engine::error::Error::Broken(format!("profiling failed: {error}")))
}

/// Stacks and their samples, most frequent first.
fn folded(report: &Report) -> String {
    let mut stacks: Vec<(String, isize)> = report
        .data
        .iter()
        .map(|(frames, count)| {
            let inlined = frames.frames.iter().rev().flat_map(|frame| frame.iter().rev());
            let names = inlined.map(|symbol| symbol.name().replace([';', '\n'], ":"));
            let stack = std::iter::once(frames.thread_name_or_id()).chain(names).collect::<Vec<_>>().join(";");
            (stack, *count)
        })
        .collect();
    stacks.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
    stacks.into_iter().fold(String::new(), |mut text, (stack, count)| {
        let _ = writeln!(text, "{stack} {count}");
        text
    })
}
