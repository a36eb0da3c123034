//! Waits for events: a worker ends an attempt to wait, a program or a person sends the event, and the next claim of the
//! item carries it (`waiting-for-events`).

pub mod form;

use serde::{Deserialize, Serialize};

use crate::{Document, Time, identity::audit::Actor, limits};

pub use form::{EventForm, FieldType, FormField};

/// Body of `POST /assignments/{id}/wait`: ends the attempt until an event of this name arrives.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct WaitBody {
    /// Name of the event, 1 to 255 characters.
    pub name: String,
    /// Seconds after which the item is available again without an event; absent or null: no limit.
    #[serde(default)]
    pub timeout_seconds: Option<f64>,
    /// Form that a person fills in on the page of the item. The data of every event must then fit it.
    #[serde(default)]
    pub form: Option<EventForm>,
}

/// Body of `POST /items/{id}/events`: the event that the item waits for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct EventBody {
    pub name: String,
    /// Data of the event; absent: null, or `{}` if the wait has a form.
    #[serde(default)]
    pub data: Option<Document>,
    /// Reason, stored in the audit log.
    #[serde(default)]
    pub reason: Option<String>,
}

/// Event that an item waits for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct EventWait {
    pub name: String,
    pub since: Time,
    /// End of the timeout; null without a timeout.
    pub until: Option<Time>,
    /// Form for a person; omitted where many items are returned.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub form: Option<EventForm>,
}

/// Event or timeout that ended the wait of an item.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ReceivedEvent {
    pub name: String,
    /// Data of the event; null after a timeout.
    pub data: Document,
    /// True if no event came in time.
    pub timed_out: bool,
    pub at: Time,
    /// Sender; null after a timeout.
    pub by: Option<Actor>,
}

impl WaitBody {
    /// Pointers and descriptions of faults.
    pub fn faults(&self) -> Vec<(String, String)> {
        let mut faults = Vec::new();
        faults.extend(name_fault(&self.name));
        if self.timeout_seconds.is_some_and(|s| !(0.0..=limits::LONGEST_RETRY_AFTER_SECONDS).contains(&s) || s == 0.0) {
            faults.push((
                "/timeout_seconds".to_owned(),
                "expected null or a number of seconds above 0 and up to 315360000".to_owned(),
            ));
        }
        if let Some(form) = &self.form {
            faults.extend(form.faults("/form"));
        }
        faults
    }
}

/// Fault of the name of an event.
pub fn name_fault(name: &str) -> Option<(String, String)> {
    (!limits::is_text(name, 1, limits::LONGEST_EVENT_NAME))
        .then(|| ("/name".to_owned(), "expected 1 to 255 characters".to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wait_body_is_checked() {
        let faults = |text: &str| -> Vec<String> {
            let body: WaitBody = serde_json::from_str(text).expect("a body");
            body.faults().into_iter().map(|(pointer, _)| pointer).collect()
        };
        assert_eq!(faults(r#"{"name": "approval"}"#), Vec::<String>::new());
        assert_eq!(faults(r#"{"name": "approval", "timeout_seconds": 0.5}"#), Vec::<String>::new());
        assert_eq!(faults(r#"{"name": "", "timeout_seconds": 0}"#), ["/name", "/timeout_seconds"]);
        assert_eq!(faults(r#"{"name": "a", "timeout_seconds": -1}"#), ["/timeout_seconds"]);
        assert_eq!(faults(r#"{"name": "a", "timeout_seconds": 1e300}"#), ["/timeout_seconds"]);
        assert!(serde_json::from_str::<WaitBody>(r#"{"name": "a", "until": 1}"#).is_err());
    }
}
