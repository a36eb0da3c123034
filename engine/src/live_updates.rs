//! Announcements of changes to whoever shows them.

use domain::query::topic::Topic;
use uuid::Uuid;

/// Receiver of announcements, called after each commit. Calls must not block.
pub trait LiveUpdates: Send + Sync {
    /// Announces changed trees, by the ids of their roots.
    fn touch(&self, roots: &[Uuid]);

    /// Announces a changed topic other than a tree.
    fn changed(&self, topic: Topic);

    /// Announces claimable work of a job type.
    fn work_added(&self, type_id: i32);
}
