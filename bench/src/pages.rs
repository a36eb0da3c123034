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
    door::{self, Door},
    times::Times,
};

/// Items of the large and of the small job that end at a time, and the interval.
const BATCH: u32 = 100;
const A_FEW: u32 = 2;
const PAUSE: Duration = Duration::from_millis(100);

/// A job with its type, which no other job has.
#[derive(Clone, Debug)]
pub(crate) struct Known {
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
pub(crate) async fn work_on(door: &Door, known: &Known, items: u64) -> Result<()> {
    let mut left = items;
    while left > 0 {
        let ended = end_some(door, &known.job_type, BATCH).await?;
        ensure!(ended > 0, "{} has no more items", known.job_type);
        left = left.saturating_sub(ended);
    }
    Ok(())
}

/// Measures all pages while items of the large job end.
pub(crate) async fn measure(
    url: &str,
    token: &str,
    samples: usize,
    door: &Door,
    large: &Known,
    small: &Known,
) -> Result<Vec<PageTime>> {
    let ending = async {
        let mut pace = tokio::time::interval(PAUSE);
        loop {
            pace.tick().await;
            end_some(door, &large.job_type, BATCH).await?;
            end_some(door, &small.job_type, A_FEW).await?;
            door.add(small.job, A_FEW.into(), PAYLOAD).await?;
        }
    };
    tokio::select! {
        times = look(url, token, samples, large, small) => times,
        failed = ending => failed,
    }
}

async fn look(url: &str, token: &str, samples: usize, large: &Known, small: &Known) -> Result<Vec<PageTime>> {
    let http = reqwest::Client::new();
    let mut times = Vec::new();
    for (page, path_of) in pages() {
        let paths = [large, small, small].map(|known| format!("{url}{}", path_of(known)));
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

type PathOf = fn(&Known) -> String;

fn pages() -> [(&'static str, PathOf); 4] {
    [
        ("/jobs", |known| format!("/jobs?q=type:{}", known.job_type)),
        ("/jobs/{id}", |known| format!("/jobs/{}", known.job)),
        ("/items", |known| format!("/items?q=job:{}", known.job)),
        ("/dead", |known| format!("/dead?q=root:{}", known.job)),
    ]
}

/// Claims a hundred items and keeps them, because a page shows running items.
pub(crate) async fn hold_some(door: &Door, known: &Known) -> Result<()> {
    let held = door.claim(door::claim_of("pages", &known.job_type, BATCH)).await?;
    ensure!(held.len() == BATCH as usize, "of {} only {} items could be had", known.job_type, held.len());
    Ok(())
}

/// Claims and ends items: the first of every ten fails for good.
async fn end_some(door: &Door, job_type: &str, most: u32) -> Result<u64> {
    let held = door.claim(door::claim_of("pages", job_type, most)).await?;
    let endings: Vec<_> = held
        .into_iter()
        .enumerate()
        .map(|(n, assignment)| {
            let mut ending = door::ending(assignment.id);
            if n % 10 == 0 {
                ending.result = None;
                ending.error = Some(WorkError { message: format!("no such user {n}"), kind: None, detail: None });
                ending.retryable = false;
            }
            ending
        })
        .collect();
    let n = endings.len() as u64;
    let finished = door.finish(FinishBody { endings, claim: None }).await?;
    let refused = finished.endings.iter().find(|ending| ending.code.is_some());
    refused.map_or(Ok(n), |refused| Err(anyhow::anyhow!("an ending was refused: {refused:?}")))
}
