//! Definitions that actions of people refer to: job types and saved views, created, changed and deleted.

use anyhow::{Context as _, Result};
use reqwest::Method;
use serde_json::{Value, json};

use super::Caller;
use crate::raw::id;

impl Caller {
    /// Creates a job type, changes, pauses, resumes and deletes it.
    pub(super) async fn job_types(&self, n: usize) -> Result<()> {
        let name = format!("type-{n}");
        let path = format!("/job-types/{name}");
        let Some(_) = self.create("/job-types", &json!({"name": name})).await? else { return Ok(()) };
        self.send_idempotent(Method::PATCH, &path, Some(&json!({"concurrency": 3})), &[]).await?;
        let now = self.get(&path).await?;
        self.confirm(now["concurrency"] == 3 && now["paused"] == false, &format!("a changed type: {now}"))?;
        self.send_idempotent(Method::POST, &format!("{path}/pause"), Some(&Value::Null), &[]).await?;
        self.confirm(self.get(&path).await?["paused"] == true, "a paused type")?;
        self.send_idempotent(Method::POST, &format!("{path}/resume"), Some(&Value::Null), &[]).await?;
        self.confirm(self.get(&path).await?["paused"] == false, "a resumed type")?;
        self.send_idempotent(Method::DELETE, &path, None, &[404]).await?;
        let gone = self.send_until_answered(Method::GET, &path, None, None).await?;
        self.confirm(gone.status == 404, "a deleted type")
    }

    /// Saves a view, renames and deletes it.
    pub(super) async fn saved_views(&self, n: usize) -> Result<()> {
        let (name, renamed) = (format!("view {n}"), format!("view {n}, renamed"));
        let view = json!({"list": "jobs", "name": name, "q": "status:running"});
        let Some(view) = self.create("/views", &view).await? else { return Ok(()) };
        let path = format!("/views/{}", id(&view)?);
        self.confirm(self.views_named(&name).await? == 1, "a saved view")?;
        self.send_idempotent(Method::PATCH, &path, Some(&json!({"name": renamed})), &[]).await?;
        let numbers = (self.views_named(&name).await?, self.views_named(&renamed).await?);
        self.confirm(numbers == (0, 1), "a renamed view")?;
        self.send_idempotent(Method::DELETE, &path, None, &[404]).await?;
        self.confirm(self.views_named(&renamed).await? == 0, "a deleted view")
    }

    async fn views_named(&self, name: &str) -> Result<usize> {
        let views = self.get("/views?list=jobs&limit=500").await?;
        let views = views["data"].as_array().context("views")?;
        Ok(views.iter().filter(|view| view["name"] == name).count())
    }
}
