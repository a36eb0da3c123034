//! Alerts: raised by a worker, and announced to a channel and to the URL of the operator.

use anyhow::{Context as _, Result};
use reqwest::Method;
use serde_json::{Value, json};

use super::Caller;
use crate::{raw::id, receiver::SECRET};

impl Caller {
    /// Creates a channel, changes it, lets a worker raise an alert, and deletes the channel.
    pub(super) async fn alerts(&self, n: usize) -> Result<()> {
        let name = format!("channel-{n}");
        let new = json!({"name": format!("new-{n}"), "kind": "webhook", "url": self.message_url("channel"), "secret": SECRET,
            "kinds": ["worker"], "types": ["alarmed"]});
        let Some(channel) = self.create("/alert-channels", &new).await? else { return Ok(()) };
        let channel = id(&channel)?.to_owned();
        let path = format!("/alert-channels/{channel}");
        self.send_idempotent(Method::PATCH, &path, Some(&json!({"name": name})), &[]).await?;
        self.confirm(self.get(&path).await?["name"] == name.as_str(), "a changed channel")?;

        let item = self.raise_alert(n).await?;
        let alerts = self.get("/alerts?kind=worker&limit=500").await?;
        let alerts = alerts["data"].as_array().context("alerts")?;
        let of_item: Vec<&Value> = alerts.iter().filter(|alert| alert["item_id"] == item.as_str()).collect();
        self.confirm(of_item.len() == 1, &format!("one alert: {of_item:?}"))?;
        let alert = id(of_item[0])?;
        // An attempt without a response counts the alert once more, but does not announce it again.
        let announced = self.until_delivered(&channel).await?;
        let once = announced.len() == 1 && announced[0]["alert"]["alert_id"] == alert;
        self.confirm(once, &format!("one message to a channel: {announced:?}"))?;
        self.confirm(self.was_received(id(&announced[0])?)?, "a message to a channel")?;
        let message = format!("{alert}-raised");
        self.until("a message about an alert", async || self.was_received(&message)).await?;

        self.send_idempotent(Method::POST, &format!("{path}/test"), Some(&Value::Null), &[]).await?;
        self.send_idempotent(Method::DELETE, &path, None, &[404]).await?;
        let gone = self.send_until_answered(Method::GET, &path, None, None).await?;
        self.confirm(gone.status == 404, "a deleted channel")
    }

    /// Raises an alert about an item. Returns the item.
    async fn raise_alert(&self, n: usize) -> Result<String> {
        let name = format!("alarmed-{n}");
        let tree = json!({"type": "alarmed", "name": name, "sealed": true, "items": [{"payload": {"n": n}}]});
        self.post("/jobs", &tree, &name).await?;
        let assignment = self.claim_one("alarmed").await?;
        let path = format!("/assignments/{}", id(&assignment)?);
        let alert = json!({"message": "out of paper"});
        self.send_idempotent(Method::POST, &format!("{path}/alert"), Some(&alert), &[]).await?;
        // 409 if an earlier attempt succeeded.
        let result = json!({"result": {}});
        self.send_idempotent(Method::POST, &format!("{path}/result"), Some(&result), &[409]).await?;
        Ok(id(&assignment["item"])?.to_owned())
    }

    /// Messages about raised alerts of a channel, once all of them have arrived.
    async fn until_delivered(&self, channel: &str) -> Result<Vec<Value>> {
        let path = format!("/deliveries?channel={channel}");
        let raised = async || {
            let all = self.get(&path).await?["data"].as_array().context("deliveries")?.clone();
            Ok::<_, anyhow::Error>(all.into_iter().filter(|one| one["alert"]["event"] == "raised").collect::<Vec<_>>())
        };
        self.until("a message to a channel", async || {
            let raised = raised().await?;
            Ok(!raised.is_empty() && raised.iter().all(|one| one["state"] == "delivered"))
        })
        .await?;
        raised().await
    }

    /// URL of the receiver of messages.
    pub(super) fn message_url(&self, path: &str) -> String {
        format!("http://{}/{path}", self.shared.environment.messages.addr())
    }

    /// True if a message with this id was received and accepted.
    fn was_received(&self, id: &str) -> Result<bool> {
        let received = self.shared.environment.messages.received()?;
        Ok(received.iter().any(|one| one.id == id && (200..300).contains(&one.response_status)))
    }
}
