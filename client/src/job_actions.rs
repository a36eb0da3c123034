//! Actions of people on work: cancel, retry, replay, pin, change, share, delete (`cancellation`, `manual-retry`,
//! `replay`, `retention`).
//!
//! Actions take a reason where the API does: it is required on other people's work and stored in the audit log.
//! All actions except the retry of an item are retried after a lost response. By then the item may have been retried
//! and failed again, and a second request would retry it twice.

use domain::{
    Item, Job,
    api::{ItemPatch, JobPatch, Page, ReplayBody, RetryBody},
    event_wait::EventBody,
    id::Uuid,
    tree::share_link::{Share, ShareBody, ShareMade},
};
use reqwest::Method;
use serde::Serialize;

use crate::{api::idempotency_header, client::Client, error::Result, paging::PageQuery, retry::RetryPolicy};

/// Body with only a reason.
#[derive(Serialize)]
struct Reason<'a> {
    reason: Option<&'a str>,
}

impl Client {
    /// Cancels a job with everything below it. Idempotent.
    ///
    /// # Errors
    /// 409 `job_completed`.
    pub async fn cancel_job(&self, id: Uuid, reason: Option<&str>) -> Result<Job> {
        let call = self.post(&["jobs", &id.to_string(), "cancel"]).json(&Reason { reason });
        self.fetch(call.retry(RetryPolicy::Always)).await
    }

    /// Cancels one item: a waiting item at once, a running one through its worker's next heartbeat. Idempotent.
    ///
    /// # Errors
    /// 409 `item_final`.
    pub async fn cancel_item(&self, id: Uuid, reason: Option<&str>) -> Result<Item> {
        let call = self.post(&["items", &id.to_string(), "cancel"]).json(&Reason { reason });
        self.fetch(call.retry(RetryPolicy::Always)).await
    }

    /// Retries an item that is dead, expired or individually canceled, with the same or another payload.
    ///
    /// # Errors
    /// 409 `not_retryable`, `item_expired`, `job_cancelled` or `superseded`.
    pub async fn retry_item(&self, id: Uuid, body: &RetryBody) -> Result<Item> {
        self.fetch(self.post(&["items", &id.to_string(), "retry"]).json(body)).await
    }

    /// Sends an item the event that it waits for (`waiting-for-events`). Retried safely: only the first event counts.
    ///
    /// # Errors
    /// 409 `not_waiting`, `other_event`, `item_expired` or `job_cancelled`; 422 `invalid_body` if the data does not fit the
    /// form.
    pub async fn send_event(&self, item: Uuid, body: &EventBody) -> Result<Item> {
        let call = self.post(&["items", &item.to_string(), "events"]).json(body);
        let call = call.header("idempotency-key", idempotency_header(&Uuid::now_v7().to_string())?);
        self.fetch(call.retry(RetryPolicy::Always)).await
    }

    /// Replays a complete tree as a new tree.
    ///
    /// # Errors
    /// 409 `job_not_complete` or `not_root`.
    pub async fn replay_job(&self, id: Uuid, reason: Option<&str>) -> Result<Job> {
        let call = self.post(&["jobs", &id.to_string(), "replay"]).json(&Reason { reason });
        let call = call.header("idempotency-key", idempotency_header(&Uuid::now_v7().to_string())?);
        self.fetch(call.retry(RetryPolicy::Always)).await
    }

    /// Deletes a complete tree, with effect at once. A second call fails with 410 `job_removed`; so can the first, if
    /// it was retried after a lost response.
    ///
    /// # Errors
    /// 409 `job_not_complete` or `not_root`.
    pub async fn delete_job(&self, id: Uuid, reason: Option<&str>) -> Result<()> {
        let call = self.call(Method::DELETE, &["jobs", &id.to_string()]).query_some("reason", reason);
        self.send(call.retry(RetryPolicy::Always)).await.map(drop)
    }

    /// Replays one item as a tree of its own, optionally with another payload.
    pub async fn replay_item(&self, id: Uuid, body: &ReplayBody) -> Result<Job> {
        let call = self.post(&["items", &id.to_string(), "replay"]).json(body);
        let call = call.header("idempotency-key", idempotency_header(&Uuid::now_v7().to_string())?);
        self.fetch(call.retry(RetryPolicy::Always)).await
    }

    /// Pins a tree beyond its retention, or unpins it. Idempotent.
    ///
    /// # Errors
    /// 409 `not_root`.
    pub async fn pin_job(&self, id: Uuid, pinned: bool, reason: Option<&str>) -> Result<Job> {
        let path = ["jobs", &id.to_string(), "pin"];
        let call = if pinned {
            self.post(&path).json(&Reason { reason })
        } else {
            self.call(Method::DELETE, &path).query_some("reason", reason)
        };
        self.fetch(call.retry(RetryPolicy::Always)).await
    }

    /// Changes the given fields of a job; with `version`, only if the job still has that version.
    ///
    /// # Errors
    /// 412 `precondition_failed`.
    pub async fn patch_job(&self, id: Uuid, patch: &JobPatch, version: Option<i64>) -> Result<Job> {
        self.fetch(self.call(Method::PATCH, &["jobs", &id.to_string()]).json(patch).if_version(version)).await
    }

    /// Changes the given fields of a waiting item; with `version`, only if the item still has that version.
    pub async fn patch_item(&self, id: Uuid, patch: &ItemPatch, version: Option<i64>) -> Result<Item> {
        self.fetch(self.call(Method::PATCH, &["items", &id.to_string()]).json(patch).if_version(version)).await
    }

    /// Creates a link that shows one tree to everyone who has it, until `expires_at` or for 30 days. The response is
    /// the only place where the link appears.
    pub async fn share_job(&self, id: Uuid, body: &ShareBody) -> Result<ShareMade> {
        let call = self.post(&["jobs", &id.to_string(), "share"]).json(body);
        let call = call.header("idempotency-key", idempotency_header(&Uuid::now_v7().to_string())?);
        self.fetch(call.retry(RetryPolicy::Always)).await
    }

    /// The links to a tree, without their secrets.
    pub async fn shares(&self, id: Uuid, page: &PageQuery) -> Result<Page<Share>> {
        self.list(self.get(&["jobs", &id.to_string(), "shares"]), page).await
    }

    /// The links to all trees that the caller sees.
    pub async fn all_shares(&self, page: &PageQuery) -> Result<Page<Share>> {
        self.list(self.get(&["shares"]), page).await
    }

    /// Revokes a link.
    pub async fn revoke_share(&self, id: Uuid, reason: Option<&str>) -> Result<()> {
        let call = self.call(Method::DELETE, &["shares", &id.to_string()]).query_some("reason", reason);
        self.send(call.retry(RetryPolicy::Always)).await.map(drop)
    }
}
