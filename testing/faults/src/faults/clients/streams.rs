//! F34: event streams through nginx with its default settings. The first event arrives at once, and a reconnect misses
//! nothing, because each stream begins with the whole state.

use std::{
    path::PathBuf,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, bail};
use client::Parser;
use serde_json::{Value, json};
use tokio::time::timeout;

use crate::{
    findings::Findings,
    fixture::{RunContext, TOKEN, postgres::free_port},
    proxy_fixture::ProxyFixture,
    raw::{install_crypto, until},
};

/// Longest time until the first event.
const FIRST: Duration = Duration::from_secs(1);

fn nginx() -> Result<PathBuf> {
    let places = ["/usr/sbin/nginx", "/usr/bin/nginx", "/usr/local/bin/nginx", "/opt/homebrew/bin/nginx"];
    let found = places.iter().map(PathBuf::from).find(|file| file.is_file());
    found.context("nginx is missing: cargo xtask faults installs it, or apt-get install nginx")
}

/// Debian's default settings, with other paths and in one process, so that nothing outlives it.
fn settings(proxy_fixture: &ProxyFixture, port: u16, server: u16) -> String {
    let user = if rustix::process::geteuid().is_root() { "user root;" } else { "" };
    let folder = proxy_fixture.folder().display();
    let paths = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"];
    let paths = paths.map(|name| format!("{name}_temp_path {folder}/nginx-{name};")).join("\n");
    format!(
        "{user} daemon off; master_process off; pid {folder}/nginx.pid; error_log {folder}/nginx-errors.log;
events {{ worker_connections 768; }}
http {{
sendfile on; tcp_nopush on; gzip on; access_log off;
{paths}
server {{ listen 127.0.0.1:{port}; location / {{ proxy_pass http://127.0.0.1:{server}; }} }}
}}
"
    )
}

pub(crate) async fn run(context: &RunContext, reconnects: usize) -> Result<Findings> {
    let program = nginx()?;
    install_crypto();
    let proxy_fixture = ProxyFixture::new(context, "").await?;
    let mut running = proxy_fixture.serve(&[]).await?;
    let port = free_port()?;
    let file = proxy_fixture.folder().join("nginx.conf");
    std::fs::write(&file, settings(&proxy_fixture, port, running.server.port))?;
    let words = ["-p", &proxy_fixture.folder().to_string_lossy(), "-c", &file.to_string_lossy()].map(str::to_owned);
    let mut nginx = proxy_fixture.process(&program, "nginx.log").arguments(words);
    nginx.start()?;

    let api = running.api.clone();
    api.put_type("shown", &json!({})).await?;
    let items: Vec<Value> = (0..reconnects).map(|n| json!({"payload": n})).collect();
    let job = api.tree(&json!({"type": "shown", "sealed": true, "items": items})).await?;
    let url = format!("http://127.0.0.1:{port}/api/v1/jobs/{job}/events");
    let http = reqwest::Client::builder().tls_certs_only([]).build()?;
    let open = async |seen: Option<i64>| -> Result<Listener> {
        let mut request = http.get(&url).bearer_auth(TOKEN);
        if let Some(version) = seen {
            request = request.header("last-event-id", version);
        }
        let begun = Instant::now();
        let response = request.send().await?.error_for_status()?;
        Ok(Listener { begun, response, parser: Parser::default(), frames: Vec::new() })
    };
    until("nginx answers", Duration::from_secs(30), async || Ok(open(None).await.is_ok())).await?;

    let mut findings = Findings::new(format!(
        "{reconnects} event streams through nginx with its default settings, one after the other"
    ));
    findings.acknowledged = reconnects as u64;
    let working = async {
        for _ in 0..reconnects {
            let assignments = api.claim("shown", 1).await?;
            let assignment_id = crate::raw::id(assignments.first().context("an item")?)?.to_owned();
            api.post(&format!("/assignments/{assignment_id}/result"), &json!({})).await?.ok()?;
        }
        anyhow::Ok(Instant::now())
    };
    let watching = async {
        let (mut seen, mut late, mut slowest, mut behind) = (None, 0, Duration::ZERO, 0);
        for n in 0..reconnects {
            let mut stream = open(seen).await?;
            // State that was known before the stream began must be in it.
            let (name, first) = stream.next().await?;
            late += u64::from(stream.begun.elapsed() > FIRST);
            slowest = slowest.max(stream.begun.elapsed());
            let version = first["version"].as_i64().context("a version")?;
            behind += u64::from(name != "snapshot" || seen.is_some_and(|seen| version < seen));
            seen = Some(version);
            if n % 4 == 0
                && let Ok(next) = timeout(Duration::from_millis(400), stream.next()).await
            {
                let (_, change) = next?;
                seen = change["jobs"].as_array().and_then(|jobs| jobs.first()?["version"].as_i64()).or(seen);
            }
        }
        anyhow::Ok((late, slowest, behind))
    };
    let lasting = async {
        // One stream stays open for the whole run.
        let mut stream = open(None).await?;
        loop {
            let (_, event) = stream.next().await?;
            let job = if event["jobs"].is_array() { &event["jobs"][0] } else { &event };
            if job["status"] == "completed" {
                return anyhow::Ok((job["counts"]["succeeded"].clone(), Instant::now()));
            }
        }
    };
    let all = timeout(Duration::from_mins(2), async { tokio::try_join!(working, watching, lasting) });
    let (ended, (late, slowest, behind), (last, shown)) = all.await.context("streams end within two minutes")??;
    findings.check_in_time(late == 0, || format!("{late} first events later than a second"));
    findings.expect_zero("streams that began with older data than was known", behind);
    findings.note(format!("slowest first event {} ms", slowest.as_millis()));
    findings.check(last == json!(reconnects), || format!("the last event shows {last} of {reconnects}"));
    let delay = shown.saturating_duration_since(ended);
    findings.check_fast(delay < Duration::from_secs(5), || format!("the end is shown after {delay:?}"));
    nginx.kill().await?;
    findings.check_integrity(&proxy_fixture, &[&running]).await?;
    running.stop().await?;
    Ok(findings)
}

/// An open stream.
struct Listener {
    begun: Instant,
    response: reqwest::Response,
    parser: Parser,
    frames: Vec<client::Frame>,
}

impl Listener {
    /// Name and data of the next event.
    async fn next(&mut self) -> Result<(String, Value)> {
        while self.frames.is_empty() {
            let Some(bytes) = self.response.chunk().await? else { bail!("the stream ended") };
            self.parser.feed(&bytes, &mut self.frames).map_err(|_| anyhow::anyhow!("an event is too large"))?;
        }
        let frame = self.frames.remove(0);
        Ok((frame.event, serde_json::from_str(&frame.data)?))
    }
}
