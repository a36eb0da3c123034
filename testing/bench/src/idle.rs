//! Idle server: time until a new item reaches a worker, and cost of waiting workers.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use domain::api::FinishBody;
use tokio::{sync::mpsc, task::JoinSet, time::sleep};

use crate::{
    Bench, PAYLOAD, memory,
    report::{Table, Threshold},
    serve::SeparateServer,
    statistics::{
        plot::{Line, Plot},
        times::{COLUMNS, Times, short},
    },
    transport::{self, Transport},
};

/// Pause between two items, in which the worker's next claim reaches the server.
const PAUSE: Duration = Duration::from_millis(5);
/// Duration of the measurement while nothing happens.
const WATCHED: Duration = Duration::from_secs(8);

impl Bench {
    pub(crate) async fn idle(&mut self) -> Result<()> {
        self.bare.reset().await?;
        let bare = Times::new(self.bare.commit_times(self.sizes.idle, PAYLOAD).await?);
        let (engine, http) = (self.engine.clone(), self.http.clone());
        let in_process = self.starts(&engine).await?;
        let over_http = self.starts(&http).await?;
        let allowed = 2.0 * bare.median() + 3.0;
        for (times, transport) in [(&in_process, "in process"), (&over_http, "over HTTP")] {
            let what = format!(
                "from adding an item to its start by an idle worker, {transport}, p50 {} ms",
                short(times.median())
            );
            let against = format!("two bare commits and 3 ms, {} ms", short(allowed));
            self.report.compare(what, against, times.median() / allowed, Some(Threshold::AtMost(1.0)));
        }
        let row = |name: &str, times: &Times| std::iter::once(name.to_owned()).chain(times.cells()).collect();
        self.report.table(Table {
            title: "From adding to starting, one item at a time",
            about: "Time from the call that adds an item until a waiting worker has it: two commits, one after the other.",
            columns: std::iter::once("what").chain(COLUMNS).collect(),
            rows: vec![
                row("a bare commit of one row", &bare),
                row("in process", &in_process),
                row("over HTTP", &over_http),
            ],
        });
        self.waiting().await
    }

    /// Adds items one by one to a worker that waits.
    async fn starts(&mut self, transport: &Transport) -> Result<Times> {
        let (name, job) = self.job(transport).await?;
        let (sender, mut receiver) = mpsc::unbounded_channel();
        let worker = async {
            loop {
                let mut claim = transport::claim_of("w", &name, 1);
                claim.wait_seconds = Some(20);
                let assignments = transport.claim(claim).await?;
                let at = Instant::now();
                let endings = assignments.iter().map(|assignment| transport::ending(assignment.id)).collect();
                transport.finish(FinishBody { endings, claim: None }).await?;
                for _ in assignments {
                    sender.send(at)?;
                }
            }
        };
        let adding = async {
            let mut times = Vec::with_capacity(self.sizes.idle);
            for _ in 0..self.sizes.idle {
                sleep(PAUSE).await;
                let began = Instant::now();
                transport.add_by(job, 1, PAYLOAD, 1, 1).await?;
                let at = receiver.recv().await.context("the worker has exited")?;
                times.push((at - began).as_secs_f64() * 1e3);
            }
            Ok(Times::new(times))
        };
        tokio::select! {
            times = adding => times,
            failed = worker => failed,
        }
    }

    /// Measures claims that wait without getting work.
    async fn waiting(&mut self) -> Result<()> {
        let separate_server = SeparateServer::start(&self.admin, "idle").await?;
        let (mut rows, mut transaction_points, mut memory) = (Vec::new(), Vec::new(), Vec::new());
        let mut program = None;
        let mut open = JoinSet::new();
        for count in [0, 300, self.sizes.waiting] {
            for worker in open.len()..count {
                let client = separate_server.client.clone();
                let mut claim = transport::claim_of(&format!("w-{worker}"), "idle", 1);
                claim.wait_seconds = Some(30);
                open.spawn(async move {
                    loop {
                        let claimed = client.claim(&claim).await;
                        if !claimed.is_ok_and(|claimed| claimed.assignments.is_empty()) {
                            return;
                        }
                    }
                });
            }
            // Exclude delayed statistics and new connections from the measurement.
            sleep(Duration::from_secs(2)).await;
            let before = separate_server.transactions(self.meter.pool()).await?;
            let began = Instant::now();
            sleep(WATCHED).await;
            let after = separate_server.transactions(self.meter.pool()).await?;
            let rate = (after - before) / began.elapsed().as_secs_f64();
            ensure!(open.try_join_next().is_none(), "a waiting claim was answered with work, or broke");
            let megabytes = separate_server.memory()?;
            rows.push(vec![count.to_string(), short(rate), short(megabytes)]);
            if count == 300 {
                program = memory::of_worker_program(&separate_server, "idle").await?;
            }
            transaction_points.push((count.max(1) as f64, rate));
            memory.push((count.max(1) as f64, megabytes));
        }
        open.shutdown().await;
        separate_server.end().await?;
        let of_300 = memory[1].1;
        let (beside, together) = match program {
            Some(program) => {
                (format!("and {} MB of `treeline work --concurrency 300` beside it", short(program)), of_300 + program)
            }
            None => ("alone; `treeline` was not built".to_owned(), of_300),
        };
        let what = format!("memory of a server with 300 waiting workers, {} MB, {beside}", short(of_300));
        self.report.compare(what, "30 MB".into(), together / 30.0, Some(Threshold::AtMost(1.0)));
        self.report.table(Table {
            title: "Waiting workers",
            about: "Claims waiting at an otherwise idle server; only its background tasks query the database.",
            columns: vec!["waiting claims", "transactions/s in the database", "server memory, MB"],
            rows,
        });
        let lines = vec![
            Line { name: "transactions per second", points: transaction_points },
            Line { name: "memory, MB", points: memory },
        ];
        let title = "Workers that wait";
        self.report.plot(Plot { name: "waiting", title, x_axis: "claims waiting", y_axis: "at an idle server", lines });
        Ok(())
    }
}
