//! Statements that delete trees, and the checks that are due.

pub mod deletion; // deletion and purge of trees
pub mod maintenance_checks; // due checks of trees
