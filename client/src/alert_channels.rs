//! Alert channels (`alert-channels`): receivers of alerts, with the rules about which ones they get and when.

use domain::{
    api::Page,
    id::Uuid,
    notify::{
        alert_channel::{AlertChannel, AlertChannelPatch, NewAlertChannel},
        delivery::CallbackDelivery,
    },
};
use reqwest::Method;

use crate::{api::idempotency_header, client::Client, error::Result, paging::PageQuery, retry::RetryPolicy};

impl Client {
    /// Creates an alert channel. Requires the scope `admin`, as all changes do.
    pub async fn create_alert_channel(&self, new: &NewAlertChannel) -> Result<AlertChannel> {
        let call = self.post(&["alert-channels"]).json(new);
        let call = call.header("idempotency-key", idempotency_header(&Uuid::now_v7().to_string())?);
        self.fetch(call.retry(RetryPolicy::Always)).await
    }

    /// Alert channels, newest first.
    pub async fn alert_channels(&self, page: &PageQuery) -> Result<Page<AlertChannel>> {
        self.list(self.get(&["alert-channels"]), page).await
    }

    /// One alert channel, without its secrets.
    pub async fn alert_channel(&self, id: Uuid) -> Result<AlertChannel> {
        self.fetch(self.get(&["alert-channels", &id.to_string()])).await
    }

    /// Changes the given fields of an alert channel.
    pub async fn patch_alert_channel(&self, id: Uuid, patch: &AlertChannelPatch) -> Result<AlertChannel> {
        self.fetch(self.call(Method::PATCH, &["alert-channels", &id.to_string()]).json(patch)).await
    }

    /// Deletes an alert channel; messages that have not arrived are not sent.
    pub async fn delete_alert_channel(&self, id: Uuid) -> Result<()> {
        self.send(self.call(Method::DELETE, &["alert-channels", &id.to_string()])).await.map(drop)
    }

    /// Sends a test message to each receiver of an alert channel. The deliveries show what became of it.
    pub async fn test_alert_channel(&self, id: Uuid) -> Result<Page<CallbackDelivery>> {
        self.fetch(self.post(&["alert-channels", &id.to_string(), "test"])).await
    }
}
