//! Costs that must not grow: a job's page with its items, a list with the depth, a drain with the history.

use std::time::Instant;

use anyhow::{Context as _, Result, ensure};
use client::ItemFilter;
use uuid::Uuid;

use crate::{
    Bench, TOKEN,
    drains::hundred,
    report::Threshold,
    statistics::{
        plot::{Line, Plot},
        times::{Times, short},
    },
};

/// Items per page of the list, and number of measured pages at its beginning and end.
const PAGE: u32 = 200;
const COUNTED: usize = 40;
/// Drains one after another.
const DRAINS: usize = 6;

impl Bench {
    /// Measures all three for jobs with these numbers of items.
    pub(crate) async fn growth(&mut self, jobs: Vec<(u64, Uuid)>) -> Result<()> {
        self.page_of_a_job(&jobs).await?;
        let (_, large) = *jobs.last().context("no job")?;
        self.deep_list(large).await?;
        self.history().await
    }

    async fn page_of_a_job(&mut self, jobs: &[(u64, Uuid)]) -> Result<()> {
        let http = reqwest::Client::new();
        let mut taken = vec![Vec::new(); jobs.len()];
        for _ in 0..self.sizes.pages {
            for ((_, job), taken) in jobs.iter().zip(&mut taken) {
                let url = format!("{}/jobs/{job}", self.url);
                let began = Instant::now();
                let answer = http.get(&url).bearer_auth(TOKEN).header("accept", "text/html").send().await?;
                ensure!(answer.status().is_success(), "{url}: {}", answer.status());
                answer.bytes().await?;
                taken.push(began.elapsed().as_secs_f64() * 1e3);
            }
        }
        let taken: Vec<Times> = taken.into_iter().map(Times::new).collect();
        let line = |name, share| {
            let points = jobs.iter().zip(&taken).map(|((n, _), times)| (*n as f64, times.within(share))).collect();
            Line { name, points }
        };
        let title = "A job's page, with more and more items";
        let lines = vec![line("p50", 50.0), line("p95", 95.0)];
        self.report.plot(Plot { name: "page", title, x_axis: "items of the job", y_axis: "milliseconds", lines });
        Ok(())
    }

    /// Reads a list page by page.
    async fn deep_list(&mut self, job: Uuid) -> Result<()> {
        let depth = self.sizes.pages * 4;
        let mut filter = ItemFilter { job: Some(job), limit: Some(PAGE), ..ItemFilter::default() };
        let mut times = Vec::with_capacity(depth);
        for _ in 0..depth {
            let began = Instant::now();
            let page = self.client.items(&filter).await?;
            times.push(began.elapsed().as_secs_f64() * 1e3);
            ensure!(page.data.len() == PAGE as usize, "the list ended early");
            filter.cursor = page.next_cursor;
        }
        let last = Times::new(times.split_off(depth - COUNTED)).median();
        times.truncate(COUNTED);
        let first = Times::new(times).median();
        let what = format!("pages {} to {depth} of a list, p50 {} ms", depth - COUNTED, short(last));
        let against = format!("its first {COUNTED}, p50 {} ms", short(first));
        self.report.compare(what, against, last / first, Some(Threshold::AtMost(1.25)));
        Ok(())
    }

    /// Repeats the same drain.
    async fn history(&mut self) -> Result<()> {
        let engine = self.engine.clone();
        let n = self.sizes.items;
        let before: i64 = sqlx::query_scalar("select count(*) from outcome").fetch_one(self.meter.pool()).await?;
        let mut points = Vec::new();
        for drain in 0..DRAINS {
            let (name, job) = self.job(&engine).await?;
            engine.add(job, n, crate::PAYLOAD).await?;
            let cost = self.meter.measure(engine.drain(&name, n, hundred(8, true))).await?;
            points.push((before as f64 + (drain as u64 * n) as f64, (cost.postgres_us + cost.process_us) / cost.items));
        }
        let lines = vec![Line { name: "PostgreSQL and server", points }];
        let title = "Draining, with more and more ended items";
        self.report.plot(Plot {
            name: "history",
            title,
            x_axis: "items that have ended",
            y_axis: "processor µs an item",
            lines,
        });
        Ok(())
    }
}
