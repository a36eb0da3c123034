//! Posts signed messages to configured URLs (`TREELINE_ALERT_URL`), with the retry schedule of callbacks.
//!
//! A producer writes a message with `store::outbound_posts::add` in the transaction of its event, under a purpose;
//! [`destinations`] maps purposes to URLs. A message is leased for the duration of an attempt, posted without an open
//! transaction, and deleted after a 2xx: delivery is at least once, under the same `webhook-id`. `outbound::Client`
//! ignores proxies of the environment and follows no redirects. The URL may contain a secret and must not be logged.

use std::{collections::HashMap, sync::Arc, time::Duration};

use bytes::Bytes;
use domain::notify::delivery::{NextStep, RetrySchedule, TryOutcome};
use reqwest::{
    StatusCode,
    header::{ACCEPT, CONTENT_TYPE, HeaderMap, HeaderValue},
};
use time::OffsetDateTime;
use tokio::{task::JoinSet, time::Instant};
use url::Url;

use super::driver::{IDLE, Tasks};
use crate::{App, outbound::named};
use engine::{
    ALERTS,
    error::Result,
    signing::stamp,
    store::notify::outbound_posts::{self, TakenPost},
};

/// Concurrent messages of this server.
const BATCH: i64 = 16;

/// URL by purpose.
fn destinations(app: &App) -> HashMap<String, Url> {
    let alerts = app.config.alerts.url.as_ref().map(|url| (ALERTS, url));
    let all = [alerts].into_iter().flatten();
    all.filter_map(|(purpose, url)| Some((purpose.to_owned(), Url::parse(url.reveal()).ok()?))).collect()
}

/// Starts the posts, if a URL is configured.
pub(super) fn spawn(tasks: &Tasks<'_>) {
    let to = Arc::new(destinations(tasks.app));
    if to.is_empty() {
        return;
    }
    let tick = move |app: App| {
        let to = Arc::clone(&to);
        async move { Ok(if post_due(&app, &to).await? > 0 { Duration::ZERO } else { IDLE }) }
    };
    tasks.on_wake("posts", tick, |_| std::future::pending());
}

/// Leases due messages and posts them. Returns their number.
async fn post_due(app: &App, to: &HashMap<String, Url>) -> Result<usize> {
    let purposes: Vec<String> = to.keys().cloned().collect();
    let timeout = Duration::from_secs_f64(app.config.outbound.callback_timeout_seconds);
    // Before `TakenPost::now`: a wait between two attempts may be longer than the schedule says, never shorter.
    let began = Instant::now();
    let taken = outbound_posts::take(&app.pool, &purposes, BATCH, timeout.as_secs_f64() * 1.5 + 2.0).await?;
    let n = taken.len();
    let mut under_way = JoinSet::new();
    for taken in taken {
        let Some(url) = to.get(&taken.purpose).cloned() else { continue };
        let app = app.clone();
        under_way.spawn(async move { attempt(&app, &taken, &url, began, timeout).await });
    }
    let mut all = Ok(n);
    while let Some(done) = under_way.join_next().await {
        // An error of one must not abort the others.
        if let Ok(Err(error)) = done {
            all = Err(error);
        }
    }
    all
}

/// Posts one message, which was leased after `began`, and records the outcome.
async fn attempt(app: &App, taken: &TakenPost, url: &Url, began: Instant, timeout: Duration) -> Result<()> {
    let body = Bytes::from(taken.body.clone());
    let mut headers = HeaderMap::new();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(ACCEPT, HeaderValue::from_static("application/json"));
    // Signed with the deployment key and with a key for this purpose, which may be handed out.
    let keys = [app.outgoing.key.of_purpose(&taken.purpose), app.outgoing.key.clone()];
    stamp(&keys, &mut headers, &taken.id, OffsetDateTime::now_utc().unix_timestamp(), &body);
    let (tried, error) = match app.outgoing.configured.post(url, headers, body, Instant::now() + timeout).await {
        Ok(reply) if reply.status.is_success() => (TryOutcome::Accepted, String::new()),
        Ok(reply) => {
            let is_busy = matches!(reply.status, StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE);
            (TryOutcome::Refused(reply.retry_after.filter(|_| is_busy)), named(reply.status))
        }
        Err(fault) => (TryOutcome::Refused(None), fault.to_string()),
    };
    let schedule = RetrySchedule {
        retry_seconds: app.config.outbound.callback_retry_seconds,
        give_up_seconds: app.config.outbound.callback_give_up_seconds,
    };
    let now = taken.now + began.elapsed();
    match schedule.next(tried, taken.tries + 1, taken.began_at, now, rand::random()) {
        NextStep::RetryAt(at) => {
            tracing::warn!(
                purpose = taken.purpose,
                id = taken.id,
                tries = taken.tries + 1,
                error,
                "message delivery failed, will retry"
            );
            outbound_posts::put_off(&app.pool, taken, at, &error).await?;
        }
        NextStep::Final(_) => {
            if tried != TryOutcome::Accepted {
                tracing::error!(purpose = taken.purpose, id = taken.id, error, "message delivery abandoned");
            }
            outbound_posts::done(&app.pool, &taken.id).await?;
        }
    }
    Ok(())
}
