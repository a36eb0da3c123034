//! Notices: what a person is told about the trees that they watch, and how (`notices`).

use serde::{Deserialize, Serialize};

use crate::{Outcome, Time, api::present_or_null, dispatch::progress::grouped, id::Uuid, job_type::SigningSecret};

/// Most ids of `POST /me/notices/read`.
pub const MOST_READ_IDS: usize = 1_000;

/// Kind of a notice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub enum NoticeKind {
    /// The tree is complete, once for each completion.
    Finished,
    /// The tree is not complete, and an item failed for good or waits for a person's answer. Once for a watch.
    NeedsAttention,
}

impl NoticeKind {
    pub const ALL: [NoticeKind; 2] = [Self::Finished, Self::NeedsAttention];

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Finished => "finished",
            Self::NeedsAttention => "needs_attention",
        }
    }

    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.as_str() == word)
    }
}

/// A notice to one person. It contains no payloads.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Notice {
    pub id: Uuid,
    pub kind: NoticeKind,
    /// Id of the tree's root.
    pub job_id: Uuid,
    /// Name of the tree's root, or else its key.
    pub job_name: String,
    /// True if the tree is an import of a file.
    pub is_import: bool,
    /// Outcome of the tree; absent if it was not complete.
    pub outcome: Option<Outcome>,
    /// Number of failed items at that time.
    pub dead: i64,
    pub created_at: Time,
    /// Time at which the notice was read; absent if it is unread.
    pub read_at: Option<Time>,
}

impl Notice {
    /// Path of the page about the tree.
    pub fn path(&self) -> String {
        let pages = if self.is_import { "imports" } else { "jobs" };
        format!("/{pages}/{}", self.job_id)
    }

    /// What happened, in a few words.
    pub fn what(&self) -> String {
        let failed = grouped(self.dead);
        match (self.kind, self.outcome) {
            (NoticeKind::NeedsAttention, _) if self.dead > 0 => format!("Needs attention: {failed} failed"),
            (NoticeKind::NeedsAttention, _) => "Needs attention: waits for an answer".to_owned(),
            (NoticeKind::Finished, Some(Outcome::Cancelled)) => "Canceled".to_owned(),
            (NoticeKind::Finished, Some(Outcome::Failed)) => "Failed".to_owned(),
            (NoticeKind::Finished, _) if self.dead > 0 => format!("Completed, {failed} failed"),
            (NoticeKind::Finished, _) => "Completed".to_owned(),
        }
    }
}

/// The newest notices of a person, and how many are unread: data of the topic `notices`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NoticeList {
    pub data: Vec<Notice>,
    pub unread: i64,
    /// The person wants browser notifications.
    pub browser: bool,
}

/// Settings for how a person receives notices.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[expect(clippy::struct_excessive_bools, reason = "each is a setting of its own")]
pub struct NoticeSettings {
    /// True to show notices in the list on every page. Default true.
    pub in_page: bool,
    /// True to send notifications to browsers that permit them. Default false.
    pub browser: bool,
    /// True to send email to the address of the account. Default false.
    pub email: bool,
    /// URL that notices are posted to, without parts that may be secret.
    pub webhook_url: Option<String>,
    /// True if notices are signed with their own secret, false if with the secret of the account.
    pub has_webhook_secret: bool,
}

/// Body of `PATCH /me/notice-settings`: the given fields change; `null` removes the URL or its secret.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct NoticeSettingsPatch {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub in_page: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub browser: Option<bool>,
    /// Requires an email address and a mail server (`TREELINE_SMTP_URL`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub email: Option<bool>,
    /// Public address, or one that `TREELINE_CALLBACK_ALLOW` allows. A new URL removes the secret of the old one.
    #[serde(deserialize_with = "present_or_null", skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>))]
    pub webhook_url: Option<Option<String>>,
    #[serde(deserialize_with = "present_or_null", skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<SigningSecret>))]
    pub webhook_secret: Option<Option<SigningSecret>>,
}

/// Body of `POST /me/notices/read`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ReadNotices {
    /// Ids of the notices. Absent: all of them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ids: Option<Vec<Uuid>>,
}

/// The caller's watch of a tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct JobWatch {
    pub watching: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_notice_says_what_happened() {
        let notice = |kind, outcome, dead| Notice {
            id: Uuid::nil(),
            kind,
            job_id: Uuid::nil(),
            job_name: "contacts.csv".to_owned(),
            is_import: true,
            outcome,
            dead,
            created_at: Time::parse("2026-11-20T09:30:00Z").expect("a time"),
            read_at: None,
        };
        let finished = |outcome, dead| notice(NoticeKind::Finished, Some(outcome), dead).what();
        assert_eq!(finished(Outcome::Succeeded, 0), "Completed");
        assert_eq!(finished(Outcome::Partial, 1_200), "Completed, 1,200 failed");
        assert_eq!(finished(Outcome::Failed, 2), "Failed");
        assert_eq!(finished(Outcome::Cancelled, 2), "Canceled");
        assert_eq!(notice(NoticeKind::NeedsAttention, None, 3).what(), "Needs attention: 3 failed");
        assert_eq!(notice(NoticeKind::NeedsAttention, None, 0).what(), "Needs attention: waits for an answer");
    }
}
