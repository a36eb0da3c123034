//! Messages of alert channels (`alert-channels`): writes those that are due, and sends one to its receiver.
//!
//! `callbacks` leases, retries and records the deliveries. The receiver is that of the channel as it is now, so an edit
//! affects the next try. Nothing here logs what it opens.

use std::time::Duration;

use bytes::Bytes;
use domain::{
    Time,
    notify::{alert::Alert, alert_channel::ChannelKind, delivery::TryOutcome},
};
use reqwest::StatusCode;
use serde_json::Value;

use super::{
    callbacks::{AttemptOutcome, SignedPost, post_signed},
    driver::Tasks,
};
use crate::{
    App,
    alert_channels::{formats::EventToSend, messages},
    outbound::mail::{Mail, MailFault},
};
use engine::{
    ALERTS,
    error::Result,
    sealing::channel_target::ChannelTarget,
    signing::keys_of,
    store::notify::deliveries::{AlertContent, TakenDelivery},
};

/// Starts writing messages about raised and cleared alerts.
pub(super) fn spawn(tasks: &Tasks<'_>) {
    tasks.every(1.0, "alert channels", |app| async move { messages::write_due(&app).await });
}

/// Sends one message; `None` if the channel no longer has this receiver.
pub(super) async fn send(
    app: &App,
    taken: &TakenDelivery,
    content: &AlertContent,
    timeout: Duration,
) -> Result<Option<AttemptOutcome>> {
    let Some(channel) = &content.channel else { return Ok(None) };
    let target = match ChannelTarget::open(&app.sealer, &channel.target) {
        Ok(target) => target,
        Err(error) => return Ok(Some(AttemptOutcome::sealed(taken, &error))),
    };
    let alert: Option<Alert> = match content.alert.as_deref().map(serde_json::from_str).transpose() {
        Ok(alert) => alert,
        Err(error) => return Ok(Some(AttemptOutcome::refused(format!("The alert cannot be read: {error}.")))),
    };
    let event = EventToSend {
        id: taken.id,
        event: content.event,
        alert: alert.as_ref(),
        channel_id: content.channel_id,
        channel: &channel.name,
        at: Time(content.created_at),
        server: app.public_url.as_str(),
        environment: app.config.environment.as_deref(),
    };
    if channel.kind == ChannelKind::Email {
        let Some(to) = content.recipient.as_ref().filter(|to| target.to.contains(to)) else { return Ok(None) };
        return Ok(Some(mail(app, &event, to, timeout).await));
    }
    let Some(url) = target.url(channel.kind) else { return Ok(None) };
    let text = |body: &Value| Bytes::from(body.to_string());
    let (body, keys) = match channel.kind {
        ChannelKind::Slack => (text(&event.slack()), Vec::new()),
        ChannelKind::Pagerduty => {
            let Some(routing_key) = &target.routing_key else { return Ok(None) };
            (text(&event.pagerduty(routing_key)), Vec::new())
        }
        ChannelKind::Email | ChannelKind::Webhook => {
            let keys = keys_of(target.secret.as_ref(), || app.outgoing.key.of_purpose(ALERTS));
            (Bytes::from(event.webhook()), keys)
        }
    };
    let mut outcome =
        post_signed(app, SignedPost { id: taken.id, url: &url, keys: &keys, body, timeout, traceparent: None }).await;
    if channel.kind == ChannelKind::Pagerduty && outcome.status == Some(StatusCode::BAD_REQUEST) {
        // The event itself is refused, as by an unknown integration key: it will never be accepted.
        outcome.tried = TryOutcome::Gone;
    }
    Ok(Some(outcome))
}

async fn mail(app: &App, event: &EventToSend<'_>, to: &str, timeout: Duration) -> AttemptOutcome {
    let Ok(to) = to.parse() else { return AttemptOutcome::refused("The address cannot be read.".to_owned()) };
    let (subject, text) = event.mail();
    let (id, follows) = event.mail_ids();
    send_mail(app, Mail { to, subject, text, id, follows }, timeout).await
}

/// Sends mail within the time.
pub(super) async fn send_mail(app: &App, mail: Mail, timeout: Duration) -> AttemptOutcome {
    let Some(mailer) = &app.outgoing.mail else {
        return AttemptOutcome::refused("TREELINE_SMTP_URL names no mail server.".to_owned());
    };
    match tokio::time::timeout(timeout, mailer.send(mail)).await {
        Ok(Ok(())) => AttemptOutcome { tried: TryOutcome::Accepted, status: None, error: None },
        Ok(Err(MailFault { detail, is_final })) => {
            let tried = if is_final { TryOutcome::Gone } else { TryOutcome::Refused(None) };
            AttemptOutcome { tried, status: None, error: Some(detail) }
        }
        Err(_) => AttemptOutcome::refused("No answer of the mail server in time.".to_owned()),
    }
}
