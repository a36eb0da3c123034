//! Settings of a person's notices, and the messages about them (`notices`).
//!
//! The webhook of a person is sealed, never returned whole, and follows the rules of callbacks. `maintenance` sends.

pub mod formats; // mail and posts

use domain::{
    Problem,
    job_type::SigningSecret,
    limits::LONGEST_URL,
    notice::{NoticeSettings, NoticeSettingsPatch},
    notify::alert_channel::ChannelKind,
    problem::FieldProblem,
    query::topic::Topic,
};

use crate::App;
use engine::{
    access::caller::Caller,
    addresses::Reach,
    error::{Error, Result},
    live_updates::LiveUpdates as _,
    notify::notices::require_person,
    sealing::channel_target::ChannelTarget,
    store::notify::{
        audit::{self as audit_log, AuditRow},
        notices::{self as store, SettingsRow},
    },
    task::in_task,
};

/// Opens a stored webhook.
pub fn open_webhook(app: &App, stored: &str) -> Result<ChannelTarget> {
    // Another server may have the key.
    let broken = |error| Error::Broken(format!("cannot open the webhook of a person: {error}"));
    ChannelTarget::open(&app.sealer, stored).map_err(broken)
}

fn target_of(app: &App, row: &SettingsRow) -> Result<ChannelTarget> {
    row.webhook.as_deref().map_or_else(|| Ok(ChannelTarget::default()), |stored| open_webhook(app, stored))
}

fn shown(row: &SettingsRow, target: &ChannelTarget) -> NoticeSettings {
    NoticeSettings {
        in_page: row.in_page,
        browser: row.browser,
        email: row.email,
        webhook_url: target.shown_url(ChannelKind::Webhook),
        has_webhook_secret: target.secret.is_some(),
    }
}

/// Returns the caller's settings.
pub async fn settings(app: &App, caller: &Caller) -> Result<NoticeSettings> {
    require_person(caller)?;
    let row = store::find_settings(&app.pool, caller.owner_id).await?;
    Ok(shown(&row, &target_of(app, &row)?))
}

/// Returns true if the server can send mail.
pub fn mail_is_possible(app: &App) -> bool {
    app.outgoing.mail.is_some()
}

/// Changes the caller's settings: 422 if a field or the URL is refused.
pub async fn change(app: &App, caller: &Caller, patch: NoticeSettingsPatch) -> Result<NoticeSettings> {
    require_person(caller)?;
    let (app, caller) = (app.clone(), caller.clone());
    in_task("changing settings of notices", async move {
        let mut tx = engine::store::begin(&app.pool).await?;
        let mut row = store::lock_settings(&mut tx, caller.owner_id).await?;
        let mut target = target_of(&app, &row)?;
        check(&app, &row, &patch)?;
        row.in_page = patch.in_page.unwrap_or(row.in_page);
        row.browser = patch.browser.unwrap_or(row.browser);
        row.email = patch.email.unwrap_or(row.email);
        if let Some(url) = patch.webhook_url {
            if url != target.url {
                // A secret is not sent on to another receiver.
                target.secret = None;
            }
            target.url = url;
        }
        if let Some(secret) = patch.webhook_secret {
            target.secret = secret;
        }
        if target.url.is_none() && target.secret.is_some() {
            return Err(
                Problem::invalid_body([("/webhook_secret".to_owned(), "expected a webhook_url".to_owned())]).into()
            );
        }
        row.webhook = target.url.is_some().then(|| target.seal(&app.sealer));
        row.webhook_host = target.url.is_some().then(|| target.host(ChannelKind::Webhook));
        store::write_settings(&mut tx, caller.owner_id, &row).await?;
        let settings = shown(&row, &target);
        let detail =
            settings.webhook_url.as_ref().map_or_else(|| "no webhook".to_owned(), |url| format!("webhook {url}"));
        audit_log::record(&mut tx, &AuditRow::by(&caller, "notices.change").with_detail(detail)).await?;
        crate::store::commit(tx).await?;
        app.hub.changed(Topic::Notices);
        Ok(settings)
    })
    .await
}

fn check(app: &App, row: &SettingsRow, patch: &NoticeSettingsPatch) -> Result<(), Problem> {
    let mut faults = Vec::new();
    if patch.email == Some(true) && !mail_is_possible(app) {
        faults.push(("/email".to_owned(), "expected false: TREELINE_SMTP_URL names no mail server".to_owned()));
    } else if patch.email == Some(true) && row.address.is_none() {
        faults.push(("/email".to_owned(), "expected false: the account has no email address".to_owned()));
    }
    let url = patch.webhook_url.as_ref().and_then(Option::as_deref);
    if url.is_some_and(|url| url.len() > LONGEST_URL) {
        faults.push(("/webhook_url".to_owned(), format!("expected at most {LONGEST_URL} bytes")));
    }
    let secret = patch.webhook_secret.as_ref().and_then(Option::as_ref);
    if let Some(expected) = secret.and_then(SigningSecret::problem) {
        faults.push(("/webhook_secret".to_owned(), expected.to_owned()));
    }
    if !faults.is_empty() {
        return Err(Problem::invalid_body(faults));
    }
    let Some(url) = url else { return Ok(()) };
    Reach::of_callbacks(app.config.callback_allow.clone()).check(url).map_err(|problem| Problem {
        errors: vec![FieldProblem { pointer: "/webhook_url".to_owned(), detail: problem.detail.clone() }],
        ..problem
    })
}
