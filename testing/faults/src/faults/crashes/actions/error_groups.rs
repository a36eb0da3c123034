//! Error groups: resolved, regressed by the next failure, muted and reopened.

use anyhow::{Context as _, Result};
use reqwest::Method;
use serde_json::json;
use time::{Duration, OffsetDateTime};

use super::Caller;
use crate::raw::id;

impl Caller {
    /// Fails an item, and changes the state of its error group.
    pub(super) async fn error_groups(&self, n: usize) -> Result<()> {
        self.failed(n, 1).await?;
        let group = self.get("/dead-letters/groups?type=failing&state=open,regressed,resolved,muted").await?;
        let fingerprint = group["data"][0]["fingerprint"].as_str().with_context(|| format!("a group: {group}"))?;
        let path = format!("/dead-letters/groups/failing/{fingerprint}");
        let change = async |state: &str, more: Option<(&str, String)>| {
            let mut change = json!({"state": state});
            if let Some((field, value)) = more {
                change[field] = json!(value);
            }
            self.send_idempotent(Method::PATCH, &path, Some(&change), &[]).await?;
            let now = self.get(&path).await?["group"].clone();
            self.confirm(now["state"] == state, &format!("an error group that is {state}: {now}"))
        };
        change("resolved", Some(("note", format!("fixed in {n}")))).await?;
        self.failed(n, 2).await?;
        let now = self.get(&path).await?["group"].clone();
        self.confirm(now["state"] == "regressed", &format!("an error group that has come back: {now}"))?;
        let hour = domain::Time(OffsetDateTime::now_utc() + Duration::hours(1));
        change("muted", Some(("until", hour.to_rfc3339()))).await?;
        change("open", None).await
    }

    /// Creates an item and fails it.
    async fn failed(&self, n: usize, time: usize) -> Result<()> {
        let name = format!("failing-{n}-{time}");
        let tree = json!({"type": "failing", "name": name, "sealed": true, "items": [{"payload": {"n": n}}]});
        let job = id(&self.post("/jobs", &tree, &name).await?)?.to_owned();
        let assignment = self.claim_one("failing").await?;
        let failure = json!({"error": {"message": "the account is closed"}, "retryable": false});
        let path = format!("/assignments/{}/failure", id(&assignment)?);
        // 409 if an earlier attempt succeeded.
        self.send_idempotent(Method::POST, &path, Some(&failure), &[409]).await?;
        self.until("a failed item", async || self.ended(&job).await).await
    }
}
