//! Messages about alerts in the format of each kind of channel.
//!
//! Text of alerts comes from workers and receivers, so it is escaped where the format has markup. The formats are those of
//! the public documentation: incoming webhooks of Slack, PagerDuty Events API v2, and the messages of
//! `TREELINE_ALERT_URL`.

use domain::{
    Document, Time,
    notify::{
        alert::{Alert, AlertKind},
        alert_channel::AlertEvent,
    },
};
use serde::Serialize;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use uuid::Uuid;

use crate::outbound::excerpt;

/// Longest summary of PagerDuty, in characters; its limit is 1,024.
const LONGEST_SUMMARY: usize = 1_000;
/// Longest subject of mail, in characters.
const LONGEST_SUBJECT: usize = 150;

/// An event to be sent.
#[derive(Clone, Copy, Debug)]
pub struct EventToSend<'a> {
    /// Id of the delivery.
    pub id: Uuid,
    pub event: AlertEvent,
    /// `None` for a test.
    pub alert: Option<&'a Alert>,
    pub channel_id: Uuid,
    pub channel: &'a str,
    pub at: Time,
    /// Public URL of the server.
    pub server: &'a str,
    pub environment: Option<&'a str>,
}

/// Body of a signed post.
#[derive(Serialize)]
struct Signed<'a, T> {
    #[serde(rename = "type")]
    kind: &'a str,
    timestamp: Time,
    data: T,
}

#[derive(Serialize)]
struct TestData<'a> {
    channel_id: Uuid,
    channel: &'a str,
}

impl EventToSend<'_> {
    /// Body for a generic webhook.
    pub fn webhook(&self) -> String {
        let kind = format!("alert.{}", self.event.as_str());
        let document = if let Some(alert) = self.alert {
            Document::of(&Signed { kind: &kind, timestamp: self.time(), data: alert })
        } else {
            let data = TestData { channel_id: self.channel_id, channel: self.channel };
            Document::of(&Signed { kind: &kind, timestamp: self.at, data })
        };
        document.text().to_owned()
    }

    /// Body for an incoming webhook of Slack: text with an attachment, which also other programs show.
    pub fn slack(&self) -> Value {
        let title = escaped(&self.title());
        let text = escaped(&self.text());
        let mut attachment = json!({
            "color": match self.event {
                AlertEvent::Raised => "danger",
                AlertEvent::Cleared => "good",
                AlertEvent::Test => "#5b6b7b",
            },
            "fallback": format!("{title}: {text}"),
            "title": title,
            "title_link": self.link(),
            "text": text,
            "footer": escaped(&self.source()),
            "ts": self.time().0.unix_timestamp(),
        });
        if let Some(job_type) = self.alert.and_then(|alert| alert.job_type.as_deref()) {
            attachment["fields"] = json!([{"title": "Job type", "value": escaped(job_type), "short": true}]);
        }
        json!({"text": format!("{title}: {text}"), "attachments": [attachment]})
    }

    /// Body for the Events API v2 of PagerDuty. The alert's id connects the events of one alert.
    pub fn pagerduty(&self, routing_key: &str) -> Value {
        let dedup_key = self.alert.map_or_else(|| format!("treeline-test-{}", self.id), |alert| alert.id.to_string());
        let action = if self.event == AlertEvent::Cleared { "resolve" } else { "trigger" };
        let mut event = json!({"routing_key": routing_key, "event_action": action, "dedup_key": dedup_key});
        if self.event == AlertEvent::Cleared {
            return event;
        }
        let mut payload = json!({
            "summary": excerpt(format!("{}: {}", self.title(), self.text()).as_bytes(), LONGEST_SUMMARY),
            "source": self.source(),
            "severity": self.severity(),
            "timestamp": self.time(),
        });
        if let Some(alert) = self.alert {
            payload["class"] = json!(alert.kind.as_str());
            payload["custom_details"] = json!(alert);
            if let Some(job_type) = &alert.job_type {
                payload["component"] = json!(job_type);
            }
        }
        event["payload"] = payload;
        event["client"] = json!("Treeline");
        event["client_url"] = json!(self.server);
        event["links"] = json!([{"href": self.link(), "text": "Open in Treeline"}]);
        event
    }

    /// Subject and text of mail.
    pub fn mail(&self) -> (String, String) {
        let prefix = self.environment.map_or_else(String::new, |name| format!(" {name}"));
        let subject = format!("[Treeline{prefix}] {}: {}", self.title(), self.text());
        let subject = excerpt(subject.as_bytes(), LONGEST_SUBJECT);
        let mut lines = vec![self.title(), String::new(), self.text(), String::new()];
        if let Some(alert) = self.alert {
            let facts = [
                ("Job type", alert.job_type.clone()),
                ("Count", (alert.count > 1).then(|| alert.count.to_string())),
                ("Raised at", Some(alert.raised_at.to_string())),
                ("Cleared at", alert.cleared_at.map(|at| at.to_string())),
            ];
            let facts = facts.into_iter().filter_map(|(name, value)| Some(format!("{name}: {}", value?)));
            lines.extend(facts);
            lines.push(String::new());
        }
        lines.push(self.link());
        lines.push(String::new());
        lines.push(format!("Sent by the alert channel {}.", self.channel));
        (subject, lines.join("\r\n"))
    }

    /// Name of the mail about this event to a receiver, and of the one that it follows.
    pub fn mail_ids(&self) -> (String, Option<String>) {
        let Some(alert) = self.alert else { return (format!("test-{}", self.id), None) };
        // Short, so that the line is not too long for mail.
        let id = |event: AlertEvent| {
            let of = Sha256::new().chain_update(alert.id).chain_update(self.channel_id).chain_update(event.as_str());
            of.finalize().iter().take(16).fold(String::new(), |text, byte| format!("{text}{byte:02x}"))
        };
        (id(self.event), (self.event == AlertEvent::Cleared).then(|| id(AlertEvent::Raised)))
    }

    fn title(&self) -> String {
        match (self.event, self.alert) {
            (AlertEvent::Cleared, Some(alert)) => format!("Cleared: {}", alert.kind.title()),
            (_, Some(alert)) => alert.kind.title().to_owned(),
            (_, None) => "Test".to_owned(),
        }
    }

    fn text(&self) -> String {
        match self.alert {
            Some(alert) => alert.message.clone(),
            None => format!("This is a test of the alert channel {}.", self.channel),
        }
    }

    /// Time of the event.
    fn time(&self) -> Time {
        match (self.event, self.alert) {
            (AlertEvent::Cleared, Some(alert)) => alert.cleared_at.unwrap_or(self.at),
            (_, Some(alert)) => alert.raised_at,
            (_, None) => self.at,
        }
    }

    fn severity(&self) -> &'static str {
        match self.alert.map(|alert| alert.kind) {
            Some(AlertKind::BrokerAway) => "critical",
            Some(AlertKind::EndingRefused | AlertKind::Worker) => "warning",
            Some(_) => "error",
            None => "info",
        }
    }

    fn source(&self) -> String {
        let host = self.server.split("//").last().unwrap_or_default();
        self.environment.map_or_else(|| host.to_owned(), |name| format!("{host} ({name})"))
    }

    /// Page about the alert.
    fn link(&self) -> String {
        let path = match self.alert {
            None => format!("/alert-channels/{}", self.channel_id),
            Some(Alert { item_id: Some(id), .. }) => format!("/items/{id}"),
            Some(Alert { kind: AlertKind::DeliveryFailed, job_id: Some(id), .. }) => format!("/jobs/{id}#callbacks"),
            Some(Alert { job_id: Some(id), .. } | Alert { root_id: Some(id), .. }) => format!("/jobs/{id}"),
            Some(Alert { kind: AlertKind::DeadLetters, job_type: Some(name), .. }) => format!("/dead?q=type:{name}"),
            Some(Alert { job_type: Some(name), .. }) => format!("/types/{name}"),
            // A message to an alert channel or a person.
            Some(Alert { kind: AlertKind::DeliveryFailed, .. }) => "/deliveries?state=abandoned".to_owned(),
            Some(_) => "/".to_owned(),
        };
        format!("{}{path}", self.server)
    }
}

/// Text without the markup of Slack: mentions, links.
fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn alert(message: &str) -> Alert {
        let at = Time::parse("2026-11-20T09:30:00Z").expect("a time");
        Alert {
            id: Uuid::from_u128(1),
            kind: AlertKind::DeadLetters,
            subject: "mail".to_owned(),
            message: message.to_owned(),
            job_type: Some("mail".to_owned()),
            root_id: None,
            job_id: None,
            item_id: None,
            count: 3,
            raised_at: at,
            last_seen_at: at,
            cleared_at: None,
        }
    }

    fn event(event: AlertEvent, alert: Option<&Alert>) -> EventToSend<'_> {
        let at = Time::parse("2026-11-20T09:31:00Z").expect("a time");
        EventToSend {
            id: Uuid::from_u128(2),
            event,
            alert,
            channel_id: Uuid::from_u128(3),
            channel: "On call",
            at,
            server: "https://treeline.example",
            environment: None,
        }
    }

    #[test]
    fn slack_text_cannot_mention_anybody() {
        let alert = alert("<!channel> & <https://evil.example|click>");
        let sent = event(AlertEvent::Raised, Some(&alert)).slack();
        let expected = "New failures: &lt;!channel&gt; &amp; &lt;https://evil.example|click&gt;";
        assert_eq!(sent["text"], expected);
        assert_eq!(sent["attachments"][0]["title_link"], "https://treeline.example/dead?q=type:mail");
        assert!(!sent.to_string().contains('<'), "{sent}");
    }

    #[test]
    fn messages_that_were_given_up_have_a_page() {
        let of_job = Alert { kind: AlertKind::DeliveryFailed, job_type: None, job_id: Some(Uuid::nil()), ..alert("x") };
        let of_person = Alert { job_id: None, subject: Uuid::from_u128(4).to_string(), ..of_job.clone() };
        let link = |alert: &Alert| event(AlertEvent::Raised, Some(alert)).link();
        assert_eq!(link(&of_job), format!("https://treeline.example/jobs/{}#callbacks", Uuid::nil()));
        assert_eq!(link(&of_person), "https://treeline.example/deliveries?state=abandoned");
    }

    #[test]
    fn pagerduty_summary_is_within_its_limit() {
        let long = alert(&"ä".repeat(2_000));
        let sent = event(AlertEvent::Raised, Some(&long)).pagerduty("key");
        assert!(sent["payload"]["summary"].as_str().expect("text").chars().count() <= 1_024);
        let test = event(AlertEvent::Test, None).pagerduty("key");
        assert_eq!((&test["event_action"], &test["payload"]["severity"]), (&json!("trigger"), &json!("info")));
    }

    #[test]
    fn a_subject_is_one_line_and_the_end_follows_the_beginning() {
        let alert = alert("no\r\nBcc: everyone@example.com");
        let raised = event(AlertEvent::Raised, Some(&alert));
        assert_eq!(raised.mail().0, "[Treeline] New failures: no Bcc: everyone@example.com");
        let cleared = event(AlertEvent::Cleared, Some(&alert));
        assert_eq!(cleared.mail_ids().1, Some(raised.mail_ids().0));
    }
}
