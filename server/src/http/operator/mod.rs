//! Routes of operators: cancel, retry, replay, edit, and operations on many rows.

pub mod actions; // cancel and retry
pub mod bulk; // operations on all rows of a filter
pub mod patch; // partial updates
pub mod replay; // replay of trees and items
