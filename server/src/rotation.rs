//! Reseals every stored secret with the current key: at the first start, and by `treeline-server rotate-key`.
//!
//! A rotation is safe with running servers and can be repeated after a crash at any point: every server must know the
//! new key before a secret is sealed with it, rows are replaced one by one by compare-and-set, and the old key is
//! removed only when a pass finds nothing left. A new sealed column must be added to [`reseal`]. Nothing here logs a
//! key or an opened secret.

use std::time::Duration;

use anyhow::{Context as _, bail, ensure};
use domain::{Document, job_type::Executor};
use sqlx::PgPool;
use tokio::time::Instant;
use uuid::Uuid;

use crate::{App, auth::factors::totp, config::Config, outbound::reseal_default_key};
use engine::{
    error::Result,
    sealing::{
        KeyFile, SealError, Sealer, SealingKey, channel_target, is_sealed_with,
        stored_secrets::{open_push, reseal_scheduled, reseal_target, seal_push},
    },
    store::{
        access::{factors, sealed_rows as rows, sealing_keys as keys},
        notify::{alert_channels, notices},
    },
    task::unless_silent,
};

/// Interval at which a server looks for a new key.
const POLL_INTERVAL: Duration = Duration::from_secs(2);

/// Longest wait of a rotation for the servers.
const SERVERS_TIMEOUT: Duration = Duration::from_mins(1);

/// Reseals every stored secret with the current key. Returns the number that were changed.
pub async fn reseal(pool: &PgPool, sealer: &Sealer) -> anyhow::Result<u64> {
    let mut changed = u64::from(reseal_default_key(pool, sealer).await?);
    for row in rows::executors(pool).await? {
        let Ok(executor) = serde_json::from_str::<Executor>(&row.executor) else { continue };
        let secrets = open_push(sealer, row.secrets.as_deref())
            .with_context(|| format!("cannot open the secrets of the job type {}", row.name))?;
        let is_sealed = row.secrets.as_ref().is_none_or(|stored| is_sealed_with(stored, &sealer.current_id()));
        let url = secrets.url.or(executor.url.clone());
        let whole = Executor { url, auth: secrets.auth, headers: secrets.headers, secret: secrets.secret, ..executor };
        let (open, secrets) = whole.split_secrets();
        let open = Document::of(&open).text().to_owned();
        if is_sealed && open == row.executor {
            continue;
        }
        let sealed = seal_push(sealer, &secrets);
        changed += u64::from(rows::replace_executor(pool, &row, &open, sealed.as_deref()).await?);
    }
    let stored = (pool, sealer);
    let all = reseal_rows(stored, i64::MIN, rows::job_targets, reseal_target, rows::replace_job_target).await;
    changed += all.context("cannot reseal the receiver of a callback")?;
    let all =
        reseal_rows(stored, Uuid::nil(), rows::delivery_targets, reseal_target, rows::replace_delivery_target).await;
    changed += all.context("cannot reseal the receiver of a delivery")?;
    let all =
        reseal_rows(stored, Uuid::nil(), rows::scheduled_jobs, reseal_scheduled, rows::replace_scheduled_job).await;
    changed += all.context("cannot reseal the job of a schedule")?;
    let all = reseal_rows(
        stored,
        Uuid::nil(),
        alert_channels::targets,
        channel_target::reseal,
        alert_channels::replace_target,
    )
    .await;
    changed += all.context("cannot reseal the receiver of an alert channel")?;
    let all =
        reseal_rows(stored, Uuid::nil(), notices::webhooks, channel_target::reseal, notices::replace_webhook).await;
    changed += all.context("cannot reseal the webhook of a person")?;
    for (owner_id, old) in factors::sealed_secrets(pool, &sealer.current_id()).await? {
        let context = totp::context(owner_id);
        let secret =
            sealer.open(&context, &old).with_context(|| format!("cannot open the TOTP secret of {owner_id}"))?;
        changed += u64::from(factors::replace_secret(pool, owner_id, &old, &sealer.seal(&context, &secret)).await?);
    }
    Ok(changed)
}

/// Reseals the secrets of one column, batch by batch, in the order of their keys.
async fn reseal_rows<K: Copy>(
    (pool, sealer): (&PgPool, &Sealer),
    first: K,
    rows_after: impl AsyncFn(&PgPool, K) -> sqlx::Result<Vec<(K, String)>>,
    reseal: fn(&Sealer, &str) -> std::result::Result<Option<String>, SealError>,
    replace: impl AsyncFn(&PgPool, K, &str, &str) -> sqlx::Result<bool>,
) -> anyhow::Result<u64> {
    let (mut changed, mut after) = (0, first);
    loop {
        let batch = rows_after(pool, after).await?;
        let Some(&(last, _)) = batch.last() else { return Ok(changed) };
        after = last;
        for (key, old) in &batch {
            // A value that cannot be parsed was never a secret.
            if let Some(new) = reseal(sealer, old)? {
                changed += u64::from(replace(pool, *key, old, &new).await?);
            }
        }
    }
}

/// Reseals until no secret is sealed with another key, and records this in the database.
pub async fn complete(pool: &PgPool, sealer: &Sealer) -> anyhow::Result<u64> {
    let mut all = 0;
    loop {
        let changed = reseal(pool, sealer).await?;
        all += changed;
        if changed == 0 {
            keys::complete(pool, &sealer.current_id()).await?;
            return Ok(all);
        }
    }
}

/// Rotates the key. Returns the id of the new key and the number of secrets sealed with it.
pub async fn rotate(config: &Config, pool: &PgPool) -> anyhow::Result<(String, u64)> {
    let sealer = crate::read_sealer(config, pool).await?;
    let current = keys::current(pool).await?.context("the database has no key yet")?;
    let file = KeyFile::in_folder(&config.data_dir()?);
    let configured = config.sealing.secret_key.is_some();
    let id = match (configured, current.is_complete) {
        // Started before, and not finished.
        (_, false) => current.id.clone(),
        (true, true) => {
            let given = sealer.ids().first().cloned().unwrap_or_default();
            ensure!(
                given != current.id,
                "Everything is sealed with TREELINE_SECRET_KEY already. To exchange it, give every server a new key \
                 there and this one as TREELINE_SECRET_KEY_PREVIOUS, restart them one by one, and run this again."
            );
            given
        }
        (false, true) => {
            let mut stored = file.read()?;
            let fresh = stored.iter().find(|key| key.id() != current.id).cloned();
            let fresh = fresh.unwrap_or_else(SealingKey::generate);
            if stored.iter().all(|key| key.id() != fresh.id()) {
                stored.push(fresh.clone());
                file.replace(&stored)?;
            }
            sealer.learn([fresh.clone()]);
            fresh.id().to_owned()
        }
    };
    wait(pool, &id, |(lack, _)| lack, "know the new key: restart them with both keys").await?;
    keys::make_current(pool, &id).await?;
    ensure!(sealer.use_key(&id), "the new key is gone");
    wait(pool, &id, |(_, behind)| behind, "have not begun to use the new key").await?;
    let changed = complete(pool, &sealer).await?;
    if !configured {
        let left: Vec<SealingKey> = file.read()?.into_iter().filter(|key| key.id() == id).collect();
        ensure!(!left.is_empty(), "the new key is gone from {}", file.path().display());
        file.replace(&left)?;
    }
    Ok((id, changed))
}

/// Waits until every running server has reached this step.
async fn wait(pool: &PgPool, id: &str, left: impl Fn((i64, i64)) -> i64, what: &str) -> anyhow::Result<()> {
    let until = Instant::now() + SERVERS_TIMEOUT;
    loop {
        let behind = left(keys::servers_without(pool, id).await?);
        if behind == 0 {
            return Ok(());
        }
        if Instant::now() >= until {
            bail!("{behind} running servers do not {what}. Nothing is lost; run this again afterwards.");
        }
        tokio::time::sleep(POLL_INTERVAL / 4).await;
    }
}

/// Follows rotations until shutdown: loads keys from the key file and seals with the key named in the database.
pub async fn follow(app: App) {
    let server_id = Uuid::now_v7();
    let mut failed = false;
    // Checks in a row without the current key: the 1st, 2nd, 4th, 8th … are logged.
    let mut missing = 0_u32;
    while !app.shutdown.is_cancelled() {
        match unless_silent(sync_keys(&app, server_id, &mut missing)).await.flatten() {
            Ok(()) => failed = false,
            Err(error) if !failed => {
                failed = true;
                tracing::warn!(%error, "sealing key check failed, will retry");
            }
            Err(_) => {}
        }
        tokio::select! {
            () = tokio::time::sleep(POLL_INTERVAL) => {}
            () = app.shutdown.cancelled() => {}
        }
    }
    if let Err(error) = unless_silent(keys::leave(&app.pool, server_id)).await.and_then(|left| Ok(left?)) {
        tracing::debug!(%error, "sign-off from key rotation failed, a rotation waits fifteen seconds for this server");
    }
}

async fn sync_keys(app: &App, server_id: Uuid, missing: &mut u32) -> Result<()> {
    let config = std::sync::Arc::clone(&app.config);
    let stored = tokio::task::spawn_blocking(move || KeyFile::in_folder(&config.data_dir()?).read()).await;
    if let Ok(Ok(stored)) = stored {
        app.sealer.learn(stored);
    }
    if let Some(current) = keys::current(&app.pool).await?
        && !app.sealer.use_key(&current.id)
    {
        *missing = missing.saturating_add(1);
        if missing.is_power_of_two() {
            tracing::error!(
                key = current.id,
                checks = *missing,
                "sealing key missing: secrets are sealed with a key that this server does not have"
            );
        }
    } else {
        *missing = 0;
    }
    Ok(keys::announce(&app.pool, server_id, &app.sealer.ids(), &app.sealer.current_id()).await?)
}
