//! End of life of trees: deletion after their retention, and the checks that are due per tree.

pub mod tree_deletion; // deletion of trees
pub mod tree_maintenance; // maintenance of trees at their next check
