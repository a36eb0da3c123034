//! Actions of people and of services on existing work: retry, replay, edit, pin, and bulk operations.
//!
//! Each action is audited in its transaction.

pub mod bulk; // bulk operations
pub mod corrections; // corrected rows take the place of failed ones
pub mod delegation; // work on behalf of the requester
pub mod error_group_states; // states of error groups
pub mod patch; // small edits by people
pub mod replay; // replays of trees and items
pub mod retry; // retries requested by people
pub mod tree_pinning; // trees that are exempt from retention
