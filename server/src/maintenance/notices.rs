//! Notices to people (`notices`): searches for watched trees that need attention, deletes old notices, and sends one.
//!
//! `callbacks` leases, retries and records the deliveries. Settings and rights are those of the person now.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use bytes::Bytes;
use domain::{notice::Notice, notify::alert_channel::ChannelKind};
use uuid::Uuid;

use super::{
    alert_channels::send_mail,
    callbacks::{AttemptOutcome, SignedPost, post_signed},
    driver::Tasks,
};
use crate::{
    App,
    notices::{formats, open_webhook},
    outbound::mail::Mail,
};
use engine::{
    error::Result,
    signing::keys_of,
    store::notify::deliveries::{NoticeContent, TakenDelivery},
};

/// Starts the search and the deletion.
pub(super) fn spawn(tasks: &Tasks<'_>) {
    // Each server searches a piece at a time, from where its last search ended.
    let position: Arc<Mutex<Option<Uuid>>> = Arc::default();
    tasks.every(2.0, "notices", move |app| {
        let position = Arc::clone(&position);
        async move {
            let after = position.lock().unwrap_or_else(PoisonError::into_inner).take();
            let scan = app.engine.scan_for_attention(after).await?;
            *position.lock().unwrap_or_else(PoisonError::into_inner) = scan.next;
            Ok(0)
        }
    });
    tasks.every(60.0, "old notices", |app| async move { app.engine.delete_old_notices().await });
}

/// Sends one notice; `None` if it may not or shall not be sent any more.
pub(super) async fn send(
    app: &App,
    taken: &TakenDelivery,
    content: &NoticeContent,
    timeout: Duration,
) -> Result<Option<AttemptOutcome>> {
    let Some(now) = &content.now else { return Ok(None) };
    if let Some(to) = &content.recipient {
        if now.email.as_ref() != Some(to) {
            return Ok(None);
        }
        return Ok(Some(mail(app, &now.notice, to, timeout).await));
    }
    let Some(stored) = &now.webhook else { return Ok(None) };
    let target = match open_webhook(app, stored) {
        Ok(target) => target,
        Err(error) => return Ok(Some(AttemptOutcome::sealed(taken, &error))),
    };
    let Some(url) = target.url(ChannelKind::Webhook) else { return Ok(None) };
    let keys = keys_of(target.secret.as_ref(), || app.outgoing.key.of_owner(taken.owner_id));
    let body = Bytes::from(formats::webhook(&now.notice));
    let post = SignedPost { id: taken.id, url: &url, keys: &keys, body, timeout, traceparent: None };
    Ok(Some(post_signed(app, post).await))
}

async fn mail(app: &App, notice: &Notice, to: &str, timeout: Duration) -> AttemptOutcome {
    let Ok(to) = to.parse() else { return AttemptOutcome::refused("The address cannot be read.".to_owned()) };
    let (subject, text) = formats::mail(notice, app.public_url.as_str(), app.config.environment.as_deref());
    send_mail(app, Mail { to, subject, text, id: format!("notice-{}", notice.id.simple()), follows: None }, timeout)
        .await
}
