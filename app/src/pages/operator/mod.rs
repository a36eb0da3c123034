//! Pages of operators: dead items, error groups, and operations on many rows.

pub mod bulk;
pub mod dead_letters;
pub mod error_groups;
