//! Memory of a server under load, and of the worker program while it waits.

use std::{
    path::Path,
    process::Stdio,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, ensure};
use client::PageQuery;
use tokio::{
    process::{Child, Command},
    time::{interval, sleep},
};

use crate::{
    Bench, PAYLOAD, TOKEN,
    drains::hundred,
    report::{Table, Threshold, thousands},
    serve::SeparateServer,
    statistics::{meter, times::short},
    transport::Transport,
};

/// Interval at which a server's memory is read.
const SAMPLE_INTERVAL: Duration = Duration::from_millis(20);
/// Pause after which freed memory has been returned to the system.
const AFTER: Duration = Duration::from_secs(3);
/// Worker id of the worker program.
const PROGRAM: &str = "the-program";

impl Bench {
    /// Measures a server while items are added and drained at full speed.
    pub(crate) async fn loaded(&mut self) -> Result<()> {
        let n = self.sizes.items * 4;
        let separate_server = SeparateServer::start(&self.admin, "loaded").await?;
        let transport = Transport::Http(separate_server.client.clone());
        let job = transport.create("loaded", Vec::new(), false).await?;
        let at_rest = separate_server.memory()?;
        let began = Instant::now();
        let mut most = at_rest;
        let working = async {
            tokio::try_join!(
                transport.add_by(job, n, PAYLOAD, 4, 5_000),
                transport.drain("loaded", n, hundred(8, true))
            )
        };
        tokio::pin!(working);
        let mut ticks = interval(SAMPLE_INTERVAL);
        loop {
            tokio::select! {
                done = &mut working => {
                    done?;
                    break;
                }
                _ = ticks.tick() => most = most.max(separate_server.memory()?),
            }
        }
        let seconds = began.elapsed().as_secs_f64();
        sleep(AFTER).await;
        let after = separate_server.memory()?;
        separate_server.end().await?;
        let what = format!("memory of a server under load, {} MB", short(most));
        self.report.compare(what, "150 MB".into(), most / 150.0, Some(Threshold::AtMost(1.0)));
        self.report.table(Table {
            title: "Memory under load",
            about: "A separate server over HTTP: four callers add 5,000 per request while eight workers drain 100 per request.",
            columns: vec!["items", "seconds", "before, MB", "peak, MB", "3 s later, MB"],
            rows: vec![vec![thousands(n as f64), short(seconds), short(at_rest), short(most), short(after)]],
        });
        Ok(())
    }
}

/// Memory in megabytes of `treeline work --concurrency 300` while it waits at this server; `None` if it was not built
/// with the benchmark.
pub(crate) async fn of_worker_program(separate_server: &SeparateServer, job_type: &str) -> Result<Option<f64>> {
    let here = std::env::current_exe()?;
    let program = here.with_file_name("treeline");
    if !program.exists() {
        return Ok(None);
    }
    let mut child = work(&program, &separate_server.address, job_type)?;
    let began = Instant::now();
    while !has_claimed(separate_server).await? {
        ensure!(began.elapsed() < Duration::from_secs(20), "the worker program does not ask for work");
        sleep(Duration::from_millis(100)).await;
    }
    sleep(AFTER).await;
    let megabytes = meter::memory_of(child.id().context("the worker program has exited")?)? / 1e6;
    child.kill().await?;
    Ok(Some(megabytes))
}

fn work(program: &Path, address: &str, job_type: &str) -> Result<Child> {
    let line = ["work", "--type", job_type, "--concurrency", "300", "--worker-id", PROGRAM, "--", "true"];
    let mut command = Command::new(program);
    command.args(line).env("TREELINE_URL", format!("http://{address}")).env("TREELINE_TOKEN", TOKEN);
    Ok(command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).kill_on_drop(true).spawn()?)
}

/// True if the program has claimed.
async fn has_claimed(separate_server: &SeparateServer) -> Result<bool> {
    let all = PageQuery { limit: Some(1_000), ..PageQuery::default() };
    Ok(separate_server.client.workers(&all).await?.data.iter().any(|worker| worker.worker_id == PROGRAM))
}
