//! Trees made by a key or an id of the caller's own, and what became of the request (`dedupe-key`, `idempotency-key`).
//!
//! Apart from the other calls because here the status says something: whether the tree is new. The key is
//! the caller's, so that a request made again after a restart is still the same request.

use domain::{Job, api::NewJob, id::Uuid};
use reqwest::{Method, StatusCode};

use crate::{again::Again, calls::key, client::Client, error::Result};

/// Result of a request for a tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Made {
    /// It was made just now: 201.
    New(Job),
    /// An earlier request with this key has made it, and it is not complete: 202.
    UnderWay(Job),
    /// An earlier request has made it: 200. With a key it is complete, with an id it may be anything.
    Already(Job),
}

impl Made {
    /// The tree, whoever made it.
    pub const fn job(&self) -> &Job {
        match self {
            Self::New(job) | Self::UnderWay(job) | Self::Already(job) => job,
        }
    }

    /// True if this request created it.
    pub const fn is_new(&self) -> bool {
        matches!(self, Self::New(_))
    }

    fn of((status, job): (StatusCode, Job)) -> Self {
        match status {
            StatusCode::CREATED => Self::New(job),
            StatusCode::ACCEPTED => Self::UnderWay(job),
            _ => Self::Already(job),
        }
    }
}

impl Client {
    /// Creates a tree once per key: the same key and body again give the same tree, unless that has failed
    /// or was cancelled, which makes a new one. Safe to send again, now or after a restart.
    ///
    /// # Errors
    /// 422 `idempotency_key_reused` where the key came with another body; 410 `job_removed` where its tree
    /// is gone.
    pub async fn create_job_once(&self, new: &NewJob, idempotency_key: &str) -> Result<Made> {
        let call = self.post(&["jobs"]).json(new).header("idempotency-key", key(idempotency_key)?);
        Ok(Made::of(self.answer(call.again(Again::Always)).await?))
    }

    /// Creates a tree under an id of the caller's own; the same again is no change.
    ///
    /// # Errors
    /// 409 `id_in_use` where the id came with another body, or belongs to someone else.
    pub async fn put_job(&self, id: Uuid, new: &NewJob) -> Result<Made> {
        let call = self.call(Method::PUT, &["jobs", &id.to_string()]).json(new);
        Ok(Made::of(self.answer(call.again(Again::Always)).await?))
    }
}
