//! Items in batches of several sizes, in process and over HTTP, beside the bare INSERT of the same sizes.

use anyhow::Result;

use crate::{
    Bench, PAYLOAD,
    report::{Table, thousands},
};

const SIZES: [u64; 4] = [100, 1_000, 5_000, 10_000];
const CALLERS: u64 = 2;

impl Bench {
    pub(crate) async fn adds(&mut self) -> Result<()> {
        let (engine, http) = (self.engine.clone(), self.http.clone());
        let mut rows = Vec::new();
        for at_once in SIZES {
            // At least twenty calls, at most as many items as elsewhere.
            let n = (at_once * 400).min(self.sizes.items.max(at_once * 20));
            self.bare.reset().await?;
            let bare = self.meter.measure(self.bare.add_by(n, PAYLOAD, CALLERS, at_once)).await?;
            let mut cells = vec![thousands(at_once as f64), thousands(bare.rate())];
            for transport in [&engine, &http] {
                let (_, job) = self.job(transport).await?;
                let cost = self.meter.measure(transport.add_by(job, n, PAYLOAD, CALLERS, at_once)).await?;
                cells.push(thousands(cost.rate()));
                cells.push(format!("{:.2}", cost.rate() / bare.rate()));
            }
            rows.push(cells);
        }
        self.report.table(Table {
            title: "Adding in batches of several sizes",
            about: "Items per second from two callers, and the share of a bare INSERT of as many rows from two connections.",
            columns: vec!["items per call", "bare INSERT", "in process", "share", "over HTTP", "share"],
            rows,
        });
        Ok(())
    }
}
