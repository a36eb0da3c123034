//! Who asks: authenticated callers, holders of assignments, and the current rights of a credential.

pub mod assignment_holder; // holders of assignments
pub mod caller; // authenticated callers and their permissions
pub mod rights; // current rights of a credential
