//! Growing numbers of workers with one item per request: the rate must not drop.

use anyhow::Result;

use crate::{
    Bench, PAYLOAD,
    report::{Table, Threshold, thousands},
    statistics::plot::{Line, Plot},
    transport::DrainMode,
};

impl Bench {
    pub(crate) async fn workers(&mut self) -> Result<()> {
        let http = self.http.clone();
        let (mut rows, mut points) = (Vec::new(), Vec::new());
        let mut best = 0.0_f64;
        for &workers in self.sizes.workers {
            // A single worker waits for each commit; hundreds of workers share commits.
            let n = (workers as u64 * 500).clamp(1_000, self.sizes.items / 4);
            let (name, job) = self.job(&http).await?;
            http.add(job, n, PAYLOAD).await?;
            let mode = DrainMode { workers, batch: 1, fused: true };
            let cost = self.meter.measure(http.drain(&name, n, mode)).await?;
            best = best.max(cost.rate());
            points.push((workers as f64, cost.rate()));
            rows.push(vec![
                workers.to_string(),
                thousands(cost.rate()),
                format!("{:.3}", cost.commits / cost.items),
                format!("{:.0}", cost.log_bytes / cost.items),
                format!("{:.1}", cost.postgres_us / cost.items),
                format!("{:.1}", cost.process_us / cost.items),
            ]);
        }
        if let Some(&(workers, rate)) = points.last() {
            let what = format!("drain over HTTP, 1 per request, {workers} workers");
            self.report.compare(what, "the best number of workers".into(), rate / best, Some(Threshold::AtLeast(0.9)));
        }
        self.report.table(Table {
            title: "More workers",
            about: "One item per request; each request ends an item and claims the next.",
            columns: vec![
                "workers",
                "items/s",
                "commits/item",
                "WAL B/item",
                "PostgreSQL µs/item",
                "server and client µs/item",
            ],
            rows,
        });
        let lines = vec![Line { name: "items a second", points }];
        let title = "One item per request, with more and more workers";
        self.report.plot(Plot { name: "workers", title, x_axis: "workers", y_axis: "items a second", lines });
        Ok(())
    }
}
