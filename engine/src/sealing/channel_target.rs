//! Receiver of an alert channel or of a person's notices: URL, secrets and addresses, sealed in the database.
//!
//! The module contains no SQL and must not log what it opens.

use std::fmt;

use domain::{
    Document,
    job_type::SigningSecret,
    notify::alert_channel::{ChannelKind, PAGERDUTY_URL},
};
use serde::{Deserialize, Serialize};
use url::Url;

use crate::{
    addresses::display_url,
    sealing::{SealError, Sealer, is_sealed_with},
};

/// Sealing context.
const CONTEXT: &str = "alert_channel";

/// Host of mail in deliveries: all of it goes through one server.
pub const MAIL_HOST: &str = "smtp";

/// Receiver. Which fields are set depends on the kind of the channel.
#[derive(Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ChannelTarget {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub secret: Option<SigningSecret>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub routing_key: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub to: Vec<String>,
}

impl fmt::Debug for ChannelTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

impl ChannelTarget {
    /// Seals the receiver.
    pub fn seal(&self, sealer: &Sealer) -> String {
        sealer.seal(CONTEXT, Document::of(self).text().as_bytes())
    }

    /// Opens a stored receiver.
    pub fn open(sealer: &Sealer, stored: &str) -> Result<Self, SealError> {
        serde_json::from_str(&sealer.open_text(CONTEXT, stored)?).map_err(|_| SealError::Damaged)
    }

    /// URL that messages are posted to.
    pub fn url(&self, kind: ChannelKind) -> Option<Url> {
        let default_url = (kind == ChannelKind::Pagerduty).then_some(PAGERDUTY_URL);
        Url::parse(self.url.as_deref().or(default_url)?).ok()
    }

    /// Host and port, which limit concurrent deliveries.
    pub fn host(&self, kind: ChannelKind) -> String {
        if kind == ChannelKind::Email {
            return MAIL_HOST.to_owned();
        }
        let url = self.url(kind);
        url.and_then(|url| Some(format!("{}:{}", url.host_str()?, url.port_or_known_default()?))).unwrap_or_default()
    }

    /// URL for display. The path of a Slack webhook is its secret.
    pub fn shown_url(&self, kind: ChannelKind) -> Option<String> {
        let mut url = self.url(kind)?;
        if kind != ChannelKind::Slack {
            return Some(display_url(&url));
        }
        url.set_path("/");
        url.set_query(None);
        Some(format!("{}…", display_url(&url)))
    }

    /// Receivers: the addresses of mail, or one without an address.
    pub fn recipients(&self, kind: ChannelKind) -> Vec<Option<&str>> {
        if kind == ChannelKind::Email { self.to.iter().map(|to| Some(to.as_str())).collect() } else { vec![None] }
    }
}

/// Seals the value again with the current key; `None` if it already is.
pub fn reseal(sealer: &Sealer, stored: &str) -> Result<Option<String>, SealError> {
    if is_sealed_with(stored, &sealer.current_id()) {
        return Ok(None);
    }
    Ok(Some(ChannelTarget::open(sealer, stored)?.seal(sealer)))
}

#[cfg(test)]
mod tests {
    use crate::sealing::SealingKey;

    use super::*;

    #[test]
    fn a_receiver_is_sealed_and_shown_without_its_secrets() {
        let sealer = Sealer::new(SealingKey::generate(), []);
        let url = Some("https://hooks.slack.example/services/T0/B0/hidden?key=hidden".to_owned());
        let target = ChannelTarget { url, ..ChannelTarget::default() };
        let stored = target.seal(&sealer);
        assert!(!stored.contains("hidden"), "{stored}");
        assert_eq!(ChannelTarget::open(&sealer, &stored), Ok(target.clone()));
        assert_eq!(reseal(&sealer, &stored), Ok(None));
        assert_eq!(target.shown_url(ChannelKind::Slack).as_deref(), Some("https://hooks.slack.example/…"));
        let shown = target.shown_url(ChannelKind::Webhook);
        assert_eq!(shown.as_deref(), Some("https://hooks.slack.example/services/T0/B0/hidden?…"));
        assert_eq!(target.host(ChannelKind::Slack), "hooks.slack.example:443");
        assert_eq!(ChannelTarget::default().host(ChannelKind::Pagerduty), "events.pagerduty.com:443");
        assert_eq!(format!("{target:?}"), "***");
    }
}
