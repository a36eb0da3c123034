//! Resources that are created once for each idempotency key.
//!
//! If a server crashes between a request and its commit, the key is taken for a minute (`idempotency-key`). An action does
//! not wait for that: it ends, and the request is repeated at the end of all actions.

use std::sync::PoisonError;

use anyhow::{Context as _, Result};
use reqwest::Method;
use serde_json::Value;

use super::{Caller, TIMEOUT};
use crate::raw::id;

/// A request that creates a resource, with its path, its body and its key.
#[derive(Clone)]
pub(super) struct Creation {
    path: &'static str,
    body: Value,
    key: String,
}

impl Caller {
    /// Creates a resource whose name is the key. `None` if the key is taken by an attempt whose server crashed.
    pub(super) async fn create(&self, path: &'static str, body: &Value) -> Result<Option<Value>> {
        let key = body["name"].as_str().context("a name")?.to_owned();
        let creation = Creation { path, body: body.clone(), key };
        let created = self.attempt(&creation).await?;
        if created.is_none() {
            self.shared.unanswered.lock().unwrap_or_else(PoisonError::into_inner).push(creation);
        }
        Ok(created)
    }

    async fn attempt(&self, creation: &Creation) -> Result<Option<Value>> {
        let (path, body) = (creation.path, Some(&creation.body));
        let answer = self.send_until_answered(Method::POST, path, body, Some(&creation.key)).await?;
        if answer.status == 409 { Ok(None) } else { Ok(Some(answer.ok().context(path)?)) }
    }

    /// Repeats the creations that were not answered, and deletes what they created. Each exists once.
    pub(super) async fn repeat_creations(&self) -> Result<()> {
        let all = self.shared.unanswered.lock().unwrap_or_else(PoisonError::into_inner).clone();
        for creation in all {
            let (path, name) = (creation.path, creation.key.as_str());
            let answered = async || Ok(self.attempt(&creation).await?.is_some());
            crate::raw::until(name, TIMEOUT, answered).await?;
            let created = self.attempt(&creation).await?.context("a stored response")?;
            let list = self.get(&format!("{path}?limit=500")).await?;
            let found = list["data"].as_array().context("a list")?.iter().filter(|one| one["name"] == name).count();
            self.confirm(found == 1, &format!("{found} times {name} in {path}"))?;
            let last = if path == "/job-types" { name } else { id(&created)? };
            self.send_idempotent(Method::DELETE, &format!("{path}/{last}"), None, &[404]).await?;
        }
        Ok(())
    }
}
