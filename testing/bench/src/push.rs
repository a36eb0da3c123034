//! Push delivery: throughput of a bare HTTP client against a target that does nothing, compared with push requests that
//! are claimed items and end with the response.
//!
//! The target runs in this process, on the same cores.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use axum::{Router, body::Bytes, http::header::CONTENT_TYPE, routing::post};
use client::Client;
use domain::{
    Document, JobStatus,
    api::{NewItem, NewJob},
    job_type::{Executor, JobTypeSpec},
};
use futures::future::try_join_all;
use tokio::task::JoinHandle;
use uuid::Uuid;

/// Number of concurrent requests, the same as the server's default.
const AT_ONCE: u64 = 100;

/// Push target that does nothing: it reads the body and responds with the result.
pub(crate) struct Target {
    url: String,
    served: JoinHandle<std::io::Result<()>>,
}

impl Target {
    pub(crate) async fn start() -> Result<Self> {
        let listener = tokio::net::TcpListener::bind(("127.0.0.1", 0)).await?;
        let url = format!("http://{}/", listener.local_addr()?);
        let done = |_: Bytes| async { ([(CONTENT_TYPE, "application/json")], super::RESULT) };
        let router = Router::new().route("/", post(done));
        let served = tokio::spawn(axum::serve(listener, router).into_future());
        Ok(Self { url, served })
    }

    /// Posts `n` bodies like those of items, and reads the responses.
    pub(crate) async fn bare(&self, n: u64, payload: &str) -> Result<u64> {
        let client = reqwest::Client::builder().tls_certs_only([]).timeout(Duration::from_secs(30)).build()?;
        let id = Uuid::nil();
        let body = format!(
            r#"{{"assignment_id":"{id}","item_id":"{id}","job_id":"{id}","type":"bench","attempt":1,"payload":{payload},"step":null}}"#
        );
        let each = n / AT_ONCE;
        let posts = (0..AT_ONCE).map(|_| async {
            for _ in 0..each {
                let request = client.post(&self.url).header("content-type", "application/json").body(body.clone());
                request.send().await?.error_for_status()?.bytes().await?;
            }
            Ok::<_, reqwest::Error>(())
        });
        try_join_all(posts).await?;
        Ok(each * AT_ONCE)
    }

    /// Creates a paused job type that is pushed to this target, with a sealed job of `n` items.
    pub(crate) async fn filled(
        &self,
        client: &Client,
        name: &str,
        n: u64,
        payload: &str,
    ) -> Result<(JobTypeSpec, Uuid)> {
        let spec = JobTypeSpec { executor: Executor::push(self.url.clone()), paused: true, ..JobTypeSpec::named(name) };
        client.put_job_type(&spec).await?;
        let job = client.create_job(&NewJob::of(name)).await?.id;
        let item = NewItem { payload: Some(Document::trusted(payload.to_owned())), ..NewItem::default() };
        let mut left = n;
        while left > 0 {
            let part = left.min(5_000);
            client.add_items(job, &vec![item.clone(); part as usize], false).await?;
            left -= part;
        }
        client.seal(job).await?;
        Ok((spec, job))
    }

    /// Resumes the type, and waits until all items have succeeded.
    pub(crate) async fn posted(&self, client: &Client, spec: &JobTypeSpec, job: Uuid, n: u64) -> Result<u64> {
        client.put_job_type(&JobTypeSpec { paused: false, ..spec.clone() }).await?;
        let mut latest = client.job(job).await?;
        while latest.status != JobStatus::Completed {
            latest = match client.newer_job(job, latest.version, 30).await? {
                Some(newer) => newer,
                None => client.job(job).await.context("the job is gone")?,
            };
        }
        ensure!(latest.counts.succeeded == n as i64, "{} of {n} succeeded", latest.counts.succeeded);
        Ok(n)
    }
}

impl Drop for Target {
    fn drop(&mut self) {
        self.served.abort();
    }
}
