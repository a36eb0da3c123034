//! F42: every role in a process of its own. Each process is killed in turn while items are worked on, callbacks are sent,
//! and files are split.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use futures::{FutureExt as _, future::BoxFuture};

use super::{Scenario, ScenarioOutcome, files, run_with_disturbance, scaled};
use crate::{
    fixture::{Fixture, FixtureOptions, RunContext},
    journal::{CallOutcome, Request},
    workload::Workload,
};

pub(super) const FAULTS: &[(&str, Scenario)] = &[("F42", |context| each_role(context).boxed())];

/// Roles of the processes. The callers and workers use the first two.
const ROLES: [&str; 5] = ["web", "web", "maintenance", "push", "split"];

/// Rows of the file that is imported around each kill.
const ROWS: usize = 200;

async fn each_role(context: &RunContext) -> Result<ScenarioOutcome> {
    let web = FixtureOptions { environment: vec![role(ROLES[0])], ..FixtureOptions::default() };
    let mut fixture = Fixture::start(context, web).await?;
    let workload = fixture.start_workload(Workload::of(context.items, context.seed))?;
    for name in &ROLES[2..] {
        fixture.options.environment = vec![role(name)];
        fixture.add_server(context).await?;
    }
    let repetition = (scaled(context, 10, 60), Duration::from_millis(500));
    run_with_disturbance(context, fixture, workload, repetition, kill_a_role, |n| {
        format!(
            "{} processes, one for each role and two for `web`, killed and restarted in turn, {n} times",
            ROLES.len()
        )
    })
    .await
}

fn role(name: &str) -> (String, String) {
    ("TREELINE_ROLES".to_owned(), name.to_owned())
}

/// Kills the next process while a file is imported.
fn kill_a_role(fixture: &mut Fixture, n: usize) -> BoxFuture<'_, Result<()>> {
    async move {
        ensure!(fixture.servers.len() == ROLES.len(), "{} processes", fixture.servers.len());
        let key = format!("roles-{n}");
        let path = fixture.path(&format!("{key}.csv"));
        std::fs::write(&path, files::table(&key, ROWS))?;
        let client = fixture.client(0)?.with_retry_timeout(Duration::from_secs(30));
        let call = fixture.journal.invoke(Request::File { key: key.clone(), rows: ROWS })?;
        let creating = tokio::spawn(async move {
            // The client does not repeat an upload whose answer was lost, because each is a file of its own.
            let mut tries = 0;
            let upload = loop {
                tries += 1;
                match client.upload(&path, |_| {}).await {
                    Ok(upload) => break upload,
                    Err(error) if tries == 3 => return Err(error).context("the whole file"),
                    Err(_) => {}
                }
            };
            let tree = files::tree(&key, upload.id);
            client.create_job_once(&tree, &key).await.context("a tree of the file")
        });
        tokio::time::sleep(Duration::from_millis(rand::random_range(0..150))).await;
        fixture.servers[n % ROLES.len()].restart().await?;
        let made = creating.await??;
        fixture.journal.record_outcome(call, CallOutcome::Ok, Some(made.job().id))
    }
    .boxed()
}
