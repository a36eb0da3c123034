//! Items that wait for an event, and logs of attempts.

use anyhow::{Context as _, Result};
use reqwest::Method;
use serde_json::json;

use super::Caller;
use crate::raw::id;

impl Caller {
    /// Lets an item wait, sends the event, logs a line, and ends the item.
    pub(super) async fn event_waits(&self, n: usize) -> Result<()> {
        let name = format!("waiting-{n}");
        let tree = json!({"type": "waiting", "name": name, "sealed": true, "items": [{"payload": {"n": n}}]});
        let job = id(&self.post("/jobs", &tree, &name).await?)?.to_owned();
        let first = self.claim_one("waiting").await?;
        let item = id(&first["item"])?.to_owned();
        let wait = format!("/assignments/{}/wait", id(&first)?);
        // 409 if an earlier attempt succeeded.
        self.send_idempotent(Method::POST, &wait, Some(&json!({"name": "approval"})), &[409]).await?;
        let data = json!({"approved": n});
        let event = json!({"name": "approval", "data": data});
        self.post(&format!("/items/{item}/events"), &event, &format!("event-{n}")).await?;
        let second = self.claim_one("waiting").await?;
        let once = second["attempt"] == 2 && second["item"]["event"]["data"] == data;
        self.confirm(once, &format!("an event: {second}"))?;

        let (assignment, lines) = (format!("/assignments/{}", id(&second)?), json!({"lines": [{"message": name}]}));
        let added =
            self.send_until_answered(Method::POST, &format!("{assignment}/logs"), Some(&lines), None).await?.ok()?;
        let log = self.get(&format!("/items/{item}/logs")).await?;
        let log = log["data"].as_array().context("lines")?;
        // An attempt without a response may have added the line, too.
        let same = added["last_line"] == log.len() && log.iter().all(|line| line["message"] == name.as_str());
        self.confirm(same, &format!("a logged line: {log:?}"))?;

        let result = json!({"result": {}});
        self.send_idempotent(Method::POST, &format!("{assignment}/result"), Some(&result), &[409]).await?;
        self.until("an item that has waited", async || self.ended(&job).await).await?;
        let seen = self.get(&format!("/jobs/{job}")).await?;
        self.confirm(seen["tree"]["counts"]["succeeded"] == 1, "an item that has waited")
    }
}
