//! Files: aborted uploads, and servers that are killed while they receive a file or split it into items.

use std::{path::Path, time::Duration};

use anyhow::{Context as _, Result, ensure};
use client::Client;
use domain::{
    api::{JobUpload, NewJob},
    id::Uuid,
};
use futures::{FutureExt as _, stream};

use super::{Scenario, ScenarioOutcome, end, scaled};
use crate::{
    fixture::{Fixture, FixtureOptions, RunContext, TOKEN},
    journal::{CallOutcome, Request},
};

pub(super) const FAULTS: &[(&str, Scenario)] = &[("F36", |context| cut_uploads(context).boxed())];

/// F36: the server is killed during an upload, and again while it splits the file into items.
async fn cut_uploads(context: &RunContext) -> Result<ScenarioOutcome> {
    let mut fixture =
        Fixture::start(context, FixtureOptions { servers: 1, work_ms: 1, slots: 32, ..FixtureOptions::default() })
            .await?;
    let (rounds, rows) = scaled(context, (5, 1_000), (100, 5_000));
    for round in 0..rounds {
        let key = format!("file-{}-{round}", context.seed);
        let path = fixture.path(&format!("{key}.csv"));
        let text = table(&key, rows);
        std::fs::write(&path, &text)?;
        let stored = count(&fixture, "select count(*) from upload").await?;
        let share = rand::random_range(1..100);
        begin_upload(&fixture.servers[0].url(), &key, text.as_bytes(), share).await;
        fixture.servers[0].restart().await?;
        let after = count(&fixture, "select count(*) from upload").await?;
        ensure!(after == stored, "half an upload is stored");
        fill(&mut fixture, &key, &path, rows).await?;
    }
    let done = format!(
        "{rounds} uploads cut off at 1 to 99 % by a killed server, each sent again and split into {rows} items by a \
         server that is killed meanwhile"
    );
    end(context, fixture, tokio::spawn(async { Ok(()) }), done).await
}

/// A table whose rows name the file.
pub(super) fn table(key: &str, rows: usize) -> String {
    let lines: Vec<String> = (0..rows).map(|n| format!("{n},row {n} of {key}\n")).collect();
    format!("n,note\n{}", lines.concat())
}

/// Tree of the rows of a file.
pub(super) fn tree(key: &str, upload: Uuid) -> NewJob {
    let source = JobUpload {
        id: upload,
        format: None,
        header: None,
        header_row: None,
        delimiter: None,
        encoding: None,
        sheet: None,
    };
    NewJob { name: Some(key.to_owned()), upload: Some(source), ..NewJob::of("plain") }
}

async fn count(fixture: &Fixture, what: &'static str) -> Result<i64> {
    Ok(sqlx::query_scalar(what).fetch_one(&fixture.pool).await?)
}

/// Sends only a part of a file; returns after a timeout, as the rest never follows.
async fn begin_upload(url: &str, key: &str, bytes: &[u8], percent: usize) {
    let part = bytes[..bytes.len() * percent / 100].to_vec();
    let sent = futures::StreamExt::chain(stream::iter([Ok::<_, std::io::Error>(part)]), stream::pending());
    let request = reqwest::Client::new()
        .post(format!("{url}/api/v1/uploads?filename={key}.csv"))
        .bearer_auth(TOKEN)
        .header("content-length", bytes.len())
        .body(reqwest::Body::wrap_stream(sent));
    let _ = tokio::time::timeout(Duration::from_millis(200), request.send()).await;
}

/// Uploads the whole file and creates a tree from it, although the server is killed once more.
async fn fill(fixture: &mut Fixture, key: &str, path: &Path, rows: usize) -> Result<()> {
    let client: Client = fixture.client(0)?.with_retry_timeout(Duration::from_secs(30));
    let upload = client.upload(path, |_| {}).await.context("the whole file")?;
    let tree = tree(key, upload.id);
    let call = fixture.journal.invoke(Request::File { key: key.to_owned(), rows })?;
    let pause = Duration::from_millis(rand::random_range(0..150));
    let creating = tokio::spawn({
        let key = key.to_owned();
        async move { client.create_job_once(&tree, &key).await }
    });
    tokio::time::sleep(pause).await;
    fixture.servers[0].restart().await?;
    let made = creating.await?.context("a tree of the file")?;
    fixture.journal.record_outcome(call, CallOutcome::Ok, Some(made.job().id))
}
