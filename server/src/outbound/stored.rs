//! Secrets of executors and callbacks as they are stored: sealed, with what may be read in clear beside them.
//!
//! The host of a callback stays in clear, as deliveries are shared out by it in the commit that completes a tree, where
//! no key is at hand. Rows from before secrets were sealed are read as they are. It knows no SQL and must not log what
//! it opens.

use domain::{Document, api::OnCompleted, job_type::PushSecrets};
use serde::{Deserialize, Serialize};
use url::Url;

use crate::sealing::{SealError, Sealer, is_sealed_with};

/// Sealing contexts of these secrets.
const EXECUTOR: &str = "executor_secrets";
const CALLBACK: &str = "on_completed";

/// A callback's receiver in its column.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct SealedTarget {
    host: String,
    sealed: String,
}

/// The secrets of an executor for their column; nothing where it has none.
pub fn seal_push(sealer: &Sealer, secrets: &PushSecrets) -> Option<String> {
    (!secrets.is_empty()).then(|| sealer.seal(EXECUTOR, Document::of(secrets).text().as_bytes()))
}

/// The secrets of an executor from their column.
pub fn open_push(sealer: &Sealer, stored: Option<&str>) -> Result<PushSecrets, SealError> {
    let Some(stored) = stored else { return Ok(PushSecrets::default()) };
    let text = sealer.open_stored(EXECUTOR, stored)?;
    serde_json::from_str(&text).map_err(|_| SealError::Damaged)
}

/// The receiver of a callback for its column.
pub fn seal_target(sealer: &Sealer, target: &OnCompleted) -> String {
    let sealed = sealer.seal(CALLBACK, Document::of(target).text().as_bytes());
    Document::of(&SealedTarget { host: host(&target.url), sealed }).text().to_owned()
}

/// The receiver of a callback from its column.
pub fn open_target(sealer: &Sealer, stored: &str) -> Result<OnCompleted, SealError> {
    let text = match serde_json::from_str::<SealedTarget>(stored) {
        Ok(target) => sealer.open_text(CALLBACK, &target.sealed)?,
        Err(_) => stored.to_owned(),
    };
    serde_json::from_str(&text).map_err(|_| SealError::Damaged)
}

/// Host and port of a callback's receiver as it is stored.
pub fn host_of(stored: &str) -> String {
    match serde_json::from_str::<SealedTarget>(stored) {
        Ok(target) => target.host,
        Err(_) => serde_json::from_str::<OnCompleted>(stored).map(|target| host(&target.url)).unwrap_or_default(),
    }
}

/// The same value under the current key; nothing where it is already.
pub fn reseal_push(sealer: &Sealer, stored: &str) -> Result<Option<String>, SealError> {
    if is_sealed_with(stored, &sealer.current_id()) {
        return Ok(None);
    }
    Ok(Some(sealer.seal(EXECUTOR, sealer.open_stored(EXECUTOR, stored)?.as_bytes())))
}

/// The same value under the current key; nothing where it is already.
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
