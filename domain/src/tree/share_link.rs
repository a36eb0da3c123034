//! Links that show one tree, read-only, to whoever has them.
//!
//! The link's secret travels once, in the answer that makes it. What such a reader sees of a job is
//! decided here: progress, counts and problems, but nothing that says whose work it is or how it is
//! run.

use serde::{Deserialize, Serialize};

use crate::{
    Document, Job, Time,
    id::Uuid,
    job::{Owner, OwnerKind},
};

/// Share link of a tree, without its secret.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Share {
    pub id: Uuid,
    /// Id of the root of the shared tree.
    pub job_id: Uuid,
    /// Creator, with their name at that time.
    pub created_by: Owner,
    pub created_at: Time,
    /// Time when the link expires.
    pub expires_at: Time,
    /// True while the link works: it is not revoked or expired, and neither its owner nor its creator is disabled.
    pub open: bool,
    /// Time of its last use, to the minute.
    pub last_seen_at: Option<Time>,
    pub revoked_at: Option<Time>,
}

/// Details of the refusal `link_used`: a link that was revoked.
pub const REVOKED: &str = "Whoever shared this has taken the link back.";

/// A link past its end.
pub const EXPIRED: &str = "This link has expired.";

/// A link whose owner or creator is disabled.
pub const CREATOR_DISABLED: &str = "The account of whoever shared this was closed.";

/// Default lifetime of a link, in days.
pub const SHARED_DAYS: i64 = 30;

/// The longest that it can be asked for, in days.
pub const SHARED_DAYS_AT_MOST: i64 = 365;

/// Body of `POST /jobs/{id}/share`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ShareBody {
    /// Reason, required for another owner's work; stored in the audit log.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Time when the link expires, at most 365 days from now. Default: 30 days from now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Time>,
}

/// Response of `POST /jobs/{id}/share`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ShareMade {
    pub id: Uuid,
    /// URL of the link. Returned only once.
    pub url: String,
    pub expires_at: Time,
}

/// A job as a share shows it, with everything below it.
pub fn redact_for_share(mut job: Job) -> Job {
    job.metadata = Document::empty_object();
    job.dedupe_key = None;
    job.idempotency_key = None;
    job.owner = Owner { kind: OwnerKind::User, name: String::new() };
    job.initiated_by = None;
    job.upload_id = None;
    job.replay_of = None;
    job.superseded_by = None;
    job.feed = None;
    job.children = job.children.map(|children| children.into_iter().map(redact_for_share).collect());
    job
}
