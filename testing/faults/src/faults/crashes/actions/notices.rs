//! Notices: a person's settings, and the notice of a tree that the person watches.

use anyhow::{Context as _, Result};
use reqwest::Method;
use serde_json::{Value, json};

use super::Caller;
use crate::{raw::id, receiver::SECRET};

impl Caller {
    /// Changes the settings of a person, who then watches a tree until it is complete.
    pub(super) async fn notices(&self, n: usize) -> Result<()> {
        let person = self.signed_in(&self.person(n).await?).await?;
        let settings = json!({"browser": true, "webhook_url": self.message_url("notices"), "webhook_secret": SECRET});
        person.send_idempotent(Method::PATCH, "/me/notice-settings", Some(&settings), &[]).await?;
        let stored = person.get("/me/notice-settings").await?;
        let same =
            stored["browser"] == true && stored["has_webhook_secret"] == true && stored["webhook_url"].is_string();
        self.confirm(same, &format!("settings of notices: {stored}"))?;

        let name = format!("watched-{n}");
        // Not sealed yet: another action may process its item at once.
        let tree = json!({"type": "action", "name": name, "items": [{"payload": {"n": n}}]});
        let job = id(&person.post("/jobs", &tree, &name).await?)?.to_owned();
        let path = format!("/jobs/{job}/watch");
        person.send_idempotent(Method::POST, &path, Some(&Value::Null), &[]).await?;
        let watched = person.get(&path).await?["watching"] == true;
        self.confirm(watched, "a watched tree")?;
        person.send_idempotent(Method::POST, &format!("/jobs/{job}/seal"), Some(&json!({})), &[409]).await?;
        self.work(&job).await?;
        let notices = async || {
            let all = person.get("/me/notices").await?["data"].as_array().context("notices")?.clone();
            Ok::<_, anyhow::Error>(all.into_iter().filter(|one| one["job_id"] == job.as_str()).collect::<Vec<_>>())
        };
        self.until("a notice", async || Ok(!notices().await?.is_empty())).await?;
        let notices = notices().await?;
        self.confirm(notices.len() == 1 && notices[0]["kind"] == "finished", &format!("one notice: {notices:?}"))
    }
}
