//! Files: uploaded in one request and in several, each a tree.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};

use super::{Caller, TIMEOUT, ensure_time_left};
use crate::{fixture::TOKEN, raw::id};

impl Caller {
    /// Uploads a file in one request and a file in several, and creates a tree from each.
    pub(super) async fn files(&self, n: usize) -> Result<()> {
        let text: String =
            std::iter::once("n,note\n".to_owned()).chain((0..50).map(|row| format!("{row},{n}\n"))).collect();
        for resumable in [false, true] {
            let upload = if resumable {
                self.in_pieces(&text, n).await?
            } else {
                self.in_one(&text, &format!("one-{n}")).await?
            };
            let name = format!("file-{n}-{resumable}");
            let tree = json!({"type": "action", "name": name, "sealed": true, "upload": {"id": upload}});
            let job = id(&self.post("/jobs", &tree, &name).await?)?.to_owned();
            self.work(&job).await?;
            let seen = self.get(&format!("/jobs/{job}")).await?;
            let counts = &seen["tree"]["counts"];
            self.confirm(counts["succeeded"] == 50, &format!("a file of 50 rows: {counts}"))?;
        }
        Ok(())
    }

    /// Sends bytes until a server answers.
    async fn send(
        &self,
        method: Method,
        path: &str,
        headers: &[(&'static str, String)],
        body: &str,
    ) -> Result<reqwest::Response> {
        let (http, began) = (reqwest::Client::new(), Instant::now());
        for at in self.name().. {
            let url = format!("{}/api/v1{path}", self.base(at));
            let mut request = http.request(method.clone(), url).bearer_auth(TOKEN).body(body.to_owned());
            for (name, value) in headers {
                request = request.header(*name, value);
            }
            match request.send().await {
                Ok(answer) if !answer.status().is_server_error() => return Ok(answer),
                last => ensure_time_left(began, || format!("{method} {path} got no response: {last:?}"))?,
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        bail!("nobody to ask")
    }

    /// Uploads a file in one request with an idempotency key. Returns its id, which a repeat returns, too.
    pub(super) async fn in_one(&self, text: &str, name: &str) -> Result<String> {
        let path = format!("/uploads?filename={name}.csv");
        let began = Instant::now();
        loop {
            let key = [("idempotency-key", format!("upload-{}", self.name()))];
            let first = self.send(Method::POST, &path, &key, text).await?;
            if first.status() != StatusCode::CONFLICT {
                let first: Value = serde_json::from_str(&first.error_for_status()?.text().await?)?;
                let second = self.send(Method::POST, &path, &key, text).await?;
                let second: Value = serde_json::from_str(&second.error_for_status()?.text().await?)?;
                self.confirm(id(&first)? == id(&second)?, "an upload with a key")?;
                return Ok(id(&first)?.to_owned());
            }
            // The server of an earlier attempt crashed: its key is taken for a minute.
            ensure!(began.elapsed() < TIMEOUT, "no upload was accepted: {}", first.text().await?);
        }
    }

    async fn in_pieces(&self, text: &str, n: usize) -> Result<String> {
        let length = [("upload-length", text.len().to_string()), ("tus-resumable", "1.0.0".to_owned())];
        let begun =
            self.send(Method::POST, &format!("/uploads/resumable?filename=pieces-{n}.csv"), &length, "").await?;
        let begun: Value = serde_json::from_str(&begun.error_for_status()?.text().await?)?;
        let path = format!("/uploads/resumable/{}", id(&begun)?);
        let began = Instant::now();
        loop {
            ensure!(began.elapsed() < TIMEOUT, "a resumable upload was not accepted");
            let head = self.send(Method::HEAD, &path, &[("tus-resumable", "1.0.0".to_owned())], "").await?;
            // A complete resumable upload becomes an ordinary one.
            if head.status() == StatusCode::NOT_FOUND || head.status() == StatusCode::GONE {
                return Ok(id(&begun)?.to_owned());
            }
            let offset = head.headers().get("upload-offset").context("an offset")?.to_str()?.parse::<usize>()?;
            if offset == text.len() && self.get(&format!("/uploads/{}", id(&begun)?)).await.is_ok() {
                return Ok(id(&begun)?.to_owned());
            }
            let end = text.len().min(offset + text.len() / 2 + 1);
            let headers = [
                ("upload-offset", offset.to_string()),
                ("tus-resumable", "1.0.0".to_owned()),
                ("content-type", "application/offset+octet-stream".to_owned()),
            ];
            self.send(Method::PATCH, &path, &headers, &text[offset..end]).await?;
        }
    }
}
