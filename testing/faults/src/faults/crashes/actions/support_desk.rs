//! Actions of support users on trees: pin, edit, share; retry; resend callbacks, replay and delete.

use std::{sync::PoisonError, time::Duration};

use anyhow::{Context as _, Result, ensure};
use reqwest::Method;
use serde_json::{Value, json};

use super::Caller;
use crate::{raw::id, receiver::target};

impl Caller {
    /// Pins, edits and shares a tree.
    pub(super) async fn pinned_and_shared(&self, n: usize) -> Result<()> {
        let job = self.small("kept", n, 0).await?;
        let path = format!("/jobs/{job}");
        self.send_idempotent(Method::POST, &format!("{path}/pin"), Some(&json!({})), &[]).await?;
        self.send_idempotent(Method::PATCH, &path, Some(&json!({"metadata": {"seen": true}})), &[]).await?;
        let seen = self.get(&path).await?;
        self.confirm(seen["pinned"] == true && seen["metadata"]["seen"] == true, "a tree that is pinned and edited")?;
        let share =
            self.send_until_answered(Method::POST, &format!("{path}/share"), Some(&json!({})), None).await?.ok()?;
        let share = id(&share).map(str::to_owned).or_else(|_| id(&share["share"]).map(str::to_owned))?;
        self.send_idempotent(Method::DELETE, &format!("/shares/{share}"), None, &[404, 410]).await?;
        self.send_idempotent(Method::DELETE, &format!("{path}/pin"), None, &[]).await?;
        let seen = self.get(&path).await?;
        self.confirm(seen["pinned"] != true, "a tree that is no longer pinned")
    }

    /// Retries the dead letters of a tree, one alone and the rest in bulk. The bulk operation is checked later.
    pub(super) async fn repaired(&self, n: usize) -> Result<()> {
        let job = self.small("repaired", n, 4).await?;
        let dead = self.get(&format!("/items?job={job}&state=dead")).await?;
        let dead = dead["data"].as_array().context("items")?.clone();
        self.confirm(dead.len() == 4, "dead letters")?;
        let first = id(&dead[0])?;
        let retried =
            self.send_until_answered(Method::POST, &format!("/items/{first}/retry"), Some(&json!({})), None).await?;
        // 409 if an earlier attempt succeeded.
        ensure!(retried.status < 300 || retried.status == 409, "{}", retried.text);
        self.work(&job).await?;
        let bulk = json!({"action": "retry", "target": "items", "filter": {"job": job, "state": "dead"}});
        let bulk = self.post("/bulk-operations", &bulk, &format!("bulk-{n}")).await?;
        let path = format!("/bulk-operations/{}", id(&bulk)?);
        self.shared.bulks.lock().unwrap_or_else(PoisonError::into_inner).push((path.clone(), job, 3));
        // Rarely longer; after a crash of its server it is checked at the end.
        let soon = Duration::from_secs(2);
        let _ =
            crate::raw::until("an operation", soon, async || Ok(self.get(&path).await?["state"] == "completed")).await;
        Ok(())
    }

    /// Resends the callback of a tree, replays one item and the whole tree, and deletes the replay.
    pub(super) async fn replayed(&self, n: usize) -> Result<()> {
        let job = self.small("again", n, 0).await?;
        let path = format!("/jobs/{job}");
        self.until("every callback", async || {
            let all = self.get(&format!("{path}/deliveries")).await?;
            Ok(all["data"].as_array().is_some_and(|all| all.iter().all(|one| one["state"] != "pending")))
        })
        .await?;
        let deliveries = self.get(&format!("{path}/deliveries")).await?;
        let newest = id(&deliveries["data"][0])?;
        self.send_idempotent(Method::POST, &format!("/deliveries/{newest}/resend"), Some(&json!({})), &[]).await?;
        let items = self.get(&format!("/items?job={job}")).await?;
        let first = id(&items["data"][0])?;
        let one = self.post(&format!("/items/{first}/replay"), &json!({}), &format!("replay-one-{n}")).await?;
        let one = one["root_id"].as_str().or(one["job_id"].as_str()).map_or_else(|| id(&one), Ok)?.to_owned();
        self.work(&one).await?;
        let bulk = json!({"action": "delete", "target": "jobs", "filter": {"id": [one]}});
        let bulk = self.post("/bulk-operations", &bulk, &format!("delete-{n}")).await?;
        let bulk = format!("/bulk-operations/{}", id(&bulk)?);
        self.shared.bulks.lock().unwrap_or_else(PoisonError::into_inner).push((bulk, one, 1));
        let replay = self.post(&format!("{path}/replay"), &json!({}), &format!("replay-{n}")).await?;
        let replay = id(&replay)?.to_owned();
        self.work(&replay).await?;
        let copies = self.get(&format!("/jobs/{replay}")).await?;
        let same = copies["replay_of"] == job.as_str() && copies["tree"]["counts"]["succeeded"] == 5;
        self.confirm(same, "a replayed tree")?;
        self.until("a delete", async || {
            let answer = self.send_until_answered(Method::DELETE, &format!("/jobs/{replay}"), None, None).await?;
            // 409 while rows are still being copied.
            ensure!(answer.status < 300 || [404, 409, 410].contains(&answer.status), "{}", answer.text);
            Ok(answer.status != 409)
        })
        .await?;
        let gone = self.send_until_answered(Method::GET, &format!("/jobs/{replay}"), None, None).await?;
        self.confirm(gone.status == 410, "a tree that was deleted")
    }

    /// Edits the priority of a job, which its scheduled items follow, and cancels it.
    pub(super) async fn edited(&self, n: usize) -> Result<()> {
        let name = format!("edited-{n}");
        let items = [json!({"payload": {"n": n}}), json!({"payload": {"n": n}, "priority": 7})];
        let tree = json!({"type": "action", "name": name, "run_after": "2100-01-01T00:00:00Z", "sealed": true, "items": items});
        let job = id(&self.post("/jobs", &tree, &name).await?)?.to_owned();
        let path = format!("/jobs/{job}");
        self.send_idempotent(Method::PATCH, &path, Some(&json!({"priority": -3})), &[]).await?;
        self.until("items of an edited job", async || {
            let items = self.get(&format!("/items?job={job}")).await?;
            let items = items["data"].as_array().context("items")?.clone();
            let mut priorities: Vec<_> = items.iter().filter_map(|item| item["priority"].as_i64()).collect();
            priorities.sort_unstable();
            Ok(priorities == [-3, 7])
        })
        .await?;
        self.send_idempotent(Method::POST, &format!("{path}/cancel"), Some(&json!({})), &[409]).await?;
        self.until("an edited job that is canceled", async || self.ended(&job).await).await
    }

    /// Creates and processes a tree of five items with a callback; `dies` of them die at the first attempt.
    async fn small(&self, what: &str, n: usize, dies: usize) -> Result<String> {
        let name = format!("{what}-{n}");
        let items: Vec<Value> = (0..5).map(|at| json!({"payload": {"dies": at < dies}})).collect();
        let on_completed = target(self.shared.environment.callback_port);
        let tree =
            json!({"type": "action", "name": name, "sealed": true, "items": items, "on_completed": on_completed});
        let job = id(&self.post("/jobs", &tree, &name).await?)?.to_owned();
        self.expect_callback(&name, &job)?;
        self.work(&job).await?;
        Ok(job)
    }
}
