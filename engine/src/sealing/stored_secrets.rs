//! Stored secrets of executors and callbacks: sealed, with the fields that must stay readable.
//!
//! The host of a callback is stored in plaintext, because the commit that completes a tree distributes deliveries by
//! host without access to a key. Rows from before sealing are read as they are. The module contains no SQL and must not
//! log what it opens.

use domain::{Document, api::OnCompleted, job_type::PushSecrets};
use serde::{Deserialize, Serialize};
use url::Url;

use crate::sealing::{SealError, Sealer, is_sealed_with};

/// Sealing contexts of these secrets.
const EXECUTOR: &str = "executor_secrets";
const CALLBACK: &str = "on_completed";
const SCHEDULE: &str = "scheduled_job";

/// Stored form of a callback's receiver.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct SealedTarget {
    host: String,
    sealed: String,
}

/// Seals the secrets of an executor; `None` if there are none.
pub fn seal_push(sealer: &Sealer, secrets: &PushSecrets) -> Option<String> {
    (!secrets.is_empty()).then(|| sealer.seal(EXECUTOR, Document::of(secrets).text().as_bytes()))
}

/// Opens the secrets of an executor.
pub fn open_push(sealer: &Sealer, stored: Option<&str>) -> Result<PushSecrets, SealError> {
    let Some(stored) = stored else { return Ok(PushSecrets::default()) };
    let text = sealer.open_stored(EXECUTOR, stored)?;
    serde_json::from_str(&text).map_err(|_| SealError::Damaged)
}

/// Seals the receiver of a callback.
pub fn seal_target(sealer: &Sealer, target: &OnCompleted) -> String {
    let sealed = sealer.seal(CALLBACK, Document::of(target).text().as_bytes());
    Document::of(&SealedTarget { host: host(&target.url), sealed }).text().to_owned()
}

/// Opens the receiver of a callback.
pub fn open_target(sealer: &Sealer, stored: &str) -> Result<OnCompleted, SealError> {
    let text = match serde_json::from_str::<SealedTarget>(stored) {
        Ok(target) => sealer.open_text(CALLBACK, &target.sealed)?,
        Err(_) => stored.to_owned(),
    };
    serde_json::from_str(&text).map_err(|_| SealError::Damaged)
}

/// Host and port of a callback's stored receiver.
pub fn host_of(stored: &str) -> String {
    match serde_json::from_str::<SealedTarget>(stored) {
        Ok(target) => target.host,
        Err(_) => serde_json::from_str::<OnCompleted>(stored).map(|target| host(&target.url)).unwrap_or_default(),
    }
}

/// Seals the job of a schedule whose webhook may contain a secret.
pub fn seal_scheduled(sealer: &Sealer, job: &str) -> String {
    sealer.seal(SCHEDULE, job.as_bytes())
}

/// Opens the job of a schedule; one without a webhook is stored as it is.
pub fn open_scheduled(sealer: &Sealer, stored: &str) -> Result<String, SealError> {
    sealer.open_stored(SCHEDULE, stored)
}

/// Seals the value again with the current key; `None` if it already is.
pub fn reseal_scheduled(sealer: &Sealer, stored: &str) -> Result<Option<String>, SealError> {
    if is_sealed_with(stored, &sealer.current_id()) {
        return Ok(None);
    }
    Ok(Some(seal_scheduled(sealer, &open_scheduled(sealer, stored)?)))
}

/// Seals the value again with the current key; `None` if it already is.
pub fn reseal_push(sealer: &Sealer, stored: &str) -> Result<Option<String>, SealError> {
    if is_sealed_with(stored, &sealer.current_id()) {
        return Ok(None);
    }
    Ok(Some(sealer.seal(EXECUTOR, sealer.open_stored(EXECUTOR, stored)?.as_bytes())))
}

/// Seals the value again with the current key; `None` if it already is.
pub fn reseal_target(sealer: &Sealer, stored: &str) -> Result<Option<String>, SealError> {
    let with = serde_json::from_str::<SealedTarget>(stored);
    if with.is_ok_and(|target| is_sealed_with(&target.sealed, &sealer.current_id())) {
        return Ok(None);
    }
    Ok(Some(seal_target(sealer, &open_target(sealer, stored)?)))
}

fn host(url: &str) -> String {
    let url = Url::parse(url).ok();
    url.and_then(|url| Some(format!("{}:{}", url.host_str()?, url.port_or_known_default()?))).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use domain::job_type::SigningSecret;

    use crate::sealing::SealingKey;

    use super::*;

    #[test]
    fn a_receiver_is_sealed_but_for_its_host_and_an_old_one_is_read() {
        let sealer = Sealer::new(SealingKey::generate(), []);
        let secret = Some(SigningSecret::One("hidden-secret".to_owned()));
        let target = OnCompleted { url: "https://hooks.example/done?key=hidden".to_owned(), secret };
        let stored = seal_target(&sealer, &target);
        assert!(!stored.contains("hidden") && stored.contains("sealed:v1:"), "{stored}");
        assert_eq!(host_of(&stored), "hooks.example:443");
        assert_eq!(open_target(&sealer, &stored), Ok(target.clone()));
        assert_eq!(reseal_target(&sealer, &stored), Ok(None));
        let old = Document::of(&target).text().to_owned();
        assert_eq!((open_target(&sealer, &old), host_of(&old)), (Ok(target), "hooks.example:443".to_owned()));
        assert!(reseal_target(&sealer, &old).expect("sealed").is_some_and(|new| !new.contains("hidden")));
    }
}
