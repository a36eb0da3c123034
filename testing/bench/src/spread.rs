//! The same items in one job, in many, in a tree, and as trees of their own.

use anyhow::Result;
use domain::api::NewJob;
use futures::future::try_join_all;
use uuid::Uuid;

use crate::{
    Bench, PAYLOAD,
    drains::hundred,
    statistics::plot::{Line, Plot},
    transport::Transport,
};

impl Bench {
    /// Compares many jobs with one.
    pub(crate) async fn spread(&mut self) -> Result<()> {
        let engine = self.engine.clone();
        let n = self.sizes.items;
        let fused = hundred(2, true);
        let name = self.job_type().await?;
        engine.create_trees(&name, 1_000, n / 1_000, PAYLOAD).await?;
        self.drained(&engine, &name, n, fused, "drain in process, items in 1,000 jobs, fused").await?;

        let name = self.job_type().await?;
        let n_of_leaves = engine.create_deep_tree(&name, &[9, 110], n / 990).await?;
        self.drained(&engine, &name, n_of_leaves, fused, "drain in process, items in one tree of 1,000 jobs, fused")
            .await?;

        let n = n / 5;
        let (name, job) = self.job(&engine).await?;
        let (meter, transport) = (self.meter.clone(), &engine);
        let both = async {
            transport.add(job, n, PAYLOAD).await?;
            transport.drain(&name, n, fused).await
        };
        let cost = meter.measure(both).await?;
        self.report.add("add and drain in process, one job, fused", cost);

        let name = self.job_type().await?;
        let both = async {
            transport.create_trees(&name, n, 1, PAYLOAD).await?;
            transport.drain(&name, n, fused).await
        };
        self.begin_statements().await?;
        let cost = meter.measure(both).await?;
        self.end_statements(self.sizes.rounds - 1, "trees of one item").await?;
        self.report.add("create and drain in process, trees of one item, fused", cost);
        self.deep().await
    }

    /// Measures the cost of an item by its depth below the root.
    async fn deep(&mut self) -> Result<()> {
        let engine = self.engine.clone();
        let n = self.sizes.items / 5;
        let mut points = Vec::new();
        for depth in [1_usize, 2, 4, 8] {
            let name = self.job_type().await?;
            engine.create_deep_tree(&name, &vec![1; depth - 1], n).await?;
            let cost = self.meter.measure(engine.drain(&name, n, hundred(2, true))).await?;
            points.push((depth as f64, (cost.postgres_us + cost.process_us) / cost.items));
        }
        let lines = vec![Line { name: "PostgreSQL and server", points }];
        let title = "Draining items of a job far below the root";
        self.report.plot(Plot {
            name: "depth",
            title,
            x_axis: "jobs from the root down",
            y_axis: "processor µs an item",
            lines,
        });
        Ok(())
    }
}

impl Transport {
    /// Creates one tree with `below` jobs below each job, level by level, and `each` items in the leaves. Returns the
    /// number of items.
    async fn create_deep_tree(&self, job_type: &str, below: &[usize], each: u64) -> Result<u64> {
        let mut leaves = Vec::new();
        let tree = deep_tree(job_type, below, &mut leaves);
        self.create_tree(tree).await?;
        let n = leaves.len() as u64 * each;
        for some in leaves.chunks(16) {
            try_join_all(some.iter().map(|&leaf| self.add_by(leaf, each, PAYLOAD, 1, 5_000))).await?;
        }
        Ok(n)
    }
}

fn deep_tree(job_type: &str, below: &[usize], leaves: &mut Vec<Uuid>) -> NewJob {
    let mut job = NewJob::of(job_type);
    let id = Uuid::now_v7();
    job.id = Some(id);
    match below.split_first() {
        None => leaves.push(id),
        Some((&many, rest)) => job.children = (0..many).map(|_| deep_tree(job_type, rest, leaves)).collect(),
    }
    job
}
