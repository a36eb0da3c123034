//! Looks for what somebody should look at, and tells `TREELINE_ALERT_URL` of it.
//!
//! Telling is apart from raising: an alert is taken from the table by one server and posted from a task
//! of its own, a few times if need be. Whoever is told late or not at all still finds it in the list.

use std::time::Duration;

use domain::{Time, alert::Alert};
use reqwest::{Client, redirect::Policy};
use serde::Serialize;
use tokio_util::task::TaskTracker;

use crate::{App, error::Result, jobs::Worries};

use super::Every;

/// Alerts posted in one go.
const TELL: i64 = 20;
/// How often one post is tried, how long it may take, and the first pause between two.
const TRIES: u32 = 4;
const PATIENCE: Duration = Duration::from_secs(5);
const PAUSE: Duration = Duration::from_secs(1);

/// Starts to look, and where a URL is given to tell.
pub(super) fn spawn(app: &App, tracker: &TaskTracker, every: impl Fn(f64, &'static str) -> Every) {
    let config = &app.config.alerts;
    let worries = Worries {
        unclaimed_after: Duration::from_secs(config.unclaimed_seconds),
        quiet_after: Duration::from_secs(config.quiet_seconds),
    };
    let engine = app.engine.clone();
    tracker.spawn(every(2.0, "alerts").run(move || {
        let engine = engine.clone();
        async move { engine.look_for_alerts(worries).await }
    }));
    let Some(url) = config.url.clone() else { return };
    // Ring is ours, once a process; whoever installed another before keeps it.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let client = match Client::builder().redirect(Policy::none()).timeout(PATIENCE).build() {
        Ok(client) => client,
        Err(error) => {
            tracing::error!(%error, "alerts are not posted");
            return;
        }
    };
    let app = app.clone();
    tracker.spawn(every(1.0, "telling of alerts").run(move || {
        let (app, client, url) = (app.clone(), client.clone(), url.clone());
        async move { tell(&app, &client, url.reveal()).await }
    }));
}

/// What is posted.
#[derive(Serialize)]
struct Telling<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    timestamp: Time,
    data: &'a Alert,
}

async fn tell(app: &App, client: &Client, url: &str) -> Result<usize> {
    let untold = app.engine.untold_alerts(TELL).await?;
    let n = untold.len();
    for alert in untold {
        let (client, url, shutdown) = (client.clone(), url.to_owned(), app.shutdown.clone());
        app.tasks.spawn(async move { shutdown.run_until_cancelled(post(&client, &url, &alert)).await });
    }
    Ok(n)
}

/// Posts one alert, until it is taken or has been tried often enough.
async fn post(client: &Client, url: &str, alert: &Alert) {
    let body = Telling { kind: "alert.raised", timestamp: alert.raised_at, data: alert };
    let mut pause = PAUSE;
    for attempt in 1..=TRIES {
        let answer = client.post(url).json(&body).send().await.and_then(reqwest::Response::error_for_status);
        match answer {
            Ok(_) => return,
            // The URL may hold a secret: it is not logged.
            Err(error) => {
                let error = error.without_url();
                tracing::warn!(%error, attempt, alert = %alert.id, "TREELINE_ALERT_URL did not take an alert");
            }
        }
        tokio::time::sleep(pause).await;
        pause *= 3;
    }
}
