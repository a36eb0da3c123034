//! End of life of trees: deletion after their retention, and the checks that are due per tree.

pub mod due_trees; // deletion and alerts of trees at their next check
pub mod tree_deletion; // deletion of trees
