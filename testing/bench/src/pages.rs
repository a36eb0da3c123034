//! Pages of a job with a million items, compared with those of a job with a thousand, while a thousand items end every
//! second.
//!
//! Requests for both alternate, so that both run under the same conditions. Ten times per second a hundred items of the
//! large job end, and two of the small one, which gets two new items. The lists are filtered by job. The small job's
//! page is measured twice: the difference between the two is the noise of the machine.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use domain::api::{FinishBody, WorkError};
use uuid::Uuid;

use crate::{
    PAYLOAD,
    statistics::times::Times,
    transport::{self, Transport},
};

/// Items of the large and of the small job that end at a time, and the interval.
const BATCH: u32 = 100;
const SMALL_BATCH: u32 = 2;
const PAUSE: Duration = Duration::from_millis(100);

/// A job with its type, which no other job has.
#[derive(Clone, Debug)]
pub(crate) struct TypedJob {
    pub(crate) job: Uuid,
    pub(crate) job_type: String,
}

/// 95th percentile of a page's latency, in milliseconds.
#[derive(Clone, Debug)]
pub(crate) struct PageTime {
    pub(crate) page: &'static str,
    pub(crate) large: f64,
    pub(crate) small: f64,
    /// Second measurement of the small job.
    pub(crate) again: f64,
}

/// Ends items, of which every tenth fails, so that pages have something of each kind to show.
pub(crate) async fn work_on(transport: &Transport, typed_job: &TypedJob, items: u64) -> Result<()> {
    let mut left = items;
    while left > 0 {
        let ended = end_some(transport, &typed_job.job_type, BATCH).await?;
        ensure!(ended > 0, "{} has no more items", typed_job.job_type);
        left = left.saturating_sub(ended);
    }
    Ok(())
}

/// Measures all pages while items of the large job end.
pub(crate) async fn measure(
    url: &str,
    token: &str,
    samples: usize,
    transport: &Transport,
    large: &TypedJob,
    small: &TypedJob,
) -> Result<Vec<PageTime>> {
    let ending = async {
        let mut pace = tokio::time::interval(PAUSE);
        loop {
            pace.tick().await;
            end_some(transport, &large.job_type, BATCH).await?;
            end_some(transport, &small.job_type, SMALL_BATCH).await?;
            transport.add(small.job, SMALL_BATCH.into(), PAYLOAD).await?;
        }
    };
    tokio::select! {
        times = sample_pages(url, token, samples, large, small) => times,
        failed = ending => failed,
    }
}

async fn sample_pages(
    url: &str,
    token: &str,
    samples: usize,
    large: &TypedJob,
    small: &TypedJob,
) -> Result<Vec<PageTime>> {
    let http = reqwest::Client::new();
    let mut times = Vec::new();
    for (page, path_of) in pages() {
        let paths = [large, small, small].map(|typed_job| format!("{url}{}", path_of(typed_job)));
        let mut taken = [(); 3].map(|()| Vec::with_capacity(samples));
        for turn in 0..samples {
            // Each of the three goes first equally often, because the first request may meet an idle processor.
            for n in 0..paths.len() {
                let n = (turn + n) % paths.len();
                let (path, taken) = (&paths[n], &mut taken[n]);
                let began = Instant::now();
                let answer = http.get(path).bearer_auth(token).header("accept", "text/html").send().await?;
                ensure!(answer.status().is_success(), "{path}: {}", answer.status());
                answer.bytes().await?;
                taken.push(began.elapsed().as_secs_f64() * 1e3);
            }
        }
        let [large, small, again] = taken.map(|taken| Times::new(taken).within(95.0));
        eprintln!("  {page}: p95 {large:.1} ms, with 1,000 items {small:.1} ms and {again:.1} ms");
        times.push(PageTime { page, large, small, again });
    }
    Ok(times)
}

type PathOf = fn(&TypedJob) -> String;

fn pages() -> [(&'static str, PathOf); 4] {
    [
        ("/jobs", |typed_job| format!("/jobs?q=type:{}", typed_job.job_type)),
        ("/jobs/{id}", |typed_job| format!("/jobs/{}", typed_job.job)),
        ("/items", |typed_job| format!("/items?q=job:{}", typed_job.job)),
        ("/dead", |typed_job| format!("/dead?q=root:{}", typed_job.job)),
    ]
}

/// Claims a hundred items and keeps them, because a page shows running items.
pub(crate) async fn hold_some(transport: &Transport, typed_job: &TypedJob) -> Result<()> {
    let assignments = transport.claim(transport::claim_of("pages", &typed_job.job_type, BATCH)).await?;
    ensure!(
        assignments.len() == BATCH as usize,
        "of {} only {} items could be had",
        typed_job.job_type,
        assignments.len()
    );
    Ok(())
}

/// Claims and ends items: the first of every ten fails for good.
async fn end_some(transport: &Transport, job_type: &str, most: u32) -> Result<u64> {
    let assignments = transport.claim(transport::claim_of("pages", job_type, most)).await?;
    let endings: Vec<_> = assignments
        .into_iter()
        .enumerate()
        .map(|(n, assignment)| {
            let mut ending = transport::ending(assignment.id);
            if n % 10 == 0 {
                ending.result = None;
                ending.error = Some(WorkError { message: format!("no such user {n}"), kind: None, detail: None });
                ending.retryable = false;
            }
            ending
        })
        .collect();
    let n = endings.len() as u64;
    let finished = transport.finish(FinishBody { endings, claim: None }).await?;
    let refused = finished.endings.iter().find(|ending| ending.code.is_some());
    refused.map_or(Ok(n), |refused| Err(anyhow::anyhow!("an ending was rejected: {refused:?}")))
}
