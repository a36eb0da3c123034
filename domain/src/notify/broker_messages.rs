//! Messages on RabbitMQ, and their names.
//!
//! A wake-up is a hint: it may be lost, duplicated, or late, and another worker may have claimed the item already. A
//! consumer only asks the server for items and concludes nothing else from the message.

use serde::{Deserialize, Serialize};

use crate::{Outcome, id::Uuid};

/// Wake-ups are published here, by the name of the job type.
pub const ITEMS_EXCHANGE: &str = "treeline.items";
/// Dead letters are announced here: an exchange, and a queue that keeps the latest.
pub const DEAD_LETTERS: &str = "treeline.dead";
/// Complete trees are announced here: an exchange, and a queue that keeps the latest.
pub const COMPLETED_TREES: &str = "treeline.completed";

/// The queue with the wake-ups of a job type.
pub fn queue_name(job_type: &str) -> String {
    format!("{ITEMS_EXCHANGE}.{job_type}")
}

/// An item that can be claimed, or, on [`DEAD`], one that is dead.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WakeUp {
    pub item_id: Uuid,
    pub job_id: Uuid,
    #[serde(rename = "type")]
    pub job_type: String,
}

/// A tree that is complete.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TreeCompleted {
    /// Of the root.
    pub job_id: Uuid,
    #[serde(rename = "type")]
    pub job_type: String,
    /// Number of times that the tree has completed, this one included.
    pub completion: i32,
    pub outcome: Outcome,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wake_up_message_format() {
        let wake_up = WakeUp { item_id: Uuid::nil(), job_id: Uuid::nil(), job_type: "mail".to_owned() };
        let nil = "00000000-0000-0000-0000-000000000000";
        let text = format!(r#"{{"item_id":"{nil}","job_id":"{nil}","type":"mail"}}"#);
        assert_eq!(serde_json::to_string(&wake_up).expect("json"), text);
        assert_eq!(serde_json::from_str::<WakeUp>(&text).expect("a wake-up"), wake_up);
        assert_eq!(queue_name("mail"), "treeline.items.mail");
    }
}
