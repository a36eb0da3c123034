//! Idempotent creation of trees under a key or an id of the caller (`dedupe-key`, `idempotency-key`).
//!
//! Separate from the other calls because the response status matters here: it says if the tree is new. The caller
//! chooses the key, so a request repeated after a restart is still the same request.

use domain::{Job, api::NewJob, id::Uuid};
use reqwest::{Method, StatusCode};

use crate::{api::idempotency_header, client::Client, error::Result, retry::RetryPolicy};

/// Result of a request to create a tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CreateOutcome {
    /// This request created it: 201.
    New(Job),
    /// An earlier request with this key created it, and it is not complete: 202.
    InProgress(Job),
    /// An earlier request created it: 200. With a key it is complete, with an id it may have any status.
    Existing(Job),
}

impl CreateOutcome {
    /// The tree, whichever request created it.
    pub const fn job(&self) -> &Job {
        match self {
            Self::New(job) | Self::InProgress(job) | Self::Existing(job) => job,
        }
    }

    /// True if this request created it.
    pub const fn is_new(&self) -> bool {
        matches!(self, Self::New(_))
    }

    fn of((status, job): (StatusCode, Job)) -> Self {
        match status {
            StatusCode::CREATED => Self::New(job),
            StatusCode::ACCEPTED => Self::InProgress(job),
            _ => Self::Existing(job),
        }
    }
}

impl Client {
    /// Creates a tree once per key: the same key and body return the same tree, unless that failed or was cancelled;
    /// then a new one is created. Safe to repeat, now or after a restart.
    ///
    /// # Errors
    /// 422 `idempotency_key_reused` if the key was used with another body; 410 `job_removed` if its tree was deleted.
    pub async fn create_job_once(&self, new: &NewJob, idempotency_key: &str) -> Result<CreateOutcome> {
        let call = self.post(&["jobs"]).json(new).header("idempotency-key", idempotency_header(idempotency_key)?);
        Ok(CreateOutcome::of(self.answer(call.retry(RetryPolicy::Always)).await?))
    }

    /// Creates a tree under an id that the caller chooses. Idempotent.
    ///
    /// # Errors
    /// 409 `id_in_use` if the id was used with another body, or belongs to someone else.
    pub async fn put_job(&self, id: Uuid, new: &NewJob) -> Result<CreateOutcome> {
        let call = self.call(Method::PUT, &["jobs", &id.to_string()]).json(new);
        Ok(CreateOutcome::of(self.answer(call.retry(RetryPolicy::Always)).await?))
    }
}
