//! Background tasks of the audit log: hourly counts of repetitions, retention, and the posts to `TREELINE_AUDIT_URL`.
//!
//! The log itself is the queue of the posts: a cursor moves when a batch is accepted, so an unavailable receiver gets
//! everything later, in order, and may get a batch twice. One server posts at a time. A post is signed with the key
//! that `treeline-server signing-secret --audit` prints.

use std::{
    sync::{Arc, Once},
    time::Duration,
};

use bytes::Bytes;
use domain::{Time, identity::audit::AuditEntry};
use reqwest::header::{CONTENT_TYPE, HeaderMap, HeaderValue};
use serde::Serialize;
use time::OffsetDateTime;
use url::Url;

use super::driver::Tasks;
use crate::{
    App,
    audit::{self, LogCursor},
    outbound::named,
};
use engine::{
    error::{Error, Result},
    signing::stamp,
    store::{
        notify::audit::{self as store, AuditQuery},
        owner_pool,
    },
};

/// Entries in one post.
const BATCH: i64 = 200;

/// Timeout of one post, and lease of the server that posts.
const POST_TIMEOUT: Duration = Duration::from_secs(30);
const POSTING_LEASE_SECONDS: f64 = 90.0;

/// Entries deleted per statement.
const DELETE_BATCH: i64 = 5_000;

/// Warning about a role that may not delete entries, given once.
static MISSING_RIGHT: Once = Once::new();

/// Starts the counts of repeated entries, which each process collects.
pub(super) fn spawn_counts(tasks: &Tasks<'_>) {
    tasks.every(60.0, "audit counts", |app| async move {
        audit::record_repetitions(&app.pool, &app.repeats).await?;
        Ok(0)
    });
}

/// Starts the deletion of old entries, if a time is configured.
pub(super) fn spawn_retention(tasks: &Tasks<'_>) {
    if let Some(days) = tasks.app.config.audit.retain_days {
        tasks.every(600.0, "old audit entries", move |app| async move { expire(&app, days).await });
    }
}

/// Starts the posts, if a URL is configured.
pub(super) fn spawn_posting(tasks: &Tasks<'_>) {
    let Some(url) = tasks.app.config.audit.url.clone() else { return };
    let url = match Url::parse(url.reveal()) {
        Ok(url) => Arc::new(url),
        Err(error) => {
            tracing::error!(%error, "audit log posts disabled: TREELINE_AUDIT_URL is no URL");
            return;
        }
    };
    tasks.every(1.0, "posting the audit log", move |app| {
        let url = Arc::clone(&url);
        async move {
            let posting = post_some(&app, &url);
            app.shutdown.run_until_cancelled(posting).await.unwrap_or(Ok(0))
        }
    });
}

/// Deletes expired entries: of a private database as its owner, of another if the role of the server is allowed to.
async fn expire(app: &App, days: u32) -> Result<usize> {
    let days = i32::try_from(days).unwrap_or(i32::MAX);
    if let Some(url) = &app.owner_url {
        let owner = owner_pool(url).await?;
        let deleted = store::expire(&owner, days, DELETE_BATCH).await;
        owner.close().await;
        return Ok(deleted? as usize);
    }
    if !store::may_expire(&app.pool).await? {
        MISSING_RIGHT.call_once(|| {
            tracing::warn!(
                "audit retention skipped: the database role may not delete entries; run `treeline-server expire-audit` \
                 as the owner of the database"
            );
        });
        return Ok(0);
    }
    Ok(store::expire(&app.pool, days, DELETE_BATCH).await? as usize)
}

/// Body of a post.
#[derive(Serialize)]
struct Post<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    timestamp: Time,
    data: Entries<'a>,
}

#[derive(Serialize)]
struct Entries<'a> {
    entries: &'a [AuditEntry],
}

/// Posts pending entries in batches.
async fn post_some(app: &App, url: &Url) -> Result<usize> {
    let Some(mut cursor) = store::take_posting(&app.pool, POSTING_LEASE_SECONDS).await? else { return Ok(0) };
    let result = post_from(app, url, &mut cursor).await;
    store::leave_posting(&app.pool, cursor).await?;
    result
}

async fn post_from(app: &App, url: &Url, cursor: &mut LogCursor) -> Result<usize> {
    // Within the lease: a slow receiver ends the loop, and the next tick continues.
    let until = tokio::time::Instant::now() + POST_TIMEOUT;
    while tokio::time::Instant::now() < until {
        let final_part = audit::final_entries(&app.pool, &AuditQuery::default(), Some(*cursor), BATCH).await?;
        let Some(last) = final_part.entries.last() else { break };
        post(app, url, &final_part.entries, last).await?;
        *cursor = (last.at.0, last.id);
        if !final_part.more {
            break;
        }
    }
    Ok(0)
}

/// Posts a batch; an error if it was not accepted. The message id is the id of its last entry.
async fn post(app: &App, url: &Url, entries: &[AuditEntry], last: &AuditEntry) -> Result<()> {
    let now = OffsetDateTime::now_utc();
    let post = Post { kind: "audit.entries", timestamp: Time(now), data: Entries { entries } };
    let body = serde_json::to_vec(&post).map_err(|error| Error::Broken(error.to_string()))?;
    let mut headers = HeaderMap::new();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    let keys = [app.outgoing.key.of_audit()];
    stamp(&keys, &mut headers, &last.id.to_string(), now.unix_timestamp(), &body);
    // The URL may contain a secret and is not logged.
    let refused =
        |why: String| Error::Broken(format!("TREELINE_AUDIT_URL did not take entries of the audit log: {why}"));
    let until = tokio::time::Instant::now() + POST_TIMEOUT;
    match app.outgoing.configured.post(url, headers, Bytes::from(body), until).await {
        Ok(reply) if reply.status.is_success() => Ok(()),
        Ok(reply) => Err(refused(named(reply.status))),
        Err(fault) => Err(refused(fault.to_string())),
    }
}
