//! Actions of people on work: cancel, retry, replay, pin, change, share, delete (`cancellation`, `manual-retry`,
//! `replay`, `retention`).
//!
//! Each takes a reason where the contract does: required on someone else's work, kept in the audit log.
//! All but the retry may be sent again after a lost answer: by then the item may have been retried, failed
//! again, and be retried a second time.

use domain::{
    Item, Job,
    api::{ItemPatch, JobPatch, Page, ReplayBody, RetryBody},
    id::Uuid,
    share::{Share, ShareBody, ShareMade},
};
use reqwest::Method;
use serde::Serialize;

use crate::{again::Again, calls::key, client::Client, error::Result, lists::Part};

/// A body that only says why.
#[derive(Serialize)]
struct Why<'a> {
    reason: Option<&'a str>,
}

impl Client {
    /// Cancels a job with everything below it. Again is no change.
    ///
    /// # Errors
    /// 409 `job_completed`.
    pub async fn cancel_job(&self, id: Uuid, reason: Option<&str>) -> Result<Job> {
        let call = self.post(&["jobs", &id.to_string(), "cancel"]).json(&Why { reason });
        self.fetch(call.again(Again::Always)).await
    }

    /// Cancels one item: at once where it waits, else its worker is told. Again is no change.
    ///
    /// # Errors
    /// 409 `item_final`.
    pub async fn cancel_item(&self, id: Uuid, reason: Option<&str>) -> Result<Item> {
        let call = self.post(&["items", &id.to_string(), "cancel"]).json(&Why { reason });
        self.fetch(call.again(Again::Always)).await
    }

    /// Gives an item that is dead, expired or singly cancelled back to the workers, as it was or with
    /// another payload.
    ///
    /// # Errors
    /// 409 `not_retryable`, `item_expired`, `job_cancelled` or `superseded`.
    pub async fn retry_item(&self, id: Uuid, body: &RetryBody) -> Result<Item> {
        self.fetch(self.post(&["items", &id.to_string(), "retry"]).json(body)).await
    }

    /// Runs a complete tree once more, as a new tree.
    ///
    /// # Errors
    /// 409 `job_not_complete` or `not_root`.
    pub async fn replay_job(&self, id: Uuid, reason: Option<&str>) -> Result<Job> {
        let call = self.post(&["jobs", &id.to_string(), "replay"]).json(&Why { reason });
        let call = call.header("idempotency-key", key(&Uuid::now_v7().to_string())?);
        self.fetch(call.again(Again::Always)).await
    }

    /// Deletes a complete tree. It is gone with the answer; again is 410 `job_removed`, which a lost answer
    /// can also look like.
    ///
    /// # Errors
    /// 409 `job_not_complete` or `not_root`.
    pub async fn delete_job(&self, id: Uuid, reason: Option<&str>) -> Result<()> {
        let call = self.call(Method::DELETE, &["jobs", &id.to_string()]).query_some("reason", reason);
        self.send(call.again(Again::Always)).await.map(drop)
    }

    /// Runs one item once more, as a tree of its own; with another payload where one is given.
    pub async fn replay_item(&self, id: Uuid, body: &ReplayBody) -> Result<Job> {
        let call = self.post(&["items", &id.to_string(), "replay"]).json(body);
        let call = call.header("idempotency-key", key(&Uuid::now_v7().to_string())?);
        self.fetch(call.again(Again::Always)).await
    }

    /// Pins a tree beyond its retention, or unpins it. Again is no change.
    ///
    /// # Errors
    /// 409 `not_root`.
    pub async fn pin_job(&self, id: Uuid, pinned: bool, reason: Option<&str>) -> Result<Job> {
        let path = ["jobs", &id.to_string(), "pin"];
        let call = if pinned {
            self.post(&path).json(&Why { reason })
        } else {
            self.call(Method::DELETE, &path).query_some("reason", reason)
        };
        self.fetch(call.again(Again::Always)).await
    }

    /// Changes the fields of a job that `patch` names; of `version`, where one is given.
    ///
    /// # Errors
    /// 412 `precondition_failed`.
    pub async fn patch_job(&self, id: Uuid, patch: &JobPatch, version: Option<i64>) -> Result<Job> {
        self.fetch(self.call(Method::PATCH, &["jobs", &id.to_string()]).json(patch).if_version(version)).await
    }

    /// The same of an item that waits.
    pub async fn patch_item(&self, id: Uuid, patch: &ItemPatch, version: Option<i64>) -> Result<Item> {
        self.fetch(self.call(Method::PATCH, &["items", &id.to_string()]).json(patch).if_version(version)).await
    }

    /// Makes a link that shows one tree to whoever has it, until `expires_at` or for 30 days. The link is in this
    /// answer and nowhere else.
    pub async fn share_job(&self, id: Uuid, body: &ShareBody) -> Result<ShareMade> {
        let call = self.post(&["jobs", &id.to_string(), "share"]).json(body);
        let call = call.header("idempotency-key", key(&Uuid::now_v7().to_string())?);
        self.fetch(call.again(Again::Always)).await
    }

    /// The links to a tree, without their secrets.
    pub async fn shares(&self, id: Uuid, part: &Part) -> Result<Page<Share>> {
        self.list(self.get(&["jobs", &id.to_string(), "shares"]), part).await
    }

    /// The links to all trees that the caller sees.
    pub async fn all_shares(&self, part: &Part) -> Result<Page<Share>> {
        self.list(self.get(&["shares"]), part).await
    }

    /// Takes a link back.
    pub async fn revoke_share(&self, id: Uuid, reason: Option<&str>) -> Result<()> {
        let call = self.call(Method::DELETE, &["shares", &id.to_string()]).query_some("reason", reason);
        self.send(call.again(Again::Always)).await.map(drop)
    }
}
