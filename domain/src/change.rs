//! What travels on the event streams of a job and of all trees (spec §6).
//!
//! All state is absolute and carries a `version`; never a delta. So order, gaps and repeats need no
//! protocol, and a reconnect is a snapshot.

use serde::{Deserialize, Serialize};

use crate::{Item, Job};

/// Names of the events on `GET /jobs/{id}/events` and `GET /events`.
pub mod event {
    /// First event: the [`Job`](crate::Job) with its subtree; of all trees, the newest [`Roots`](super::Roots).
    pub const SNAPSHOT: &str = "snapshot";
    /// A [`Change`](super::Change); of all trees, [`Roots`](super::Roots).
    pub const CHANGE: &str = "change";
    /// Too many watchers; try again later.
    pub const BUSY: &str = "busy";
    /// The server is going away; reconnect.
    pub const BYE: &str = "bye";
    /// The job no longer exists.
    pub const REMOVED: &str = "removed";
}

/// The jobs that changed, without children, and the items in flight now.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Change {
    pub jobs: Vec<Job>,
    /// The items that workers hold now, oldest first, at most 50, without payloads. Complete: an item
    /// that is not here is not among the first 50 any more.
    pub items: Vec<Item>,
}

/// Trees in brief.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Roots {
    /// Their roots, without children. The newest hundred, or those that changed.
    pub jobs: Vec<Job>,
    /// Trees that are gone.
    pub removed: Vec<crate::id::Uuid>,
}
