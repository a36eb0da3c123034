//! Schedules: created, changed, run by hand, paused and deleted. Each tick has one tree.

use std::collections::HashSet;

use anyhow::{Context as _, Result};
use reqwest::Method;
use serde_json::{Value, json};

use super::Caller;
use crate::raw::id;

impl Caller {
    pub(super) async fn schedules(&self, n: usize) -> Result<()> {
        let name = format!("schedule-{n}");
        let job = json!({"type": "action", "sealed": true, "metadata": {"schedule": name}});
        let schedule = json!({"name": name, "cron": "* * * * * *", "catch_up": "all", "job": job});
        let Some(schedule) = self.create("/schedules", &schedule).await? else { return Ok(()) };
        let path = format!("/schedules/{}", id(&schedule)?);
        let renamed = format!("{name}, renamed");
        self.send_idempotent(Method::PATCH, &path, Some(&json!({"name": renamed})), &[]).await?;
        self.until("ticks of a schedule", async || Ok(self.get(&path).await?["last_run"]["seq"].as_i64() >= Some(2)))
            .await?;
        self.send_idempotent(Method::POST, &format!("{path}/pause"), Some(&json!({})), &[]).await?;
        let paused = self.get(&path).await?;
        let stored = paused["paused"] == true && paused["name"] == renamed.as_str();
        self.confirm(stored, &format!("a renamed and paused schedule: {paused}"))?;

        let runs = self.runs(&path).await?;
        let ticks: HashSet<&str> = runs.iter().filter_map(|run| run["tick"].as_str()).collect();
        self.confirm(ticks.len() == runs.len(), &format!("one run for each tick: {runs:?}"))?;
        let expected: HashSet<&str> = runs.iter().filter_map(|run| run["job_id"].as_str()).collect();
        let trees = self.get(&format!("/jobs?metadata.schedule={name}&limit=500")).await?;
        let trees: Vec<&str> = trees["data"].as_array().context("trees")?.iter().map(id).collect::<Result<_>>()?;
        let same = trees.len() == expected.len() && trees.iter().all(|tree| expected.contains(tree));
        self.confirm(same, &format!("one tree for each run: {trees:?} {runs:?}"))?;

        // Not idempotent: an attempt without a response may have been a run, too.
        self.send_idempotent(Method::POST, &format!("{path}/run"), Some(&json!({})), &[]).await?;
        let by_hand = self.runs(&path).await?.iter().filter(|run| run["by_hand"] == true).count();
        self.confirm(by_hand >= 1, "a run by hand")?;
        self.send_idempotent(Method::DELETE, &path, None, &[404]).await?;
        let gone = self.send_until_answered(Method::GET, &path, None, None).await?;
        self.confirm(gone.status == 404, "a deleted schedule")
    }

    async fn runs(&self, path: &str) -> Result<Vec<Value>> {
        let runs = self.get(&format!("{path}/runs?limit=500")).await?;
        Ok(runs["data"].as_array().context("runs")?.clone())
    }
}
